//! Detects whether the clock for time stamps was set back during the capture. A clock set forward looks like a pause.

use super::SLACK_NS;
use overhead_model::{Frame, LinkType};
use overhead_report::text::counted;
use overhead_report::text::number::duration;

/// Maximum interfaces to check; further ones are ignored.
const INTERFACES: usize = 64;

#[derive(Debug, Default)]
pub struct FrameClocks {
    /// File, interface, and the time of its last frame.
    last: Vec<(usize, u32, u64)>,
    /// Index in `last` of the most recent frame's interface.
    current: usize,
    times: u64,
    by_ns: u64,
}

impl FrameClocks {
    /// Takes in the next frame of a file. Frames of one interface are out of order by less than a step.
    #[inline]
    pub fn frame(&mut self, file: usize, frame: &Frame<'_>) {
        if self.last.get(self.current).is_none_or(|last| (last.0, last.1) != (file, frame.interface)) {
            self.turn_to(file, frame);
        }
        let Some((.., last_ns)) = self.last.get_mut(self.current) else { return };
        let before = std::mem::replace(last_ns, frame.time_ns);
        if frame.time_ns < before && before - frame.time_ns > SLACK_NS {
            self.step(before - frame.time_ns, frame);
        }
    }

    #[cold]
    fn turn_to(&mut self, file: usize, frame: &Frame<'_>) {
        let known = self.last.iter().position(|last| (last.0, last.1) == (file, frame.interface));
        self.current = known.unwrap_or(self.last.len());
        if known.is_none() && self.last.len() < INTERFACES {
            self.last.push((file, frame.interface, 0));
        }
    }

    #[cold]
    fn step(&mut self, back_ns: u64, frame: &Frame<'_>) {
        // Pieces of streams arrive in stream order, not in time order.
        if frame.link != LinkType::UPPER_PDU {
            self.times += 1;
            self.by_ns = self.by_ns.max(back_ns);
        }
    }

    /// Returns a warning if the clock was set back.
    pub fn set_back(&self) -> Option<String> {
        (self.times > 0).then(|| {
            format!(
                "times go back within the capture, {}, by {} at most: the clock was set back, or captures were put together in \
                 another order. The window, rates, and latencies across that are wrong; bytes and counts are right",
                counted(self.times, "time"),
                duration(self.by_ns)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn clocks(frames: &[(usize, u32, u64)]) -> Option<String> {
        let mut clocks = FrameClocks::default();
        for &(file, interface, time_ns) in frames {
            let (link, original_len) = (LinkType::ETHERNET, 1);
            clocks.frame(file, &Frame { time_ns, link, original_len, interface, bytes: &[0] });
        }
        clocks.set_back()
    }

    #[test]
    fn a_clock_that_was_set_back_is_told_from_frames_of_several_queues() {
        assert_eq!(clocks(&[(0, 0, 9 * SECOND), (0, 0, 9 * SECOND - SLACK_NS), (0, 0, 9 * SECOND)]), None);
        let said = clocks(&[(0, 0, 9 * SECOND), (0, 0, 5 * SECOND), (0, 0, 6 * SECOND), (0, 0, 3 * SECOND)]).unwrap();
        assert!(said.contains("2 times, by 4.00 s at most"), "{said}");
    }

    #[test]
    fn interfaces_and_files_have_clocks_of_their_own() {
        assert_eq!(clocks(&[(0, 0, 9 * SECOND), (0, 1, SECOND), (0, 0, 10 * SECOND), (1, 0, SECOND)]), None);
        let many: Vec<_> = (0..200).map(|interface| (0, interface, (200 - u64::from(interface)) * SECOND)).collect();
        assert_eq!(clocks(&many), None);
    }
}
