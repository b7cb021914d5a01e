//! Turns the figures of two moments into the rows of a screen.

use super::Look;
use overhead_model::record::By;
use overhead_model::{Class, OTHER};
use overhead_report::{KindKey, RowSums};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;

/// Sort order of a screen, largest first. Unlike `SortKey`, which orders a record, it has rates and sorts by the 99th percentile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortBy {
    Bytes,
    Rate,
    /// Operations since the beginning.
    Calls,
    /// The 99th percentile of latencies.
    Latency,
}

/// Returns the plural noun for the rows.
pub const fn grain(by: By) -> &'static str {
    match by {
        By::Name => "operations",
        By::Statement => "statements",
        By::Connection => "connections",
        By::Client => "clients",
        By::Server => "servers",
    }
}

/// Sums of one kind within an interval; its calls are counted from the beginning.
#[derive(Clone, Debug)]
pub struct TopRow {
    /// As read from the wire.
    pub label: String,
    /// Operations since the beginning.
    pub calls: u64,
    /// Sums for the interval.
    pub sums: RowSums,
    /// Median and 99th percentile in the interval, nanoseconds.
    pub latency_ns: Option<[u64; 2]>,
    /// In 30 days; absent without a price.
    pub cost: Option<f64>,
}

/// Figures of an interval, ready to show.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Length of the interval.
    pub time: Duration,
    /// End of the interval, counted from the beginning.
    pub at: Duration,
    /// The interval begins with the feed.
    pub is_whole: bool,
    /// All frames in the interval, whatever they carried.
    pub frames: u64,
    /// Bytes of `frames` on the wire.
    pub wire_bytes: u64,
    /// Workload operations in the interval, including filtered ones.
    pub operations: u64,
    /// Bytes of `operations`.
    pub operation_bytes: u64,
    pub errors: u64,
    /// Frames dropped by the kernel, since the beginning.
    pub dropped: u64,
    pub rows: Vec<TopRow>,
    /// Some rows have a cost.
    pub has_costs: bool,
    /// Rows that the filter left out.
    pub left_out: usize,
    /// The feed has ended.
    pub is_over: bool,
}

#[derive(Clone, Debug)]
pub struct Wanted {
    pub by: By,
    pub sort: SortBy,
    /// Text that names must contain, in any letter case; empty for all rows.
    pub find: String,
}

impl View {
    /// Returns the view between two looks, or from the beginning to one.
    pub fn between(before: Option<&Look>, now: &Look, wanted: &Wanted) -> Self {
        let nothing = Look::default();
        let known: HashMap<&KindKey, &RowSums> =
            before.map(|before| before.kinds.iter().map(|(key, sums)| (key, sums)).collect()).unwrap_or_default();
        let start = before.unwrap_or(&nothing);
        let mut view = Self {
            time: now.at.saturating_sub(start.at),
            at: now.at,
            is_whole: before.is_none(),
            frames: now.frames.saturating_sub(start.frames),
            wire_bytes: now.wire_bytes.saturating_sub(start.wire_bytes),
            dropped: now.dropped,
            has_costs: !now.costs.is_empty(),
            is_over: now.is_over,
            ..Self::default()
        };
        let find = wanted.find.to_lowercase();
        for (key, so_far) in now.kinds.iter().filter(|(key, _)| key.class == Class::Workload) {
            let sums = known.get(key).map_or_else(|| so_far.clone(), |before| so_far.since(before));
            view.operations += sums.count;
            view.operation_bytes += sums.bytes();
            view.errors += sums.errors;
            if !key.label.to_lowercase().contains(&find) {
                view.left_out += 1;
                continue;
            }
            let latency_ns = sums.latency_ns();
            let (label, cost) = (key.label.clone(), now.costs.get(&key.label).copied());
            view.rows.push(TopRow { label, calls: so_far.count, sums, latency_ns, cost });
        }
        view.rows.sort_by(|one, two| {
            let value = |row: &TopRow| match wanted.sort {
                SortBy::Bytes => row.sums.bytes(),
                SortBy::Rate => row.sums.count,
                SortBy::Calls => row.calls,
                SortBy::Latency => row.latency_ns.map_or(0, |[_, p99]| p99),
            };
            // The row for all other kinds is the least useful, so it comes last.
            let rank = |row: &TopRow| (row.label == OTHER, Reverse(value(row)), Reverse(row.calls));
            (rank(one), &one.label).cmp(&(rank(two), &two.label))
        });
        view
    }

    /// Returns a figure per second; `None` if the interval has no length.
    pub fn per_second(&self, value: u64) -> Option<f64> {
        (!self.time.is_zero()).then(|| value as f64 / self.time.as_secs_f64())
    }

