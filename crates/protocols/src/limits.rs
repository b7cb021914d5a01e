//! The limits of the protocols, with reasons. Limits of all decoders are in [`overhead_decode::limits`].

pub(crate) use overhead_decode::limits::{BOUNDARY_WINDOW, DECOMPRESSED, MESSAGE_BUFFER, NAME, OUTSTANDING};

/// Longest line in protocols that end lines with CRLF and send no length (Redis: 64 KiB inline commands).
pub const LINE: usize = 64 << 10;

/// Nesting of RESP aggregates, BSON documents and CQL types. Redis clients stop at 7 to 9, MongoDB at 100.
pub const NESTING: usize = 128;

/// Prepared statements remembered per connection; the oldest are forgotten first.
pub const STATEMENTS: usize = 16 << 10;

/// Prepared statements shared between connections; the first ones are kept.
pub const SHARED_STATEMENTS: usize = 32 << 10;

/// Bytes of the first payload inspected to recognise the protocol on an unknown port.
pub const SNIFF: usize = 64;

/// Servers whose protocol is remembered to recognise it on connections joined midway, about 100 bytes each.
pub const SERVERS: usize = 4 << 10;

/// Columns of a PostgreSQL result whose types are remembered (the server's `MaxTupleAttributeNumber`); further ones are
/// untyped.
pub const COLUMNS: usize = 1664;

/// Parameters of a PostgreSQL statement whose types are remembered, enough for batches of thousands of rows; further
/// ones are untyped.
pub const PARAMETERS: usize = 16 << 10;

/// Copies in one PostgreSQL query text whose formats are remembered; more are never sent.
pub const STATEMENT_COPIES: usize = 64;

/// Waiting memcached requests that need no reply, such as gets that report only hits; beyond that, the oldest count as
/// having none. Clients batch thousands of keys.
pub const QUIET: usize = 64 << 10;

/// Bytes of statements that are remembered between captures of parts of connections, for all connections.
pub const LEARNED_BYTES: usize = 16 << 20;
