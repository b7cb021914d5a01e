//! Prints pieces on one line. Spacing depends only on the pieces, not on white space in the text.

use super::LEFT_OUT;
use super::pieces::SqlPiece;
use overhead_decode::{cut_in_the_middle, limits};

pub(super) fn line(pieces: &[SqlPiece<'_>]) -> String {
    let mut line = String::with_capacity(pieces.len() * 6);
    let mut before = None;
    for &piece in pieces {
        if before.is_some_and(|before| is_apart(before, piece)) {
            line.push(' ');
        }
        write(piece, &mut line);
        before = Some(piece);
    }
    line
}

fn write(piece: SqlPiece<'_>, line: &mut String) {
    match piece {
        SqlPiece::Literal => line.push('?'),
        SqlPiece::Marker(text)
        | SqlPiece::Word(text)
        | SqlPiece::Quoted(text)
        | SqlPiece::Open(text)
        | SqlPiece::Close(text)
        | SqlPiece::Symbol(text) => line.push_str(text),
        SqlPiece::Named(name) => {
            line.push(':');
            line.push_str(name);
        }
        SqlPiece::Reserved(word) => line.extend(word.chars().map(|letter| letter.to_ascii_uppercase())),
        SqlPiece::TooLong | SqlPiece::LeftOut => line.push_str(LEFT_OUT),
    }
}

/// Returns whether a space separates two pieces.
fn is_apart(before: SqlPiece<'_>, piece: SqlPiece<'_>) -> bool {
    match (before, piece) {
        (SqlPiece::Open(_) | SqlPiece::Symbol("." | "::"), _)
        | (_, SqlPiece::Close(_) | SqlPiece::Symbol("," | "." | ":" | "::" | ";"))
        | (SqlPiece::Word(_) | SqlPiece::Quoted(_) | SqlPiece::TooLong, SqlPiece::Open("("))
        | (SqlPiece::Word(_) | SqlPiece::Quoted(_) | SqlPiece::Close(_) | SqlPiece::Marker(_), SqlPiece::Open("[")) => {
            false
        }
        (SqlPiece::Reserved(word), SqlPiece::Open("[")) => !word.eq_ignore_ascii_case("ARRAY"),
        _ => true,
    }
}

/// Cuts the middle of a text that is too long.
pub(super) fn cut(text: String) -> String {
    if text.len() <= limits::STATEMENT { text } else { cut_in_the_middle(&text, limits::STATEMENT) }
}
