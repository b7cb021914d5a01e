//! Decompresses the bodies of `OP_COMPRESSED`.

use overhead_decode::{Codec, Note};
use std::cell::RefCell;

/// The `compressorId` of an uncompressed body.
pub(super) const NOOP: u8 = 0;
const SNAPPY: u8 = 1;
const ZLIB: u8 = 2;
const ZSTD: u8 = 3;

/// Bytes of the buffer kept between bodies.
const KEPT: usize = 256 << 10;

thread_local! {
    // Decompressor state takes hundreds of kilobytes: too much per connection, too slow to create per message. Nothing
    // of a body outlives its decompression.
    static SCRATCH: RefCell<BodyDecompressor> = RefCell::default();
}

/// Calls `then` with the decompressed body. Passes `None` if the body does not decompress to exactly `size` bytes,
/// exceeds the limits, or uses an unknown compressor.
pub(super) fn with_plain<T>(compressor: u8, body: &[u8], size: usize, then: impl FnOnce(Option<&[u8]>) -> T) -> T {
    SCRATCH.with(|scratch| match scratch.try_borrow_mut() {
        Ok(mut scratch) => {
            let result = then(scratch.plain(compressor, body, size));
            scratch.settle();
            result
        }
        Err(_) => then(None),
    })
}

pub(super) fn why_not(compressor: u8, body: &[u8], size: usize) -> Note {
    // A body that was not captured completely is empty here.
    let refused = codec(compressor).filter(|_| !body.is_empty()).and_then(|codec| codec.refusal(body.len(), size));
    refused.unwrap_or(Note::UndecodedMessage)
}

fn codec(compressor: u8) -> Option<Codec> {
    match compressor {
        SNAPPY => Some(Codec::Snappy),
        ZLIB => Some(Codec::Zlib),
        ZSTD => Some(Codec::Zstd),
        _ => None,
    }
}

/// Decompresses bodies into reused memory.
#[derive(Default)]
struct BodyDecompressor {
    plain: Vec<u8>,
    zlib: Option<flate2::Decompress>,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
}

impl BodyDecompressor {
    fn plain(&mut self, compressor: u8, body: &[u8], size: usize) -> Option<&[u8]> {
        if codec(compressor)?.refusal(body.len(), size).is_some() {
            return None;
        }
        self.plain.clear();
        // Without any room, zlib would not report the end of its input.
        self.plain.try_reserve(size.max(1)).ok()?;
        match compressor {
            SNAPPY => self.snappy(body, size)?,
            ZLIB => self.zlib(body)?,
            ZSTD => self.zstd(body, size)?,
            _ => return None,
        }
        (self.plain.len() == size).then_some(self.plain.as_slice())
    }

    /// Releases the memory of an unusually long body.
    fn settle(&mut self) {
        if self.plain.capacity() > KEPT {
            self.plain = Vec::new();
        }
    }

    fn snappy(&mut self, body: &[u8], size: usize) -> Option<()> {
        if snap::raw::decompress_len(body).ok()? != size {
            return None;
        }
        self.plain.resize(size, 0);
        snap::raw::Decoder::new().decompress(body, &mut self.plain).ok()?;
        Some(())
    }

    fn zlib(&mut self, body: &[u8]) -> Option<()> {
        let zlib = self.zlib.get_or_insert_with(|| flate2::Decompress::new(true));
        zlib.reset(true);
        // Fills the reserved memory and no more.
        let status = zlib.decompress_vec(body, &mut self.plain, flate2::FlushDecompress::Finish);
        matches!(status, Ok(flate2::Status::StreamEnd)).then_some(())
    }

    fn zstd(&mut self, body: &[u8], size: usize) -> Option<()> {
        if self.zstd.is_none() {
            self.zstd = zstd::bulk::Decompressor::new().ok();
        }
        self.plain.resize(size, 0);
        let written = self.zstd.as_mut()?.decompress_to_buffer(body, self.plain.as_mut_slice()).ok()?;
        self.plain.truncate(written);
        Some(())
    }
}
