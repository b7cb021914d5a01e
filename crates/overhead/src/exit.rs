//! The exit statuses of the contract, in one place.

use anyhow::Error;
use std::io;
use std::process::ExitCode;

/// The result is complete.
pub const COMPLETE: u8 = 0;
/// Nothing usable came of it.
pub const FAILED: u8 = 1;
/// The command line is wrong.
pub const USAGE: u8 = 2;
/// Finished, but the result is partial; the record and standard error say why.
pub const PARTIAL: u8 = 3;

/// A wrong command line that clap could not know of.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Prints what went wrong, if anything did, and gives the status. A reader that went away is not an error.
pub fn code(result: Result<u8, Error>) -> ExitCode {
    let error = match result {
        Ok(status) => return ExitCode::from(status),
        Err(error) => error,
    };
    if let Some(clap) = error.downcast_ref::<clap::Error>() {
        // Help and version are no errors; they go to standard output.
        let _ = clap.print();
        return ExitCode::from(if clap.use_stderr() { USAGE } else { COMPLETE });
    }
    if is_broken_pipe(&error) {
        return ExitCode::from(COMPLETE);
    }
    eprintln!("overhead: {error:#}");
    ExitCode::from(if error.is::<Usage>() { USAGE } else { FAILED })
}

fn is_broken_pipe(error: &Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe))
}
