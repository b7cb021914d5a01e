//! A tally that keeps everything it is told, so that two of them can be compared.

use overhead_model::{Class, ConnectionSummary, Operation, Protocol, RowId, RowKey, Side, SideTotals, Tally};

/// Rows, operations and connections, as far as their order does not matter.
#[derive(Debug, Default)]
pub(crate) struct Sheet {
    rows: Vec<Row>,
    connections: Vec<ConnectionSummary>,
}

#[derive(Debug, PartialEq, Eq)]
struct Row {
    key: (Protocol, Class, String, &'static str),
    /// Without their latencies, which may be told apart.
    operations: Vec<Operation>,
    latencies: Vec<u64>,
    late: [SideTotals; 2],
}

impl Sheet {
    /// Returns how many bytes were posted.
    pub fn total(&self) -> u64 {
        let sum = |sides: &[SideTotals; 2]| sides.iter().map(|side| side.amounts.total()).sum::<u64>();
        let of = |row: &Row| sum(&row.late) + row.operations.iter().map(|operation| sum(&operation.sides)).sum::<u64>();
        self.rows.iter().map(of).sum()
    }

    /// Panics where `other` is not the same in another order.
    pub fn assert_is(mut self, mut other: Self) {
        self.sort();
        other.sort();
        for (one, two) in self.rows.iter().zip(&other.rows) {
            assert_eq!(two, one, "a row with the memo, and without it");
        }
        assert_eq!(other.rows.len(), self.rows.len(), "rows with the memo, and without it");
        assert_eq!(other.connections, self.connections, "connections with the memo, and without it");
    }

    fn sort(&mut self) {
        // A row may be asked for and never come to anything.
        self.rows.retain(|row| !row.operations.is_empty() || row.late != <[SideTotals; 2]>::default());
        for row in &mut self.rows {
            row.operations.sort_by_cached_key(order);
            row.latencies.sort_unstable();
        }
        self.rows.sort_unstable_by(|one, two| one.key.cmp(&two.key));
        self.connections.sort_by_key(|connection| (connection.first_ns, connection.client, connection.server));
    }
}

/// What two operations differ in, if they do, as numbers.
fn order(operation: &Operation) -> [u64; 30] {
    let mut all = [0; 30];
    let of_side =
        |side: &SideTotals| side.amounts.iter().map(|(_, bytes)| bytes).chain([side.frames]).collect::<Vec<_>>();
    let numbers = operation.sides.iter().flat_map(of_side).chain([operation.outcome as u64]);
    all.iter_mut().zip(numbers).for_each(|(place, number)| *place = number);
    all
}

impl Tally for Sheet {
    fn row(&mut self, key: RowKey<'_>) -> RowId {
        let is_this = |row: &Row| {
            (row.key.0, row.key.1, row.key.2.as_str(), row.key.3) == (key.protocol, key.class, key.name, key.via)
        };
        let found = self.rows.iter().position(is_this).unwrap_or_else(|| {
            let key = (key.protocol, key.class, key.name.to_owned(), key.via);
            self.rows.push(Row {
                key,
                operations: Vec::new(),
                latencies: Vec::new(),
                late: <[SideTotals; 2]>::default(),
            });
            self.rows.len() - 1
        });
        RowId(found as u64)
    }

    fn operation(&mut self, row: RowId, operation: &Operation) {
        let row = &mut self.rows[row.0 as usize];
        row.latencies.extend(operation.latency_ns);
        row.operations.push(Operation { latency_ns: None, ..*operation });
    }

    fn latency(&mut self, row: RowId, latency_ns: u64, times: u64) {
        self.rows[row.0 as usize].latencies.extend((0..times).map(|_| latency_ns));
    }

    fn late(&mut self, row: RowId, side: Side, totals: &SideTotals) {
        let sum = &mut self.rows[row.0 as usize].late[side as usize];
        sum.frames += totals.frames;
        sum.amounts += totals.amounts;
    }

    fn connection(&mut self, summary: ConnectionSummary) {
        self.connections.push(summary);
    }
}
