//! Finds the ends of text lines.

use crate::limits;
use overhead_decode::{DecodeStep, Malformed, near};

/// Returns a line with its LF or CRLF; `None` if it is incomplete. Skips the `scanned` bytes already searched. Fails if
/// it is longer than any line.
pub(crate) fn line<'a>(bytes: &'a [u8], scanned: &mut usize) -> DecodeStep<Option<&'a [u8]>> {
    let from = (*scanned).min(bytes.len());
    if let Some(end) = near::find(b'\n', bytes.get(from..).unwrap_or_default()) {
        *scanned = 0;
        return Ok(bytes.get(..=from + end));
    }
    *scanned = bytes.len();
    if bytes.len() > limits::LINE { Err(Malformed("a line without an end")) } else { Ok(None) }
}
