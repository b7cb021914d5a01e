//! Which field is replaced, and how: by its account, and by its name where that does not say enough. What no rule allows is replaced.

use crate::fill::Filler;
use overhead_model::{Account, Protocol, Side};
use std::collections::HashSet;
use std::sync::LazyLock;

/// A field about to be replaced, and what came before it.
#[derive(Clone, Copy, Debug)]
pub struct FieldAt<'a> {
    /// Its connection's protocol.
    pub protocol: Protocol,
    /// Where it is posted.
    pub account: Account,
    /// Who sent it.
    pub side: Side,
    /// The groups that it lies in.
    pub groups: &'a [&'static str],
    /// Its name.
    pub field: &'static str,
    /// Name of its operation, where that is known yet.
    pub operation: &'a [u8],
    /// The name that was posted last in its direction, of what may have one.
    pub name: &'a [u8],
    /// The type of its value, where it has one: BSON's.
    pub kind: u8,
    /// Messages of the connection are compressed.
    pub is_compressed: bool,
}

/// What becomes of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// It stays.
    Keep,
    /// Text where it reads as one, else binary.
    Data,
    /// Words alone, whatever is between them.
    Text,
    /// All bytes.
    Binary,
    /// An identifier, which no other may become equal to.
    Name,
    /// The same, of a path: no word of it stays.
    Path,
    /// The text of a statement.
    Statement,
    /// Words behind the first one, which says what it is.
    Status,
    /// An IP address.
    Address,
    /// Handshake messages of TLS.
    Handshake,
    /// `INFO`'s lines.
    Info,
    /// An error of `MySQL`, with its code and state.
    Error,
    /// A header of the PROXY protocol.
    Proxy,
    /// What was not decoded.
    Opaque,
}

use Treatment::{
    Address, Binary, Data, Error, Handshake, Info, Keep, Name, Opaque, Path, Proxy, Statement, Status, Text,
};

/// Fields that no user fills: lengths, codes, flags and numbers, most of which say how to decode what follows. Any other field is
/// replaced, unless a rule below says what of it may stay.
const KEPT: [(Protocol, &str); Protocol::COUNT] = [
    (
        Protocol::Resp,
        "CRLF|argument count|argument length|count|empty command|end of snapshot|end of stream|integer|keep-alive|length|line end|\
         null|option|space|streamed string|string type|type",
    ),
    (
        Protocol::Pgwire,
        "argument count|array flags|attribute number|authentication type|code|column count|copy flags|copy format|copy signature|\
         delimiter|dimension size|dimensions|element length|element type|encryption|end of data|escape|extension length|field code|\
         field count|field type|format code|format count|function|line|line end|log position|lower bound|message length|message type|\
         null marker|option count|packet length|parameter count|parameter type|position|process id|protocol version|punctuation|quote|\
         range count|range flags|range length|replication message type|replication status|request code|response length|row limit|\
         statement or portal|table|terminator|time|transaction status|type|type modifier|type size|value length",
    ),
    (
        Protocol::Cql,
        "address length|batch type|body length|bytes length|column count|consistency|contentions|data present|decompressed length|\
         element count|element length|error code|failure code|failures|flags|list length|map length|member count|now in seconds|opcode|\
         page size|partition key count|partition key indexes|port|replicas|result kind|row count|segment|segment checksum|\
         segment header|serial consistency|statement count|statement kind|stream id|string length|timestamp|type id|value count|\
         value length|version",
    ),
    (
        Protocol::Mongo,
        "array index|binary length|binary subtype|cursor id|document length|element type|flags|message length|number returned|\
         number to return|number to skip|opcode|original opcode|compressor id|cursor count|cursor ids|uncompressed size|checksum|request id|reserved|response to|\
         section kind|section length|separator|starting from|string length|terminator|value length",
    ),
    (
        Protocol::Mysql,
        "EOF|affected rows|capabilities|capabilities of MariaDB|character set|clone command|column count|command|\
         compressed packet header|compression level|decimals|definitions follow|event header|extended type|filler|flags|header|indicator|\
         iteration count|last insert id|length|length of random data|longest packet|longest value|new parameters|null|null bitmap|\
         packet header|parameter count|parameter number|parameter set count|parameter type|position|protocol version|row limit|\
         semi-synchronous|server version|statement id|status flags|terminator|thread id|type|warnings",
    ),
    (
        Protocol::Memcache,
        "CAS|CRLF|body length|client flags|flag|last access|length|lengths|magic|mode|noreply|opcode|size|space|time to live|vbucket|\
         version|word",
    ),
    (Protocol::Http, "chunk size|content length|delimiter|line end|query delimiter|status code|version"),
    (Protocol::Ssdb, "empty line|end|line end|size"),
];
/// The same in TLS.
const KEPT_IN_TLS: &str =
    "alert|change cipher spec|content type|packet length|record length|record type|record version";

