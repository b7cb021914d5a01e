//! How the program ends: what went wrong, as one line and as an exit status.

use anyhow::Error;
use overhead_model::exit::{self, COMPLETE, FAILED, USAGE};
use overhead_model::say;
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
        return ExitCode::from(if clap.use_stderr() {
            exit::say_lines(&clap.render().to_string());
            USAGE
        } else {
            let _ = clap.print();
            COMPLETE
        });
    }
    say!("overhead bench: {}", sentence(&error));
    ExitCode::from(if error.is::<Fault>() { USAGE } else { FAILED })
}

/// Returns the error and its causes in one line, those left out that it names itself.
pub fn sentence(error: &Error) -> String {
    exit::sentence(&**error).replace('\n', " ")
}
