//! Every limit of this crate, and why it stands where it does.

/// Longest frame that is read, in bytes. No link carries a fraction of it (BIG TCP stops at 512 KiB) and no tool
/// writes it, so a longer one is damage, not data. It bounds the read buffer.
pub const MAX_FRAME_BYTES: u32 = 256 << 20;

/// Longest pcapng packet block: a frame, its fixed fields and generous options.
pub const MAX_PACKET_BLOCK_BYTES: u32 = MAX_FRAME_BYTES + (1 << 20);

/// Longest pcapng section header, interface description or interface statistics block. Their options are collected
/// into a vector at ten bytes per byte of file, so they are held shorter than packet blocks.
pub const MAX_DESCRIPTION_BLOCK_BYTES: u32 = 1 << 20;

/// Longest pcapng block of decryption secrets that is looked at, and all of them that are held until somebody takes them:
/// the key log of twenty thousand connections.
pub const MAX_SECRETS_BLOCK_BYTES: u32 = 16 << 20;

/// Interfaces that one pcapng input may describe, over all its sections. A table entry is kept for each.
pub const MAX_INTERFACES: usize = 65_536;

/// Bytes kept of an interface's name; Linux allows 15, Windows device paths take about 60.
pub const MAX_INTERFACE_NAME_BYTES: usize = 256;

/// Read buffer at the start, in bytes: fits a level-2 cache. It grows, at most doubling, when a frame needs it and
/// the input has filled it, so a hostile length allocates nothing.
pub const WINDOW_BYTES: usize = 256 << 10;

/// Snap length of a live capture unless told otherwise, in bytes: whole frames; libpcap's own maximum.
pub const DEFAULT_SNAPLEN: u32 = 262_144;

/// Kernel buffer of a live capture unless told otherwise, in bytes: half a second of 1 Gbit/s.
pub const DEFAULT_BUFFER_BYTES: u32 = 64 << 20;
