//! Lists of values: however many there are, they are one.

use super::pieces::Piece;

/// The groups that are open, in brackets of any kind.
#[derive(Debug, Default)]
pub(super) struct Lists {
    open: Vec<Group>,
    /// The row of values that ended last: where it begins, and behind its end.
    row: Option<(usize, usize)>,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    at: usize,
    kind: Kind,
    /// It holds values and what stands between them, and nothing else.
    is_values: bool,
}

/// What a group is, by what stands before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Behind `IN`, or a collection.
    List,
    /// Behind `VALUES`, or another row.
    Row,
    Other,
}

impl Lists {
    /// The last of `all` is new. Folds the group that it ends.
    pub fn pushed(&mut self, all: &mut Vec<Piece<'_>>) {
        let Some((last, before)) = all.split_last() else { return };
        match last {
            Piece::Open(bracket) => {
                let kind = self.kind(bracket, before);
                self.open.push(Group { at: before.len(), kind, is_values: true });
            }
            Piece::Close(_) => self.close(all),
            piece if !is_of_values(*piece, before) => {
                if let Some(group) = self.open.last_mut() {
                    group.is_values = false;
                }
            }
            _ => {}
        }
    }

    fn kind(&self, bracket: &str, before: &[Piece<'_>]) -> Kind {
        let is_row = |(_, end)| end + 1 == before.len() && before.last() == Some(&Piece::Comma);
        match (bracket, before.last()) {
            ("(", Some(Piece::Reserved(word))) if word.eq_ignore_ascii_case("IN") => Kind::List,
            ("(", Some(Piece::Reserved(word))) if word.eq_ignore_ascii_case("VALUES") => Kind::Row,
            ("(", _) if self.row.is_some_and(is_row) => Kind::Row,
            ("(", _) => Kind::Other,
            // Behind what has elements, it is an element that is asked for.
            (_, Some(before)) if before.is_operand() => Kind::Other,
            _ => Kind::List,
        }
    }

    fn close(&mut self, all: &mut Vec<Piece<'_>>) {
        let Some(group) = self.open.pop() else { return };
        let has_some = all.len() > group.at + 2;
        if group.kind != Kind::Other && group.is_values && has_some {
            let close = all.pop();
            all.truncate(group.at + 1);
            all.push(Piece::LeftOut);
            all.extend(close);
        }
        // Of a function without arguments, the parentheses are all that it has.
        let is_plain = group.is_values && (group.kind != Kind::Other || has_some);
        if let Some(outer) = self.open.last_mut() {
            outer.is_values &= is_plain;
        }
        if group.kind == Kind::Row {
            self.end_row(group.at, all);
        }
    }

    /// A row that is like the one before it is left out.
    fn end_row(&mut self, at: usize, all: &mut Vec<Piece<'_>>) {
        let row = (at, all.len());
        let Some((start, end)) = self.row.replace(row) else { return };
        if end + 1 == at && all.get(start..end) == all.get(at..) {
            all.truncate(end);
            self.row = Some((start, end));
        }
    }
}

/// Returns whether a piece behind `before` is a value, or stands between values or around them.
fn is_of_values(piece: Piece<'_>, before: &[Piece<'_>]) -> bool {
    match piece {
        Piece::Literal
        | Piece::Marker(_)
        | Piece::Named(_)
        | Piece::Comma
        | Piece::Colon
        | Piece::Cast
        | Piece::LeftOut => true,
        Piece::Reserved(word) => {
            ["NULL", "TRUE", "FALSE", "DEFAULT"].iter().any(|value| word.eq_ignore_ascii_case(value))
        }
        // The sign of one.
        Piece::Symbol(_) => piece.is_sign() && !before.last().is_some_and(|before| before.is_operand()),
        // A type that a value is cast to.
        Piece::Word(_) => before.last() == Some(&Piece::Cast),
        _ => false,
    }
}
