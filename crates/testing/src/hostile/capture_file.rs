//! Treats arbitrary bytes as a capture file.

use crate::hostile::sum::{Sum, settle};
use overhead_capture::{FileSource, FrameSource, NextFrame};
use overhead_dissect::{Dissector, Selection};
use std::io::Cursor;

/// Reads `input` to its end, or to the first invalid byte.
pub(crate) fn run(input: &[u8]) {
    let Ok(mut source) = FileSource::from_reader("input", Cursor::new(input.to_vec())) else { return };
    let mut dissector = Dissector::new(Selection::default(), Sum::default());
    let mut frames = 0;
    while let Ok(NextFrame::Frame(frame)) = source.next_frame() {
        dissector.frame(&frame);
        frames += 1;
    }
    assert_eq!(settle(dissector).frames, frames, "frames read and frames counted");
}
