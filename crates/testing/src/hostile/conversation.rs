//! Arbitrary bytes as a conversation, and back.
//!
//! ```text
//! options  turn  turn  …
//! turn:    F5 control [length]  bytes up to the next F5 (F5 F5 is the byte F5)
//! options: bit 0 mid-stream, bits 1-2 how the second reading is cut, bit 3 turns in CQL v5 segments,
//!          bit 4 segments with the header for compression, bit 5 not self-contained,
//!          bits 6-7 with what other content it is read again
//! control: bit 0 side, bits 1-2 length of a gap before the bytes: none, u8, u16 LE, 2^33
//! ```
//!
//! A mark between turns, and not their lengths, keeps the rest in place when a fuzzer inserts or deletes a byte.

use overhead_model::Side;
use std::ops::Range;

const MARK: u8 = 0xf5;

/// Bytes sent by one side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Captured bytes.
    Bytes(Side, Vec<u8>),
    /// The number of bytes that were not captured.
    Opaque(Side, u64),
}

impl Turn {
    /// Bytes on the wire.
    pub fn len(&self) -> u64 {
        match self {
            Self::Bytes(_, bytes) => bytes.len() as u64,
            Self::Opaque(_, n) => *n,
        }
    }

    pub fn side(&self) -> Side {
        match self {
            Self::Bytes(side, _) | Self::Opaque(side, _) => *side,
        }
    }
}

/// Where a conversation is cut when it is played a second time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// It is played only once.
    Never,
    /// In the middle of each turn.
    Half,
    /// Every seven bytes, also within gaps.
    Seven,
    /// At every byte.
    Bytewise,
}

/// How turns are wrapped in segments of CQL v5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segments {
    /// Whether headers have a decompressed length, which is the first two bytes of the turn.
    pub compression: bool,
    /// Whether segments hold whole messages.
    pub self_contained: bool,
}

/// A conversation, and how to play it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conversation {
    pub mid_stream: bool,
    pub cut: Cut,
    /// Wraps turns of CQL in v5 segments.
    pub segments: Option<Segments>,
    /// Which of four pairs of rounds a fuzzer plays with other free bytes.
    pub other_content: u8,
    pub turns: Vec<Turn>,
}

impl Conversation {
    /// Decodes a conversation; any bytes are valid.
    pub fn decode(input: &[u8]) -> Self {
        let (&options, mut rest) = input.split_first().unwrap_or((&0, &[]));
        let cut = match options >> 1 & 3 {
            0 => Cut::Never,
            1 => Cut::Half,
            2 => Cut::Seven,
            _ => Cut::Bytewise,
        };
        let mut turns = Vec::new();
        let mut side = Side::Request;
        let mut bytes = Vec::new();
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            let control = if byte == MARK { take(&mut rest).unwrap_or(MARK) } else { MARK };
            if control == MARK {
                bytes.push(byte);
                continue;
            }
            end_turn(&mut turns, side, &mut bytes);
            side = if control & 1 == 0 { Side::Request } else { Side::Response };
            let gap = match control >> 1 & 3 {
                0 => 0,
                1 => take(&mut rest).map_or(0, u64::from),
                2 => u64::from(take(&mut rest).unwrap_or(0)) | u64::from(take(&mut rest).unwrap_or(0)) << 8,
                _ => 1 << 33,
            };
            if gap > 0 {
                turns.push(Turn::Opaque(side, gap));
            }
        }
        end_turn(&mut turns, side, &mut bytes);
        let segments = Segments { compression: options & 16 != 0, self_contained: options & 32 == 0 };
        let segments = (options & 8 != 0).then_some(segments);
        Self { mid_stream: options & 1 != 0, cut, segments, other_content: options >> 6, turns }
    }

    /// Returns the two rounds of `overhead_testing::free` that `other_content` selects.
    pub fn rounds(&self) -> Range<u64> {
        let first = 2 * u64::from(self.other_content);
        first..first + 2
    }

    /// Returns bytes that [`Conversation::decode`] turns into this conversation. Gaps must be shorter than 64 KiB.
    pub fn encode(&self) -> Vec<u8> {
        let cut = match self.cut {
            Cut::Never => 0,
            Cut::Half => 2,
            Cut::Seven => 4,
            Cut::Bytewise => 6,
        };
        let segments =
            self.segments.map_or(0, |of| 8 | u8::from(of.compression) << 4 | u8::from(!of.self_contained) << 5);
        let mut input = vec![u8::from(self.mid_stream) | cut | segments | self.other_content << 6];
        for turn in &self.turns {
            match turn {
                Turn::Opaque(side, gap) => {
                    input.extend([MARK, *side as u8 | 4]);
                    input.extend((*gap as u16).to_le_bytes());
                }
                Turn::Bytes(side, bytes) => {
                    input.extend([MARK, *side as u8]);
                    for &byte in bytes {
                        input.push(byte);
                        if byte == MARK {
                            input.push(MARK);
                        }
                    }
                }
            }
        }
        input
    }
}

fn take(rest: &mut &[u8]) -> Option<u8> {
    let (&byte, after) = rest.split_first()?;
    *rest = after;
    Some(byte)
}

fn end_turn(turns: &mut Vec<Turn>, side: Side, bytes: &mut Vec<u8>) {
    if !bytes.is_empty() {
        turns.push(Turn::Bytes(side, std::mem::take(bytes)));
    }
}

impl Segments {
    /// Wraps `turn` in one segment (native protocol v5, section 2).
    pub fn wrap(self, turn: &[u8]) -> Vec<u8> {
        const LONGEST: usize = 0x1_ffff;
        let (length, payload) = match turn {
            [low, high, payload @ ..] if self.compression => (u64::from(*low) | u64::from(*high) << 8, payload),
            _ => (0, turn),
        };
        let payload = payload.get(..payload.len().min(LONGEST)).unwrap_or_default();
        let flag = u64::from(self.self_contained);
        let (bits, len) = if self.compression { (length << 17 | flag << 34, 5) } else { (flag << 17, 3) };
        let bits = (bits | payload.len() as u64).to_le_bytes();
        let header = bits.get(..len).unwrap_or_default();
        let mut crc = crc32fast::Hasher::new();
        crc.update(&[0xfa, 0x2d, 0x55, 0xca]);
        crc.update(payload);
        let [a, b, c, _] = crc24(header).to_le_bytes();
        [header, &[a, b, c], payload, &crc.finalize().to_le_bytes()].concat()
    }
}

fn crc24(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x0087_5060, |sum, &byte| {
        (0..8).fold(sum ^ u32::from(byte) << 16, |sum, _| {
            let sum = sum << 1;
            if sum & 0x0100_0000 == 0 { sum } else { sum ^ 0x0197_4f0b }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let conversation = Conversation {
            mid_stream: true,
            cut: Cut::Seven,
            segments: Some(Segments { compression: true, self_contained: false }),
            other_content: 3,
            turns: vec![
                Turn::Bytes(Side::Request, vec![1, MARK, 2, MARK]),
                Turn::Opaque(Side::Response, 700),
                Turn::Bytes(Side::Response, vec![MARK]),
            ],
        };
        assert_eq!(Conversation::decode(&conversation.encode()), conversation);
    }
}
