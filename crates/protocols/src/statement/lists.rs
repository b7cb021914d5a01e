//! Lists of values: however many there are, they are one.

use super::pieces::SqlPiece;

/// The groups that are open, in brackets of any kind.
#[derive(Debug, Default)]
pub(super) struct ValueLists {
    open: Vec<ParenGroup>,
    /// The row of values that ended last: where it begins, and behind its end.
    row: Option<(usize, usize)>,
}

#[derive(Clone, Copy, Debug)]
struct ParenGroup {
    at: usize,
    kind: GroupKind,
    /// It holds values and what stands between them, and nothing else.
    is_values: bool,
}

/// What a group is, by what stands before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GroupKind {
    /// Behind `IN`, or a collection.
    List,
    /// Behind `VALUES`, or another row.
    Row,
    Other,
}

impl ValueLists {
    /// The last of `all` is new. Folds the group that it ends.
    pub fn pushed(&mut self, all: &mut Vec<SqlPiece<'_>>) {
        let Some((last, before)) = all.split_last() else { return };
        match last {
            SqlPiece::Open(bracket) => {
                let kind = self.kind(bracket, before);
                self.open.push(ParenGroup { at: before.len(), kind, is_values: true });
            }
            SqlPiece::Close(_) => self.close(all),
            piece if !is_of_values(*piece, before) => {
                if let Some(group) = self.open.last_mut() {
                    group.is_values = false;
                }
            }
            _ => {}
        }
    }

    fn kind(&self, bracket: &str, before: &[SqlPiece<'_>]) -> GroupKind {
        let is_row = |(_, end)| end + 1 == before.len() && before.last() == Some(&SqlPiece::Comma);
        match (bracket, before.last()) {
            ("(", Some(SqlPiece::Reserved(word))) if word.eq_ignore_ascii_case("IN") => GroupKind::List,
            ("(", Some(SqlPiece::Reserved(word))) if word.eq_ignore_ascii_case("VALUES") => GroupKind::Row,
            ("(", _) if self.row.is_some_and(is_row) => GroupKind::Row,
            ("(", _) => GroupKind::Other,
            // Behind what has elements, it is an element that is asked for.
            (_, Some(before)) if before.is_operand() => GroupKind::Other,
            _ => GroupKind::List,
        }
    }

    fn close(&mut self, all: &mut Vec<SqlPiece<'_>>) {
        let Some(group) = self.open.pop() else { return };
        let has_some = all.len() > group.at + 2;
        if group.kind != GroupKind::Other && group.is_values && has_some {
            let close = all.pop();
            all.truncate(group.at + 1);
            all.push(SqlPiece::LeftOut);
            all.extend(close);
        }
        // Of a function without arguments, the parentheses are all that it has.
        let is_plain = group.is_values && (group.kind != GroupKind::Other || has_some);
        if let Some(outer) = self.open.last_mut() {
            outer.is_values &= is_plain;
        }
        if group.kind == GroupKind::Row {
            self.end_row(group.at, all);
        }
    }

    /// A row that is like the one before it is left out.
    fn end_row(&mut self, at: usize, all: &mut Vec<SqlPiece<'_>>) {
        let row = (at, all.len());
        let Some((start, end)) = self.row.replace(row) else { return };
        if end + 1 == at && all.get(start..end) == all.get(at..) {
            all.truncate(end);
            self.row = Some((start, end));
        }
    }
}

/// Returns whether a piece behind `before` is a value, or stands between values or around them.
fn is_of_values(piece: SqlPiece<'_>, before: &[SqlPiece<'_>]) -> bool {
    match piece {
        SqlPiece::Literal
        | SqlPiece::Marker(_)
        | SqlPiece::Named(_)
        | SqlPiece::Comma
        | SqlPiece::Colon
        | SqlPiece::Cast
        | SqlPiece::LeftOut => true,
        SqlPiece::Reserved(word) => {
            ["NULL", "TRUE", "FALSE", "DEFAULT"].iter().any(|value| word.eq_ignore_ascii_case(value))
        }
        // The sign of one.
        SqlPiece::Symbol(_) => piece.is_sign() && !before.last().is_some_and(|before| before.is_operand()),
        // A type that a value is cast to.
        SqlPiece::Word(_) => before.last() == Some(&SqlPiece::Cast),
        _ => false,
    }
}
