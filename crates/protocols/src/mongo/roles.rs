//! Maps BSON fields to accounts, by the document they belong to (the envelope of a command or reply, or user documents)
//! and their name.

use overhead_model::Account::{self, Data, Metadata, Query, Schema, Status};
use overhead_model::enum_with;

enum_with! {
    /// The meaning of a document, or of the elements of an array.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(super) enum DocumentRole, group: &'static str {
        /// Envelope options without further distinction.
        #[default]
        Options = "options",
        /// A command; its first field is the command's name.
        Command = "command",
        /// The `client` document of `hello`, and the `driver` document inside it.
        Client = "client",
        Driver = "driver",
        /// FerretDB's own information in the reply to `buildInfo`.
        Ferret = "ferretdb",
        /// A write statement, index specification or namespace listed in a command.
        Statement = "statement",
        /// The query of an `OP_QUERY` on a collection, possibly wrapped in `$query`.
        Selector = "selector",
        /// A filter, an update or an aggregation stage.
        Expression = "expression",
        /// The arguments of a stage that names other collections.
        Stage = "stage",
        /// Field names with directions or inclusions: sort, projection, index keys.
        Shape = "shape",
        Document = "document",
        Reply = "reply",
        /// The `cursor` document of a reply.
        Cursor = "cursor",
        /// The documents in a cursor: user data, or the outcomes of a `bulkWrite`.
        Batch = "batch",
        /// Errors, counts.
        Status = "status",
    }
}

/// A field's meaning for the operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum FieldFact {
    #[default]
    Nothing,
    /// Name and text are the names of command and collection.
    Command,
    /// The text is the collection's name.
    Collection,
    /// A `hello` with this field waits for topology changes.
    Streaming,
    /// Zero or false if the command failed.
    Success,
    /// The operation failed, unless the value is null, zero, false or empty.
    Failure,
    DriverName,
    DriverVersion,
    WireVersion,
    ServerVersion,
    /// The server is FerretDB, in this version.
    FerretVersion,
}

/// The accounts of a field's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BsonField {
    pub name: Account,
    /// Account of a value that is not text.
    pub value: Account,
    /// Account of a text value.
    pub text: Account,
    /// Role of a nested document or array.
    pub child: DocumentRole,
    pub fact: FieldFact,
}

const fn field(name: Account, value: Account, child: DocumentRole) -> BsonField {
    BsonField { name, value, text: value, child, fact: FieldFact::Nothing }
}

const fn telling(fact: FieldFact, field: BsonField) -> BsonField {
    BsonField { fact, ..field }
}

const fn text(text: Account, field: BsonField) -> BsonField {
    BsonField { text, ..field }
}

/// An envelope field whose nested documents have `role`.
const fn envelope(role: DocumentRole) -> BsonField {
    field(Metadata, Metadata, role)
}

const OPTION: BsonField = envelope(DocumentRole::Options);
const COLLECTION: BsonField = telling(FieldFact::Collection, text(Query, OPTION));
const FERRET: BsonField = telling(FieldFact::FerretVersion, OPTION);
const STATUS: BsonField = field(Status, Status, DocumentRole::Status);

impl DocumentRole {
    /// Returns the field called `name`; `first` if it is the first of its document.
    pub fn field(self, name: &[u8], first: bool) -> BsonField {
        match self {
            Self::Command if first => command(name),
            Self::Command | Self::Statement => option(name),
            Self::Client if name == b"driver" => envelope(DocumentRole::Driver),
            Self::Driver if name == b"name" => telling(FieldFact::DriverName, OPTION),
            Self::Driver if name == b"version" => telling(FieldFact::DriverVersion, OPTION),
            Self::Ferret if name == b"version" => FERRET,
            Self::Cursor if matches!(name, b"firstBatch" | b"nextBatch") => envelope(DocumentRole::Batch),
            Self::Options | Self::Client | Self::Driver | Self::Ferret | Self::Cursor => OPTION,
            Self::Selector => selector(name),
            Self::Expression => expression(name),
            Self::Stage => stage(name),
            Self::Shape if name.first() == Some(&b'$') => field(Query, Metadata, DocumentRole::Expression),
            Self::Shape => field(Schema, Metadata, DocumentRole::Shape),
            Self::Document | Self::Batch => field(Schema, Data, DocumentRole::Document),
            Self::Reply => reply(name),
            Self::Status => status(name),
        }
    }

    /// Returns the field for elements of an array with this role. Their names are indexes.
    pub fn element(self) -> BsonField {
        let value = match self {
            Self::Expression | Self::Document | Self::Batch => Data,
            Self::Status => Status,
            _ => Metadata,
        };
        field(Account::Framing, value, self)
    }
}

