//! Limits and their reasons.

/// Rows, as in a report. Rules do not see the operations of further rows; the advice counts them.
pub const ROWS: usize = 1 << 12;

/// Rows from which the statements of a name share one, so that other names have room.
pub const STATEMENTS: usize = ROWS - 512;

/// Open operations, about 6 KiB each: ten times what clients use. Rules do not see further ones; the advice counts
/// them.
pub const OPEN: usize = 1 << 14;

/// Field names: a hundred times as many as any protocol has. Further ones share a number.
pub const FIELDS: usize = 1 << 12;

/// Frames with unposted payload per connection: a message of 16 MB in Ethernet frames.
pub const FRAMES: usize = 1 << 14;

/// Pieces of payload per operation and direction: enough for the first frames of a slow client.
pub const PIECES: usize = 64;

/// Bytes of a field passed to a rule: the longest statement that is compared.
pub const FIELD: u64 = 64 << 10;

/// Bytes of a message kept for compression. Longer messages are skipped, and the finding counts them.
pub const MESSAGE: usize = 256 << 10;

/// Total bytes to compress, about a second of work. The rest is extrapolated, which the finding states.
pub const COMPRESSED: u64 = 256 << 20;

/// Digests of statements, requests, prepared ids and closing connections: about 16 MB.
pub const REMEMBERED: usize = 1 << 18;

/// Distinct client addresses.
pub const CLIENTS: usize = 1 << 14;
