//! The limits of the protocols, with the reason for each; those that hold for any decoder are in [`overhead_decode::limits`].

pub(crate) use overhead_decode::limits::{BOUNDARY_WINDOW, DECOMPRESSED, MESSAGE_BUFFER, NAME, OUTSTANDING};

/// Longest text line of a protocol that ends lines with CRLF and gives no length (Redis: 64 KiB inline commands).
pub const LINE: usize = 64 << 10;

/// Nesting of RESP aggregates, BSON documents and CQL types. Redis clients stop at 7 to 9, MongoDB at 100.
pub const NESTING: usize = 128;

/// Prepared statements remembered per connection; the oldest are forgotten first.
pub const STATEMENTS: usize = 16 << 10;

/// Prepared statements that connections share; the first to be prepared are kept.
pub const SHARED_STATEMENTS: usize = 32 << 10;

/// Bytes of the first payload looked at to tell the protocol of a connection on an unknown port.
pub const SNIFF: usize = 64;

/// Columns of one PostgreSQL result whose types are remembered (`MaxTupleAttributeNumber` of the server); further ones are untyped.
pub const COLUMNS: usize = 1664;

/// Parameters of one PostgreSQL statement whose types are remembered, enough for batches of thousands of rows; further ones are untyped.
pub const PARAMETERS: usize = 16 << 10;

/// Copies of one PostgreSQL query text whose formats are remembered; nobody sends as many in one.
pub const STATEMENT_COPIES: usize = 64;

/// Requests of memcached that wait and need no answer, as those that fetch keys one by one without hearing of misses; the first
/// are taken as not answered beyond it. Clients put thousands of keys in one batch.
pub const QUIET: usize = 64 << 10;
