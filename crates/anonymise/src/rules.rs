//! Which field is replaced, and how: by its account, and by its name where that does not say enough.

use crate::fill::Filler;
use overhead_model::{Account, Protocol, Side};

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
    /// What was not decoded.
    Opaque,
}

use Treatment::{Address, Binary, Data, Error, Handshake, Info, Keep, Name, Opaque, Path, Statement, Status, Text};

/// Header fields of HTTP whose values are nobody's data.
const HEADERS: [&str; 15] = [
    "accept-encoding",
    "accept-ranges",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "expect",
    "keep-alive",
    "te",
    "transfer-encoding",
    "upgrade",
    "x-content-type-options",
    "x-elastic-product",
];

/// Others whose names everybody uses (RFC 9110 section 18.4); their values are replaced, but for what names the software.
const NAMES: [&str; 27] = [
    "accept",
    "accept-charset",
    "accept-language",
    "age",
    "allow",
    "authorization",
    "content-disposition",
    "content-language",
    "content-range",
    "cookie",
    "etag",
    "expires",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "last-modified",
    "location",
    "origin",
    "range",
    "referer",
    "server",
    "set-cookie",
    "trailer",
    "user-agent",
    "vary",
    "www-authenticate",
];

/// Reasons that RFC 9110 section 15 gives, and RFC 6585.
const REASONS: [&str; 32] = [
    "Continue",
    "Switching Protocols",
    "OK",
    "Created",
    "Accepted",
    "No Content",
    "Partial Content",
    "Moved Permanently",
    "Found",
    "See Other",
    "Not Modified",
    "Temporary Redirect",
    "Permanent Redirect",
    "Bad Request",
    "Unauthorized",
    "Forbidden",
    "Not Found",
    "Method Not Allowed",
    "Not Acceptable",
    "Request Timeout",
    "Conflict",
    "Gone",
    "Length Required",
    "Precondition Failed",
    "Content Too Large",
    "Expectation Failed",
    "Too Many Requests",
    "Internal Server Error",
    "Not Implemented",
    "Bad Gateway",
    "Service Unavailable",
    "Gateway Timeout",
];

/// Subcommands of memcached.
const SUBCOMMANDS: [&str; 34] = [
    "automove",
    "cachedump",
    "cluster",
    "connevents",
    "conns",
    "crawl",
    "detail",
    "disable",
    "dump",
    "enable",
    "fetchers",
    "free_memchunks",
    "get",
    "graceful",
    "hash",
    "item_age",
    "items",
    "metadump",
    "mgdump",
    "mode",
    "mutations",
    "off",
    "on",
    "reassign",
    "reset",
    "settings",
    "sizes",
    "sizes_disable",
    "sizes_enable",
    "slabs",
    "sleep",
    "temp_ttl",
    "tocrawl",
    "tune",
];

/// Attributes that connectors of `MySQL` and `MariaDB` tell of themselves.
const ATTRIBUTES: [&str; 14] = [
    "_client_license",
    "_client_name",
    "_client_role",
    "_client_version",
    "_os",
    "_pid",
    "_platform",
    "_runtime_vendor",
    "_runtime_version",
    "_server_host",
    "_server_host_type",
    "_source_host",
    "_thread",
    "program_name",
];

/// Options of CQL that say what is spoken, and by which driver.
const OPTIONS: [&str; 8] = [
    "CQL_VERSION",
    "COMPRESSION",
    "DRIVER_NAME",
    "DRIVER_VERSION",
    "PROTOCOL_VERSIONS",
    "NO_COMPACT",
    "THROW_ON_OVERLOAD",
    "LWT_ADD_METADATA_MARK",
];

/// Words in replies of RESP that say what a reply is.
const REPLIES: [&str; 10] = [
    "subscribe",
    "psubscribe",
    "ssubscribe",
    "unsubscribe",
    "punsubscribe",
    "sunsubscribe",
    "message",
    "pmessage",
    "smessage",
    "invalidate",
];

/// Strings of MongoDB's envelope that steer it or name software.
const ENVELOPE: [&str; 12] = [
    "codeName",
    "compression",
    "level",
    "mechanism",
    "mode",
    "msg",
    "readPreference",
    "type",
    "version",
    "ferretdb",
    "ferretdbVersion",
    "w",
];

/// Words of other protocols that are told by them.
const MARKS: [&str; 14] =
    ["GET", "PUT", "POST", "HEAD", "HTTP", "OPTIONS", "DELETE", "SSH", "PRI", "SM", "INFO", "CONNECT", "ERR", "OK"];

