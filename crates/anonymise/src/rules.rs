//! Decides how each field is replaced: by its account, or by its name if the account is not enough.

mod lists;

use crate::fill::Filler;
use lists::{CODES, DIGITS, ENVELOPE, HEADERS, LISTED, Listed, MARKS, PUBLIC_WORDS};
use overhead_model::{Account, Protocol, Side};
use overhead_protocols::statement::spans::is_keyword;
use overhead_protocols::{memcache, resp};

/// A field to be replaced, and what precedes it.
#[derive(Clone, Copy, Debug)]
pub struct FieldAt<'a> {
    pub protocol: Protocol,
    pub account: Account,
    pub side: Side,
    pub groups: &'a [&'static str],
    pub field: &'static str,
    /// Name of its operation, if already known.
    pub operation: &'a [u8],
    /// The last name posted in its direction.
    pub name: &'a [u8],
    /// The BSON type of its value, if any.
    pub kind: u8,
    pub is_compressed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    Keep,
    /// As text if it reads as text, otherwise as binary.
    Data,
    /// Replaces words only.
    Text,
    /// Replaces all bytes.
    Binary,
    /// A unique identifier.
    Name,
    /// A path: unique, and no word stays.
    Path,
    Statement,
    /// Replaces everything after the first byte of this value; the part before it is public.
    Behind(u8),
    /// Replaces words that are not public.
    Known,
    /// A client as described by a proxy.
    Proxy,
    Address,
    /// TLS handshake messages.
    Handshake,
    /// Lines of `INFO`.
    Info,
    /// A `MySQL` error with its code and state.
    Error,
    /// Undecoded bytes.
    Opaque,
}

use Treatment::{Address, Behind, Binary, Data, Error, Handshake, Info, Keep, Known, Name, Opaque, Path, Proxy};
use Treatment::{Statement, Text};

