//! How the program ends: what went wrong, as one line and as an exit status.

use anyhow::Error;
use overhead_model::exit::{self, COMPLETE, FAILED, USAGE};
use std::fmt;
use std::process::ExitCode;

/// A wrong command line that clap could not know of.
#[derive(Debug)]
pub struct Fault(String);

impl Fault {
    /// Returns what is wrong, and with which option.
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

/// Returns the error and its causes in one line, those left out that it names itself.
pub fn sentence(error: &Error) -> String {
    exit::sentence(&**error).replace('\n', " ")
}
