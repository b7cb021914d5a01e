//! The pcapng format (draft-ietf-opsawg-pcapng): blocks of `type u32, length u32, body, length u32`.
//!
//! A section header sets the byte order and drops earlier interfaces; interface descriptions set link type and clock;
//! packets refer to them by number. Why no crate decodes them: `docs/adr/0001-capture-file-reader.md`.

use super::bytes::ByteOrder;
use super::clock::InterfaceClock;
use super::window::InputWindow;
use super::{CutTail, FileFacts, FileInterface, FrameRecord, ReadOutcome};
use crate::limits::{
    MAX_DESCRIPTION_BLOCK_BYTES, MAX_INTERFACE_NAME_BYTES, MAX_INTERFACES, MAX_PACKET_BLOCK_BYTES,
    MAX_SECRETS_BLOCK_BYTES,
};
use overhead_model::frame::{Frame, LinkType};
use std::io;

/// The type of a section header block, the same in both byte orders.
pub(super) const MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;
const DECRYPTION_SECRETS: u32 = 10;

/// "TLSK": a TLS key log.
const TLS_KEY_LOG: u32 = 0x544c_534b;

const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const MAJOR: u16 = 1;
// Codes of options.
const COMMENT: u16 = 1;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const IF_TSOFFSET: u16 = 14;
const ISB_IFDROP: u16 = 5;
const ISB_OSDROP: u16 = 7;
/// Block type and both lengths.
const SMALLEST_BLOCK: u32 = 12;
/// Microseconds, the format's default.
const DEFAULT_RESOLUTION: u8 = 6;
const SHORT_PACKET: &str = "a packet block too short for its fields";

#[derive(Default)]
pub(super) struct PcapngReader {
    order: ByteOrder,
    pub(super) facts: FileFacts,
    clocks: Vec<InterfaceClock>,
    /// Index of the current section's first interface.
    section: usize,
    /// Time of the last frame, for frames without one.
    time_ns: u64,
}

#[derive(Clone, Copy)]
struct BlockHeader {
    kind: u32,
    bytes: u32,
}

impl PcapngReader {
    /// Reads the first section header. Returns what is wrong if it cannot be read.
    pub(super) fn open(&mut self, window: &mut InputWindow) -> io::Result<Option<CutTail>> {
        Ok(if let Some(ReadOutcome::End(cut)) = self.block(window)? { cut } else { None })
    }

