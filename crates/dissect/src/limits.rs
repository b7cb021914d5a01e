//! Every limit of the dissection, with the reason for it. Nothing is allocated from a length on the wire before it was
//! held against one of these.

/// Bytes of one incomplete message that are kept. What a longer message has beyond is counted by its length alone and
/// posted to `unknown` where its account does not follow from a length already read. Large enough for every result page
/// that drivers ask for by default; small enough that many connections can hold one.
pub const MESSAGE_BUFFER: u64 = 4 << 20;

/// Longest text line of a protocol that ends lines with CRLF and gives no length (Redis: 64 KiB inline commands).
pub const LINE: usize = 64 << 10;

/// Bytes that may be needed to tell whether a message begins at some position.
pub const BOUNDARY_WINDOW: usize = 64;

/// Nesting of RESP aggregates, BSON documents and CQL types. Redis clients stop at 7 to 9, MongoDB at 100.
pub const NESTING: usize = 128;

/// Requests that wait for their responses on one connection. A client that pipelines more than this is not decoded further.
pub const OUTSTANDING: usize = 1 << 20;

/// Prepared statements remembered per connection; the oldest are forgotten first.
pub const STATEMENTS: usize = 16 << 10;

/// Length of an operation's name in bytes; longer ones are cut.
pub const NAME: usize = 64;
