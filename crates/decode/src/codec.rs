//! Bounds on compression formats. They let a decoder check a claimed length before it allocates or decompresses.

use super::Note;
use crate::limits;
use overhead_model::enum_with;

enum_with! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Codec, name: &'static str {
        /// DEFLATE in a zlib frame (RFC 1950 and 1951).
        Zlib = "zlib",
        /// Zstandard (RFC 8878).
        Zstd = "zstd",
        /// Snappy's raw format.
        Snappy = "Snappy",
        /// LZ4's block format.
        Lz4 = "LZ4",
    }
}

impl Codec {
    /// Returns the largest number of bytes that one compressed byte can expand to.
    pub const fn expansion(self) -> usize {
        match self {
            Self::Zlib => limits::EXPANSION_ZLIB,
            Self::Zstd => limits::EXPANSION_ZSTD,
            Self::Snappy => limits::EXPANSION_SNAPPY,
            Self::Lz4 => limits::EXPANSION_LZ4,
        }
    }

    /// Returns why `body` bytes cannot decompress to `plain` bytes, or `None` if they can.
    pub fn refusal(self, body: usize, plain: usize) -> Option<Note> {
        if plain > body.saturating_mul(self.expansion()) {
            Some(Note::Implausible(self))
        } else if plain > limits::DECOMPRESSED {
            Some(Note::LongBody)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: usize = 32 << 20;

    #[test]
    fn no_codec_does_better_than_its_bound_and_the_bounds_are_near() {
        let plain = vec![0; PLAIN];
        let mut zlib = Vec::with_capacity(1 << 20);
        let mut state = flate2::Compress::new(flate2::Compression::best(), true);
        state.compress_vec(&plain, &mut zlib, flate2::FlushCompress::Finish).unwrap();
        let packed = [
            (Codec::Zlib, zlib.len()),
            (Codec::Zstd, zstd::bulk::compress(&plain, 19).unwrap().len()),
            (Codec::Snappy, snap::raw::Encoder::new().compress_vec(&plain).unwrap().len()),
            (Codec::Lz4, lz4_flex::block::compress(&plain).len()),
        ];
        for (codec, body) in packed {
            assert_eq!(codec.refusal(body, PLAIN), None, "{codec:?}: {body} bytes");
            assert!(PLAIN / body >= codec.expansion() / 2, "{codec:?}: {} times", PLAIN / body);
        }
    }

    #[test]
    fn what_is_beyond_a_bound_is_refused_with_its_name() {
        assert_eq!(Codec::Zlib.refusal(100, 103_200), None);
        assert_eq!(Codec::Zlib.refusal(100, 103_201), Some(Note::Implausible(Codec::Zlib)));
        assert_eq!(Codec::Zstd.refusal(100, 103_201), None);
        assert_eq!(Codec::Zstd.refusal(1 << 20, (64 << 20) + 1), Some(Note::LongBody));
    }
}
