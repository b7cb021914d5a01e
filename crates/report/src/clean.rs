//! Sanitises names from the wire and from users, so that none can control a terminal, break a cell or escape from a document.

use overhead_model::OutsideText;

/// Escapes harmful characters in external text.
pub fn clean(text: &str) -> String {
    OutsideText(text).to_string()
}

/// Escapes Markdown and HTML in text for a GitHub table cell or a document line. Formats words as code if GitHub would turn
/// them into links, mentions, formulas or pictures despite escapes.
pub fn markdown_cell(text: &str) -> String {
    let words = clean(text);
    let words = words.split(' ').map(|word| if is_active(word) { active_word(word) } else { escaped(word) });
    words.collect::<Vec<_>>().join(" ")
}

/// Formats a word as code, without the punctuation of the sentence behind it.
fn active_word(word: &str) -> String {
    let name = match word.trim_end_matches([':', ',', ';', '.']) {
        name if name.is_empty() || name.starts_with(':') => word,
        name => name,
    };
    let behind = word.strip_prefix(name).unwrap_or_default();
    format!("{}{}", code_span(&name.replace('|', "\\|")), escaped(behind))
}

/// Returns text with a capital first letter.
pub(crate) fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

/// Formats text as code, with more backquotes than any run within it.
pub(crate) fn code_span(text: &str) -> String {
    let longest = text.split(|character| character != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(1) + 1);
    format!("{fence} {text} {fence}")
}

/// Returns whether GitHub acts on a word, such as `https://…`, `www.…`, `a@b`, `$…$`, `#12`, `GH-12` or `:name:`.
fn is_active(word: &str) -> bool {
    let is_number = |rest: &str| rest.starts_with(|character: char| character.is_ascii_digit());
    let is_reference = |mark: &str| word.split(mark).skip(1).any(is_number);
    let names = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"_+-".contains(&b));
    word.contains(['@', '$'])
        || ["://", "www."].iter().any(|begin| word.contains(begin))
        || ["#", "GH-", "gh-"].into_iter().any(is_reference)
        || word
            .split_once(':')
            .and_then(|(_, rest)| rest.rsplit_once(':'))
            .is_some_and(|(inside, _)| inside.split(':').any(names))
}

fn escaped(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    for character in word.chars() {
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

/// Cuts text to `chars` characters, with a final ellipsis if it omits any.
pub(crate) fn shortened(text: &str, chars: usize) -> String {
    if text.chars().count() <= chars {
        return text.to_owned();
    }
    let mut out: String = text.chars().take(chars.saturating_sub(1)).collect();
    out.push('…');
    out
}

/// Cuts text to `chars` characters, with an ellipsis in the middle: names often start alike and differ at their ends.
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
    fn what_github_acts_upon_despite_escapes_is_code() {
        let shown = "at `` http://a/`x\\|y `` by `` @me `` for `` $1 `` in 12:30 \\[::1\\]:6379";
        assert_eq!(markdown_cell("at http://a/`x|y by @me for $1 in 12:30 [::1]:6379"), shown);
        for word in ["www.a.b", "a@b.c", "#1", "o/r#12", "GH-3", ":tada:", "key:lock:1", "ftp://a"] {
            assert_eq!(markdown_cell(word), format!("`` {word} ``"));
        }
        assert_eq!(code_span("a``b```c"), "```` a``b```c ````");
    }

    #[test]
    fn names_cannot_steer_what_shows_them() {
        assert_eq!(clean("GET\x1b[2J\r\n"), "GET\\u{1b}[2J\\r\\n");
        assert_eq!(markdown_cell("a|b <script> set_x #"), "a\\|b &lt;script&gt; set\\_x \\#");
        assert_eq!(shortened("abcdef", 4), "abc…");
        assert_eq!(["abcdefgh", "abcde"].map(|text| middle_cut(text, 5)), ["ab…gh", "abcde"]);
        assert_eq!([0, 1, 2, 4].map(|chars| middle_cut("abcdefgh", chars)), ["…", "…", "a…", "ab…h"]);
    }
}
