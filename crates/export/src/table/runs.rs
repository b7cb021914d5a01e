//! The table `runs`: one row for each run, which says whether the others are complete.

use super::{Column, Field, Kind, Values, column, integer, of_sides, text};
use overhead_dissect::Totals;
use overhead_model::record::{Input, Selected};
use overhead_model::{Measured, SideTotals};
use serde_json::json;

/// What there is to say of a run.
#[derive(Clone, Debug)]
pub struct RunRow {
    /// Files read.
    pub inputs: Vec<Input>,
    /// Which connections were asked for.
    pub selection: Selected,
    /// Totals over all frames.
    pub totals: Totals,
    /// Sums over the table `operations`.
    pub sides: [SideTotals; 2],
    /// Rows of the table `operations`.
    pub rows: u64,
    /// Where its windows lay; `None` where all of the time was captured.
    pub sample: Option<SampleRow>,
    /// Frames that the kernel dropped.
    pub kernel_drops: Measured<u64>,
    /// What a reader has to know.
    pub warnings: Vec<String>,
    /// 0, or 3 where the run is partial.
    pub exit: u8,
}

/// The windows of a run that was captured in some.
#[derive(Clone, Copy, Debug)]
pub struct SampleRow {
    /// Length of a window.
    pub window_ns: u64,
    /// Length of a period, of which each has a window.
    pub period_ns: u64,
    /// Windows, those without frames included.
    pub windows: u64,
    /// From the beginning of the first period to the end.
    pub span_ns: u64,
    /// Of this, the time within windows.
    pub covered_ns: u64,
}

impl RunRow {
    /// Returns the bytes of the source that are in no row, or in several: 0, but for a fault of this program.
    pub fn difference(&self) -> i64 {
        let posted: u64 = self.sides.iter().map(|side| side.amounts.total()).sum();
        self.totals.wire_bytes.wrapping_sub(posted + self.totals.other).cast_signed()
    }
}

/// Returns the columns.
#[expect(clippy::too_many_lines, reason = "a list")]
pub fn fields() -> Vec<Field<Vec<RunRow>>> {
    fn integers(
        name: &str,
        unit: &'static str,
        description: &str,
        of: fn(&RunRow) -> Option<u64>,
    ) -> Field<Vec<RunRow>> {
        let values =
            move |list: &Vec<RunRow>| Values::Integers(list.iter().map(|run| of(run).and_then(integer)).collect());
        Field::new(column(name, Kind::Integer, unit, description), values)
    }
    fn texts(name: &str, description: &str, of: fn(&RunRow) -> String) -> Field<Vec<RunRow>> {
        let values = move |list: &Vec<RunRow>| Values::Texts(list.iter().map(|run| text(&of(run))).collect());
        Field::new(column(name, Kind::Text, "", description), values)
    }
    let flag: Column =
        column("balanced", Kind::Flag, "", "every byte is in one row, or in other_bytes: difference is 0");
    let mut fields = vec![
        texts("tool_version", "version of overhead", |_| env!("CARGO_PKG_VERSION").to_owned()),
        texts("inputs", "files read, as JSON: path, frames and wire bytes of each", |run| {
            json!(run.inputs).to_string()
        }),
        texts("selection", "which connections were asked for, as JSON: systems and ports", |run| {
            json!(run.selection).to_string()
        }),
        integers("first_ns", "ns", "capture time of the first frame, Unix time; absent without frames", |run| {
            run.totals.first_ns
        })
        .nullable(),
        integers("last_ns", "ns", "capture time of the last frame, likewise", |run| run.totals.last_ns).nullable(),
        integers("frames", "1", "frames captured", |run| Some(run.totals.frames)),
        integers("wire_bytes", "bytes", "their lengths on the wire: the sum of both sides and of other_bytes", |run| {
            Some(run.totals.wire_bytes)
        }),
        integers("captured_bytes", "bytes", "their captured lengths", |run| Some(run.totals.captured_bytes)),
        integers(
            "other_bytes",
            "bytes",
            "bytes of frames of no selected connection, which are in no other table",
            |run| Some(run.totals.other),
        ),
        integers("truncated_frames", "1", "frames captured shorter than they were", |run| {
            Some(run.totals.truncated_frames)
        }),
        integers("duplicate_frames", "1", "second copies on `any`", |run| Some(run.totals.duplicate_frames)),
        integers("malformed_frames", "1", "frames whose headers do not parse", |run| Some(run.totals.malformed_frames)),
        integers("kernel_drops", "1", "frames that the kernel dropped; absent for files", |run| {
            run.kernel_drops.value().copied()
        })
        .nullable(),
        integers("connections", "1", "selected connections", |run| Some(run.totals.tcp.connections)),
        integers("tcp_payload_bytes", "bytes", "TCP payload of these, repeats included", |run| {
            Some(run.totals.tcp.payload_bytes)
        }),
        integers("retransmitted_bytes", "bytes", "of that, payload that was not new", |run| {
            Some(run.totals.tcp.retransmitted_bytes)
        }),
        integers("gap_bytes", "bytes", "bytes that are in no captured frame; in no row", |run| {
            Some(run.totals.tcp.gap_bytes)
        }),
        integers("out_of_order_frames", "1", "frames captured after bytes that follow theirs", |run| {
            Some(run.totals.tcp.out_of_order_frames)
        }),
        integers("control_frames", "1", "frames without payload", |run| Some(run.totals.tcp.control_frames)),
        integers("operation_rows", "1", "rows of the table operations", |run| Some(run.rows)),
        integers(
            "sample_window_ns",
            "ns",
            "of a capture in windows (--sample): their length, of which the last may have less; absent where all of the time was captured, as the four that follow",
            |run| run.sample.map(|sample| sample.window_ns),
        )
        .nullable(),
        integers("sample_period_ns", "ns", "length of a period, of which each has a window", |run| {
            run.sample.map(|sample| sample.period_ns)
        })
        .nullable(),
        integers("sample_windows", "1", "windows, those without frames included", |run| {
            run.sample.map(|sample| sample.windows)
        })
        .nullable(),
        integers("sample_covered_ns", "ns", "time within windows", |run| run.sample.map(|sample| sample.covered_ns))
            .nullable(),
        integers("sample_span_ns", "ns", "all of the time: sums over windows times (sample_span_ns / sample_covered_ns), divided first, are what to expect of it", |run| {
            run.sample.map(|sample| sample.span_ns)
        })
        .nullable(),
        integers("exit_status", "", "0: complete; 3: partial, as the warnings say", |run| Some(u64::from(run.exit))),
        texts("warnings", "what a reader has to know, as a JSON list of sentences", |run| {
            json!(run.warnings).to_string()
        }),
        Field::new(flag, |list: &Vec<RunRow>| {
            Values::Flags(list.iter().map(|run| Some(run.difference() == 0)).collect())
        }),
        Field::new(
            column("difference", Kind::Integer, "bytes", "wire_bytes less both sides and other_bytes"),
            |list: &Vec<RunRow>| Values::Integers(list.iter().map(|run| Some(run.difference())).collect()),
        ),
    ];
    fields.extend(of_sides(|list: &Vec<RunRow>| list, |run| &run.sides, |_| None));
    fields
}
