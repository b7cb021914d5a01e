//! A tally that keeps everything, so that two can be compared.

use crate::hostile::checksum;
use overhead_model::{
    Class, ConnectionEnds, ConnectionSummary, Operation, Protocol, RowId, RowKey, Side, SideTotals, Tally,
};
use std::collections::BTreeMap;

/// Rows, operations and connections, in a form that does not depend on their order.
#[derive(Debug, Default)]
pub(crate) struct Sheet {
    rows: Vec<SheetRow>,
    connections: Vec<ConnectionSummary>,
    /// Operations reported one by one, by connection and in order: row, totals and start.
    each: BTreeMap<u64, Vec<(RowId, Operation, Option<u64>)>>,
    wants_each: bool,
    connection: u64,
}

#[derive(Debug, PartialEq, Eq)]
struct SheetRow {
    key: (Protocol, Class, String, &'static str, String),
    /// Operations without their latencies, which may be reported separately.
    operations: Vec<Operation>,
    latencies: Vec<u64>,
    late: [SideTotals; 2],
    /// Sum of the checksums of operations and latencies, which does not depend on their order.
    checksum: u64,
}

impl Sheet {
    /// Returns a tally that wants each operation.
    pub fn of_each() -> Self {
        Self { wants_each: true, ..Self::default() }
    }

    /// Panics unless `other` received the same operations one by one.
    pub fn assert_each_is(&self, other: &Self) {
        let keyed = |sheet: &Self, of: &[(RowId, Operation, Option<u64>)]| {
            let keyed = |(row, operation, start_ns): &(RowId, Operation, Option<u64>)| {
                (sheet.rows[row.0 as usize].key.clone(), *operation, *start_ns)
            };
            of.iter().map(keyed).collect::<Vec<_>>()
        };
        let connections: Vec<_> = self.each.keys().collect();
        assert_eq!(
            other.each.keys().collect::<Vec<_>>(),
            connections,
            "connections told of with the memo, and without it"
        );
        for (number, told) in &self.each {
            let others = other.each.get(number).map(Vec::as_slice).unwrap_or_default();
            assert_eq!(
                keyed(other, others),
                keyed(self, told),
                "operations of connection {number} with the memo, and without it"
            );
        }
        let told: usize = self.each.values().map(Vec::len).sum();
        assert_eq!(
            told,
            self.rows.iter().map(|row| row.operations.len()).sum::<usize>(),
            "operations told, and counted"
        );
    }

    /// Returns the number of posted bytes.
    pub fn total(&self) -> u64 {
        let sum = |sides: &[SideTotals; 2]| sides.iter().map(|side| side.amounts.total()).sum::<u64>();
        let of =
            |row: &SheetRow| sum(&row.late) + row.operations.iter().map(|operation| sum(&operation.sides)).sum::<u64>();
        self.rows.iter().map(of).sum()
    }

    /// Panics unless `other` is equal apart from the order.
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
        // A row may be created without ever receiving an operation.
        self.rows.retain(|row| !row.operations.is_empty() || row.late != <[SideTotals; 2]>::default());
        self.rows.sort_unstable_by(|one, two| one.key.cmp(&two.key));
        self.connections.sort_by_key(|connection| (connection.first_ns, connection.client, connection.server));
    }
}

/// Panics with the first row that differs, ignoring the order of operations.
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

/// Returns all parts of an operation as numbers.
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

    fn wants_each(&self) -> bool {
        self.wants_each
    }

    fn each(&mut self, row: RowId, operation: &Operation, start_ns: Option<u64>) {
        if self.wants_each {
            self.each.entry(self.connection).or_default().push((row, *operation, start_ns));
        }
    }

    fn wants_ends(&self) -> bool {
        self.wants_each
    }

    fn turn_to(&mut self, ends: &ConnectionEnds) {
        self.connection = ends.number;
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
