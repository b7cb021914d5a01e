//! Maps errors to exit statuses.

use anyhow::Error;
use overhead_model::exit::{COMPLETE, FAILED, StatusFault, USAGE, say_lines, sentence};
use overhead_model::say;
use std::io;
use std::process::ExitCode;

/// Prints the error, if there is one, and returns the status. A closed reader is not an error.
pub fn code(result: Result<u8, Error>) -> ExitCode {
    let error = match result {
        Ok(status) => return ExitCode::from(status),
        Err(error) => error,
    };
    if let Some(clap) = error.downcast_ref::<clap::Error>() {
        return ExitCode::from(if clap.use_stderr() {
            // Plain text, because it quotes the command line.
            say_lines(&clap.render().to_string());
            USAGE
        } else {
            let _ = clap.print();
            COMPLETE
        });
    }
    if is_broken_pipe(&error) {
        return ExitCode::from(COMPLETE);
    }
    say!("overhead: {}", sentence(&*error));
    ExitCode::from(error.downcast_ref().map_or(FAILED, |fault: &StatusFault| fault.status))
}

fn is_broken_pipe(error: &Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn a_cause_is_named_once() {
        let cause = || io::Error::other("disk full");
        let named = Err::<(), _>(cause()).context("cannot write (disk full): make room").unwrap_err();
        assert_eq!(sentence(&*named), "cannot write (disk full): make room");
        let unnamed = Err::<(), _>(cause()).context("cannot write").unwrap_err();
        assert_eq!(sentence(&*unnamed), "cannot write: disk full");
    }
}