#[expect(clippy::match_same_arms, reason = "each protocol has its own lines")]
impl FieldAt<'_> {
    /// Returns how to replace the field with these bytes. A field without a rule is replaced.
    pub fn treatment(&self, bytes: &[u8]) -> Treatment {
        let listed = LISTED.get(&(self.protocol, self.field));
        let is_allowed = |listed: &Listed| {
            listed.is_kept
                || listed.is_number && !bytes.iter().any(|byte| is_letter(*byte))
                || !self.is_users() && listed.words.has(bytes)
        };
        if self.account != Account::Unknown && listed.is_some_and(is_allowed) {
            return Keep;
        }
        match self.account {
            // Fields within cannot be separated.
            _ if matches!(self.field, "compressed" | "compressed body") => Binary,
            Account::Tls if self.field == "handshake" => Handshake,
            Account::Tls if matches!(self.field, "alert" | "change cipher spec") && bytes.len() <= 2 => Keep,
            Account::Tls => Binary,
            Account::Unknown if self.field == "ciphertext" => Binary,
            Account::Unknown => Opaque,
            Account::Query => self.query(bytes),
            Account::Data => self.data(bytes),
            Account::Schema => self.schema(bytes),
            Account::Metadata => self.metadata(bytes),
            Account::Status => self.status(bytes),
            _ => self.framing(bytes),
        }
    }

    /// Returns whether it is a protocol word.
    fn has_word(&self, word: &[u8]) -> bool {
        LISTED.get(&(self.protocol, self.field)).is_some_and(|listed| listed.words.has(word))
    }

    /// Returns whether the user fills a field that elsewhere holds protocol words: names of prepared statements share a
    /// field with names of parameters.
    fn is_users(&self) -> bool {
        self.account == Account::Data && self.protocol != Protocol::Resp
            || self.protocol == Protocol::Pgwire && self.account == Account::Metadata && self.is_named()
    }

    fn framing(&self, bytes: &[u8]) -> Treatment {
        match (self.protocol, self.field) {
            (Protocol::Resp, "length") => Behind(b':'),
            (Protocol::Resp, "end of snapshot") => Text,
            // The same length as in the statement.
            (Protocol::Pgwire, "null marker" | "default marker") if bytes.len() <= 5 => Keep,
            (Protocol::Pgwire, "copy signature") if b"PGCOPY\n\xff\r\n\0".starts_with(bytes) => Keep,
            // An empty segment.
            (Protocol::Cql, "segment") if bytes.len() <= 12 => Keep,
            (Protocol::Mongo, "checksum") => Binary,
            (Protocol::Mongo, "array index") => Text,
            _ => Data,
        }
    }

    fn query(&self, bytes: &[u8]) -> Treatment {
        let text = std::str::from_utf8(bytes).unwrap_or_default();
        match (self.protocol, self.field) {
            (Protocol::Pgwire | Protocol::Mysql | Protocol::Cql, "statement") => Statement,
            (Protocol::Http, "path") => Path,
            (Protocol::Resp, "command") if resp::knows(text) => Keep,
            (Protocol::Resp, "subcommand") if resp::knows(&format!("{}|{text}", self.command())) => Keep,
            (Protocol::Memcache, "command") if memcache::knows(text) => Keep,
            (_, "command" | "subcommand" | "block" | "method" | "collection" | "command name" | "operator") => Name,
            _ => Text,
        }
    }

    /// Returns the last command of its side.
    fn command(&self) -> &str {
        std::str::from_utf8(self.operation).unwrap_or_default()
    }

    fn data(&self, bytes: &[u8]) -> Treatment {
        match (self.protocol, self.field) {
            (Protocol::Resp, "integer") if self.is_confirmed() && !bytes.iter().any(|byte| is_letter(*byte)) => Keep,
            (Protocol::Resp, "value") if self.operation == b"HELLO" => Known,
            (Protocol::Resp, "value") if self.operation == b"INFO" => Info,
            (Protocol::Resp, "option value") if self.name.to_ascii_uppercase().starts_with(b"LIB-") => Known,
            // The version that a client requests.
            (Protocol::Resp, "argument") if self.operation == b"HELLO" && bytes.len() == 1 => Keep,
            (Protocol::Memcache, "mode") if bytes.len() == 1 => Keep,
            // The name of a statistic and its value; both in an answer whose request was not seen.
            (Protocol::Memcache, "version") => Known,
            (Protocol::Memcache, "item") if bytes.starts_with(b"version ") => Known,
            (Protocol::Memcache, "item") if bytes.starts_with(b"key=") => Behind(b'='),
            (Protocol::Memcache, "key") if bytes == b"version" => Keep,
            (Protocol::Memcache, "value" | "item") if self.name == b"version" => Known,
            // Booleans.
            (Protocol::Mongo, _) if self.kind == 0x08 => Keep,
            _ => Data,
        }
    }

    /// Returns whether the number may be a count of remaining subscriptions.
    fn is_confirmed(&self) -> bool {
        let name = self.operation;
        name == b"PUSH" || name == b"EXEC" || name == b"HELLO" || name.ends_with(b"SUBSCRIBE")
    }

    fn schema(&self, bytes: &[u8]) -> Treatment {
        match (self.protocol, self.field) {
            (Protocol::Cql, "type class") if bytes.starts_with(b"org.apache.cassandra.db.marshal.") => Keep,
            (Protocol::Mongo, "value") if self.is_plain() => Keep,
            (Protocol::Mysql, "default") => Text,
            _ => Name,
        }
    }

    fn metadata(&self, bytes: &[u8]) -> Treatment {
        let name = |names: &str| is_one_of(names, self.name);
        match (self.protocol, self.field) {
            (_, "proxy's header") => Proxy,
            // Ids are digests of the prepared text, which could confirm a guess. Equal ids stay equal; in compressed
            // messages, parts may be repetitions of other content.
            (Protocol::Cql, "statement id" | "result metadata id") if self.is_compressed => Keep,
            (Protocol::Cql, "statement id" | "result metadata id" | "paging state" | "token" | "tracing id") => Binary,
            (Protocol::Cql, "authenticator") => Known,
            (Protocol::Cql, "option value") if self.name.starts_with(b"SCYLLA_") || self.is_option() => Known,
            (Protocol::Pgwire, "value") if name("server_version;crdb_version") => Known,
            (Protocol::Pgwire, "value") if !name("user;database;session_authorization") => Text,
            (Protocol::Pgwire, "statement name" | "portal name" | "name" | "channel" | "value" | "option") => Name,
            // Pairs an answer with its request: equal ones stay equal.
            (Protocol::Memcache, "opaque") if bytes.iter().all(u8::is_ascii_graphic) => Name,
            (Protocol::Memcache, "opaque") => Binary,
            (Protocol::Mysql, "user name" | "database name") => Name,
            (Protocol::Mysql, "random data") => Binary,
            // A single byte selects the next step of the authentication.
            (Protocol::Mysql, "authentication data") if bytes.len() == 1 => Keep,
            (Protocol::Mysql, "authentication data") => Binary,
            (Protocol::Mysql, "server version") => Known,
            (Protocol::Mysql, "value") if name("_client_name;_client_version;_server_host_type") => Known,
            (Protocol::Mysql, "value" | "session state") => Text,
            (Protocol::Http, "header name") => Name,
            (Protocol::Http, "header value") if name(HEADERS[0]) || name(HEADERS[1 + self.side as usize]) => Known,
            (Protocol::Http, _) => Text,
            (Protocol::Mongo, "database" | "name" | "sequence identifier") => Name,
            (Protocol::Mongo, "value") => self.envelope(),
            _ => Data,
        }
    }

    /// The preceding option is one of the protocol's.
    fn is_option(&self) -> bool {
        FieldAt { field: "option", ..*self }.has_word(self.name)
    }

    /// Returns whether the field is a user's name for a statement, portal or channel. Names of parameters and options are the
    /// protocol's.
    fn is_named(&self) -> bool {
        matches!(self.field, "statement name" | "portal name" | "channel")
            || self.field == "name"
                && self.groups.last().is_some_and(|group| matches!(*group, "close" | "describe" | "execute" | "bind"))
    }

    /// A MongoDB value that is neither user data nor a result.
    fn envelope(&self) -> Treatment {
        let name = |names: &str| is_one_of(names, self.name);
        let is_driver = self.groups.last().is_some_and(|group| matches!(*group, "driver" | "ferretdb"));
        match self.kind {
            0x02 if name("$db;ns;db;dbName") => Name,
            0x02 if name(ENVELOPE) || is_driver && name("name;version") => Known,
            0x02 | 0x0d | 0x0e | 0x0b => Text,
            _ if self.is_plain() => Keep,
            _ => Binary,
        }
    }

    /// Returns whether a MongoDB value is a number, a time, a boolean or null.
    fn is_plain(&self) -> bool {
        matches!(self.kind, 0x01 | 0x06 | 0x08..=0x0a | 0x10..=0x13 | 0x7f | 0xff)
    }

    fn status(&self, bytes: &[u8]) -> Treatment {
        let first = bytes.split(|byte| *byte == b' ').next().unwrap_or_default();
        match (self.protocol, self.field) {
            (Protocol::Resp, "text") if is_one_of(CODES, first) => Behind(b' '),
            (Protocol::Pgwire, "command tag") if bytes.split(|byte| *byte == b' ').all(is_of_tag) => Keep,
            // An SQLSTATE.
            (Protocol::Pgwire, "code") if bytes.len() == 5 => Keep,
            (Protocol::Cql, "address") => Address,
            (Protocol::Mysql, "message" | "report") => Error,
            (Protocol::Mysql, "EOF") if bytes.len() <= 5 => Keep,
            (Protocol::Memcache, "status") if bytes.len() == 2 => Keep,
            (Protocol::Memcache, "status") if self.has_word(first.strip_suffix(b":").unwrap_or(first)) => Behind(b' '),
            (Protocol::Mongo, "name") => Name,
            (Protocol::Mongo, "value") if self.is_plain() => Keep,
            (Protocol::Mongo, "value") if self.kind == 0x02 && self.name == b"codeName" => Known,
            (Protocol::Memcache | Protocol::Mongo, "value") | (Protocol::Mysql, "clone response") => Data,
            _ => Text,
        }
    }
}

