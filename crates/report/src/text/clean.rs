//! Names come from the wire and from users: nothing in them may steer a terminal, break a cell or leave a document.

/// Control and formatting characters written as escapes.
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || is_invisible(character) {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}

/// Marks that reorder or hide text.
const fn is_invisible(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Text for a cell of a GitHub table, with what Markdown and HTML would act upon escaped.
pub(crate) fn markdown_cell(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in clean(text).chars() {
        match character {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '~' => out.extend(['\\', character]),
            _ => out.push(character),
        }
    }
    out
}

/// At most `chars` characters, the last an ellipsis where some are left out.
pub(crate) fn shortened(text: &str, chars: usize) -> String {
    if text.chars().count() <= chars {
        return text.to_owned();
    }
    let mut out: String = text.chars().take(chars.saturating_sub(1)).collect();
    out.push('…');
    out
}

/// At most `chars` characters, with an ellipsis in the middle where some are left out: names often begin alike and differ at their
/// end.
pub fn middle_cut(text: &str, chars: usize) -> String {
    let count = text.chars().count();
    if count <= chars {
        return text.to_owned();
    }
    let tail = chars.saturating_sub(1) / 2;
    let mut out = shortened(text, chars.saturating_sub(tail));
    out.extend(text.chars().skip(count - tail));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_steer_what_shows_them() {
        assert_eq!(clean("GET\x1b[2J\r\n"), "GET\\u{1b}[2J\\r\\n");
        assert_eq!(clean("a\u{202e}b"), "a\\u{202e}b");
        assert_eq!(markdown_cell("a|b <script> $set_x"), "a\\|b &lt;script&gt; $set\\_x");
        assert_eq!(shortened("abcdef", 4), "abc…");
        assert_eq!(["abcdefgh", "abcde"].map(|text| middle_cut(text, 5)), ["ab…gh", "abcde"]);
        assert_eq!([0, 1, 2, 4].map(|chars| middle_cut("abcdefgh", chars)), ["…", "…", "a…", "ab…h"]);
    }
}
