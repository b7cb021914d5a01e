//! `cargo run -p overhead-dissect --example statements -- CAPTURE`: bytes on the wire by operation and statement.

use overhead_capture::{FileSource, FrameSource};
use overhead_dissect::{Dissector, Selection};
use overhead_model::{Operation, RowId, RowKey, Side, SideTotals, Tally};

#[derive(Default)]
struct Statements(Vec<(String, u64)>);

impl Tally for Statements {
    fn row(&mut self, key: RowKey<'_>) -> RowId {
        let name = format!("{} {}", key.name, key.statement);
        let row = self.0.iter().position(|row| row.0 == name).unwrap_or(self.0.len());
        self.0.extend((row == self.0.len()).then_some((name, 0)));
        RowId(row as u64)
    }

    fn operation(&mut self, row: RowId, operation: &Operation) {
        self.0[row.0 as usize].1 += operation.sides.iter().map(|side| side.amounts.total()).sum::<u64>();
    }

    fn late(&mut self, row: RowId, _: Side, totals: &SideTotals) {
        self.0[row.0 as usize].1 += totals.amounts.total();
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut file = FileSource::open(std::env::args().nth(1).ok_or("usage: statements CAPTURE")?)?;
    let mut dissector = Dissector::new(Selection::default(), Statements::default());
    while let Some(frame) = file.next_frame()?.frame() {
        dissector.frame(&frame);
    }
    for (statement, bytes) in dissector.finish().0.0 {
        println!("{bytes:>10} B  {statement}");
    }
    Ok(())
}