/// Returns whether a word is a number or part of a command tag.
fn is_of_tag(word: &[u8]) -> bool {
    word.iter().all(u8::is_ascii_digit) || is_keyword(word)
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte >= 0x80
}

/// Returns whether the bytes are one of the words, in any letter case.
fn is_one_of(words: &str, bytes: &[u8]) -> bool {
    words.split(';').any(|word| bytes.eq_ignore_ascii_case(word.as_bytes()))
}

/// Replaces a text except for numbers and public words.
pub fn known(filler: &Filler, bytes: &mut [u8]) {
    let class = |byte: u8| (is_letter(byte), byte.is_ascii_digit());
    for word in bytes.chunk_by_mut(|before, byte| class(*before) == class(*byte)) {
        let stays = word.len() <= DIGITS && word.iter().all(u8::is_ascii_digit) || PUBLIC_WORDS.has(word);
        if !stays {
            filler.text(word);
        }
    }
}

/// Replaces the client in a proxy's header, after the part that identifies the header.
pub fn proxy(filler: &Filler, bytes: &mut [u8]) {
    let second = bytes.iter().enumerate().filter(|(_, byte)| matches!(byte, b' ' | b'\r')).nth(1);
    match (bytes.first(), second) {
        (Some(b'P'), Some((at, _))) => filler.text(bytes.get_mut(at..).unwrap_or_default()),
        // Signature, version, family and length.
        _ => filler.binary(bytes.get_mut(16..).unwrap_or_default()),
    }
}

