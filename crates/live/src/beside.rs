//! Sources of a live capture: an interface, or one combined with UNIX sockets, for clients that use either.

use crate::streams::StreamSource;
use anyhow::Result;
use overhead_capture::live::{LiveSource, StopHandle};
use overhead_capture::{FrameSource, KernelStats, LiveTotals, NextFrame, SourceError};
use overhead_model::Measured;
use overhead_report::text::counted;

/// Packets between two polls of the sockets.
const BETWEEN: u32 = 64;
/// A poll that finds this many pieces is repeated before the interface is read, because reading the interface may
/// block.
const MANY: usize = 1024;
/// Maximum number of such polls in a row.
const ROUNDS: u32 = 16;

/// The packets of an interface, merged with the bytes written to UNIX sockets, which appear as a second interface.
pub struct BesideSource {
    packets: LiveSource,
    streams: StreamSource,
    /// Packets until the next poll of the sockets.
    until_poll: u32,
    /// Polls left before the interface is read.
    rounds: u32,
    /// The interface delivers no more packets.
    is_over: bool,
    pub totals: LiveTotals,
}

impl BesideSource {
    /// Combines both sources. The handle that stops the packets also stops the streams.
    pub fn new(packets: LiveSource, streams: StreamSource) -> Self {
        Self { packets, streams, until_poll: 0, rounds: ROUNDS, is_over: false, totals: LiveTotals::default() }
    }

    fn poll_sockets(&mut self) -> Result<(), SourceError> {
        self.until_poll = BETWEEN;
        if self.streams.fill()? >= MANY && self.rounds > 0 {
            self.rounds -= 1;
            self.until_poll = 0;
        } else {
            self.rounds = ROUNDS;
        }
        Ok(())
    }
}

impl FrameSource for BesideSource {
    fn next_frame(&mut self) -> Result<NextFrame<'_>, SourceError> {
        if !self.is_over && self.until_poll == 0 && !self.streams.has_ready() {
            self.poll_sockets()?;
        }
        let next = if self.is_over {
            // The streams end last.
            self.streams.next_frame()?
        } else if self.streams.has_ready() {
            self.streams.hand_out()
        } else {
            self.until_poll = self.until_poll.saturating_sub(1);
            match self.packets.next_frame()? {
                frame @ NextFrame::Frame(_) => frame,
                NextFrame::Idle => {
                    self.until_poll = 0;
                    NextFrame::Idle
                }
                NextFrame::End => {
                    self.is_over = true;
                    NextFrame::Idle
                }
            }
        };
        if let NextFrame::Frame(frame) = &next {
            self.totals.add(frame);
        }
        Ok(next)
    }

    fn kernel(&mut self) -> Measured<KernelStats> {
        match (self.packets.kernel(), self.streams.kernel()) {
            (Measured::Value(packets), Measured::Value(streams)) => Measured::Value(KernelStats {
                received: packets.received + streams.received,
                dropped: packets.dropped + streams.dropped,
                interface_dropped: packets.interface_dropped,
            }),
            (unavailable @ Measured::Unavailable { .. }, _) | (_, unavailable) => unavailable,
        }
    }
}

impl LiveInput for BesideSource {
    fn stop_handle(&self) -> StopHandle {
        self.packets.stop_handle()
    }

    fn totals(&self) -> &LiveTotals {
        &self.totals
    }

    fn end_window(&mut self) {
        LiveInput::end_window(&mut self.packets);
        self.streams.end_window();
    }

    /// Pieces outside a window are dropped later.
    fn pause(&mut self) {
        LiveInput::pause(&mut self.packets);
    }

    fn resume(&mut self) -> Result<()> {
        LiveInput::resume(&mut self.packets)
    }

    fn losses(&self) -> Vec<String> {
        self.streams.losses()
    }

    fn remarks(&self) -> Vec<String> {
        self.packets.remarks()
    }
}

/// A source that runs until it is stopped.
pub trait LiveInput: FrameSource + Send + 'static {
    /// Returns a handle that stops it.
    fn stop_handle(&self) -> StopHandle;

    /// Returns the totals of the delivered frames.
    fn totals(&self) -> &LiveTotals;

    /// Ends the window: later frames do not count.
    fn end_window(&mut self);

    /// Makes the kernel drop frames until [`LiveInput::resume`], if it can.
    fn pause(&mut self) {}

    /// Makes the kernel deliver frames again.
    fn resume(&mut self) -> Result<()> {
        Ok(())
    }

    /// Returns warnings about lost content, as complete sentences.
    fn losses(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns remarks other than losses, as complete sentences.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }
}

impl LiveInput for LiveSource {
    fn stop_handle(&self) -> StopHandle {
        self.stop_handle()
    }

    fn totals(&self) -> &LiveTotals {
        &self.totals
    }

    fn end_window(&mut self) {
        self.end_window();
    }

    fn pause(&mut self) {
        self.pause();
    }

    fn resume(&mut self) -> Result<()> {
        Ok(self.resume()?)
    }

    fn remarks(&self) -> Vec<String> {
        let times = u64::from(self.times_down());
        let said = || {
            format!(
                "the interface went down {} while it was captured on: there were no frames then, and connections may have \
                 ended or repeated themselves",
                counted(times, "time")
            )
        };
        (times > 0).then(said).into_iter().collect()
    }
}