/// Header fields of HTTP whose values are nobody's data.
const HEADERS: &str = "accept-encoding|accept-ranges|cache-control|connection|content-encoding|content-length|content-type|date|expect|\
     keep-alive|te|transfer-encoding|upgrade|x-content-type-options|x-elastic-product";
/// Others whose names everybody uses (RFC 9110 section 18.4); their values are replaced, but for what names the software.
const NAMES: &str = "accept|accept-charset|accept-language|age|allow|authorization|content-disposition|content-language|content-range|\
     cookie|etag|expires|host|if-match|if-modified-since|if-none-match|last-modified|location|origin|range|referer|server|set-cookie|\
     trailer|user-agent|vary|www-authenticate";
/// Methods (IANA, HTTP Method Registry), and `PURGE` of caches.
const METHODS: &str = "GET|HEAD|POST|PUT|DELETE|PATCH|OPTIONS|TRACE|CONNECT|SEARCH|REPORT|PROPFIND|PROPPATCH|MKCOL|COPY|MOVE|LOCK|UNLOCK|\
     LINK|UNLINK|PURGE|QUERY|PRI";
/// Reasons that RFC 9110 section 15 gives, and RFC 6585.
const REASONS: &str = "Continue|Switching Protocols|OK|Created|Accepted|No Content|Partial Content|Moved Permanently|Found|See Other|\
     Not Modified|Temporary Redirect|Permanent Redirect|Bad Request|Unauthorized|Forbidden|Not Found|Method Not Allowed|Not Acceptable|\
     Request Timeout|Conflict|Gone|Length Required|Precondition Failed|Content Too Large|Expectation Failed|Too Many Requests|\
     Internal Server Error|Not Implemented|Bad Gateway|Service Unavailable|Gateway Timeout";
/// Subcommands of memcached.
const SUBCOMMANDS: &str = "automove|cachedump|cluster|connevents|conns|crawl|detail|disable|dump|enable|fetchers|free_memchunks|get|\
     graceful|hash|item_age|items|metadump|mgdump|mode|mutations|off|on|reassign|reset|settings|sizes|sizes_disable|sizes_enable|slabs|\
     sleep|temp_ttl|tocrawl|tune";
/// Mechanisms of SASL (IANA), and what authenticates in `MySQL` and `MariaDB`.
const MECHANISMS: &str = "SCRAM-SHA-1|SCRAM-SHA-256|SCRAM-SHA-256-PLUS|SCRAM-SHA-512|PLAIN|LOGIN|CRAM-MD5|EXTERNAL|GSSAPI|OAUTHBEARER|\
     MONGODB-X509|MONGODB-AWS|MONGODB-OIDC|mysql_native_password|mysql_old_password|mysql_clear_password|caching_sha2_password|\
     sha256_password|client_ed25519|dialog|parsec|auth_gssapi_client|authentication_windows_client";
/// Attributes that connectors of `MySQL` and `MariaDB` tell of themselves.
const ATTRIBUTES: &str = "_client_license|_client_name|_client_role|_client_version|_os|_pid|_platform|_runtime_vendor|_runtime_version|\
     _server_host|_server_host_type|_source_host|_thread|program_name";
