//! All limits of this crate, with reasons.

/// Longest accepted frame, in bytes. Real frames are far shorter (BIG TCP stops at 512 KiB), so a longer one is
/// damage. Bounds the read buffer.
pub const MAX_FRAME_BYTES: u32 = 256 << 20;

/// Longest pcapng packet block: a frame, its fixed fields and generous options.
pub const MAX_PACKET_BLOCK_BYTES: u32 = MAX_FRAME_BYTES + (1 << 20);

/// Longest pcapng section header, interface description or interface statistics block. Parsing their options takes
/// ten bytes of memory per byte of file, so the limit is below that of packet blocks.
pub const MAX_DESCRIPTION_BLOCK_BYTES: u32 = 1 << 20;

/// Longest pcapng block of decryption secrets, and most pending secrets: keys of twenty thousand connections.
pub const MAX_SECRETS_BLOCK_BYTES: u32 = 16 << 20;

/// Interfaces in one pcapng file, over all sections. Each takes a table entry.
pub const MAX_INTERFACES: usize = 65_536;

/// Bytes kept of an interface's name. Linux allows 15; Windows device paths take about 60.
pub const MAX_INTERFACE_NAME_BYTES: usize = 256;

/// Initial read buffer in bytes; fits a level-2 cache. It at most doubles, and only when filled by input, so a
/// hostile length allocates nothing.
pub const WINDOW_BYTES: usize = 256 << 10;

/// Default snap length of a live capture, in bytes: whole frames; libpcap's maximum.
pub const DEFAULT_SNAPLEN: u32 = 262_144;

/// Default kernel buffer of a live capture, in bytes: half a second of 1 Gbit/s.
pub const DEFAULT_BUFFER_BYTES: u32 = 64 << 20;
