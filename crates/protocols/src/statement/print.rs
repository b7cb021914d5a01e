//! Pieces to one line of text. White space depends on the pieces alone, not on where the text had some.

use super::LEFT_OUT;
use super::pieces::Piece;
use overhead_decode::{cut_in_the_middle, limits};
use std::fmt::Write as _;

/// Returns the text of a statement.
pub(super) fn line(pieces: &[Piece<'_>]) -> String {
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

fn write(piece: Piece<'_>, line: &mut String) {
    match piece {
        Piece::Literal => line.push('?'),
        Piece::Marker(text) | Piece::Word(text) | Piece::Open(text) | Piece::Close(text) => line.push_str(text),
        Piece::Named(name) => {
            line.push(':');
            line.push_str(name);
        }
        Piece::Reserved(word) => line.extend(word.chars().map(|letter| letter.to_ascii_uppercase())),
        Piece::Quoted(quote, name) => {
            line.push(quote);
            line.push_str(name);
            line.push(quote);
        }
        Piece::TooLong | Piece::LeftOut => line.push_str(LEFT_OUT),
        Piece::Comma => line.push(','),
        Piece::Period => line.push('.'),
        Piece::Colon => line.push(':'),
        Piece::Cast => line.push_str("::"),
        Piece::End => line.push(';'),
        Piece::Symbol(token) => {
            // A string takes all that is written to it.
            let _ = write!(line, "{token}");
        }
    }
}

/// Returns whether a space stands between two pieces.
fn is_apart(before: Piece<'_>, piece: Piece<'_>) -> bool {
    match (before, piece) {
        (Piece::Open(_) | Piece::Period | Piece::Cast, _)
        | (_, Piece::Close(_) | Piece::Comma | Piece::Period | Piece::Colon | Piece::Cast | Piece::End)
        | (Piece::Word(_) | Piece::Quoted(..) | Piece::TooLong, Piece::Open("("))
        | (Piece::Word(_) | Piece::Quoted(..) | Piece::Close(_) | Piece::Marker(_), Piece::Open("[")) => false,
        (Piece::Reserved(word), Piece::Open("[")) => !word.eq_ignore_ascii_case("ARRAY"),
        _ => true,
    }
}

/// Cuts a text that is too long in its middle.
pub(super) fn cut(text: String) -> String {
    if text.len() <= limits::STATEMENT { text } else { cut_in_the_middle(&text, limits::STATEMENT) }
}
