//! How the programs end: the exit statuses of the contract, and errors in one line.

use std::error::Error;

/// The result is complete.
pub const COMPLETE: u8 = 0;
/// Nothing usable came of it.
pub const FAILED: u8 = 1;
/// The command line is wrong.
pub const USAGE: u8 = 2;
/// Finished, but the result is partial; the record and standard error say why.
pub const PARTIAL: u8 = 3;
/// Ended by a second Ctrl-C, as shells have it.
pub const ABORTED: u8 = 130;

/// The error and its causes, those left out that it names itself.
pub fn sentence(error: &dyn Error) -> String {
    let mut sentence = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !sentence.contains(&said) {
            sentence = format!("{sentence}: {said}");
        }
        source = cause.source();
    }
    sentence
}
