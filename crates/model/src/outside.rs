//! Text from outside: names from the wire, paths, names chosen by users, and messages that quote them. When shown, it must
//! not control a terminal, hide or reorder its surroundings, start a new line, or be a command to GitHub's runner.

use serde::Serialize;
use std::fmt::{self, Display, Formatter, Write};

/// A command to GitHub's runner at the start of a line, after white space.
const COMMAND: &str = "::";
/// The end of its old form, which counts anywhere in a line after two number signs.
const OLD_COMMAND_END: char = '[';
/// Starts a terminal's control sequence.
const INTRODUCER: &str = "\x1b[";

/// Text from outside. It prints as one line, with harmful characters as escapes: `\n`, `\u{1b}`.
#[derive(Clone, Copy, Debug)]
pub struct OutsideText<T>(pub T);

impl<T: Display> Display for OutsideText<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        each_harmful(&self.0.to_string(), f, |f, character| match character {
            OLD_COMMAND_END => write!(f, "{}", character.escape_unicode()),
            _ => write!(f, "{}", character.escape_default()),
        })
    }
}

/// Escapes harmful characters in our own output but keeps colours.
pub fn printable(text: &str) -> String {
    text.split('\n').map(printable_line).collect::<Vec<_>>().join("\n")
}

fn printable_line(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    for (at, part) in line.split(INTRODUCER).enumerate() {
        let end = part.find(|character: char| !character.is_ascii_digit() && character != ';').unwrap_or(part.len());
        let (colour, text) = match part.get(end..).and_then(|rest| rest.strip_prefix('m')) {
            Some(text) if at > 0 => (part.get(..=end).unwrap_or_default(), text),
            _ => ("", part),
        };
        if !colour.is_empty() {
            out.extend([INTRODUCER, colour]);
        } else if at > 0 {
            out.push_str(&OutsideText(INTRODUCER).to_string());
        }
        out.push_str(&OutsideText(text).to_string());
    }
    if out.trim_start().starts_with(COMMAND) { out.replacen(COMMAND, "\\u{3a}:", 1) } else { out }
}

/// Returns a value as indented JSON with a final newline. Harmful characters are escaped, so it parses to the same text.
///
/// # Errors
///
/// Fails if a number is not finite, or a map's key is not text.
pub fn to_json(value: &impl Serialize) -> serde_json::Result<String> {
    Ok(json_escaped(&serde_json::to_string_pretty(value)?) + "\n")
}

/// Escapes harmful characters in JSON. Outside of strings it has none but line feeds.
pub fn json_escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let _ = each_harmful(json, &mut out, |out, character| match character {
        '\n' => out.write_char(character),
        _ => character.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}")),
    });
    out
}

/// Copies text and calls `escape` for each harmful character.
fn each_harmful<W: Write>(text: &str, out: &mut W, escape: impl Fn(&mut W, char) -> fmt::Result) -> fmt::Result {
    let mut signs = 0;
    for character in text.chars() {
        let is_command = character == OLD_COMMAND_END && signs >= 2;
        signs = if character == '#' { signs + 1 } else { 0 };
        if is_command || is_harmful(character) { escape(out, character)? } else { out.write_char(character)? }
    }
    Ok(())
}

/// Returns whether a character is a control character, reorders text, separates lines, or is invisible.
pub fn is_harmful(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}'
                | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{fffe}'..='\u{ffff}' | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "GET\x1b[2J\r\n\u{9b}31m\u{202e}\u{61c}\u{ad}\u{e0041}\u{7f}";

    #[test]
    fn outside_text_is_one_line_without_a_harmful_character() {
        let shown = OutsideText(HOSTILE).to_string();
        assert_eq!(shown, "GET\\u{1b}[2J\\r\\n\\u{9b}31m\\u{202e}\\u{61c}\\u{ad}\\u{e0041}\\u{7f}");
        assert_eq!(OutsideText(&shown).to_string(), shown);
        assert_eq!(OutsideText("Zürich 東京 ❤\u{fe0f}").to_string(), "Zürich 東京 ❤\u{fe0f}");
    }

    #[test]
    fn no_text_is_a_command_to_githubs_runner() {
        assert_eq!(OutsideText("a ##[error]b ###[x] #[y]").to_string(), "a ##\\u{5b}error]b ###\\u{5b}x] #[y]");
        assert_eq!(printable("::error::a\n  ::b::c\n[::1]:6379\n"), "\\u{3a}:error::a\n  \\u{3a}:b::c\n[::1]:6379\n");
    }

    #[test]
    fn colours_are_printed_and_no_other_sequence() {
        let coloured = "\x1b[1mbold\x1b[0m\nand \x1b[1;31mred\x1b[0m\n";
        assert_eq!(printable(coloured), coloured);
        assert_eq!(printable("\x1b[2J\x1b]0;x\x07\x1b[m\x1b["), "\\u{1b}[2J\\u{1b}]0;x\\u{7}\x1b[m\\u{1b}[");
    }

    #[test]
    fn json_parses_to_the_same_text() {
        let text = format!("{HOSTILE} ##[error]x \u{1f600}");
        let json = to_json(&[&text]).unwrap();
        assert!(!json.chars().any(|c| is_harmful(c) && c != '\n') && !json.contains("##["), "{json}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&json).unwrap(), [text]);
    }
}
