//! Reads a command line.

use crate::usage;
use anyhow::Result;
use clap::{ArgMatches, ColorChoice, Command, Parser};

/// Reads the command line of a program.
pub fn parsed<T: Parser>() -> Result<T> {
    Ok(T::from_arg_matches(&matches(T::command())?)?)
}

/// Matches the command line against its definition.
///
/// # Errors
///
/// A [`StatusFault`](overhead_model::exit::StatusFault) for a mistake, or clap's own error, such as its help.
pub fn matches(command: Command) -> Result<ArgMatches> {
    let command = if no_color() { command.color(ColorChoice::Never) } else { command };
    command.clone().try_get_matches().map_err(|error| {
        let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
        usage::fault(&error, &command, &words).map_or(error.into(), Into::into)
    })
}

/// Returns whether the user wants no colour (<https://no-color.org>).
pub fn no_color() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}
