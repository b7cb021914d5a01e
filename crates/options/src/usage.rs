//! Errors in arguments as one sentence: what is wrong, then what to do.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};
use overhead_model::exit::StatusFault;
use overhead_reading::time::duration;
use std::error::Error as _;
use std::net::AddrParseError;
use std::num::{IntErrorKind, ParseIntError};
use std::path::Path;

/// Returns the sentence for an error of the parser, or `None` for one that it words better itself, such as help.
pub fn fault(error: &Error, command: &Command, words: &[String]) -> Option<StatusFault> {
    let verb = words.get(1).and_then(|verb| command.find_subcommand(verb));
    let program =
        verb.map_or_else(|| name(command).to_owned(), |verb| format!("{} {}", name(command), verb.get_name()));
    let named = context(error, ContextKind::InvalidArg);
    let argument = named.first().map_or("", |argument| short(argument));
    let text = match error.kind() {
        ErrorKind::UnknownArgument => unknown(error, command, words, argument, &program),
        ErrorKind::InvalidSubcommand => no_verb(error, &program),
        ErrorKind::ValueValidation => invalid(error, argument)?,
        ErrorKind::InvalidValue => impossible(error, named.first()?)?,
        ErrorKind::MissingRequiredArgument => {
            let missing: Vec<&str> = named.iter().map(|argument| short(argument)).collect();
            let usage = error.get(ContextKind::Usage)?.to_string();
            format!("{} is missing: write {}", missing.join(" "), usage.trim_start_matches("Usage: "))
        }
        ErrorKind::ArgumentConflict => match context(error, ContextKind::PriorArg).first().map(|prior| short(prior)) {
            Some(prior) if prior == argument => format!("{argument} is given twice: give it once"),
            Some(prior) => format!("{argument} and {prior} exclude each other: leave one out"),
            None => return None,
        },
        _ => return None,
    };
    Some(StatusFault::usage(text))
}

/// Returns the name of the program on the command line.
fn name(command: &Command) -> &str {
    command.get_bin_name().unwrap_or_else(|| command.get_name())
}

/// Returns the strings that the parser adds to an error.
fn context(error: &Error, kind: ContextKind) -> Vec<&str> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text],
        Some(ContextValue::Strings(texts)) => texts.iter().map(String::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Returns `--db` of `--db <NAME>`, and `RUN` of `<RUN>...`.
fn short(argument: &str) -> &str {
    let word = argument.split([' ', '=']).next().unwrap_or(argument);
    word.trim_end_matches("...").trim_matches(['<', '>', '[', ']'])
}

fn unknown(error: &Error, command: &Command, words: &[String], argument: &str, program: &str) -> String {
    if !argument.starts_with('-') {
        return without_dashes(words, argument)
            .unwrap_or_else(|| format!("{argument} is one argument too many: `{program} -h` lists what it takes"));
    }
    let has = |verb: &&Command| {
        let mut options = verb.get_arguments();
        options.any(|option| match argument.strip_prefix("--") {
            Some(long) => option.get_long() == Some(long),
            None => option.get_short() == argument.chars().nth(1),
        })
    };
    let remedy = match (context(error, ContextKind::SuggestedArg).first(), command.get_subcommands().find(has)) {
        (Some(similar), _) => format!("did you mean {}?", short(similar)),
        (None, Some(other)) => {
            format!("it belongs to `{} {}`; `{program} -h` lists others", name(command), other.get_name())
        }
        (None, None) => format!("`{program} -h` lists the options"),
    };
    format!("`{program}` has no option {argument}: {remedy}")
}

/// Returns the remedy for a command to capture without a preceding `--`, and for a time of two words.
fn without_dashes(words: &[String], word: &str) -> Option<String> {
    words.get(1).filter(|verb| *verb == "capture" || *verb == "sweep")?;
    let (before, after) = words.split_at(words.iter().position(|found| found == word)?);
    if let [.., option, number] = before
        && option.starts_with('-')
        && number.parse::<f64>().is_ok()
        && duration(&format!("1{word}")).is_ok()
    {
        return Some(format!("{option} takes one word: write {option} {number}{word}"));
    }
    Some(format!("put -- before the command: overhead {} -- {}", before.get(1..)?.join(" "), after.join(" ")))
}

fn no_verb(error: &Error, program: &str) -> String {
    let given = context(error, ContextKind::InvalidSubcommand).concat();
    let remedy = match context(error, ContextKind::SuggestedSubcommand).first() {
        Some(similar) => format!("did you mean `{program} {similar}`?"),
        None if Path::new(&given).exists() => format!("to read it, write `{program} analyze {given}`"),
        None => format!("`{program} --help` lists the commands"),
    };
    format!("unknown command {given}: {remedy}")
}

/// Words the fault of a value's own parser.
fn invalid(error: &Error, argument: &str) -> Option<String> {
    let value = context(error, ContextKind::InvalidValue).concat();
    let source = error.source()?;
    if let Some(number) = source.downcast_ref::<ParseIntError>() {
        let whole = value.parse::<f64>().ok().filter(|whole| whole.fract() == 0.0 && (0.0..1e15).contains(whole));
        return Some(match (number.kind(), whole) {
            (IntErrorKind::PosOverflow | IntErrorKind::NegOverflow, _) => {
                format!("{argument} {value}: the number is out of range: choose one nearer to 0")
            }
            (_, Some(whole)) => format!("{argument} takes digits: write {argument} {whole:.0}"),
            _ => format!("{argument} {value}: not a whole number: write digits, such as 1000"),
        });
    }
    if source.is::<AddrParseError>() {
        return Some(format!("{argument} {value}: not an address with a port: write one like 127.0.0.1:9474"));
    }
    let reason = source.to_string();
    let is_named = reason.starts_with(value.as_str());
    Some(if is_named { format!("{argument} {reason}") } else { format!("{argument} {value}: {reason}") })
}

/// Words a value that is missing, or not one of those possible.
fn impossible(error: &Error, argument: &str) -> Option<String> {
    let (value, option) = (context(error, ContextKind::InvalidValue).concat(), short(argument));
    if value.is_empty() {
        return Some(format!("{option} needs a value: write {argument}"));
    }
    let possible = context(error, ContextKind::ValidValue);
    if possible.is_empty() {
        return None;
    }
    if value.contains(',') && value.split(',').all(|part| possible.contains(&part)) {
        let each: Vec<String> = value.split(',').map(|part| format!("{option} {part}")).collect();
        return Some(format!("{option} takes one value: write {}", each.join(" ")));
    }
    let remedy = match context(error, ContextKind::SuggestedValue).first() {
        Some(similar) => format!("did you mean {similar}?"),
        None => format!("choose one of {}", possible.join(", ")),
    };
    Some(format!("{option}: unknown value {value}: {remedy}"))
}
