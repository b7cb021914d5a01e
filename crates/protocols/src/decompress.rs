//! Decompresses bodies into reused memory, within the bounds of their formats and the budget of the run.

use overhead_decode::{Codec, Expansion, Note};
use std::cell::RefCell;

/// Bytes of the buffer kept between bodies.
const KEPT: usize = 256 << 10;

thread_local! {
    // Decompressor state takes hundreds of kilobytes: too much per connection, too slow to create per message. Nothing
    // of a body outlives its decompression.
    static SCRATCH: RefCell<Decompressor> = RefCell::default();
}

/// Calls `then` with the `size` bytes that `body` decompresses to, or with the reason why there are none.
pub(crate) fn with_plain<T>(
    codec: Codec,
    body: &[u8],
    size: usize,
    expansion: &Expansion,
    then: impl FnOnce(Result<&[u8], Note>) -> T,
) -> T {
    SCRATCH.with(|scratch| match scratch.try_borrow_mut() {
        Ok(mut scratch) => {
            let result = then(scratch.plain(codec, body, size, expansion));
            if scratch.plain.capacity() > KEPT {
                scratch.plain = Vec::new();
            }
            result
        }
        Err(_) => then(Err(Note::UndecodedMessage)),
    })
}

#[derive(Default)]
struct Decompressor {
    plain: Vec<u8>,
    zlib: Option<flate2::Decompress>,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
}

impl Decompressor {
    fn plain(&mut self, codec: Codec, body: &[u8], size: usize, expansion: &Expansion) -> Result<&[u8], Note> {
        if let Some(note) = codec.refusal(body.len(), size) {
            return Err(note);
        }
        if !expansion.allows(body.len(), size) {
            return Err(Note::Expansion);
        }
        self.plain.clear();
        let done = self.decompress(codec, body, size).filter(|()| self.plain.len() == size);
        done.map(|()| self.plain.as_slice()).ok_or(Note::UndecodedMessage)
    }

    fn decompress(&mut self, codec: Codec, body: &[u8], size: usize) -> Option<()> {
        // Without any room, zlib would not report the end of its input.
        self.plain.try_reserve(size.max(1)).ok()?;
        if codec == Codec::Zlib {
            let zlib = self.zlib.get_or_insert_with(|| flate2::Decompress::new(true));
            zlib.reset(true);
            // Fills the reserved memory and no more.
            let status = zlib.decompress_vec(body, &mut self.plain, flate2::FlushDecompress::Finish);
            return matches!(status, Ok(flate2::Status::StreamEnd)).then_some(());
        }
        if self.zstd.is_none() && codec == Codec::Zstd {
            self.zstd = zstd::bulk::Decompressor::new().ok();
        }
        self.plain.resize(size, 0);
        let written = match codec {
            Codec::Zstd => self.zstd.as_mut()?.decompress_to_buffer(body, self.plain.as_mut_slice()).ok()?,
            Codec::Snappy => snap::raw::Decoder::new().decompress(body, &mut self.plain).ok()?,
            _ => lz4_flex::block::decompress_into(body, &mut self.plain).ok()?,
        };
        self.plain.truncate(written);
        Some(())
    }
}
