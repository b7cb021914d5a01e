//! A tally that keeps everything it is told, so that two of them can be compared.

use crate::checksum;
use overhead_model::{Class, ConnectionSummary, Operation, Protocol, RowId, RowKey, Side, SideTotals, Tally};

/// Rows, operations and connections, as far as their order does not matter.
#[derive(Debug, Default)]
pub(crate) struct Sheet {
    rows: Vec<SheetRow>,
    connections: Vec<ConnectionSummary>,
}

#[derive(Debug, PartialEq, Eq)]
struct SheetRow {
    key: (Protocol, Class, String, &'static str, String),
    /// Without their latencies, which may be told apart.
    operations: Vec<Operation>,
    latencies: Vec<u64>,
    late: [SideTotals; 2],
    /// The sum of checksums of the operations and latencies, which is the same in any order.
    checksum: u64,
}

impl Sheet {
    /// Returns how many bytes were posted.
    pub fn total(&self) -> u64 {
        let sum = |sides: &[SideTotals; 2]| sides.iter().map(|side| side.amounts.total()).sum::<u64>();
        let of =
            |row: &SheetRow| sum(&row.late) + row.operations.iter().map(|operation| sum(&operation.sides)).sum::<u64>();
        self.rows.iter().map(of).sum()
    }

    /// Panics where `other` is not the same in another order.
    pub fn assert_is(mut self, mut other: Self) {
        self.sort();
        other.sort();
        let is_same = |(one, two): (&SheetRow, &SheetRow)| {
            (&one.key, &one.late, one.checksum) == (&two.key, &two.late, two.checksum)
                && (one.operations.len(), one.latencies.len()) == (two.operations.len(), two.latencies.len())
        };
        if self.rows.len() != other.rows.len() || !self.rows.iter().zip(&other.rows).all(is_same) {
            differ(self.rows, other.rows);
        }
        assert_eq!(other.connections, self.connections, "connections with the memo, and without it");
    }

    fn sort(&mut self) {
        // A row may be asked for and never come to anything.
        self.rows.retain(|row| !row.operations.is_empty() || row.late != <[SideTotals; 2]>::default());
        self.rows.sort_unstable_by(|one, two| one.key.cmp(&two.key));
        self.connections.sort_by_key(|connection| (connection.first_ns, connection.client, connection.server));
    }
}

/// Panics with the first row that is not the same in both, operations in any order.
#[cold]
fn differ(mut rows: Vec<SheetRow>, mut others: Vec<SheetRow>) {
    rows.iter_mut().chain(&mut others).for_each(SheetRow::sort);
    for (one, two) in rows.iter().zip(&others) {
        assert_eq!(two, one, "a row with the memo, and without it");
    }
    assert_eq!(others.len(), rows.len(), "rows with the memo, and without it");
}

impl SheetRow {
    fn sort(&mut self) {
        self.operations.sort_by_cached_key(|operation| numbers(operation).collect::<Vec<_>>());
        self.latencies.sort_unstable();
    }
}

/// What two operations differ in, if they do, as numbers.
fn numbers(operation: &Operation) -> impl Iterator<Item = u64> {
    let of_side = |side| {
        let SideTotals { amounts, frames }: &SideTotals = side;
        amounts.iter().map(|(_, bytes)| bytes).chain([*frames])
    };
    operation.sides.iter().flat_map(of_side).chain([operation.outcome as u64])
}

impl Tally for Sheet {
    fn row(&mut self, key: RowKey<'_>) -> RowId {
        let is_this = |row: &SheetRow| {
            let (protocol, class, name, via, statement) = &row.key;
            let (of, text) = ((*protocol, *class, *via), (name.as_str(), statement.as_str()));
            of == (key.protocol, key.class, key.via) && text == (key.name, key.statement)
        };
        let found = self.rows.iter().position(is_this).unwrap_or_else(|| {
            let key = (key.protocol, key.class, key.name.to_owned(), key.via, key.statement.to_owned());
            self.rows.push(SheetRow {
                key,
                operations: Vec::new(),
                latencies: Vec::new(),
                late: <[SideTotals; 2]>::default(),
                checksum: 0,
            });
            self.rows.len() - 1
        });
        RowId(found as u64)
    }

    fn operation(&mut self, row: RowId, operation: &Operation) {
        let row = &mut self.rows[row.0 as usize];
        row.latencies.extend(operation.latency_ns);
        let of_latency = operation.latency_ns.map_or(0, |latency_ns| checksum::of(std::iter::once(latency_ns)));
        row.checksum = row.checksum.wrapping_add(checksum::of(numbers(operation))).wrapping_add(of_latency);
        row.operations.push(Operation { latency_ns: None, ..*operation });
    }

    fn latency(&mut self, row: RowId, latency_ns: u64, times: u64) {
        let row = &mut self.rows[row.0 as usize];
        row.latencies.extend((0..times).map(|_| latency_ns));
        row.checksum = row.checksum.wrapping_add(checksum::of(std::iter::once(latency_ns)).wrapping_mul(times));
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
