//! Turns errors into one line and an exit status.

use anyhow::Error;
use overhead_model::exit::{self, COMPLETE, FAILED, StatusFault, USAGE};
use overhead_model::say;
use std::process::ExitCode;

/// Prints the error, if any, and returns the exit code.
pub fn exit_code(result: Result<u8, Error>) -> ExitCode {
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
    ExitCode::from(if error.is::<StatusFault>() { USAGE } else { FAILED })
}

/// Returns the error and its causes in one line, without causes that it already names.
pub fn sentence(error: &Error) -> String {
    exit::sentence(&**error).replace('\n', " ")
}
