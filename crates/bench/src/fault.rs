//! How the program ends: the exit statuses of `overhead`, and errors as one sentence.

use anyhow::Error;
use std::fmt;
use std::process::ExitCode;

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

/// A wrong command line that clap could not know of.
#[derive(Debug)]
pub struct Fault(String);

impl Fault {
    /// What is wrong, and with which option.
    pub fn usage(message: String) -> Self {
        Self(message)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Fault {}

/// Prints what went wrong, if anything did, and gives the status.
pub fn code(result: Result<u8, Error>) -> ExitCode {
    let error = match result {
        Ok(status) => return ExitCode::from(status),
        Err(error) => error,
    };
    if let Some(clap) = error.downcast_ref::<clap::Error>() {
        let _ = clap.print();
        return ExitCode::from(if clap.use_stderr() { USAGE } else { COMPLETE });
    }
    eprintln!("overhead bench: {}", sentence(&error));
    ExitCode::from(if error.is::<Fault>() { USAGE } else { FAILED })
}

/// The error and its causes in one line, those left out that it names itself.
pub fn sentence(error: &Error) -> String {
    let mut sentence = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !sentence.contains(&cause) {
            sentence = format!("{sentence}: {cause}");
        }
    }
    sentence.replace('\n', " ")
}
