use crate::finding::AdviceFinding;
use crate::seen::{ClosedConnection, SeenCharge, SeenField, SeenFrame, SeenOperation, SeenRow, SeenTraffic};
use overhead_model::{Protocol, Side, enum_with};

/// Detects one kind of waste. Receives events while the capture is read and returns findings at the end.
///
/// Findings need thresholds, which are constants in the rule's file, and state how they were computed and what is
/// unknown.
pub trait Rule {
    /// Returns whether it needs fields of this name. Called once per name.
    fn wants_field(&self, _protocol: Protocol, _path: &str) -> bool {
        false
    }

    /// Returns whether it needs whole messages of this protocol.
    fn wants_messages(&self, _protocol: Protocol) -> bool {
        false
    }

    /// Handles a field that [`Rule::wants_field`] accepted.
    fn field(&mut self, _field: &SeenField<'_>) {}

    /// Handles a frame of a selected connection.
    fn frame(&mut self, _frame: &SeenFrame<'_>) {}

    /// Handles bytes of a frame that are not new payload.
    fn charge(&mut self, _charge: &SeenCharge) {}

    /// Handles a closed operation.
    fn operation(&mut self, _closed: &SeenOperation<'_>) {}

    /// Handles the end of a connection.
    fn connection(&mut self, _connection: &ClosedConnection<'_>) {}

    /// Returns the finding about a row.
    fn row_finding(&self, _seen: &SeenTraffic, _row: &SeenRow) -> Option<AdviceFinding> {
        None
    }

    /// Returns the finding about one direction of a row.
    fn side_finding(&self, _seen: &SeenTraffic, _row: &SeenRow, _side: Side) -> Option<AdviceFinding> {
        None
    }

    /// Returns the findings of all rows and sides. A rule about anything else overrides it.
    fn findings(&self, seen: &SeenTraffic) -> Vec<AdviceFinding> {
        let of_sides = |row| Side::BOTH.map(|side| self.side_finding(seen, row, side)).into_iter().flatten();
        seen.rows.iter().flat_map(|row| self.row_finding(seen, row).into_iter().chain(of_sides(row))).collect()
    }
}

/// A rule with its name for `--what-if`.
pub type NamedRule = (&'static str, Box<dyn Rule>);

/// Parameters of `--what-if`. A parameter that is set disables the thresholds of its rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WhatIfOptions {
    /// Requests sent before the first answer; 16 by default.
    pub depth: Option<u64>,
    /// The protocol's usual one by default.
    pub compressor: Option<Compressor>,
}

enum_with! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Compressor, name: &'static str {
        /// One block.
        Lz4 = "lz4",
        /// Level 6.
        Zlib = "zlib",
        /// Level 3.
        Zstd = "zstd",
    }
}