/// Replaces the text of a `MySQL` error, after a marker, a code of two bytes, and `#` with a state of five.
pub fn error(filler: &Filler, bytes: &mut [u8]) {
    let code = if bytes.first() == Some(&0xff) { 3 } else { 0 };
    let state = if bytes.get(code) == Some(&b'#') { 6 } else { 0 };
    filler.text(bytes.get_mut(code + state..).unwrap_or_default());
}

/// Lines of `INFO` that name the software.
const SOFTWARE: [&[u8]; 4] = [b"redis_version", b"valkey_version", b"server_name", b"redis_mode"];

/// Replaces all other lines of `INFO`.
pub fn info(filler: &Filler, bytes: &mut [u8]) {
    for line in bytes.split_mut(|byte| *byte == b'\n') {
        if SOFTWARE.iter().any(|name| line.starts_with(name)) { known(filler, line) } else { filler.text(line) }
    }
}

/// Replaces undecoded bytes. Marks of other protocols stay, and so does the first byte of a stream, which may identify the
/// type of message.
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
    // Too few to mean anything.
    let start = bytes.first_chunk::<5>().copied().filter(|_| is_start);
    filler.binary(bytes);
    if let (Some(start), Some(place)) = (start, bytes.first_chunk_mut()) {
        *place = start;
    }
}

/// Replaces everything after the first byte of this value.
pub fn behind(filler: &Filler, end: u8, bytes: &mut [u8]) {
    let first = bytes.iter().position(|byte| *byte == end).unwrap_or(bytes.len());
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
            assert_eq!(found == Known, stays, "{name} {side:?}");
        }
        for opaque in ["canary", "\u{1}\u{2}\u{3}\u{4}"] {
            assert_ne!(treatment(Memcache, Metadata, ("opaque", "", request), opaque), Keep);
        }
    }
}