/// The first field of a command. `OP_QUERY` may wrap the command in `$query`, and `explain` contains another command.
fn command(name: &[u8]) -> BsonField {
    let field = field(Query, Metadata, DocumentRole::Command);
    match name {
        b"$query" => field,
        _ => telling(FieldFact::Command, text(Query, field)),
    }
}

/// A later field of a command, a field of one of its statements, or the identifier of a document sequence.
pub fn option(name: &[u8]) -> BsonField {
    match name {
        b"filter"
        | b"query"
        | b"q"
        | b"update"
        | b"u"
        | b"updateMods"
        | b"pipeline"
        | b"arrayFilters"
        | b"validator"
        | b"partialFilterExpression"
        | b"cond" => envelope(DocumentRole::Expression),
        b"documents" | b"document" | b"let" | b"c" | b"min" | b"max" | b"near" => envelope(DocumentRole::Document),
        b"sort" | b"projection" | b"fields" | b"hint" => envelope(DocumentRole::Shape),
        // An index key, or the field of `distinct`.
        b"key" => text(Schema, envelope(DocumentRole::Shape)),
        b"updates" | b"deletes" | b"ops" | b"indexes" | b"nsInfo" => envelope(DocumentRole::Statement),
        b"collection" | b"viewOn" | b"ns" | b"to" | b"out" => COLLECTION,
        b"map" | b"reduce" | b"finalize" => field(Metadata, Query, DocumentRole::Options),
        b"client" => envelope(DocumentRole::Client),
        b"topologyVersion" | b"maxAwaitTimeMS" => telling(FieldFact::Streaming, OPTION),
        _ => OPTION,
    }
}

fn selector(name: &[u8]) -> BsonField {
    match name {
        b"$orderby" => field(Query, Metadata, DocumentRole::Shape),
        b"$hint" => envelope(DocumentRole::Shape),
        b"$min" | b"$max" => envelope(DocumentRole::Document),
        b"$explain" | b"$snapshot" | b"$maxTimeMS" | b"$maxScan" | b"$comment" | b"$returnKey" | b"$showDiskLoc"
        | b"$readPreference" => OPTION,
        _ => expression(name),
    }
}

fn expression(name: &[u8]) -> BsonField {
    let operator = field(Query, Data, DocumentRole::Expression);
    match name {
        b"$lookup" | b"$graphLookup" | b"$unionWith" | b"$merge" | b"$out" | b"$geoNear" => {
            text(Query, field(Query, Metadata, DocumentRole::Stage))
        }
        b"$sort" | b"$project" => field(Query, Metadata, DocumentRole::Shape),
        b"$count" | b"$unwind" => text(Schema, operator),
        b"$limit" | b"$skip" | b"$sample" | b"$changeStream" | b"$collStats" | b"$indexStats" | b"$currentOp"
        | b"$listSessions" => field(Query, Metadata, DocumentRole::Options),
        [b'$', ..] => operator,
        _ => field(Schema, Data, DocumentRole::Expression),
    }
}

fn stage(name: &[u8]) -> BsonField {
    match name {
        b"from" | b"coll" | b"into" => text(Query, envelope(DocumentRole::Stage)),
        b"localField" | b"foreignField" | b"as" | b"connectFromField" | b"connectToField" | b"depthField"
        | b"distanceField" | b"on" => text(Schema, OPTION),
        b"pipeline" | b"let" | b"startWith" | b"restrictSearchWithMatch" | b"query" | b"whenMatched" => {
            envelope(DocumentRole::Expression)
        }
        b"near" => envelope(DocumentRole::Document),
        _ => OPTION,
    }
}

fn reply(name: &[u8]) -> BsonField {
    match name {
        b"ok" => telling(FieldFact::Success, STATUS),
        b"writeErrors" | b"writeConcernError" | b"nErrors" | b"$err" | b"err" => telling(FieldFact::Failure, STATUS),
        b"n" | b"nModified" | b"nInserted" | b"nMatched" | b"nUpserted" | b"nDeleted" | b"nRemoved" | b"code"
        | b"codeName" | b"errmsg" | b"errInfo" | b"errorLabels" | b"upserted" | b"lastErrorObject"
        | b"updatedExisting" => STATUS,
        b"cursor" => envelope(DocumentRole::Cursor),
        b"value" | b"values" | b"result" | b"results" | b"retval" => field(Metadata, Data, DocumentRole::Document),
        b"maxWireVersion" => telling(FieldFact::WireVersion, OPTION),
        b"version" => telling(FieldFact::ServerVersion, OPTION),
        b"ferretdb" => envelope(DocumentRole::Ferret),
        b"ferretdbVersion" => FERRET,
        _ => OPTION,
    }
}

fn status(name: &[u8]) -> BsonField {
    match name {
        b"_id" => field(Schema, Data, DocumentRole::Document),
        b"keyValue" | b"op" => field(Status, Data, DocumentRole::Document),
        b"upserted" => field(Status, Data, DocumentRole::Status),
        _ => STATUS,
    }
}
