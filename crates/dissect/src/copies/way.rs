//! Measures the way between two interfaces. On one host it takes a few microseconds; if it takes longer, they are at both ends of a path.

use super::recent::Sighting;
use std::net::IpAddr;

/// A way there and back that is too long for one host.
const LONG_NS: i64 = 40_000;
/// Frames that must have passed in each direction.
const PASSED: u32 = 3;
/// Frames measured in each direction. Fewer, so that clocks do not drift.
const MEASURED: u32 = 1024;

/// The first two interfaces that saw the same frame, and the hosts that exchanged it.
#[derive(Debug, Default)]
pub struct WayBetweenTaps {
    between: Option<([u32; 2], [IpAddr; 2])>,
    /// By direction, the least time that a frame needed from the first interface to the second, by their clocks, or back.
    least_ns: [i64; 2],
    passed: [u32; 2],
}

impl WayBetweenTaps {
    /// Measures a frame that was seen twice.
    pub fn passed(&mut self, before: &Sighting, after: &Sighting) {
        let interfaces = [before.place.interface, after.place.interface];
        if interfaces[0] == interfaces[1] {
            return;
        }
        let [source, destination] = after.ends.map(|end| end.ip());
        let &mut (taps, hosts) = self.between.get_or_insert((interfaces, [source, destination]));
        let is_back = hosts == [destination, source];
        let is_other = !is_back && hosts != [source, destination] || !interfaces.iter().all(|tap| taps.contains(tap));
        let way = usize::from(is_back);
        if is_other || self.passed[way] >= MEASURED {
            return;
        }
        let later_ns = after.time_ns.cast_signed().wrapping_sub(before.time_ns.cast_signed());
        let took_ns = if is_back == (interfaces == taps) { -later_ns } else { later_ns };
        let is_first = self.passed[way] == 0;
        self.least_ns[way] = if is_first { took_ns } else { took_ns.min(self.least_ns[way]) };
        self.passed[way] += 1;
    }

    /// Returns whether the interfaces are at both ends of a path. A difference of their clocks cancels out.
    pub fn is_long(&self) -> bool {
        self.passed.iter().all(|passed| *passed >= PASSED) && self.least_ns.iter().sum::<i64>() >= LONG_NS
    }
}
