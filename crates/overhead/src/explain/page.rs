//! An explanation for the page of a report.

use super::Explanation;
use super::text::{absence, extent, hex, parts, printable};
use overhead_dissect::explain::{FieldPiece, FrameItem, FrameView};
use overhead_model::{Class, Outcome};
use overhead_report::text::number::duration;
use overhead_report::text::{counted, grouped};
use overhead_report::{ExampleFrame, ExamplePiece, PageExample};

const SHOWN: usize = 64;

pub fn example(explanation: &Explanation) -> PageExample {
    let explained = &explanation.explained;
    let (_, name, via) = explained.label.as_ref().map_or((Class::Unmatched, "", ""), |(c, n, v)| (*c, n, v));
    let via = if via.is_empty() { String::new() } else { format!(" ({via})") };
    let outcome = explained.outcome().map_or("open", Outcome::name);
    let latency = explained.operation.and_then(|operation| operation.latency_ns);
    let latency = latency.map_or_else(String::new, |ns| format!(", answered within {}", duration(ns)));
    let (number, count) = (grouped(explanation.found.number), grouped(explanation.count));
    PageExample {
        title: format!("{name}{via}: operation {number} of {count}, {outcome}{latency}"),
        frames: explained.views().iter().map(|view| frame(explanation, view)).collect(),
    }
}

fn frame(explanation: &Explanation, view: &FrameView<'_>) -> ExampleFrame {
    let side = view.side.name();
    let facts = view.frame.and_then(|number| explanation.frames.get(&number));
    let title = match (facts, view.frame) {
        (Some(facts), _) => format!("Frame {}, {side}: {}", grouped(facts.number), parts(facts, view).join(", ")),
        (None, Some(number)) => format!("Frame {}, {side}", grouped(number)),
        (None, None) => format!("In no captured frame, {side}"),
    };
    ExampleFrame { title, pieces: view.items.iter().map(item).collect() }
}

fn item(item: &FrameItem) -> ExamplePiece {
    match item {
        FrameItem::Others(length) => ExamplePiece {
            field: "of other operations".to_owned(),
            length: *length,
            note: format!("({})", counted(*length, "byte")),
            ..ExamplePiece::default()
        },
        FrameItem::Piece(piece) => field(piece),
    }
}

fn field(piece: &FieldPiece) -> ExamplePiece {
    let shown = piece.bytes.get(..SHOWN).unwrap_or(&piece.bytes);
    let hidden = (piece.bytes.len() - shown.len()) as u64;
    let note = match (piece.bytes.is_empty(), hidden) {
        (true, _) => absence(piece.seen).to_owned(),
        (false, 0) => String::new(),
        (false, more) => format!("… {} more", counted(more, "byte")),
    };
    ExamplePiece {
        account: piece.account.name(),
        field: format!("{}{}", piece.path, extent(piece)),
        hex: hex(shown, " ") + if note.is_empty() { "" } else { " " },
        text: printable(shown),
        length: piece.len,
        note,
    }
}
