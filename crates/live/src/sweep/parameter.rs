//! The parameters of a command, with their values and placeholders.

use overhead_model::exit::StatusFault;
use std::collections::BTreeMap;

/// A parameter of the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepParameter {
    /// Its name; `{name}` in the command is replaced by a value.
    pub name: String,
    /// Its values, in the order of the command line.
    pub values: Vec<String>,
}

/// Maximum combinations: each gets a folder of runs, and nobody reads more.
const COMBINATIONS: usize = 1_000;

/// Keys of runs that are not parameters.
const RESERVED: [&str; 2] = ["run", "system"];

/// Parses `P=1,10,25,50`.
pub fn parse(text: &str) -> Result<SweepParameter, String> {
    let (name, values) = text.split_once('=').ok_or("give a name and its values, such as P=1,10,25,50")?;
    if !is_name(name) {
        return Err(format!("invalid name {name:?}: use letters, digits and _, and start with a letter"));
    }
    if RESERVED.contains(&name) {
        return Err(format!("{name} is a key that every run has: choose another name, here and in the command"));
    }
    let values: Vec<String> = values.split(',').map(str::to_owned).collect();
    if values.iter().any(String::is_empty) {
        return Err(format!("a value of {name} is empty: give at least one, separated by single commas"));
    }
    if let Some((_, twice)) = values.iter().enumerate().find(|(at, value)| values[..*at].contains(value)) {
        return Err(format!("{name} has the value {twice} twice"));
    }
    Ok(SweepParameter { name: name.to_owned(), values })
}

fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// Returns the parameters with one value each, as in a run's record.
pub fn assigned(parameters: &[SweepParameter], values: &[String]) -> BTreeMap<String, String> {
    parameters.iter().map(|parameter| parameter.name.clone()).zip(values.iter().cloned()).collect()
}

