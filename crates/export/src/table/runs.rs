//! The table `runs`: one row per run, which shows whether the other tables are complete.

use super::{ExportField, columns, side_fields};
use overhead_dissect::Totals;
use overhead_model::record::{InputFile, Sample, Selected};
use overhead_model::{Measured, SideTotals};
use serde_json::json;

#[derive(Clone, Debug)]
pub struct RunRow {
    pub inputs: Vec<InputFile>,
    pub selection: Selected,
    pub totals: Totals,
    /// Sums of the table `operations`.
    pub sides: [SideTotals; 2],
    /// Rows of the table `operations`.
    pub rows: u64,
    /// Placement and time of the windows, without estimates; `None` without sampling.
    pub sample: Option<Sample>,
    pub kernel_drops: Measured<u64>,
    pub warnings: Vec<String>,
    /// 0, or 3 for a partial run.
    pub exit: u8,
}

impl RunRow {
    /// Returns the bytes that are in no row or in several. A value other than 0 is a bug.
    pub fn difference(&self) -> i64 {
        let posted: u64 = self.sides.iter().map(|side| side.amounts.total()).sum();
        self.totals.wire_bytes.wrapping_sub(posted + self.totals.other).cast_signed()
    }
}

const SAMPLE_WINDOW: &str = "of a capture in windows (--sample): their length; the last may be shorter; absent without sampling, as the four that follow";
const SAMPLE_SPAN: &str = "whole time; to estimate totals for it, multiply sums over windows by sample_span_ns / sample_covered_ns, divided first";

type RunField = ExportField<Vec<RunRow>>;

pub fn fields() -> Vec<RunField> {
    let mut fields = vec![RunField::text("tool_version", "version of overhead", |_| env!("CARGO_PKG_VERSION").into())];
    fields.extend(source_fields());
    fields.extend(total_fields());
    fields.extend(columns! { RunField |run|
        number "exit_status" [""], "0: complete; 3: partial, as the warnings say" => u64::from(run.exit);
        text "warnings",
            "what a reader has to know, as a JSON list of sentences" => json!(run.warnings).to_string().into();
        flag "balanced", "every byte is in one row, or in other_bytes: difference is 0" => run.difference() == 0;
        signed "difference" ["bytes"], "wire_bytes less both sides and other_bytes" => RunRow::difference(run);
    });
    fields.extend(side_fields(|list: &Vec<RunRow>| list, |run| &run.sides, |_| None));
    fields
}

fn source_fields() -> Vec<RunField> {
    columns! { RunField |run|
        text "inputs",
            "files read, as JSON: path, frames and wire bytes of each" => json!(run.inputs).to_string().into();
        text "selection",
            "which connections were asked for, as JSON: systems and ports" => json!(run.selection).to_string().into();
        maybe "first_ns" ["ns"],
            "capture time of the first frame, Unix time; absent without frames" => run.totals.first_ns;
        maybe "last_ns" ["ns"], "capture time of the last frame, likewise" => run.totals.last_ns;
        number "frames" ["1"], "frames captured" => run.totals.frames;
        number "wire_bytes" ["bytes"],
            "their lengths on the wire: the sum of both sides and of other_bytes" => run.totals.wire_bytes;
        number "captured_bytes" ["bytes"], "their captured lengths" => run.totals.captured_bytes;
        number "other_bytes" ["bytes"],
            "bytes of frames of no selected connection, which are in no other table" => run.totals.other;
        number "truncated_frames" ["1"], "frames captured shorter than they were" => run.totals.truncated_frames;
        number "duplicate_frames" ["1"],
            "frames captured twice: on `any`, at a mirror port, behind a translation" => run.totals.duplicate_frames;
        number "malformed_frames" ["1"], "frames whose headers do not parse" => run.totals.malformed_frames;
        maybe "kernel_drops" ["1"],
            "frames that the kernel dropped; absent for files" => run.kernel_drops.value().copied();
    }
}

fn total_fields() -> Vec<RunField> {
    columns! { RunField |run|
        number "connections" ["1"], "selected connections" => run.totals.tcp.connections;
        number "tcp_payload_bytes" ["bytes"], "TCP payload of selected connections, repeats included" => run.totals.tcp.payload_bytes;
        number "retransmitted_bytes" ["bytes"],
            "of that, payload that was not new" => run.totals.tcp.retransmitted_bytes;
        number "gap_bytes" ["bytes"], "bytes that are in no captured frame; in no row" => run.totals.tcp.gap_bytes;
        number "out_of_order_frames" ["1"],
            "frames captured after bytes that follow theirs" => run.totals.tcp.out_of_order_frames;
        number "control_frames" ["1"], "frames without payload" => run.totals.tcp.control_frames;
        number "operation_rows" ["1"], "rows of the table operations" => run.rows;
        maybe "sample_window_ns" ["ns"], SAMPLE_WINDOW => run.sample.as_ref().map(|sample| sample.window_ns);
        maybe "sample_period_ns" ["ns"],
            "length of a period; each has one window" => run.sample.as_ref().map(|sample| sample.period_ns);
        maybe "sample_windows" ["1"],
            "windows, those without frames included" => run.sample.as_ref().map(|sample| sample.windows);
        maybe "sample_covered_ns" ["ns"], "time within windows" => run.sample.as_ref().map(|sample| sample.covered_ns);
        maybe "sample_span_ns" ["ns"], SAMPLE_SPAN => run.sample.as_ref().map(|sample| sample.span_ns);
    }
}
