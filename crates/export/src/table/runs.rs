//! The table `runs`: one row per run, which shows whether the other tables are complete.

use super::{ExportField, of_sides};
use overhead_dissect::Totals;
use overhead_model::record::{Input, Selected};
use overhead_model::{Measured, SideTotals};
use serde_json::json;

#[derive(Clone, Debug)]
pub struct RunRow {
    pub inputs: Vec<Input>,
    pub selection: Selected,
    pub totals: Totals,
    /// Sums of the table `operations`.
    pub sides: [SideTotals; 2],
    /// Rows of the table `operations`.
    pub rows: u64,
    /// `None` without sampling.
    pub sample: Option<SampleRow>,
    pub kernel_drops: Measured<u64>,
    pub warnings: Vec<String>,
    /// 0, or 3 for a partial run.
    pub exit: u8,
}

#[derive(Clone, Copy, Debug)]
pub struct SampleRow {
    pub window_ns: u64,
    /// Each period has one window.
    pub period_ns: u64,
    /// Including windows without frames.
    pub windows: u64,
    /// From the start of the first period to the end.
    pub span_ns: u64,
    /// Time within windows.
    pub covered_ns: u64,
}

impl RunRow {
    /// Returns the bytes that are in no row or in several. Not 0 only because of a bug.
    pub fn difference(&self) -> i64 {
        let posted: u64 = self.sides.iter().map(|side| side.amounts.total()).sum();
        self.totals.wire_bytes.wrapping_sub(posted + self.totals.other).cast_signed()
    }
}

const SAMPLE_WINDOW: &str = "of a capture in windows (--sample): their length; the last may be shorter; absent without sampling, as the four that follow";
const SAMPLE_SPAN: &str = "all of the time: sums over windows times (sample_span_ns / sample_covered_ns), divided first, are what to expect of it";

type RunField = ExportField<Vec<RunRow>>;

pub fn fields() -> Vec<RunField> {
    let mut fields = source_fields();
    fields.extend(total_fields());
    fields.extend([
        RunField::number("exit_status", "", "0: complete; 3: partial, as the warnings say", |run| u64::from(run.exit)),
        RunField::text("warnings", "what a reader has to know, as a JSON list of sentences", |run| {
            json!(run.warnings).to_string().into()
        }),
        RunField::flag("balanced", "every byte is in one row, or in other_bytes: difference is 0", |run| {
            run.difference() == 0
        }),
        RunField::signed("difference", "bytes", "wire_bytes less both sides and other_bytes", RunRow::difference),
    ]);
    fields.extend(of_sides(|list: &Vec<RunRow>| list, |run| &run.sides, |_| None));
    fields
}

fn source_fields() -> Vec<RunField> {
    let (number, maybe, label) = (RunField::number, RunField::maybe, RunField::text);
    vec![
        label("tool_version", "version of overhead", |_| env!("CARGO_PKG_VERSION").into()),
        label("inputs", "files read, as JSON: path, frames and wire bytes of each", |run| {
            json!(run.inputs).to_string().into()
        }),
        label("selection", "which connections were asked for, as JSON: systems and ports", |run| {
            json!(run.selection).to_string().into()
        }),
        maybe("first_ns", "ns", "capture time of the first frame, Unix time; absent without frames", |run| {
            run.totals.first_ns
        }),
        maybe("last_ns", "ns", "capture time of the last frame, likewise", |run| run.totals.last_ns),
        number("frames", "1", "frames captured", |run| run.totals.frames),
        number("wire_bytes", "bytes", "their lengths on the wire: the sum of both sides and of other_bytes", |run| {
            run.totals.wire_bytes
        }),
        number("captured_bytes", "bytes", "their captured lengths", |run| run.totals.captured_bytes),
        number(
            "other_bytes",
            "bytes",
            "bytes of frames of no selected connection, which are in no other table",
            |run| run.totals.other,
        ),
        number("truncated_frames", "1", "frames captured shorter than they were", |run| run.totals.truncated_frames),
        number(
            "duplicate_frames",
            "1",
            "frames captured twice: on `any`, at a mirror port, behind a translation",
            |run| run.totals.duplicate_frames,
        ),
        number("malformed_frames", "1", "frames whose headers do not parse", |run| run.totals.malformed_frames),
        maybe("kernel_drops", "1", "frames that the kernel dropped; absent for files", |run| {
            run.kernel_drops.value().copied()
        }),
    ]
}

fn total_fields() -> Vec<RunField> {
    let (number, maybe) = (RunField::number, RunField::maybe);
    vec![
        number("connections", "1", "selected connections", |run| run.totals.tcp.connections),
        number("tcp_payload_bytes", "bytes", "TCP payload of these, repeats included", |run| {
            run.totals.tcp.payload_bytes
        }),
        number("retransmitted_bytes", "bytes", "of that, payload that was not new", |run| {
            run.totals.tcp.retransmitted_bytes
        }),
        number("gap_bytes", "bytes", "bytes that are in no captured frame; in no row", |run| run.totals.tcp.gap_bytes),
        number("out_of_order_frames", "1", "frames captured after bytes that follow theirs", |run| {
            run.totals.tcp.out_of_order_frames
        }),
        number("control_frames", "1", "frames without payload", |run| run.totals.tcp.control_frames),
        number("operation_rows", "1", "rows of the table operations", |run| run.rows),
        maybe("sample_window_ns", "ns", SAMPLE_WINDOW, |run| run.sample.map(|sample| sample.window_ns)),
        maybe("sample_period_ns", "ns", "length of a period; each has one window", |run| {
            run.sample.map(|sample| sample.period_ns)
        }),
        maybe("sample_windows", "1", "windows, those without frames included", |run| {
            run.sample.map(|sample| sample.windows)
        }),
        maybe("sample_covered_ns", "ns", "time within windows", |run| run.sample.map(|sample| sample.covered_ns)),
        maybe("sample_span_ns", "ns", SAMPLE_SPAN, |run| run.sample.map(|sample| sample.span_ns)),
    ]
}
