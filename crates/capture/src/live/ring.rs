//! Reads the kernel's ring of captured frames (`TPACKET_V3`) without libpcap's cost per frame.
//!
//! libpcap opens the socket, sets its filter and creates the ring. The ring is mapped a second time here, and libpcap
//! is not asked for frames. If mapping fails, libpcap reads it.
//!
//! ```text
//! ring:  blocks of the same size
//! block: version u32, offset u32, status u32, frames u32, offset of the first frame u32, …
//! frame: offset of the next one u32, seconds u32, nanoseconds u32, captured length u32, original length u32, status u32,
//!        offset of the link-layer header u16, …, at 32: VLAN tag u32, VLAN protocol u16, …
//! ```
//!
//! All are in native byte order (`linux/if_packet.h`). A block's status shows whether it belongs to the kernel or the
//! reader. The kernel hands it over when full, or some time after its first frame.

use pcap::{Active, Capture};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// libpcap's block size: room for the longest frame that it captures.
const BLOCK: usize = 256 << 10;
/// A block with unfiltered frames is handed over well within this time.
const UNFILTERED: Duration = Duration::from_secs(1);
/// How often to wait for proof of the block size before giving up.
const TRIES: u32 = 10_000;

// `linux/if_packet.h`.
const PACKET_VERSION: libc::c_int = 10;
const TPACKET_V3: u32 = 2;
const STATUS_KERNEL: u32 = 0;
const STATUS_USER: u32 = 1;
const STATUS_VLAN: u32 = 1 << 4;
const STATUS_VLAN_PROTOCOL: u32 = 1 << 6;
/// `ETH_P_8021Q` of `linux/if_ether.h`.
const VLAN_PROTOCOL: u16 = 0x8100;
/// Both addresses of an Ethernet header, which the VLAN tag follows.
const ADDRESSES: usize = 12;
const VLAN_TAG: usize = 4;

// Offsets in a block header.
const BLOCK_VERSION: usize = 0;
const BLOCK_STATUS: usize = 8;
const BLOCK_FRAMES: usize = 12;
const BLOCK_FIRST: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RingAdvance {
    /// Available from [`PacketRing::frame`].
    Frame,
    Nothing,
    /// The block size differs from the expected one. Nothing was read.
    Unreadable,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RingFrame<'a> {
    pub time_ns: u64,
    pub original_len: u32,
    pub bytes: &'a [u8],
}

/// The ring of an Ethernet interface.
#[derive(Debug)]
pub(super) struct PacketRing {
    blocks: RingBlocks,
    /// Block being read, or to be read next.
    block: usize,
    /// The block is ours.
    is_held: bool,
    /// Unread frames in the block.
    left: u32,
    /// Offset of the next one.
    next: usize,
    current: BlockFrame,
    /// The block size has been confirmed.
    is_proven: bool,
    tries: u32,
    /// Earlier frames were captured unfiltered; 0 once there can be none, because the clock may be set back.
    since_ns: u64,
    opened: Instant,
    snaplen: usize,
}

/// The frame read last, as offsets in its block.
#[derive(Clone, Copy, Debug, Default)]
struct BlockFrame {
    time_ns: u64,
    original_len: u32,
    start: usize,
    end: usize,
}

impl PacketRing {
    /// Maps the ring of an Ethernet capture opened with this buffer size and filtered since `since_ns`. `None` if the
    /// ring is not as expected.
    pub fn new(capture: &Capture<Active>, buffer_bytes: u32, snaplen: u32, since_ns: u64) -> Option<Self> {
        let socket = capture.as_raw_fd();
        if version(socket) != Some(TPACKET_V3) {
            return None;
        }
        let blocks = RingBlocks::map(socket, (buffer_bytes as usize).div_ceil(BLOCK)).ok()?;
        Some(Self {
            blocks,
            block: 0,
            is_held: false,
            left: 0,
            next: 0,
            current: BlockFrame::default(),
            is_proven: false,
            tries: 0,
            since_ns,
            opened: Instant::now(),
            snaplen: snaplen as usize,
        })
    }

    #[inline]
    pub fn advance(&mut self) -> RingAdvance {
        loop {
            while self.left > 0 {
                self.left -= 1;
                if self.read() {
                    return RingAdvance::Frame;
                }
            }
            let ahead = self.next_block();
            if ahead != RingAdvance::Frame {
                return ahead;
            }
        }
    }

