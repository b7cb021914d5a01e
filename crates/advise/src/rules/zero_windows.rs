//! Senders that wait because the receiver's window is closed.

use crate::finding::{AdviceFinding, Certainty, Example, FoundOperations, Remedy, remedies};
use crate::limits;
use crate::rule::Rule;
use crate::seen::{ClosedConnection, SeenFrame, SeenOperation, SeenRow, SeenTraffic};
use overhead_model::FrameFacts;
use std::collections::{BTreeMap, HashMap};

/// Minimum waiting time in a row.
const WAITED_NS: u64 = 10_000_000;

/// Closed windows (RFC 9293 section 3.8.6).
#[derive(Default)]
pub struct ZeroWindows {
    /// By connection and end.
    closed: HashMap<u64, [Option<ClosedSince>; 2]>,
    /// By operation: stalls, nanoseconds, frame.
    stalls: HashMap<u64, (u64, u64, u64)>,
    /// Stalls, and their operations.
    rows: BTreeMap<usize, (u64, FoundOperations)>,
}

/// When a window closed, Unix nanoseconds, and the operation at that time.
type ClosedSince = (u64, Option<Example>);

const REMEDIES: &[Remedy] = remedies! {
    "client": "read while it computes: fetch sizes (pgjdbc defaultRowFetchSize, psycopg itersize, CQL fetch_size, MongoDB batchSize)",
    "Linux": "net.ipv4.tcp_rmem (third value), and no small SO_RCVBUF",
    "MySQL, Connector/J": "useCursorFetch=true and defaultFetchSize, instead of streaming row by row",
    "server": "a thread or process that is busy: look at its CPU time with `overhead capture`",
};

impl Rule for ZeroWindows {
    fn frame(&mut self, frame: &SeenFrame<'_>) {
        let FrameFacts { connection, time_ns, window, flags, .. } = *frame.facts;
        let is_ignored = window > 0 || self.closed.len() >= limits::REMEMBERED;
        if flags.syn || flags.fin || flags.rst || is_ignored && !self.closed.contains_key(&connection) {
            return;
        }
        let ends = self.closed.entry(connection).or_default();
        let Some(end) = ends.get_mut(frame.end) else { return };
        if window == 0 {
            end.get_or_insert((time_ns, frame.latest));
        } else if let Some((since, example)) = end.take() {
            if let Some(Example { operation, frame: number }) = example {
                let stall = self.stalls.entry(operation).or_insert((0, 0, number));
                stall.0 += 1;
                stall.1 += time_ns.saturating_sub(since);
            }
            if ends.iter().all(Option::is_none) {
                self.closed.remove(&connection);
            }
        }
    }

    fn operation(&mut self, closed: &SeenOperation<'_>) {
        let operation = closed.example.operation;
        let Some((times, ns, frame)) = self.stalls.remove(&operation) else { return };
        let (stalls, found) = self.rows.entry(closed.row.number).or_default();
        *stalls += times;
        found.add(1, ns, Example { operation, frame });
    }

    fn connection(&mut self, connection: &ClosedConnection<'_>) {
        self.closed.remove(&connection.number);
    }

    fn row_finding(&self, _: &SeenTraffic, row: &SeenRow) -> Option<AdviceFinding> {
        let (stalls, FoundOperations { times, ns, example, .. }) = *self.rows.get(&row.number)?;
        if ns < WAITED_NS {
            return None;
        }
        let title = format!("{stalls} times a receiver had no room, for {:.0} ms in all", ns as f64 / 1e6);
        Some(AdviceFinding {
            remedies: REMEDIES.to_vec(),
            certainty: Certainty::AtMost,
            computed: "from a frame with window 0 to the sender's next frame with a larger one, charged to the operation that started last".to_owned(),
            unknown: "whether the sender had more to send throughout",
            ..AdviceFinding::new(title, row, times, example).waiting(ns)
        })
    }
}
