//! Exit statuses, and errors on one line.

use crate::outside::{OutsideText, printable};
use std::error::Error;
use std::fmt::{self, Arguments, Display, Formatter};
use std::io::{self, Write};

/// The result is complete.
pub const COMPLETE: u8 = 0;
/// There is no usable result.
pub const FAILED: u8 = 1;
pub const USAGE: u8 = 2;
/// The result is partial; the record and standard error give the reason.
pub const PARTIAL: u8 = 3;
/// Over a budget, or beyond a limit of a comparison.
pub const OUTSIDE: u8 = 4;
/// Ended by a second Ctrl-C, with the status that shells use.
pub const ABORTED: u8 = 130;

/// Writes a line to standard error. Ignores errors, so that a closed stream cannot end the program. Use
/// [`say!`](crate::say).
pub fn say(line: Arguments<'_>) {
    say_lines(&format!("{}\n", OutsideText(line)));
}

/// Writes a message of several complete lines to standard error.
pub fn say_lines(lines: &str) {
    // One write, so that lines of several programs do not mix.
    let _ = io::stderr().lock().write_all(printable(lines).as_bytes());
}

/// Prints a result on standard output. A reader that closed the pipe is not an error.
///
/// # Errors
///
/// Returns other errors of the system, such as a full disk.
pub fn print(text: &str) -> io::Result<()> {
    print_as_it_is(&printable(text))
}

/// Prints text that is already escaped.
///
/// # Errors
///
/// Like [`print()`].
pub fn print_as_it_is(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed,
    }
}

/// Like `eprintln!`, but ignores a standard error that is closed or full.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => { $crate::exit::say(format_args!($($words)*)) };
}

/// Returns the error and its causes. Leaves out a cause that the text already names.
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

/// An error with its own exit status.
#[derive(Debug)]
pub struct StatusFault {
    /// The exit status.
    pub status: u8,
    message: String,
}

impl StatusFault {
    /// Returns an error in the arguments or in what they name.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { status: USAGE, message: message.into() }
    }

    /// Returns the error for a user's request to stop; a capture needs two requests. `kept` describes what remains of the run.
    pub fn aborted(kept: &str) -> Self {
        Self { status: ABORTED, message: format!("aborted: {kept}") }
    }
}

impl Display for StatusFault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for StatusFault {}

/// Returns with a [`StatusFault`] for wrong usage, in place of `Ok`.
#[macro_export]
macro_rules! bail_usage {
    ($($message:tt)*) => {
        return Err($crate::exit::StatusFault::usage(format!($($message)*)).into())
    };
}
