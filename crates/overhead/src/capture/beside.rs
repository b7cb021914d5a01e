//! An interface and UNIX sockets as one source, for clients that use either.

use super::input::LiveInput;
use super::streams::StreamSource;
use anyhow::Result;
use overhead_capture::live::{LiveSource, StopHandle};
use overhead_capture::{FrameSource, KernelStats, LiveTotals, NextFrame, SourceError};
use overhead_model::Measured;

/// Packets between looks at the sockets.
const BETWEEN: u32 = 64;
/// Pieces that may wait after a look that found this many are looked for before the interface is asked again, which may wait.
const MANY: usize = 1024;
/// So often in a row at most.
const ROUNDS: u32 = 16;

/// The packets of an interface, and what is written to UNIX sockets among them, as a second interface.
pub struct BesideSource {
    packets: LiveSource,
    streams: StreamSource,
    /// Packets until the sockets are looked at.
    until_look: u32,
    /// Looks until the interface is asked.
    rounds: u32,
    /// There are no more packets.
    is_over: bool,
    totals: LiveTotals,
}

impl BesideSource {
    /// Puts both together. The handle that stops the packets stops the streams.
    pub fn new(packets: LiveSource, streams: StreamSource) -> Self {
        Self { packets, streams, until_look: 0, rounds: ROUNDS, is_over: false, totals: LiveTotals::default() }
    }

    /// Polls the sockets.
    fn look(&mut self) -> Result<(), SourceError> {
        self.until_look = BETWEEN;
        if self.streams.fill()? >= MANY && self.rounds > 0 {
            self.rounds -= 1;
            self.until_look = 0;
        } else {
            self.rounds = ROUNDS;
        }
        Ok(())
    }
}

impl FrameSource for BesideSource {
    fn next_frame(&mut self) -> Result<NextFrame<'_>, SourceError> {
        if self.is_over {
            // The streams end last.
            let next = self.streams.next_frame()?;
            if let NextFrame::Frame(frame) = &next {
                self.totals.add(frame);
            }
            return Ok(next);
        }
        if !self.streams.has_ready() && self.until_look == 0 {
            self.look()?;
        }
        if self.streams.has_ready() {
            let next = self.streams.hand_out();
            if let NextFrame::Frame(frame) = &next {
                self.totals.add(frame);
            }
            return Ok(next);
        }
        self.until_look = self.until_look.saturating_sub(1);
        match self.packets.next_frame()? {
            NextFrame::Frame(frame) => {
                self.totals.add(&frame);
                Ok(NextFrame::Frame(frame))
            }
            NextFrame::Idle => {
                self.until_look = 0;
                Ok(NextFrame::Idle)
            }
            NextFrame::End => {
                self.is_over = true;
                Ok(NextFrame::Idle)
            }
        }
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

    /// Pieces outside of a window are left out later.
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