    /// Returns the frame that [`PacketRing::advance`] moved to.
    #[inline]
    pub fn frame(&mut self) -> RingFrame<'_> {
        let BlockFrame { time_ns, original_len, start, end } = self.current;
        let bytes = self.blocks.bytes(self.block).and_then(|bytes| bytes.get(start..end)).unwrap_or_default();
        RingFrame { time_ns, original_len, bytes }
    }

    /// Gives the block back and takes the next one.
    fn next_block(&mut self) -> RingAdvance {
        if std::mem::take(&mut self.is_held) {
            self.blocks.give_back(self.block);
            self.block = self.blocks.after(self.block);
        }
        if !self.is_proven && self.blocks.are_readable(self.block) {
            // The kernel starts the next block as soon as it has handed one over.
            if self.blocks.word(self.blocks.after(self.block), BLOCK_VERSION) != TPACKET_V3 {
                self.tries += 1;
                return if self.tries > TRIES { RingAdvance::Unreadable } else { RingAdvance::Nothing };
            }
            self.is_proven = true;
        }
        let Some(bytes) = self.blocks.bytes(self.block) else {
            if self.since_ns > 0 && self.opened.elapsed() > UNFILTERED {
                self.since_ns = 0;
            }
            return RingAdvance::Nothing;
        };
        (self.left, self.next) = (word(bytes, BLOCK_FRAMES), word(bytes, BLOCK_FIRST) as usize);
        self.is_held = true;
        RingAdvance::Frame
    }

    /// Reads the next frame's headers and restores its VLAN tag. Returns false for an unfiltered frame.
    #[inline]
    fn read(&mut self) -> bool {
        let Some(block) = self.blocks.bytes(self.block) else { return false };
        let Some(header) = block.get(self.next..).and_then(|rest| rest.first_chunk::<40>()) else { return false };
        let word = |at: usize| word(header, at);
        let half = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        let start = self.next + usize::from(half(24));
        let mut place = BlockFrame {
            time_ns: u64::from(word(4)) * 1_000_000_000 + u64::from(word(8)),
            original_len: word(16),
            start,
            end: start + word(12) as usize,
        };
        let (status, tag, protocol) = (word(20), word(32), half(36));
        self.next += word(0) as usize;
        if status & STATUS_VLAN != 0 || tag != 0 {
            let has_protocol = status & STATUS_VLAN_PROTOCOL != 0 || protocol != 0;
            let protocol = if has_protocol { protocol } else { VLAN_PROTOCOL };
            place.put_back(block, protocol, tag as u16);
        }
        place.end = place.end.min(place.start + self.snaplen);
        self.current = place;
        if place.time_ns > self.since_ns + UNFILTERED.as_nanos() as u64 {
            self.since_ns = 0;
        }
        place.time_ns >= self.since_ns
    }
}

impl BlockFrame {
    /// Moves the addresses four bytes back and inserts the tag; the kernel leaves room for that.
    #[cold]
    fn put_back(&mut self, block: &mut [u8], protocol: u16, tag: u16) {
        let Some(start) = self.start.checked_sub(VLAN_TAG) else { return };
        let Some(room) = block.get_mut(start..self.end).filter(|room| room.len() >= ADDRESSES + VLAN_TAG) else {
            return;
        };
        room.copy_within(VLAN_TAG..VLAN_TAG + ADDRESSES, 0);
        for (place, byte) in room.iter_mut().skip(ADDRESSES).zip([protocol.to_be_bytes(), tag.to_be_bytes()].concat()) {
            *place = byte;
        }
        self.start = start;
        self.original_len += VLAN_TAG as u32;
    }
}

/// Returns the version of a packet socket's ring.
fn version(socket: RawFd) -> Option<u32> {
    let (mut version, mut size) = (0_u32, size_of::<u32>() as libc::socklen_t);
    // SAFETY: the value has `size` bytes, and both outlive the call.
    let result =
        unsafe { libc::getsockopt(socket, libc::SOL_PACKET, PACKET_VERSION, (&raw mut version).cast(), &raw mut size) };
    (result == 0).then_some(version)
}

/// Returns and clears the socket's pending error, such as its interface going down.
pub(super) fn socket_error(socket: &impl AsRawFd) -> io::Result<()> {
    let (mut error, mut size) = (0, size_of::<libc::c_int>() as libc::socklen_t);
    // SAFETY: the value has `size` bytes, and both outlive the call.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ERROR, (&raw mut error).cast(), &raw mut size)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

#[inline]
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |word| u32::from_ne_bytes(*word))
}

/// The ring's memory, which the kernel also writes.
#[derive(Debug)]
struct RingBlocks {
    start: NonNull<u8>,
    count: usize,
}

// SAFETY: the memory is not bound to a thread, and `RingBlocks` is the only access to it here.
unsafe impl Send for RingBlocks {}

impl RingBlocks {
    fn map(socket: RawFd, count: usize) -> io::Result<Self> {
        let (length, access) = (count.max(1) * BLOCK, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a new mapping at a place that the kernel chooses. It refuses a length that is not the ring's.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, access, libc::MAP_SHARED, socket, 0) };
        match NonNull::new(start.cast()) {
            Some(start) if start.as_ptr() != libc::MAP_FAILED.cast() => Ok(Self { start, count: count.max(1) }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn after(&self, block: usize) -> usize {
        (block + 1) % self.count
    }

    /// Reads a word of a block's header, even if the kernel owns the block.
    fn word(&self, block: usize, at: usize) -> u32 {
        self.head(block, at).load(Ordering::Relaxed)
    }

    /// Returns whether the block is ours.
    #[inline]
    fn are_readable(&self, block: usize) -> bool {
        self.head(block, BLOCK_STATUS).load(Ordering::Acquire) & STATUS_USER != 0
    }

    /// Returns the block if it is ours.
    #[inline]
    fn bytes(&mut self, block: usize) -> Option<&mut [u8]> {
        if block >= self.count || !self.are_readable(block) {
            return None;
        }
        // SAFETY: the block lies within the mapping, which lives as long as `self`, and bytes need no alignment. It
        // is ours: the kernel leaves it alone until its status changes, which takes `&mut self` too. libpcap has
        // mapped the same memory, but accesses it only when asked for a frame, which nobody does while there is a
        // `PacketRing`.
        Some(unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(block * BLOCK), BLOCK) })
    }

    fn give_back(&mut self, block: usize) {
        self.head(block, BLOCK_STATUS).store(STATUS_KERNEL, Ordering::Release);
    }

    #[inline]
    fn head(&self, block: usize, at: usize) -> &AtomicU32 {
        debug_assert!(block < self.count && at < BLOCK_FIRST);
        // SAFETY: the word lies within the mapping, since `block` is one of its blocks and `at` one of the constants
        // above; it is aligned, since blocks are aligned to pages. The kernel accesses it atomically.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(block * BLOCK + at).cast()) }
    }
}

impl Drop for RingBlocks {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this length, and nothing borrows from it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.count * BLOCK) };
    }
}