/// Options of CQL that say what is spoken, and by which driver.
const OPTIONS: &str = "CQL_VERSION|COMPRESSION|DRIVER_NAME|DRIVER_VERSION|PROTOCOL_VERSIONS|NO_COMPACT|THROW_ON_OVERLOAD|\
     LWT_ADD_METADATA_MARK";
/// Options of CQL whose names are everybody's, and whose values are not.
const OPTION_NAMES: &str = "APPLICATION_NAME|APPLICATION_VERSION|CLIENT_ID|DURABLE_MEMTABLE";
/// Parameters of PostgreSQL that say how to read what follows, or name the software.
const PARAMETERS: &str = "client_encoding|DateStyle|default_transaction_read_only|extra_float_digits|in_hot_standby|integer_datetimes|\
     IntervalStyle|is_superuser|replication|scram_iterations|server_encoding|server_version|standard_conforming_strings";
/// Parameters of PostgreSQL and of poolers whose names are everybody's, and whose values are not.
const PARAMETER_NAMES: &str = "user|database|application_name|options|search_path|session_authorization|TimeZone|statement_timeout|\
     lock_timeout|idle_in_transaction_session_timeout|client_min_messages|default_transaction_isolation";
/// Words in replies of RESP that say what a reply is.
const REPLIES: &str =
    "subscribe|psubscribe|ssubscribe|unsubscribe|punsubscribe|sunsubscribe|message|pmessage|smessage|invalidate";
/// What status and error replies of RESP begin with.
const REPLY_CODES: &str = "OK|QUEUED|PONG|ERR|WRONGTYPE|MOVED|ASK|NOAUTH|NOPERM|WRONGPASS|OOM|BUSY|LOADING|NOSCRIPT|EXECABORT|READONLY|\
     MASTERDOWN|CLUSTERDOWN|CROSSSLOT|TRYAGAIN|UNKILLABLE|NOREPLICAS|MISCONF|BUSYGROUP|BUSYKEY|NOGROUP|INPROG|NOPROTO|NOTBUSY|\
     NOGOODSLAVE|UNBLOCKED|DENIED|FULLRESYNC|CONTINUE|NOMASTERLINK|IOERR|RESET";
/// Commands of MongoDB.
const COMMANDS: &str = "abortTransaction|aggregate|atlasVersion|authenticate|buildInfo|buildinfo|bulkWrite|collMod|collStats|\
     commitTransaction|compact|connectionStatus|connPoolStats|convertToCapped|count|create|createIndexes|createRole|createUser|currentOp|\
     dataSize|dbHash|dbStats|dbstats|delete|distinct|drop|dropDatabase|dropIndexes|dropUser|endSessions|explain|features|filemd5|find|\
     findAndModify|findandmodify|fsync|geoSearch|getCmdLineOpts|getFreeMonitoringStatus|getLastError|getLog|getMore|getnonce|getParameter|\
     grantRolesToUser|hello|hostInfo|insert|isMaster|isdbgrid|ismaster|killAllSessions|killCursors|killOp|killSessions|listCollections|\
     listCommands|listDatabases|listIndexes|logout|mapReduce|ping|planCacheClear|profile|refreshSessions|reIndex|renameCollection|\
     replSetGetConfig|replSetGetStatus|replSetHeartbeat|replSetInitiate|replSetUpdatePosition|rolesInfo|saslContinue|saslStart|\
     serverStatus|setFeatureCompatibilityVersion|setParameter|shutdown|startSession|top|update|updateUser|usersInfo|validate|whatsmyuri|\
     $cmd|documents|updates|deletes|ops|nsInfo";
