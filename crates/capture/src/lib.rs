//! The source room: a capture file, standard input or a network interface becomes a sequence of [`Frame`]s, and frames
//! become a pcapng file.
//!
//! Everything that does I/O stands behind [`FrameSource`]. [`FileSource`] reads pcap and pcapng without libpcap;
//! `live::LiveSource` (feature `live`) reads an interface through libpcap; [`PcapngWriter`] writes what either delivers.
//! A frame borrows its bytes from the source until the next call, so nothing is allocated or copied per frame here.

mod error;
mod file;
mod filter;
pub mod limits;
#[cfg(feature = "live")]
pub mod live;
mod totals;
mod write;

pub use error::SourceError;
pub use file::{
    CaptureFormat, CutReason, CutTail, DecryptionSecrets, FileCompression, FileEnd, FileInterface, FileSource,
};
pub use filter::KernelFilter;
pub use totals::{KernelStats, LiveTotals};
pub use write::{PcapngWriter, WriteError, WriterOptions};

use overhead_model::frame::Frame;
use overhead_model::record::Measured;

/// Where frames come from.
pub trait FrameSource {
    /// The next frame, borrowed until the next call.
    ///
    /// # Errors
    ///
    /// [`SourceError`] when the source fails under way. What a file lacks at its end (a cut or damaged tail) is not an
    /// error: see [`FileSource::end`].
    fn next_frame(&mut self) -> Result<NextFrame<'_>, SourceError>;

    /// Returns what the kernel says it received and dropped; unavailable for files.
    fn kernel(&mut self) -> Measured<KernelStats>;
}

/// What [`FrameSource::next_frame`] has to say.
#[derive(Clone, Copy, Debug)]
pub enum NextFrame<'a> {
    /// A frame.
    Frame(Frame<'a>),
    /// No frame for now (live sources only): hand on what was batched, look at the clock, and call again.
    Idle,
    /// There will be no more frames.
    End,
}

impl<'a> NextFrame<'a> {
    /// The frame, if this is one.
    pub fn frame(self) -> Option<Frame<'a>> {
        match self {
            Self::Frame(frame) => Some(frame),
            Self::Idle | Self::End => None,
        }
    }
}