    /// Returns the first frame in `bytes` and the rest after it, if it is a complete enhanced packet block. Anything
    /// else, and any damage, is left to [`PcapngReader::step`].
    #[inline]
    pub(super) fn buffered<'a>(&mut self, bytes: &'a [u8]) -> Option<(Frame<'a>, &'a [u8])> {
        if self.order.u32(bytes, 0)? != ENHANCED_PACKET {
            return None;
        }
        let len = self.order.u32(bytes, 4)?;
        if len > MAX_PACKET_BLOCK_BYTES || !len.is_multiple_of(4) {
            return None;
        }
        let (block, rest) = bytes.split_at_checked(len as usize)?;
        if self.order.u32(block, block.len().checked_sub(4)?)? != len {
            return None;
        }
        let frame = self.timed_packet(block, self.order.u32(block, 8)?).ok()?;
        self.time_ns = frame.time_ns;
        Some((frame.frame(block), rest))
    }

    pub(super) fn step(&mut self, window: &mut InputWindow) -> io::Result<ReadOutcome> {
        loop {
            if let Some(step) = self.block(window)? {
                return Ok(step);
            }
        }
    }

    /// Reads one block; `None` unless it was a packet.
    fn block(&mut self, window: &mut InputWindow) -> io::Result<Option<ReadOutcome>> {
        if !window.need(SMALLEST_BLOCK as usize)? {
            return Ok(Some(window.end(u64::from(SMALLEST_BLOCK))));
        }
        let head = match self.head(window.bytes()) {
            Ok(head) => head,
            Err(damage) => return Ok(Some(window.damaged(damage))),
        };
        let limit = match head.kind {
            OBSOLETE_PACKET | SIMPLE_PACKET | ENHANCED_PACKET => MAX_PACKET_BLOCK_BYTES,
            SECTION_HEADER | INTERFACE_DESCRIPTION | INTERFACE_STATISTICS => MAX_DESCRIPTION_BLOCK_BYTES,
            DECRYPTION_SECRETS if head.bytes <= MAX_SECRETS_BLOCK_BYTES => MAX_SECRETS_BLOCK_BYTES,
            _ => return self.skip(window, head),
        };
        if head.bytes > limit {
            let text = format!("a block of {} bytes, where {limit} is the limit for its type", head.bytes);
            return Ok(Some(window.damaged(text)));
        }
        if !window.need(head.bytes as usize)? {
            return Ok(Some(window.end(u64::from(head.bytes))));
        }
        Ok(self.whole_block(window, head))
    }

    /// Reads a block that is completely in the window.
    fn whole_block(&mut self, window: &mut InputWindow, head: BlockHeader) -> Option<ReadOutcome> {
        let block = window.bytes().get(..head.bytes as usize).unwrap_or_default();
        if self.order.u32(block, block.len() - 4) != Some(head.bytes) {
            return Some(window.damaged("a block whose two lengths differ"));
        }
        let described = match head.kind {
            SECTION_HEADER => self.section_header(block),
            INTERFACE_DESCRIPTION => self.interface_description(block),
            INTERFACE_STATISTICS => self.interface_statistics(block),
            DECRYPTION_SECRETS => {
                self.decryption_secrets(block);
                Ok(())
            }
            kind => match self.packet(kind, block) {
                Ok(frame) => {
                    self.time_ns = frame.time_ns;
                    return Some(ReadOutcome::Frame(frame));
                }
                Err(damage) => Err(damage),
            },
        };
        match described {
            Ok(()) => {
                window.consume(head.bytes as usize);
                None
            }
            Err(damage) => Some(window.damaged(damage)),
        }
    }

    /// Reads a block's type and length. A section header brings its own byte order.
    fn head(&mut self, bytes: &[u8]) -> Result<BlockHeader, String> {
        if bytes.starts_with(&MAGIC) {
            self.order = [ByteOrder::Little, ByteOrder::Big]
                .into_iter()
                .find(|order| order.u32(bytes, 8) == Some(BYTE_ORDER))
                .ok_or("a section header without the byte-order magic")?;
        }
        let kind = self.order.u32(bytes, 0).unwrap_or_default();
        let bytes = self.order.u32(bytes, 4).unwrap_or_default();
        if bytes < SMALLEST_BLOCK || !bytes.is_multiple_of(4) {
            return Err(format!("a block length of {bytes}"));
        }
        Ok(BlockHeader { kind, bytes })
    }

    /// Skips a block of a type without packets, whatever its length.
    fn skip(&mut self, window: &mut InputWindow, head: BlockHeader) -> io::Result<Option<ReadOutcome>> {
        let offset = window.offset;
        if !window.skip(u64::from(head.bytes) - 4)? || !window.need(4)? {
            let there = window.offset + window.bytes().len() as u64 - offset;
            return Ok(Some(moved_back(window.end(u64::from(head.bytes)), offset, there, head.bytes)));
        }
        if self.order.u32(window.bytes(), 0) != Some(head.bytes) {
            return Ok(Some(window.damaged("a block whose two lengths differ")));
        }
        window.consume(4);
        Ok(None)
    }

    /// Section 4.1 of the draft.
    fn section_header(&mut self, block: &[u8]) -> Result<(), String> {
        let options = options(block, 24, "a section header")?;
        let [major, minor] = [12, 14].map(|at| self.order.u16(block, at).unwrap_or_default());
        if major != MAJOR {
            return Err(format!("pcapng version {major}.{minor}"));
        }
        if self.facts.comment.is_none() {
            let comment = self.option(options, COMMENT).map(String::from_utf8_lossy);
            self.facts.comment = Some(comment.unwrap_or_default().into_owned());
        }
        self.section = self.facts.interfaces.len();
        Ok(())
    }

    /// Section 4.2.
    fn interface_description(&mut self, block: &[u8]) -> Result<(), String> {
        if self.facts.interfaces.len() >= MAX_INTERFACES {
            return Err(format!("more than {MAX_INTERFACES} interfaces"));
        }
        let options = options(block, 16, "an interface description")?;
        let resolution = self.option(options, IF_TSRESOL).and_then(|value| value.first().copied());
        let offset_s = self.option(options, IF_TSOFFSET).and_then(|value| self.order.u64(value, 0));
        let resolution = resolution.unwrap_or(DEFAULT_RESOLUTION);
        self.clocks.push(InterfaceClock::new(resolution, offset_s.unwrap_or(0).cast_signed()));
        let link = LinkType(self.order.u16(block, 8).unwrap_or_default());
        let snaplen = self.order.u32(block, 12).unwrap_or_default();
        self.facts.interfaces.push(FileInterface { name: self.option(options, IF_NAME).map(name), link, snaplen });
        Ok(())
    }

    /// Section 4.6. The counts run from the start of the capture, so an interface's last block counts.
    fn interface_statistics(&mut self, block: &[u8]) -> Result<(), String> {
        let options = options(block, 20, "an interface statistics block")?;
        let interface = self.interface(self.order.u32(block, 8).unwrap_or_default())?;
        let count = |code| self.option(options, code).and_then(|value| self.order.u64(value, 0));
        let drops = [ISB_IFDROP, ISB_OSDROP].map(count);
        if drops.iter().any(Option::is_some) {
            self.facts.drops.insert(interface, drops.into_iter().flatten().fold(0, u64::saturating_add));
        }
        Ok(())
    }

    /// Section 4.7: type of the secrets u32, length u32, secrets, options. Ignores errors: frames do not need it.
    fn decryption_secrets(&self, block: &[u8]) {
        let length = self.order.u32(block, 12).unwrap_or(u32::MAX) as usize;
        let body = block.get(16..block.len() - 4).unwrap_or_default();
        if let Some(secrets) = body.get(..length)
            && self.order.u32(block, 8) == Some(TLS_KEY_LOG)
        {
            self.facts.secrets.add(secrets);
        }
    }

    fn packet(&self, kind: u32, block: &[u8]) -> Result<FrameRecord, String> {
        match kind {
            ENHANCED_PACKET => self.timed_packet(block, self.order.u32(block, 8).ok_or(SHORT_PACKET)?),
            // Appendix A: like the enhanced packet, but its first field is two: interface u16, drops u16.
            OBSOLETE_PACKET => self.timed_packet(block, self.order.u16(block, 8).ok_or(SHORT_PACKET)?.into()),
            _ => self.simple_packet(block),
        }
    }

    /// Section 4.3: interface u32, time high u32, time low u32, captured u32, original u32, data, options.
    fn timed_packet(&self, block: &[u8], interface: u32) -> Result<FrameRecord, String> {
        let field = |at| self.order.u32(block, at).unwrap_or_default();
        let interface = self.interface(interface)?;
        let clock = self.clocks.get(interface).copied().ok_or("an interface without clock")?;
        let time_ns = clock.ns(u64::from(field(12)) << 32 | u64::from(field(16)));
        self.frame(block, interface, 28, [field(20), field(24)]).map(|frame| FrameRecord { time_ns, ..frame })
    }

    /// Section 4.4: original u32, data; interface 0's snap length gives the captured length.
    fn simple_packet(&self, block: &[u8]) -> Result<FrameRecord, String> {
        let original = self.order.u32(block, 8).ok_or(SHORT_PACKET)?;
        let interface = self.interface(0)?;
        let snaplen = self.facts.interfaces.get(interface).map_or(0, |described| described.snaplen);
        let captured = if snaplen == 0 { original } else { original.min(snaplen) };
        let captured = captured.min(block.len().checked_sub(16).ok_or(SHORT_PACKET)? as u32);
        self.frame(block, interface, 12, [captured, original])
    }

    /// Returns a frame whose data, with these captured and original lengths, starts at offset `at` of the block.
    fn frame(&self, block: &[u8], of: usize, at: usize, [captured, original]: [u32; 2]) -> Result<FrameRecord, String> {
        let end = at.saturating_add(captured as usize);
        if end > block.len() - 4 {
            return Err(format!("a packet of {captured} bytes in a block of {}", block.len()));
        }
        let link = self.facts.interfaces.get(of).ok_or("an interface without link type")?.link;
        Ok(FrameRecord {
            time_ns: self.time_ns,
            link,
            interface: of as u32,
            original_len: original,
            data: at..end,
            record: block.len(),
        })
    }

    /// Returns the first value of an option before the end-of-options mark, or before one that is cut.
    fn option<'a>(&self, mut options: &'a [u8], code: u16) -> Option<&'a [u8]> {
        loop {
            let (found, length) = (self.order.u16(options, 0)?, usize::from(self.order.u16(options, 2)?));
            let (value, rest) = options.get(4..)?.split_at_checked(length.next_multiple_of(4))?;
            match found {
                0 => return None,
                found if found == code => return value.get(..length),
                _ => options = rest,
            }
        }
    }

    /// Converts an interface number of the current section to an index over all sections.
    fn interface(&self, number: u32) -> Result<usize, String> {
        let index = self.section.saturating_add(number as usize);
        if index < self.facts.interfaces.len() {
            Ok(index)
        } else {
            Err(format!("interface {number}, which is not described"))
        }
    }
}

/// Returns the options of a block, which follow its fields.
fn options<'a>(block: &'a [u8], begin: usize, what: &str) -> Result<&'a [u8], String> {
    block.get(begin..block.len() - 4).ok_or_else(|| format!("{what} that cannot be read"))
}

fn name(value: &[u8]) -> String {
    let value = value.get(..MAX_INTERFACE_NAME_BYTES).unwrap_or(value);
    String::from_utf8_lossy(value).trim_end_matches('\0').to_owned()
}

/// Relocates an end found while skipping to the start of the skipped block.
fn moved_back(end: ReadOutcome, offset: u64, there: u64, wanted: u32) -> ReadOutcome {
    use super::CutReason;
    let reason = match end {
        ReadOutcome::End(Some(CutTail { reason: reason @ CutReason::Compression(_), .. })) => reason,
        ReadOutcome::End(_) | ReadOutcome::Frame(_) => CutReason::Incomplete { wanted: u64::from(wanted) },
    };
    ReadOutcome::End(Some(CutTail { offset, bytes: Some(there), reason }))
}