/// Names in MongoDB's envelopes and outcomes that steer decoding, or that every driver and server uses.
const FIELDS: &str = "$clusterTime|$comment|$configServerState|$db|$err|$explain|$hint|$max|$maxScan|$maxTimeMS|$min|$orderby|$query|\
     $readPreference|$returnKey|$showDiskLoc|$snapshot|afterClusterTime|allowDiskUse|application|architecture|arch|arrayFilters|as|\
     atClusterTime|authenticationMechanism|autocommit|batchSize|bypassDocumentValidation|c|client|clusterTime|code|codeName|coll|\
     collation|collection|comment|compression|cond|connectFromField|connectionId|connectToField|conversationId|counter|cursor|cursorsAlive|\
     cursorsKilled|cursorsNotFound|cursorsUnknown|db|deletes|depthField|distanceField|document|documents|done|driver|electionId|err|\
     errInfo|errmsg|errorLabels|explain|ferretdb|ferretdbVersion|fields|filter|finalize|firstBatch|foreignField|from|hash|helloOk|hint|\
     hosts|id|index|indexes|into|isWritablePrimary|ismaster|iteration|j|key|keyId|keyPattern|keyValue|lastErrorObject|lastWrite|\
     lastWriteDate|let|level|limit|loadBalanced|localField|localTime|logicalSessionTimeoutMinutes|lsid|majorityOpTime|\
     majorityWriteDate|map|max|maxAwaitTimeMS|maxBsonObjectSize|maxMessageSizeBytes|maxTimeMS|maxWireVersion|maxWriteBatchSize|me|\
     mechanism|min|minWireVersion|mode|msg|multi|n|nDeleted|nErrors|nInserted|nMatched|nModified|nRemoved|nUpserted|name|near|new|nextBatch|\
     ns|nsInfo|ok|on|opTime|operationTime|ops|options|ordered|os|out|partialFilterExpression|payload|pid|pipeline|platform|\
     postBatchResumeToken|primary|processId|projection|q|query|readConcern|readOnly|readPreference|reduce|restrictSearchWithMatch|result|\
     results|retval|saslStart|saslSupportedMechs|secondary|setName|setVersion|signature|singleBatch|skip|skipEmptyExchange|sort|\
     speculativeAuthenticate|startTransaction|startWith|storage|t|to|topologyVersion|ts|txnNumber|type|u|unique|update|updateMods|updatedExisting|\
     updates|upsert|upserted|v|validator|value|values|version|viewOn|w|whenMatched|whenNotMatched|writeConcern|writeConcernError|\
     writeErrors|wtimeout|_id";
/// Strings of its envelopes that name software, or an error by the server's own word.
const SOFTWARE: &str = "codeName|ferretdb|ferretdbVersion|version";
/// Strings of its envelopes that steer it.
const VALUES: &str = "available|isdbgrid|linearizable|local|majority|nearest|primary|primaryPreferred|secondary|secondaryPreferred|\
     snapshot|snappy|zlib|zstd|noop|lz4|Linux|Darwin|Windows";
/// Events of CQL, what they say, and kinds of writes.
const EVENTS: &str = "TOPOLOGY_CHANGE|STATUS_CHANGE|SCHEMA_CHANGE|NEW_NODE|REMOVED_NODE|MOVED_NODE|UP|DOWN|CREATED|UPDATED|DROPPED|\
     KEYSPACE|TABLE|TYPE|FUNCTION|AGGREGATE|SIMPLE|BATCH|UNLOGGED_BATCH|COUNTER|BATCH_LOG|CAS|VIEW|CDC";
/// Severities of PostgreSQL.
const SEVERITIES: &str = "ERROR|FATAL|PANIC|WARNING|NOTICE|DEBUG|INFO|LOG";
/// What a server of RESP answers to `HELLO`.
const GREETING: &str = "server|redis|valkey|keydb|dragonfly|garnet|version|proto|id|mode|standalone|cluster|sentinel|role|master|\
     replica|slave|modules|availability_zone";
/// Words of other protocols that are told by them.
const MARKS: &str = "GET|PUT|POST|HEAD|HTTP|OPTIONS|DELETE|SSH|PRI|SM|INFO|CONNECT|ERR|OK";