#[expect(clippy::match_same_arms, reason = "each protocol has its own lines")]
impl FieldAt<'_> {
    /// Returns what becomes of it, its bytes being these.
    pub fn treatment(&self, bytes: &[u8]) -> Treatment {
        match self.account {
            // Not to be told apart.
            _ if matches!(self.field, "compressed" | "compressed body") => Binary,
            Account::Tls if self.field == "handshake" => Handshake,
            Account::Tls if matches!(self.field, "authentication tag" | "nonce" | "padding" | "ticket") => Binary,
            Account::Unknown if self.field == "ciphertext" => Binary,
            Account::Unknown => Opaque,
            Account::Framing if self.field == "checksum" => Binary,
            Account::Query => self.query(bytes),
            Account::Data => self.data(bytes),
            Account::Schema => self.schema(),
            Account::Metadata => self.metadata(bytes),
            Account::Status => self.status(bytes),
            _ => Keep,
        }
    }

    fn query(&self, bytes: &[u8]) -> Treatment {
        match (self.protocol, self.field) {
            (Protocol::Pgwire | Protocol::Mysql | Protocol::Cql, "statement") => Statement,
            (Protocol::Http, "path") => Path,
            (Protocol::Memcache, "subcommand") if !is_one_of(&SUBCOMMANDS, bytes) => Text,
            (Protocol::Mongo, "collection") => Name,
            (Protocol::Mongo, "value") | (Protocol::Resp, "script") => Text,
            _ => Keep,
        }
    }

    fn data(&self, bytes: &[u8]) -> Treatment {
        let is_one_of = |words: &[&str]| words.iter().any(|word| bytes == word.as_bytes());
        match (self.protocol, self.field) {
            (Protocol::Resp, "integer") if self.is_confirmed() => Keep,
            (Protocol::Resp, "value") if self.operation == b"HELLO" || is_one_of(&REPLIES) => Keep,
            (Protocol::Resp, "value") if self.operation == b"INFO" => Info,
            (Protocol::Resp, "option value") if self.name.to_ascii_uppercase().starts_with(b"LIB-") => Keep,
            // The version that a client asks for.
            (Protocol::Resp, "argument") if self.operation == b"HELLO" && bytes.len() == 1 => Keep,
            (Protocol::Memcache, "version" | "mode" | "CRLF") => Keep,
            // Its name among the statistics, and what that is; both at once in an answer whose question was not seen.
            (Protocol::Memcache, "item") if bytes.starts_with(b"version ") => Keep,
            (Protocol::Memcache, "key") if bytes == b"version" => Keep,
            (Protocol::Memcache, "value" | "item") if self.name == b"version" => Keep,
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

    fn schema(&self) -> Treatment {
        match (self.protocol, self.field) {
            (Protocol::Pgwire, "name") | (Protocol::Mongo, "field name" | "value" | "name") => Name,
            (Protocol::Cql, field) if field == "name" || field.ends_with(" name") => Name,
            (
                Protocol::Mysql,
                "schema" | "table" | "original table" | "name" | "original name" | "default" | "parameter name"
                | "table name" | "catalog",
            ) => Name,
            _ => Keep,
        }
    }

    fn metadata(&self, bytes: &[u8]) -> Treatment {
        let name = |names: &[&str]| names.iter().any(|name| self.name.eq_ignore_ascii_case(name.as_bytes()));
        match (self.protocol, self.field) {
            // Ids are digests of what was prepared: who guesses that could find it confirmed. Equal ones stay equal; where messages are
            // compressed, parts of them may be repetitions of something else.
            (Protocol::Cql, "statement id" | "result metadata id") if self.is_compressed => Keep,
            (Protocol::Cql, "statement id" | "result metadata id" | "paging state" | "token") => Binary,
            (Protocol::Cql, "option value") if !name(&OPTIONS) && !self.name.starts_with(b"SCYLLA_") => Text,
            (Protocol::Pgwire, "statement name" | "portal name" | "name" | "channel") if self.is_named() => Name,
            (Protocol::Pgwire, "value") if name(&["user", "database", "session_authorization"]) => Name,
            (Protocol::Pgwire, "value") if name(&["application_name", "options", "search_path"]) => Text,
            (Protocol::Pgwire, "password" | "response" | "challenge" | "salt" | "secret key" | "data") => Data,
            // What authenticates by SASL.
            (Protocol::Memcache, "value") => Data,
            // Answers are found by it: equal ones stay equal.
            (Protocol::Memcache, "opaque") if bytes.iter().all(u8::is_ascii_graphic) => Name,
            (Protocol::Memcache, "opaque") => Binary,
            (Protocol::Mysql, "name") if !is_one_of(&ATTRIBUTES, bytes) => Text,
            (Protocol::Mysql, "user name" | "database name") => Name,
            (Protocol::Mysql, "random data") => Binary,
            // One byte says how to go on.
            (Protocol::Mysql, "authentication data") if bytes.len() > 1 => Binary,
            (Protocol::Mysql, "session state" | "file name") => Text,
            (Protocol::Mysql, "value") if !name(&["_client_name", "_client_version", "_server_host_type"]) => Text,
            (Protocol::Http, "header name") if !is_one_of(&HEADERS, bytes) && !is_one_of(&NAMES, bytes) => Name,
            (Protocol::Http, "header value") if self.side == Side::Request && name(&["user-agent"]) => Keep,
            (Protocol::Http, "header value") if self.side == Side::Response && name(&["server"]) => Keep,
            (Protocol::Http, "header value") if !name(&HEADERS) => Text,
            (Protocol::Http, "scheme and host" | "not a header" | "chunk extension") => Text,
            (Protocol::Mongo, "database") => Name,
            (Protocol::Mongo, "value") => self.envelope(),
            _ => Keep,
        }
    }

    /// Parameters and options have names, too, which are the protocol's.
    fn is_named(&self) -> bool {
        self.field != "name"
            || self.groups.last().is_some_and(|group| matches!(*group, "close" | "describe" | "execute" | "bind"))
    }

    /// A value of MongoDB that is neither the user's nor an outcome.
    fn envelope(&self) -> Treatment {
        let name = |names: &[&str]| names.iter().any(|name| self.name == name.as_bytes());
        let is_driver = self.groups.last().is_some_and(|group| matches!(*group, "driver" | "ferretdb"));
        match self.kind {
            0x02 if name(&["$db", "ns", "db", "dbName"]) => Name,
            0x02 if name(&ENVELOPE) || is_driver && name(&["name", "version"]) => Keep,
            0x02 | 0x0d | 0x0e | 0x0b => Text,
            0x05 | 0x07 => Binary,
            _ => Keep,
        }
    }

    fn status(&self, bytes: &[u8]) -> Treatment {
        match (self.protocol, self.field) {
            (Protocol::Resp, "text") => {
                let word = bytes.split(|byte| *byte == b' ').next().unwrap_or_default();
                let is_code = !word.is_empty() && word.iter().all(u8::is_ascii_uppercase);
                if is_code && word.len() <= 16 { Status } else { Text }
            }
            (
                Protocol::Pgwire,
                "message" | "detail" | "hint" | "where" | "internal query" | "constraint name" | "schema name"
                | "table name" | "column name" | "data type name",
            ) => Text,
            (Protocol::Cql, "error message" | "details") => Text,
            (Protocol::Http, "reason") if !is_one_of(&REASONS, bytes) => Text,
            (Protocol::Cql, "address") => Address,
            (Protocol::Mysql, "message") => Error,
            (Protocol::Mysql, "info") => Text,
            (Protocol::Memcache, "status") if bytes.contains(&b' ') => Status,
            (Protocol::Memcache, "value") => Data,
            (Protocol::Mongo, "value") if self.kind == 0x02 && self.name != b"codeName" => Text,
            (Protocol::Mongo, "value") if matches!(self.kind, 0x05 | 0x07) => Binary,
            _ => Keep,
        }
    }
}

/// Returns whether these bytes are one of the words, in upper or lower case.
fn is_one_of(words: &[&str], bytes: &[u8]) -> bool {
    words.iter().any(|word| bytes.eq_ignore_ascii_case(word.as_bytes()))
}

/// Replaces the text of an error of `MySQL`: behind a byte that says so, a code of two, and a state of five behind `#`.
pub fn error(filler: &Filler, bytes: &mut [u8]) {
    let code = if bytes.first() == Some(&0xff) { 3 } else { 0 };
    let state = if bytes.get(code) == Some(&b'#') { 6 } else { 0 };
    filler.text(bytes.get_mut(code + state..).unwrap_or_default());
}

/// Lines of `INFO` that name the software.
const SOFTWARE: [&[u8]; 4] = [b"redis_version", b"valkey_version", b"server_name", b"redis_mode"];

/// Replaces what stands behind the names of `INFO`'s lines.
pub fn info(filler: &Filler, bytes: &mut [u8]) {
    for line in bytes.split_mut(|byte| *byte == b'\n') {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = line.split_at_mut(colon);
        if !SOFTWARE.contains(&&*name) {
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
            if !MARKS.iter().any(|mark| mark.as_bytes() == word) {
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
