//! The commands of Redis and Valkey, with their keys and option tokens, from the table in `commands.txt`.

use std::sync::LazyLock;

/// All commands and subcommands (`CLIENT|LIST`), sorted by name.
pub(super) static COMMANDS: LazyLock<Vec<CommandSpec>> =
    LazyLock::new(|| include_str!("commands.txt").lines().filter_map(CommandSpec::parse).collect());

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "columns of a table")]
pub(super) struct CommandSpec {
    /// `GET`, or `CLIENT|LIST` for a subcommand.
    pub name: &'static str,
    /// The command changes data: its integer replies count changes.
    pub write: bool,
    /// The first argument is a subcommand.
    pub container: bool,
    /// Where keys are among the arguments.
    pub keys: Vec<KeySpec>,
    /// Positional arguments before the first possible option token.
    pub leading: u32,
    /// Positional arguments follow the tokens; the first word that is no token ends them.
    pub positional_after: bool,
    /// The first argument that is not an option token is the text of a script.
    pub script: bool,
    /// Option tokens with the number of values after each; [`REST`] if all further arguments are values.
    pub tokens: Vec<(&'static str, u8)>,
}

pub(super) const REST: u8 = 255;

impl CommandSpec {
    /// Parses a line of the table; `None` for a comment.
    fn parse(line: &'static str) -> Option<Self> {
        let mut words = line.split(' ').filter(|_| !line.starts_with('#'));
        let (name, flags) = (words.next()?, words.next()?);
        let mut command = Self {
            name,
            write: flags.contains('w'),
            container: flags.contains('c'),
            keys: Vec::new(),
            leading: words.next()?.parse().ok()?,
            positional_after: flags.contains('p'),
            script: flags.contains('s'),
            tokens: Vec::new(),
        };
        for word in words {
            if let Some(keys) = word.strip_prefix('@') {
                command.keys.push(KeySpec::parse(keys)?);
            } else {
                let (token, values) = word.split_once(':').unwrap_or((word, "0"));
                command.tokens.push((token, values.parse().ok()?));
            }
        }
        Some(command)
    }

    /// Returns the entry for an upper-case name.
    pub fn named(name: &str) -> Option<&'static Self> {
        let index = COMMANDS.binary_search_by(|command| command.name.cmp(name)).ok()?;
        COMMANDS.get(index)
    }

    /// Returns whether the position of keys depends on the content of arguments, an option or a number.
    pub fn has_keys_by_content(&self) -> bool {
        self.keys.iter().any(|keys| !matches!(keys, KeySpec { begin: BeginSearch::At(_), find: FindKeys::Range(..) }))
    }

    /// Returns whether an argument states the number of keys.
    pub fn counts_keys(&self) -> bool {
        self.keys.iter().any(|keys| matches!(keys.find, FindKeys::Count(..)))
    }

    /// Returns the number of values after an option token; `None` if it is not one.
    pub fn token(&self, word: &[u8]) -> Option<u8> {
        let found = self.tokens.iter().find(|(token, _)| token.as_bytes().eq_ignore_ascii_case(word));
        found.map(|(_, values)| *values)
    }
}

/// The position of keys, as specified by servers (`COMMAND INFO`: key specifications). Indexes count from the command
/// word, which is 0; a subcommand is 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeySpec {
    pub begin: BeginSearch,
    pub find: FindKeys,
}

/// Where the search for keys starts.
#[derive(Clone, Copy, Debug)]
pub(super) enum BeginSearch {
    At(u32),
    After(&'static str),
}

/// Which arguments are keys.
#[derive(Clone, Copy, Debug)]
pub(super) enum FindKeys {
    /// From the start to the last key (counted from the first, or if negative, from the end), with a step. The last
    /// number limits the range: to all arguments (0 and 1), one half, ...
    Range(i32, u32, u32),
    /// Offset of the number of keys and of the first key, from the start, and the step.
    Count(u32, u32, u32),
}

impl KeySpec {
    /// Parses a key specification: where the search starts, `=` or `#`, and the numbers of [`FindKeys`].
    fn parse(text: &'static str) -> Option<Self> {
        let (begin, find) = text.split_at_checked(text.find(['=', '#'])?)?;
        let (kind, numbers) = find.split_at_checked(1)?;
        let mut numbers = numbers.split(',').map(|number| number.parse::<i32>().ok());
        let (first, second, third) = (numbers.next()??, numbers.next()??, numbers.next()??);
        let (second, third) = (second.cast_unsigned(), third.cast_unsigned());
        let find = match kind {
            "=" => FindKeys::Range(first, second, third),
            _ => FindKeys::Count(first.cast_unsigned(), second, third),
        };
        Some(Self { begin: begin.parse().map_or(BeginSearch::After(begin), BeginSearch::At), find })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_command_and_they_are_sorted() {
        let lines = include_str!("commands.txt").lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(COMMANDS.len(), lines);
        assert!(COMMANDS.is_sorted_by_key(|command| command.name));
        let read = CommandSpec::named("XREAD").unwrap();
        assert_eq!(format!("{:?}", read.keys), "[KeySpec { begin: After(\"STREAMS\"), find: Range(-1, 1, 2) }]");
        assert_eq!(read.tokens, [("BLOCK", 1), ("COUNT", 1), ("STREAMS", REST)]);
        let pop = CommandSpec::named("BLMPOP").unwrap();
        assert_eq!(format!("{:?}", pop.keys), "[KeySpec { begin: At(2), find: Count(0, 1, 1) }]");
        assert!(pop.write && pop.leading == 2 && !pop.container);
    }
}
