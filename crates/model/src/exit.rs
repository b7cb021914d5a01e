//! How the programs end: the exit statuses of the contract, and errors in one line.

use crate::outside::{OutsideText, printable};
use std::error::Error;
use std::fmt::Arguments;
use std::io::{self, Write};

/// The result is complete.
pub const COMPLETE: u8 = 0;
/// Nothing usable came of it.
pub const FAILED: u8 = 1;
/// The command line is wrong.
pub const USAGE: u8 = 2;
/// Finished, but the result is partial; the record and standard error say why.
pub const PARTIAL: u8 = 3;
/// Outside the budget, or beyond a limit of a comparison.
pub const OUTSIDE: u8 = 4;
/// Ended by a second Ctrl-C, as shells have it.
pub const ABORTED: u8 = 130;

/// Says a line on standard error. That nobody reads it there is no reason to end, let alone to panic: use [`say!`](crate::say).
pub fn say(line: Arguments<'_>) {
    say_lines(&format!("{}\n", OutsideText(line)));
}

/// Says several lines of a message on standard error, each ended.
pub fn say_lines(lines: &str) {
    // In one piece, so that lines of several programs do not mix.
    let _ = io::stderr().lock().write_all(printable(lines).as_bytes());
}

/// Prints a result on standard output. A reader that went away is not an error.
///
/// # Errors
///
/// What the system said: there is no room, or nothing to write to.
pub fn print(text: &str) -> io::Result<()> {
    print_as_it_is(&printable(text))
}

/// Prints text that whoever made it has escaped for its readers.
///
/// # Errors
///
/// As [`print()`].
pub fn print_as_it_is(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed,
    }
}

/// Says a line on standard error, as `eprintln!` does; where that is closed or full, nothing happens.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => { $crate::exit::say(format_args!($($words)*)) };
}

/// Returns the error and its causes, those left out that it names itself.
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