/// Returns all combinations of the values. The last parameter varies fastest.
pub fn combinations(parameters: &[SweepParameter]) -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    for parameter in parameters {
        let longer = |before: &Vec<String>| -> Vec<Vec<String>> {
            parameter.values.iter().map(|value| before.iter().cloned().chain([value.clone()]).collect()).collect()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

/// Checks that the parameters and the command match.
///
/// # Errors
///
/// Fails for a repeated name, a parameter that the command does not use, braces around anything else, or too many combinations.
pub fn check(parameters: &[SweepParameter], command: &[String]) -> Result<(), StatusFault> {
    let fault = |message: String| Err(StatusFault::usage(message));
    let names: Vec<&str> = parameters.iter().map(|parameter| &*parameter.name).collect();
    let used: Vec<&str> = command.iter().flat_map(|word| pieces(word)).filter_map(CommandPiece::placeholder).collect();
    for (at, name) in names.iter().enumerate() {
        if names[..at].contains(name) {
            return fault(format!("--vary {name} is there twice: name all its values at once, separated by commas"));
        }
        if !used.contains(name) {
            return fault(format!("--vary {name}: the command has no {{{name}}}: put it where the value belongs"));
        }
    }
    if let Some(unknown) = used.iter().find(|name| !names.contains(name)) {
        return fault(format!(
            "{{{unknown}}} in the command is not a parameter: give its values with --vary {unknown}=…, or write \
             {{{{{unknown}}}}} where the command is to receive {{{unknown}}}"
        ));
    }
    let count = parameters.iter().map(|parameter| parameter.values.len()).try_fold(1, usize::checked_mul);
    match count.filter(|count| *count <= COMBINATIONS) {
        Some(_) => Ok(()),
        None => fault(format!("--vary: more than {COMBINATIONS} combinations: give fewer values")),
    }
}

/// Returns the command with values in place of the parameters.
pub fn filled(command: &[String], parameters: &[SweepParameter], values: &[String]) -> Vec<String> {
    let value = |name: &str| {
        parameters.iter().zip(values).find(|(known, _)| known.name == name).map_or("", |(_, value)| value.as_str())
    };
    let piece = |piece: CommandPiece<'_>| match piece {
        CommandPiece::Text(text) => text.to_owned(),
        CommandPiece::Braced(name) => format!("{{{name}}}"),
        CommandPiece::Placeholder(name) => value(name).to_owned(),
    };
    command.iter().map(|word| pieces(word).into_iter().map(piece).collect()).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommandPiece<'a> {
    /// Literal text, including braces that enclose no name.
    Text(&'a str),
    /// `{{name}}`, which the command receives as `{name}`.
    Braced(&'a str),
    /// `{name}`.
    Placeholder(&'a str),
}

impl<'a> CommandPiece<'a> {
    fn placeholder(self) -> Option<&'a str> {
        if let Self::Placeholder(name) = self { Some(name) } else { None }
    }
}

fn pieces(word: &str) -> Vec<CommandPiece<'_>> {
    let mut pieces = Vec::new();
    let (mut rest, mut from) = (word, 0);
    while let Some(at) = rest.get(from..).and_then(|tail| tail.find('{')).map(|at| at + from) {
        let (before, tail) = rest.split_at(at);
        let Some((piece, after)) = placeholder(tail) else {
            from = at + 1;
            continue;
        };
        pieces.extend([CommandPiece::Text(before), piece]);
        (rest, from) = (after, 0);
    }
    pieces.push(CommandPiece::Text(rest));
    pieces
}

/// Returns the placeholder at the beginning, and what follows it.
fn placeholder(text: &str) -> Option<(CommandPiece<'_>, &str)> {
    let escaped = text.strip_prefix("{{").and_then(|rest| rest.split_once("}}"));
    if let Some((name, after)) = escaped.filter(|(name, _)| is_name(name)) {
        return Some((CommandPiece::Braced(name), after));
    }
    let (name, after) = text.strip_prefix('{')?.split_once('}')?;
    is_name(name).then_some((CommandPiece::Placeholder(name), after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn two() -> Vec<SweepParameter> {
        vec![parse("P=1,10").unwrap(), parse("c=a,b,c").unwrap()]
    }

    #[test]
    fn values_are_read_and_what_is_none_is_named() {
        assert_eq!(parse("P=1,10,25").unwrap().values, ["1", "10", "25"]);
        assert_eq!(parse("mode=a=b,c").unwrap().values, ["a=b", "c"]);
        for (text, said) in [
            ("P", "P=1,10,25,50"),
            ("=1", "invalid name"),
            ("1=1", "invalid name"),
            ("P=", "empty"),
            ("P=1,,2", "empty"),
            ("P=1,2,1", "the value 1 twice"),
            ("system=a,b", "every run has"),
        ] {
            let fault = parse(text).unwrap_err();
            assert!(fault.contains(said), "{text}: {fault}");
        }
    }

    #[test]
    fn every_combination_is_there_once_and_the_last_parameter_varies_fastest() {
        let all: Vec<String> = combinations(&two()).iter().map(|values| values.join(" ")).collect();
        assert_eq!(all, ["1 a", "1 b", "1 c", "10 a", "10 b", "10 c"]);
    }

    #[test]
    fn values_stand_in_their_places_and_other_braces_stay() {
        let command = words("run -P{P} {c}:{P} {{P}} {\"a\":{\"b\":1}} {1..3} ${ { {c}} }{c");
        assert!(check(&two(), &command).is_ok());
        let filled = filled(&command, &two(), &["10".to_owned(), "b".to_owned()]);
        assert_eq!(filled.join(" "), "run -P10 b:10 {P} {\"a\":{\"b\":1}} {1..3} ${ { b} }{c");
    }

    #[test]
    fn a_command_and_parameters_that_do_not_fit_are_refused() {
        let said = |parameters: &[SweepParameter], command: &str| {
            check(parameters, &words(command)).map_err(|fault| fault.to_string()).unwrap_err()
        };
        assert!(said(&two(), "run {P}").contains("no {c}"));
        let unknown = said(&two(), "run {P} {c} {X}");
        assert!(unknown.contains("--vary X=") && unknown.contains("{{X}}"), "{unknown}");
        assert!(said(&[two(), two()].concat(), "run {P} {c}").contains("twice"));
        let many = parse(&format!("P={}", (0..1_001).map(|n| n.to_string()).collect::<Vec<_>>().join(","))).unwrap();
        assert!(said(&[many], "run {P}").contains("1000 combinations"));
    }
}
