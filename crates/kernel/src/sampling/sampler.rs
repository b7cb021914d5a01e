//! The thread that opens and closes sampling windows and empties the ring buffer of slices.

use super::{SamplingWindow, SliceExchange};
use crate::background::BackgroundThread;
use crate::clock::{monotonic_ns, unix_ns};
use crate::error::Error;
use crate::object::{bytes_of, lookup, plain, ring};
use crate::skeleton::types;
use libbpf_rs::{MapCore, MapFlags, MapHandle, RingBuffer};
use std::sync::Arc;
use std::time::Duration;

const MS: u64 = 1_000_000;
/// Average time between the beginnings of windows.
const PERIOD_NS: u64 = 200 * MS;
/// Least time between windows, so that the listener learns of each in time.
const GAP_NS: u64 = 30 * MS;
/// Time until the first window.
const LEAD_NS: u64 = 2 * MS;
/// Length of the first window, and bounds of the others.
const FIRST_LENGTH_NS: u64 = 20 * MS;
const MIN_LENGTH_NS: u64 = MS;
const MAX_LENGTH_NS: u64 = 120 * MS;
/// Slices per window: the target and the limit.
const TARGET_SLICES: usize = 2_048;
const MAX_SLICES: i64 = 8_192;
/// Longest sleep between emptying the ring buffer.
const NAP: Duration = Duration::from_millis(10);

/// Starts the thread, which ends when the result is dropped.
pub(crate) fn start(
    windows: &MapHandle,
    slices: &MapHandle,
    exchange: Arc<SliceExchange>,
) -> Result<BackgroundThread, Error> {
    let (windows, slices) = (MapHandle::try_from(windows)?, MapHandle::try_from(slices)?);
    Ok(BackgroundThread::start("sampler", move |wait| run(&windows, &slices, &exchange, wait))?)
}

fn run(windows: &MapHandle, slices: &MapHandle, exchange: &Arc<SliceExchange>, wait: &dyn Fn(Duration) -> bool) {
    let taken = Arc::clone(exchange);
    let take = move |bytes: &[u8]| plain(bytes).iter().for_each(|slice| taken.push(slice));
    let Ok(ring) = ring(slices, take) else { return };
    let mut schedule = SamplingSchedule { base_ns: monotonic_ns() + LEAD_NS, round: 0, length_ns: FIRST_LENGTH_NS };
    let mut dropped = read_window(windows).map_or(0, |window| window.dropped);
    loop {
        let (start_ns, end_ns) = schedule.next();
        let to_unix = unix_ns().wrapping_sub(monotonic_ns());
        let number = exchange.lock().next;
        let window = SamplingWindow {
            number,
            start_unix_ns: start_ns.wrapping_add(to_unix),
            end_unix_ns: end_ns.wrapping_add(to_unix),
        };
        exchange.plan(window);
        if !sleep_until(start_ns.saturating_sub(MS), &ring, wait) {
            break;
        }
        let left = if exchange.is_full() { 0 } else { MAX_SLICES };
        write_window(windows, &types::sampling_window { armed: 1, number, start_ns, end_ns, left, dropped });
        let goes_on = sleep_until(end_ns, &ring, wait);
        let after = read_window(windows).unwrap_or_default();
        write_window(windows, &types::sampling_window { dropped: after.dropped, ..types::sampling_window::default() });
        let _ = ring.consume();
        // Shorter if the window filled up or the run ended.
        let over_ns = after.end_ns.min(monotonic_ns()).saturating_sub(start_ns);
        let slices = exchange.close(window, over_ns, after.dropped.saturating_sub(dropped));
        schedule.adapt(slices, over_ns);
        dropped = after.dropped;
        if !goes_on {
            break;
        }
    }
    let _ = ring.consume();
}

struct SamplingSchedule {
    base_ns: u64,
    round: u64,
    length_ns: u64,
}

impl SamplingSchedule {
    /// Returns the beginning and end of the next window, at a pseudo-random place in its period to avoid beating with
    /// periodic work. The first is at its period's beginning.
    fn next(&mut self) -> (u64, u64) {
        let room = PERIOD_NS - GAP_NS - self.length_ns;
        // Knuth's multiplicative hash: spread out, and the same in each run.
        let spread = self.round.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 36;
        let mut start = self.base_ns + self.round * PERIOD_NS + spread % room;
        // Skip periods after the machine was suspended or stalled.
        while start < monotonic_ns() {
            self.round += 1;
            start += PERIOD_NS;
        }
        self.round += 1;
        (start, start + self.length_ns)
    }

    /// Adapts the length to the number of slices in the last window, which lasted `over_ns`.
    fn adapt(&mut self, slices: usize, over_ns: u64) {
        let at_length = slices as f64 * (self.length_ns as f64 / over_ns.max(1) as f64).max(1.0);
        let factor = (TARGET_SLICES as f64 / at_length.max(1.0)).clamp(0.25, 2.0);
        self.length_ns = ((self.length_ns as f64 * factor) as u64).clamp(MIN_LENGTH_NS, MAX_LENGTH_NS);
    }
}

/// Sleeps and takes slices meanwhile. Returns false if the thread is to end.
fn sleep_until(until_ns: u64, ring: &RingBuffer<'_>, wait: &dyn Fn(Duration) -> bool) -> bool {
    loop {
        let _ = ring.consume();
        let left = Duration::from_nanos(until_ns.saturating_sub(monotonic_ns()));
        if left.is_zero() || !wait(left.min(NAP)) {
            return wait(Duration::ZERO);
        }
    }
}

fn read_window(windows: &MapHandle) -> Option<types::sampling_window> {
    lookup(windows, &0_u32.to_ne_bytes()).ok()?
}

fn write_window(windows: &MapHandle, window: &types::sampling_window) {
    // On failure nothing is sampled, and the record gives the reason.
    let _ = windows.update(&0_u32.to_ne_bytes(), bytes_of(window), MapFlags::ANY);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_do_not_overlap_and_their_length_follows_the_rate() {
        let mut schedule = SamplingSchedule { base_ns: monotonic_ns() + LEAD_NS, round: 0, length_ns: FIRST_LENGTH_NS };
        let mut before = 0;
        for _ in 0..50 {
            let (start, end) = schedule.next();
            assert!(start >= before + if before > 0 { GAP_NS } else { 0 } && end > start);
            before = end;
            schedule.adapt(TARGET_SLICES * 3, MAX_LENGTH_NS);
        }
        assert_eq!(schedule.length_ns, MIN_LENGTH_NS);
        (0..10).for_each(|_| schedule.adapt(0, MAX_LENGTH_NS));
        assert_eq!(schedule.length_ns, MAX_LENGTH_NS);
        // Full after half of its time.
        schedule.adapt(TARGET_SLICES, MAX_LENGTH_NS / 2);
        assert_eq!(schedule.length_ns, MAX_LENGTH_NS / 2);
    }
}
