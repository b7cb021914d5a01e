//! Bounds on what is kept, each with its reason.

/// Rows told apart: as many as a report has. Operations of further ones go to no rule, and the advice says how many.
pub const ROWS: usize = 1 << 12;

/// Operations that are open at once, about 6 KiB each. Clients have a tenth of them under way; further ones go to no rule, and the
/// advice says how many.
pub const OPEN: usize = 1 << 14;

/// Names of fields: no protocol has a hundredth of them. Further ones share one.
pub const FIELDS: usize = 1 << 12;

/// Frames with payload remembered per connection until their bytes are posted: a message of 16 MB in Ethernet frames.
pub const FRAMES: usize = 1 << 14;

/// Pieces of payload of one operation and direction that are kept: enough for its first frames, where clients dawdle.
pub const PIECES: usize = 64;

/// Bytes of one field that a rule is shown: the longest statement that is compared.
pub const FIELD: u64 = 64 << 10;

/// Bytes of one message that are kept to be compressed. Longer messages are left out, and the finding says how many.
pub const MESSAGE: usize = 256 << 10;

/// Bytes that are compressed in all, a second or so of work. Beyond, the share of those before holds, and the finding says so.
pub const COMPRESSED: u64 = 256 << 20;

/// Statements, requests, prepared ids, and connections that close, remembered at once, by 64-bit digests: 16 MB or so.
pub const REMEMBERED: usize = 1 << 18;

/// Ends of clients told apart.
pub const CLIENTS: usize = 1 << 14;
