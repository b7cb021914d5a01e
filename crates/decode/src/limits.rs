//! The limits of every decoder, with the reason for each. Nothing is allocated from a length on the wire before it was held
//! against one of these or of the protocols' own.

/// Bytes of one incomplete message that are kept. What a longer message has beyond is counted by its length alone and
/// posted to `unknown` where its account does not follow from a length already read. Large enough for every result page
/// that drivers ask for by default; small enough that many connections can hold one.
pub const MESSAGE_BUFFER: u64 = 4 << 20;

/// Bytes that may be needed to tell whether a message begins at some position.
pub const BOUNDARY_WINDOW: usize = 64;

/// Requests that wait for their responses on one connection. A client that pipelines more than this is not decoded further.
pub const OUTSTANDING: usize = 1 << 20;

/// Length of an operation's name in bytes; longer ones are cut.
pub const NAME: usize = 64;

/// Length of a statement in bytes; longer ones are cut in the middle. A screen full of SQL, and 4 MiB for all that are kept.
pub const STATEMENT: usize = 1 << 10;

/// Bytes that one compressed body may decompress to: the largest message of MongoDB (48 MB) with some room.
pub const DECOMPRESSED: usize = 64 << 20;

/// How many times its length zlib can decompress to at most: 258 bytes from two bits (RFC 1951).
pub const EXPANSION_ZLIB: usize = 1032;

/// The same of zstd: a block of 128 KiB that repeats one byte takes four (RFC 8878 section 3.1.1.2).
pub const EXPANSION_ZSTD: usize = 32 << 10;

/// The same of Snappy: a copy of 64 bytes takes three.
pub const EXPANSION_SNAPPY: usize = 22;

/// The same of LZ4: each byte that a length goes on for adds 255.
pub const EXPANSION_LZ4: usize = 255;

/// How many times its length a compressed body may decompress to without drawing on [`EXPANDED`]. Bodies of real data
/// stay below it; those of constant bytes do not.
pub const EXPANSION_FREE: usize = 64;

/// Bytes beyond that which all compressed bodies of a run may decompress to: some seconds of work. Once it is spent, bodies
/// that would draw on it are not decompressed.
pub const EXPANDED: u64 = 256 << 20;