#[expect(clippy::match_same_arms, reason = "each protocol has its own lines")]
impl FieldAt<'_> {
    /// Returns what becomes of it, its bytes being these.
    pub fn treatment(&self, bytes: &[u8]) -> Treatment {
        match self.account {
            // Not to be told apart.
            _ if matches!(self.field, "compressed" | "compressed body") => Binary,
            Account::Tls if self.field == "handshake" => Handshake,
            // Two bytes in the clear; more are encrypted.
            Account::Tls if self.field == "alert" && bytes.len() != 2 => Binary,
            Account::Tls => {
                if has(KEPT_IN_TLS, self.field.as_bytes()) {
                    Keep
                } else {
                    Binary
                }
            }
            Account::Unknown if self.field == "ciphertext" => Binary,
            Account::Unknown => Opaque,
            Account::Query => self.query(bytes),
            Account::Data => self.data(bytes),
            Account::Schema => self.schema(bytes),
            Account::Metadata => self.metadata(bytes),
            Account::Status => self.status(bytes),
            _ => self.others(),
        }
    }

    /// Returns what becomes of a field that no rule is about.
    fn others(&self) -> Treatment {
        static ALL: LazyLock<HashSet<(Protocol, &str)>> = LazyLock::new(|| {
            KEPT.into_iter().flat_map(|(of, fields)| fields.split('|').map(move |field| (of, field))).collect()
        });
        if ALL.contains(&(self.protocol, self.field)) { Keep } else { Data }
    }

    fn query(&self, bytes: &[u8]) -> Treatment {
        match (self.protocol, self.field) {
            (Protocol::Pgwire | Protocol::Mysql | Protocol::Cql, "statement") => Statement,
            (Protocol::Http, "path") => Path,
            (Protocol::Http, "method") => unless(METHODS, bytes, Name),
            (Protocol::Memcache, "subcommand") => unless(SUBCOMMANDS, bytes, Text),
            (Protocol::Resp, "command" | "subcommand")
            | (Protocol::Memcache, "command")
            | (Protocol::Ssdb, "block") => {
                if is_command(self.protocol, bytes) {
                    Keep
                } else {
                    Name
                }
            }
            (Protocol::Mongo, "collection") => Name,
            (Protocol::Mongo, "command name") => unless(COMMANDS, bytes, Name),
            (Protocol::Mongo, "operator") => match bytes {
                [b'$', letters @ ..] if letters.iter().all(u8::is_ascii_alphabetic) => Keep,
                _ => Name,
            },
            (Protocol::Mongo, "value") | (Protocol::Resp, "script") => Text,
            _ => self.others(),
        }
    }

    fn data(&self, bytes: &[u8]) -> Treatment {
        match (self.protocol, self.field) {
            (Protocol::Resp, "integer") if self.is_confirmed() => Keep,
            (Protocol::Resp, "value") if self.operation == b"HELLO" && is_version(bytes) => Keep,
            (Protocol::Resp, "value") if self.operation == b"HELLO" => unless(GREETING, bytes, Data),
            (Protocol::Resp, "value") if self.operation == b"INFO" => Info,
            (Protocol::Resp, "value") => unless(REPLIES, bytes, Data),
            (Protocol::Resp, "option value") if self.name.to_ascii_uppercase().starts_with(b"LIB-") => Keep,
            // The version that a client asks for.
            (Protocol::Resp, "argument") if self.operation == b"HELLO" && bytes.len() == 1 => Keep,
            // Its name among the statistics, and what that is; both at once in an answer whose question was not seen.
            (Protocol::Memcache, "item") if bytes.starts_with(b"version ") => Keep,
            (Protocol::Memcache, "key") if bytes == b"version" => Keep,
            (Protocol::Memcache, "value" | "item") if self.name == b"version" => Keep,
            (Protocol::Memcache, _) => self.others(),
            // True and false.
            (Protocol::Mongo, _) if self.kind == 0x08 => Keep,
            _ => Data,
        }
    }

    /// Returns whether a number may say how many subscriptions are left.
    fn is_confirmed(&self) -> bool {
        let name = self.operation;
        name == b"PUSH" || name == b"EXEC" || name == b"HELLO" || name.ends_with(b"SUBSCRIBE")
    }

    fn schema(&self, bytes: &[u8]) -> Treatment {
        match (self.protocol, self.field) {
            (Protocol::Pgwire, "name") | (Protocol::Mongo, "field name" | "value" | "name") => Name,
            // The names of types in it say how to decode values; a type of the user's has a name of the user's.
            (Protocol::Cql, "type class")
                if bytes.starts_with(b"org.apache.cassandra.db.marshal.")
                    && !bytes.windows(8).any(|part| part == b"UserType") =>
            {
                Keep
            }
            (Protocol::Cql, field) if matches!(field, "name" | "type class") || field.ends_with(" name") => Name,
            (
                Protocol::Mysql,
                "schema" | "table" | "original table" | "name" | "original name" | "default" | "parameter name"
                | "table name" | "catalog" | "database name" | "pattern",
            ) => Name,
            _ => self.others(),
        }
    }

    fn metadata(&self, bytes: &[u8]) -> Treatment {
        let name = |names: &str| has(names, self.name);
        match (self.protocol, self.field) {
            (_, "proxy's header") => Proxy,
            // Ids are digests of what was prepared: who guesses that could find it confirmed. Equal ones stay equal; where messages are
            // compressed, parts of them may be repetitions of something else.
            (Protocol::Cql, "statement id" | "result metadata id") if self.is_compressed => Keep,
            (Protocol::Cql, "statement id" | "result metadata id" | "paging state" | "token") => Binary,
            (Protocol::Cql, "option") if bytes.starts_with(b"SCYLLA_") || bytes.starts_with(b"TABLETS_") => Keep,
            (Protocol::Cql, "option") => unless(OPTION_NAMES, bytes, unless(OPTIONS, bytes, Name)),
            (Protocol::Cql, "option value") if name(OPTIONS) || self.name.starts_with(b"SCYLLA_") => Keep,
            (Protocol::Cql, "event type") => unless(EVENTS, bytes, Text),
            (Protocol::Cql, "option value" | "authenticator") => Text,
            (Protocol::Pgwire, "name") if !self.is_named() => {
                unless(PARAMETERS, bytes, unless(PARAMETER_NAMES, bytes, Name))
            }
            (Protocol::Pgwire, "statement name" | "portal name" | "name" | "channel" | "option") => Name,
            (Protocol::Pgwire, "value") if name("user|database|session_authorization") => Name,
            (Protocol::Pgwire, "value") => {
                if name(PARAMETERS) {
                    Keep
                } else {
                    Text
                }
            }
            (Protocol::Pgwire | Protocol::Memcache, "mechanism") | (Protocol::Mysql, "authentication plugin") => {
                unless(MECHANISMS, bytes, Text)
            }
            // Answers are found by it: equal ones stay equal.
            (Protocol::Memcache, "opaque") if bytes.iter().all(u8::is_ascii_graphic) => Name,
            (Protocol::Memcache, "opaque") => Binary,
            (Protocol::Mysql, "name") => unless(ATTRIBUTES, bytes, Text),
            (Protocol::Mysql, "user name" | "database name") => Name,
            (Protocol::Mysql, "random data") => Binary,
            // One byte says how to go on.
            (Protocol::Mysql, "authentication data") => {
                if bytes.len() > 1 {
                    Binary
                } else {
                    Keep
                }
            }
            (Protocol::Mysql, "value") if name("_client_name|_client_version|_server_host_type") => Keep,
            (Protocol::Mysql, "session state" | "file name" | "value") => Text,
            (Protocol::Http, "header name") => unless(HEADERS, bytes, unless(NAMES, bytes, Name)),
            (Protocol::Http, "header value") if self.side == Side::Request && name("user-agent") => Keep,
            (Protocol::Http, "header value") if self.side == Side::Response && name("server") => Keep,
            (Protocol::Http, "header value") => {
                if name(HEADERS) {
                    Keep
                } else {
                    Text
                }
            }
            (Protocol::Http, "scheme and host" | "not a header" | "chunk extension") => Text,
            (Protocol::Mongo, "database") => Name,
            (Protocol::Mongo, "command collection" | "sequence identifier") => unless(COMMANDS, bytes, Name),
            (Protocol::Mongo, "name") => unless(FIELDS, bytes, Name),
            (Protocol::Mongo, "value") => self.envelope(bytes),
            _ => self.others(),
        }
    }

    /// Parameters and options have names, too, which are the protocol's.
    fn is_named(&self) -> bool {
        self.groups.last().is_some_and(|group| matches!(*group, "close" | "describe" | "execute" | "bind"))
    }

    /// A value of MongoDB that is neither the user's nor an outcome.
    fn envelope(&self, bytes: &[u8]) -> Treatment {
        let is_driver = self.groups.last().is_some_and(|group| matches!(*group, "driver" | "ferretdb"));
        match self.kind {
            0x02 if has("$db|ns|db|dbName", self.name) => Name,
            0x02 if has(SOFTWARE, self.name) || is_driver && self.name == b"name" => Keep,
            0x02 => unless(VALUES, bytes, unless(MECHANISMS, bytes, Text)),
            _ => self.value(),
        }
    }

    /// A value of MongoDB by its type (BSON specification 1.1): numbers, times and what has one value stay.
    fn value(&self) -> Treatment {
        match self.kind {
            0x01 | 0x03 | 0x04 | 0x06 | 0x08..=0x0a | 0x10..=0x13 | 0x7f | 0xff => Keep,
            0x05 | 0x07 => Binary,
            _ => Text,
        }
    }

    fn status(&self, bytes: &[u8]) -> Treatment {
        let first = bytes.split(|byte| *byte == b' ').next().unwrap_or_default();
        let is_capital = |bytes: &[u8]| !bytes.iter().any(u8::is_ascii_lowercase);
        match (self.protocol, self.field) {
            (Protocol::Resp, "text") => {
                if has(REPLY_CODES, first) {
                    Status
                } else {
                    Text
                }
            }
            (Protocol::Pgwire, "severity") => unless(SEVERITIES, bytes, Text),
            (Protocol::Pgwire, "command tag") => {
                if is_capital(bytes) {
                    Keep
                } else {
                    Text
                }
            }
            (Protocol::Cql, "address") => Address,
            (Protocol::Cql, "event type" | "change" | "target" | "write type" | "operation type") => {
                unless(EVENTS, bytes, Text)
            }
            (Protocol::Cql, field) if field.ends_with(" name") => Name,
            (Protocol::Http, "reason") => unless(REASONS, bytes, Text),
            (Protocol::Mysql, "message") => Error,
            (Protocol::Memcache, "status") if bytes.contains(&b' ') && is_capital(first) => Status,
            (Protocol::Memcache, "status") => {
                if is_capital(bytes) {
                    Keep
                } else {
                    Text
                }
            }
            (Protocol::Mongo, "name") => unless(FIELDS, bytes, Name),
            (Protocol::Mongo, "value") if self.kind == 0x02 && self.name == b"codeName" => Keep,
            (Protocol::Mongo, "value") => self.value(),
            (Protocol::Ssdb, "block") => unless("ok|not_found|error|fail|client_error|noauth", bytes, Data),
            _ => self.others(),
        }
    }
}