    /// Returns the bytes of frames that belong to no workload operation.
    pub fn bytes_beside(&self) -> u64 {
        self.wire_bytes.saturating_sub(self.operation_bytes)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use overhead_model::{Account, Amounts, Operation, Outcome, Protocol, RowKey, SideTotals, Tally};
    use overhead_report::{Aggregate, OperationKind};

    /// Returns a sample of operations of one kind: one per latency, each with these bytes.
    pub fn kind(label: &str, latencies_ns: &[u64], bytes: [u64; 2]) -> OperationKind {
        let mut aggregate = Aggregate::new();
        let key = RowKey { protocol: Protocol::Resp, class: Class::Workload, name: label, via: "", statement: "" };
        for &latency_ns in latencies_ns {
            let sides = bytes.map(|data| {
                let mut amounts = Amounts::ZERO;
                amounts[Account::Data] = data;
                SideTotals { frames: 1, amounts }
            });
            let row = aggregate.row(key);
            aggregate.operation(
                row,
                &Operation { sides, outcome: Outcome::Ok, latency_ns: Some(latency_ns), round_trips: 1 },
            );
        }
        aggregate.kinds(By::Name).remove(0)
    }

    fn look(seconds: u64, kinds: Vec<OperationKind>) -> Look {
        let bytes: u64 = kinds.iter().map(|(_, sums)| sums.bytes()).sum();
        Look { at: Duration::from_secs(seconds), frames: 10, wire_bytes: bytes + 5, kinds, ..Look::default() }
    }

    fn wanted(sort: SortBy, find: &str) -> Wanted {
        Wanted { by: By::Name, sort, find: find.to_owned() }
    }

    fn labels(view: &View) -> Vec<&str> {
        view.rows.iter().map(|row| row.label.as_str()).collect()
    }

    #[test]
    fn a_stretch_has_what_came_in_it_and_no_more() {
        let before = look(1, vec![kind("GET", &[100, 100, 100], [10, 20])]);
        let now = look(3, vec![kind("GET", &[100, 100, 100, 900, 900], [10, 20]), kind("SET", &[50], [100, 5])]);
        let view = View::between(Some(&before), &now, &wanted(SortBy::Bytes, ""));
        assert_eq!((view.operations, view.operation_bytes), (3, 2 * 30 + 105));
        assert_eq!(labels(&view), ["SET", "GET"]);
        let get = &view.rows[1];
        assert_eq!((get.calls, get.sums.count, get.latency_ns), (5, 2, Some([900, 900])));
        assert_eq!(view.per_second(get.sums.count), Some(1.0));
        let whole = View::between(None, &now, &wanted(SortBy::Bytes, ""));
        assert_eq!(whole.rows.iter().map(|row| row.latency_ns).collect::<Vec<_>>(), [Some([100, 900]), Some([50, 50])]);
        assert_eq!(whole.bytes_beside(), 5);
    }

    #[test]
    fn a_kind_that_begins_anew_has_all_of_its_operations() {
        let before = look(1, vec![kind("GET", &[100, 100, 100], [10, 20])]);
        let now = look(2, vec![kind("GET", &[70], [10, 20])]);
        let view = View::between(Some(&before), &now, &wanted(SortBy::Bytes, ""));
        assert_eq!((view.rows[0].sums.count, view.rows[0].latency_ns), (1, Some([70, 70])));
    }

    #[test]
    fn rows_are_in_the_order_that_was_asked_for() {
        let kinds = vec![
            kind("few-slow", &[9_000], [10, 10]),
            kind("many", &[10, 10, 10], [1, 1]),
            kind("large", &[20, 20], [500, 500]),
            kind(OTHER, &[99_000; 9], [900, 900]),
        ];
        let now = look(1, kinds);
        let order = |sort| View::between(None, &now, &wanted(sort, "")).rows[0].label.clone();
        assert_eq!(
            [SortBy::Bytes, SortBy::Rate, SortBy::Calls, SortBy::Latency].map(order),
            ["large", "many", "many", "few-slow"]
        );
        let found = View::between(None, &now, &wanted(SortBy::Bytes, "MAN"));
        assert_eq!((labels(&found), found.left_out, found.operations), (vec!["many"], 3, 15));
    }

    #[test]
    fn no_time_has_no_rate() {
        let view = View::between(None, &look(0, vec![kind("GET", &[5], [1, 1])]), &wanted(SortBy::Bytes, ""));
        assert_eq!(view.per_second(1), None);
    }
}
