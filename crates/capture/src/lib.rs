//! Reads frames from capture files and network interfaces, and writes pcapng files.
//!
//! - [`FrameSource`]: the interface of all input; [`NextFrame`] and [`SourceError`] are its results.
//! - [`FileSource`] reads pcap and pcapng without libpcap.
//! - `live::LiveSource` (feature `live`) captures on an interface by libpcap, with a [`KernelFilter`].
//! - [`PcapngWriter`] writes frames. [`limits`] lists all limits.
//!
//! A frame borrows its bytes from the source until the next call, so nothing is allocated or copied per frame.

mod error;
mod file;
mod filter;
pub mod limits;
#[cfg(feature = "live")]
pub mod live;
mod totals;
mod write;

pub use error::SourceError;
pub use file::{CutReason, CutTail, DecryptionSecrets, FileEnd, FileInterface, FileSource};
pub use filter::KernelFilter;
pub use totals::{KernelStats, LiveTotals};
pub use write::{PcapngWriter, WriteError, WriterOptions, padded_key_log};

use overhead_model::frame::Frame;
use overhead_model::record::Measured;

/// A file or live capture that yields frames in the order of capture.
pub trait FrameSource {
    /// Returns the next frame, borrowed until the next call.
    ///
    /// # Errors
    ///
    /// [`SourceError`] if the source fails. A cut or damaged end of a file is not an error: see [`FileSource::end`].
    fn next_frame(&mut self) -> Result<NextFrame<'_>, SourceError>;

    /// Returns how many packets the kernel received and dropped; unavailable for files.
    fn kernel(&mut self) -> Measured<KernelStats>;
}

/// The outcome of asking a source for a frame.
#[derive(Clone, Copy, Debug)]
pub enum NextFrame<'a> {
    /// Borrowed from the source's buffer.
    Frame(Frame<'a>),
    /// No frame at the moment (live sources only): hand on batches, check the time, and call again.
    Idle,
    /// The source yields no more frames.
    End,
}

impl<'a> NextFrame<'a> {
    /// Returns the frame, if there is one.
    pub fn frame(self) -> Option<Frame<'a>> {
        if let Self::Frame(frame) = self { Some(frame) } else { None }
    }
}
