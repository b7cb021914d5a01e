//! Limits shared by all decoders, each with its reason. Every length on the wire is checked against one of these, or
//! against a protocol's own, before anything is allocated.

/// Bytes kept of one incomplete message. The rest of a longer message is only counted; it goes to `unknown` unless its
/// account follows from a length already read. Large enough for the default result pages of all drivers, small enough for
/// many connections.
pub const MESSAGE_BUFFER: u64 = 4 << 20;

/// Bytes that a decoder may need to recognize the start of a message.
pub const BOUNDARY_WINDOW: usize = 64;

/// Requests pending on one connection: as many of Redis's shortest (14 bytes) as fill the largest send buffer that Linux gives by default
/// (4 MB). Behind a hole, all can arrive at once, and each takes up to 470 bytes. A client that pipelines more is not decoded further.
pub const OUTSTANDING: usize = 300_000;

/// Bytes of an operation's name; longer names are cut.
pub const NAME: usize = 64;

/// Bytes of a statement; longer ones are cut in the middle. Holds a screen of SQL; all statements kept take 4 MiB.
pub const STATEMENT: usize = 1 << 10;

/// Bytes that one compressed body may decompress to: MongoDB's largest message (48 MB), plus room.
pub const DECOMPRESSED: usize = 64 << 20;

/// Largest expansion of zlib: 258 bytes from two bits (RFC 1951).
pub const EXPANSION_ZLIB: usize = 1032;

/// Largest expansion of zstd: a block of 128 KiB that repeats one byte takes four bytes (RFC 8878 section 3.1.1.2).
pub const EXPANSION_ZSTD: usize = 32 << 10;

/// Largest expansion of Snappy: a copy of 64 bytes takes three.
pub const EXPANSION_SNAPPY: usize = 22;

/// Largest expansion of LZ4: each further length byte adds 255.
pub const EXPANSION_LZ4: usize = 255;

/// Expansion of a compressed body that does not draw on [`EXPANDED`]. Real data stays below it, also large results of rows that hardly
/// differ; constant bytes do not.
pub const EXPANSION_FREE: usize = 128;

/// Bytes beyond that for all compressed bodies of a run: a few seconds of work. Once spent, bodies that would draw on it
/// are not decompressed.
pub const EXPANDED: u64 = 256 << 20;

/// Operations that start in one compressed packet or segment: more than clients pipeline at once. Each takes about a kilobyte until the
/// packet is posted.
pub const PACKED_OPERATIONS: u64 = 1 << 14;

/// Operations in compressed packets and segments of a run, beyond one for each compressed byte: a second of work. Requests that differ
/// take more than a byte each. Once spent, what follows such operations in their packet is not decoded.
pub const EXPANDED_OPERATIONS: u64 = 1 << 20;
