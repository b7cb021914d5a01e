//! Finds numbers in a text whose values do not matter.

use std::ops::Range;

/// Returns the ranges of the numbers in `text`: runs of digits that are not part of a word. `$1` (PostgreSQL), `0x1f` and
/// `1e5` contain none.
pub fn numbers(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let start = at + text.get(at..)?.iter().position(u8::is_ascii_digit)?;
            let digits = text.get(start..).unwrap_or_default();
            let end = start + digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
            at = end;
            let before = start.checked_sub(1).and_then(|before| text.get(before));
            let is_part = |byte: &u8| byte.is_ascii_alphabetic() || matches!(byte, b'_' | 128..);
            let is_bound =
                before.is_some_and(|byte| is_part(byte) || *byte == b'$') || text.get(end).is_some_and(is_part);
            if !is_bound {
                return Some(start..end);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn parts_of_words_are_no_numbers() {
        let found = |text: &str| numbers(text.as_bytes()).map(|at| text[at].to_owned()).collect::<Vec<_>>();
        assert_eq!(found("SELECT a1 FROM t_2 WHERE id = 17 AND b IN (1,23) LIMIT $3"), ["17", "1", "23"]);
        assert_eq!(found("1.5 -2 0x1f 1e5 3e 7"), ["1", "5", "2", "7"]);
        assert_eq!(found("é1 1é 12"), ["12"]);
        assert_eq!(found("42"), ["42"]);
        assert_eq!(found(""), Vec::<String>::new());
    }
}
