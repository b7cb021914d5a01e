//! Detects statements that differ only in placeholder syntax.

/// Returns the statement with every placeholder as `?`, the form of normalised literals; PostgreSQL and CQL use `$1` and
/// `:name`. Leaves casts (`::int`) and double-quoted text unchanged.
pub(crate) fn shape(statement: &str) -> String {
    let mut out = String::with_capacity(statement.len());
    let mut rest = statement;
    let mut is_quoted = false;
    let mut before = ' ';
    while let Some(next) = rest.chars().next() {
        is_quoted ^= next == '"';
        let length = if is_quoted || is_word(before) { 0 } else { placeholder(rest, before) };
        let taken = if length > 0 { length } else { next.len_utf8() };
        out.push_str(if length > 0 { "?" } else { rest.get(..taken).unwrap_or_default() });
        before = next;
        rest = rest.get(taken..).unwrap_or_default();
    }
    out
}

/// Returns whether two statements are equal apart from placeholder syntax, or both are absent.
pub(crate) fn is_same_statement(a: Option<&str>, b: Option<&str>) -> bool {
    a == b || a.zip(b).is_some_and(|(a, b)| shape(a) == shape(b))
}

/// Returns the length of the placeholder at the start of the text, or 0.
fn placeholder(text: &str, before: char) -> usize {
    let (sign, is_part): (char, fn(char) -> bool) = match text.chars().next() {
        Some('$') => ('$', |c| c.is_ascii_digit()),
        Some(':') if before != ':' => (':', is_word),
        _ => return 0,
    };
    let name = text.get(sign.len_utf8()..).unwrap_or_default();
    let length = name.find(|c| !is_part(c)).unwrap_or(name.len());
    if length == 0 { 0 } else { sign.len_utf8() + length }
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_of_every_kind_are_the_same() {
        let simple = "SELECT abalance FROM pgbench_accounts WHERE aid = ?";
        for text in ["aid = $1", "aid = $12", "aid = :aid", "aid = ?"] {
            assert_eq!(shape(&simple.replace("aid = ?", text)), simple);
        }
        assert_eq!(shape("VALUES ($1,$2, :b)"), "VALUES (?,?, ?)");
    }

    #[test]
    fn what_only_looks_like_one_stays() {
        for text in ["SELECT a::int", "SELECT \"a $1 :b\"", "SELECT t$1 FROM x", "GET key:#", "GET a:b:c"] {
            assert_eq!(shape(text), text);
        }
    }
}