/// Returns whether these bytes are one of the words, in upper or lower case.
fn has(words: &str, bytes: &[u8]) -> bool {
    words.split('|').any(|word| bytes.eq_ignore_ascii_case(word.as_bytes()))
}

/// Returns `otherwise` of bytes that are none of the words.
fn unless(words: &str, bytes: &[u8], otherwise: Treatment) -> Treatment {
    if has(words, bytes) { Keep } else { otherwise }
}

/// Returns whether a word is a command of a protocol, or a part of one, in upper or lower case.
fn is_command(protocol: Protocol, word: &[u8]) -> bool {
    static WORDS: LazyLock<HashSet<(Protocol, String)>> = LazyLock::new(|| {
        let words =
            |of| overhead_protocols::command_words(of).into_iter().map(move |word| (of, word.to_ascii_uppercase()));
        Protocol::ALL.into_iter().flat_map(words).collect()
    });
    std::str::from_utf8(word).is_ok_and(|word| WORDS.contains(&(protocol, word.to_ascii_uppercase())))
}

/// Returns whether bytes are numbers with points between them.
fn is_version(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
}

/// Replaces what a header of the PROXY protocol says of the client, in either version.
pub fn proxy(filler: &Filler, bytes: &mut [u8]) {
    if bytes.starts_with(b"PROXY ") {
        return filler.text(bytes.get_mut(10..).unwrap_or_default());
    }
    // Its signature, version, family and length.
    filler.binary(bytes.get_mut(16..).unwrap_or_default());
}

