//! Senders that wait because the receiver's window is closed.

use crate::finding::{AdviceFinding, Certainty, Example, Remedy};
use crate::limits;
use crate::rule::Rule;
use crate::seen::{ClosedConnection, SeenFrame, SeenOperation, SeenTraffic};
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
    rows: BTreeMap<usize, (u64, u64, Option<Example>)>,
}

/// When a window closed, Unix nanoseconds, and the operation at that time.
type ClosedSince = (u64, Option<Example>);

const REMEDIES: [Remedy; 4] = [
    Remedy {
        at: "client",
        setting: "read while it computes: fetch sizes (pgjdbc defaultRowFetchSize, psycopg itersize, CQL fetch_size, MongoDB batchSize)",
    },
    Remedy { at: "Linux", setting: "net.ipv4.tcp_rmem (third value), and no small SO_RCVBUF" },
    Remedy {
        at: "MySQL, Connector/J",
        setting: "useCursorFetch=true and defaultFetchSize, instead of streaming row by row",
    },
    Remedy { at: "server", setting: "a thread or process that is busy: look at its CPU time with `overhead capture`" },
];

impl Rule for ZeroWindows {
    fn name(&self) -> &'static str {
        "zero-window"
    }

    fn frame(&mut self, frame: &SeenFrame) {
        if frame.opens || frame.closes {
            return;
        }
        if frame.window > 0 && !self.closed.contains_key(&frame.connection) {
            return;
        }
        if self.closed.len() >= limits::REMEMBERED && !self.closed.contains_key(&frame.connection) {
            return;
        }
        let ends = self.closed.entry(frame.connection).or_default();
        let Some(end) = ends.get_mut(frame.end) else { return };
        if frame.window == 0 {
            end.get_or_insert((frame.time_ns, frame.latest));
        } else if let Some((since, example)) = end.take() {
            if let Some(Example { operation, frame: number }) = example {
                let stall = self.stalls.entry(operation).or_insert((0, 0, number));
                stall.0 += 1;
                stall.1 += frame.time_ns.saturating_sub(since);
            }
            if ends.iter().all(Option::is_none) {
                self.closed.remove(&frame.connection);
            }
        }
    }

    fn operation(&mut self, closed: &SeenOperation<'_>) {
        let operation = closed.example.operation;
        let Some((times, ns, frame)) = self.stalls.remove(&operation) else { return };
        let row = self.rows.entry(closed.row_number).or_default();
        row.0 += times;
        row.1 += ns;
        row.2.get_or_insert(Example { operation, frame });
    }

    fn connection(&mut self, connection: &ClosedConnection<'_>) {
        self.closed.remove(&connection.number);
    }

    fn findings(&self, seen: &SeenTraffic) -> Vec<AdviceFinding> {
        let rows = self.rows.iter().filter(|(_, (_, ns, _))| *ns >= WAITED_NS);
        rows.filter_map(|(&number, &(times, ns, example))| {
            let row = seen.rows.get(number)?;
            let title = format!("{times} times a receiver had no room, for {:.0} ms in all", ns as f64 / 1e6);
            let mut finding = AdviceFinding {
                operations: times,
                example,
                remedies: REMEDIES.to_vec(),
                certainty: Certainty::AtMost,
                computed: "from the first frame that says window 0 to the next of the same sender that says more, charged to the operation that had begun last".to_owned(),
                unknown: "whether the sender had more to send throughout",
                ..AdviceFinding::new(self.name(), title, row.subject())
            };
            finding.saving.ns = Some(ns);
            Some(finding)
        })
        .collect()
    }
}
