//! Decompresses bodies into reused memory, within the bounds of their formats and the budget of the run.

use overhead_decode::{Codec, Expansion, Note};
use std::cell::RefCell;

/// Bytes of the buffer kept between bodies.
const KEPT: usize = 256 << 10;

thread_local! {
    // Decompressor state takes hundreds of kilobytes: too much per connection, too slow to create per message. Nothing
    // of a body outlives its decompression.
    static DECOMPRESSOR: RefCell<Decompressor> = RefCell::default();
    static PLAIN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A format, compressed bytes, and the number of bytes that they decompress to.
type Body<'a> = (Codec, &'a [u8], usize);

/// Calls `then` with the bytes that `body` decompresses to, or with the reason why there are none.
pub(crate) fn with_plain<T>(body: Body<'_>, expansion: &Expansion, then: impl FnOnce(Result<&[u8], Note>) -> T) -> T {
    PLAIN.with(|plain| match plain.try_borrow_mut() {
        Ok(mut plain) => {
            plain.clear();
            let done = append_plain(body, expansion, &mut plain);
            let result = then(done.map(|()| plain.as_slice()));
            if plain.capacity() > KEPT {
                *plain = Vec::new();
            }
            result
        }
        Err(_) => then(Err(Note::UndecodedMessage)),
    })
}

/// Appends what `body` decompresses to. Appends nothing for a reason.
pub(crate) fn append_plain(body: Body<'_>, expansion: &Expansion, plain: &mut Vec<u8>) -> Result<(), Note> {
    let (codec, packed, size) = body;
    if let Some(note) = codec.refusal(packed.len(), size) {
        return Err(note);
    }
    if !expansion.allows(packed.len(), size) {
        return Err(Note::Expansion);
    }
    let before = plain.len();
    let done = DECOMPRESSOR.with_borrow_mut(|decompressor| decompressor.append(body, plain));
    done.filter(|()| plain.len() == before + size).ok_or_else(|| {
        plain.truncate(before);
        Note::UndecodedMessage
    })
}

#[derive(Default)]
struct Decompressor {
    zlib: Option<flate2::Decompress>,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
}

impl Decompressor {
    fn append(&mut self, (codec, body, size): Body<'_>, plain: &mut Vec<u8>) -> Option<()> {
        // Without any room, zlib would not report the end of its input.
        plain.try_reserve(size.max(1)).ok()?;
        if codec == Codec::Zlib {
            let zlib = self.zlib.get_or_insert_with(|| flate2::Decompress::new(true));
            zlib.reset(true);
            // Fills the reserved memory and no more.
            let status = zlib.decompress_vec(body, plain, flate2::FlushDecompress::Finish);
            return matches!(status, Ok(flate2::Status::StreamEnd)).then_some(());
        }
        if self.zstd.is_none() && codec == Codec::Zstd {
            self.zstd = zstd::bulk::Decompressor::new().ok();
        }
        let before = plain.len();
        plain.resize(before + size, 0);
        let room = plain.get_mut(before..)?;
        let written = match codec {
            Codec::Zstd => self.zstd.as_mut()?.decompress_to_buffer(body, room).ok()?,
            Codec::Snappy => snap::raw::Decoder::new().decompress(body, room).ok()?,
            _ => lz4_flex::block::decompress_into(body, room).ok()?,
        };
        plain.truncate(before + written);
        Some(())
    }
}