/// Replaces the text of an error of `MySQL`: behind a byte that says so, a code of two, and a state of five behind `#`.
pub fn error(filler: &Filler, bytes: &mut [u8]) {
    let code = if bytes.first() == Some(&0xff) { 3 } else { 0 };
    let state = if bytes.get(code) == Some(&b'#') { 6 } else { 0 };
    filler.text(bytes.get_mut(code + state..).unwrap_or_default());
}

/// Lines of `INFO` that name the software.
const INFO: &str = "redis_version|valkey_version|server_name|redis_mode";

/// Replaces what stands behind the names of `INFO`'s lines.
pub fn info(filler: &Filler, bytes: &mut [u8]) {
    for line in bytes.split_mut(|byte| *byte == b'\n') {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = line.split_at_mut(colon);
        if !has(INFO, name) {
            filler.text(value);
        }
    }
}

/// Replaces what was not decoded. What tells another protocol stays, and so does the first byte of a stream: by itself it may say what kind of
/// message was to follow.
pub fn opaque(filler: &Filler, bytes: &mut [u8], is_start: bool) {
    if crate::fill::is_text(bytes) {
        let first = bytes.first().copied().filter(|_| is_start);
        for word in bytes.chunk_by_mut(|before, byte| before.is_ascii_uppercase() == byte.is_ascii_uppercase()) {
            if !MARKS.split('|').any(|mark| mark.as_bytes() == word) {
                filler.text(word);
            }
        }
        if let (Some(first), Some(place)) = (first, bytes.first_mut()) {
            *place = first;
        }
        return;
    }
    // Fewer than could say anything.
    let start = bytes.first_chunk::<5>().copied().filter(|_| is_start);
    filler.binary(bytes);
    if let (Some(start), Some(place)) = (start, bytes.first_chunk_mut()) {
        *place = start;
    }
}

