//! `cargo run -p overhead-dissect --example statements -- CAPTURE…`: bytes on the wire by operation and statement, most first.

use overhead_capture::{FileSource, Source};
use overhead_dissect::{Dissector, Selection};
use overhead_model::{ConnectionSummary, Operation, RowId, RowKey, Side, SideTotals, Tally};
use std::error::Error;

/// Rows of (bytes, operations, name and statement), numbered in the order in which they came up.
#[derive(Default)]
struct Statements(Vec<(u64, u64, String)>);

impl Tally for Statements {
    fn row(&mut self, key: RowKey<'_>) -> RowId {
        let name = format!("{} {}  {}", key.protocol.name(), key.name, key.statement);
        let known = self.0.iter().position(|row| row.2 == name);
        let number = known.unwrap_or_else(|| {
            self.0.push((0, 0, name));
            self.0.len() - 1
        });
        RowId(number as u64)
    }

    fn operation(&mut self, row: RowId, operation: &Operation) {
        self.0[row.0 as usize].1 += 1;
        self.0[row.0 as usize].0 += operation.sides.iter().map(|side| side.amounts.total()).sum::<u64>();
    }

    fn late(&mut self, row: RowId, _: Side, totals: &SideTotals) {
        self.0[row.0 as usize].0 += totals.amounts.total();
    }

    fn connection(&mut self, _: ConnectionSummary) {}
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut dissector = Dissector::new(Selection::default(), Statements::default());
    for path in std::env::args().skip(1) {
        let mut file = FileSource::open(path)?;
        while let Some(frame) = file.next_frame()?.frame() {
            dissector.frame(&frame);
        }
    }
    let (Statements(mut rows), totals) = dissector.finish();
    rows.sort_by(|a, b| b.cmp(a));
    for (bytes, operations, name) in &rows {
        println!("{bytes:>10} B {operations:>7} operations  {name}");
    }
    let of_operations: u64 = rows.iter().map(|row| row.0).sum();
    println!("{of_operations:>10} B of {} B in {} frames", totals.wire_bytes, totals.frames);
    Ok(())
}