/// Replaces the words behind the first one.
pub fn behind_first_word(filler: &Filler, bytes: &mut [u8]) {
    let first = bytes.iter().position(|byte| *byte == b' ').unwrap_or(bytes.len());
    filler.text(bytes.get_mut(first..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn treatment(
        protocol: Protocol,
        account: Account,
        (field, name, side): (&'static str, &str, Side),
        bytes: &str,
    ) -> Treatment {
        let (groups, operation, name) = (&[][..], &b""[..], name.as_bytes());
        let at = FieldAt { protocol, account, side, groups, field, operation, name, kind: 0, is_compressed: false };
        at.treatment(bytes.as_bytes())
    }

    #[test]
    fn words_that_are_not_the_protocol_s_own_are_replaced() {
        use Account::{Metadata, Query, Status};
        use Protocol::{Http, Memcache, Mysql};
        let (request, response) = (Side::Request, Side::Response);
        for (protocol, account, field, kept, replaced) in [
            (Http, Status, ("reason", "", response), "not found", "Canary Found"),
            (Http, Metadata, ("header name", "", request), "Content-Length", "X-Canary"),
            (Memcache, Query, ("subcommand", "", request), "items", "canary"),
            (Mysql, Metadata, ("name", "", request), "_client_name", "canary"),
        ] {
            assert_eq!(treatment(protocol, account, field, kept), Keep, "{kept}");
            assert_ne!(treatment(protocol, account, field, replaced), Keep, "{replaced}");
        }
        for (name, side, stays) in [
            ("Accept", request, false),
            ("Vary", response, false),
            ("Server", request, false),
            ("Server", response, true),
        ] {
            let found = treatment(Http, Metadata, ("header value", name, side), "canary");
            assert_eq!(found == Keep, stays, "{name} {side:?}");
        }
        for opaque in ["canary", "\u{1}\u{2}\u{3}\u{4}"] {
            assert_ne!(treatment(Memcache, Metadata, ("opaque", "", request), opaque), Keep);
        }
    }
}
