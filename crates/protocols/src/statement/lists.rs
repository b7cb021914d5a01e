//! Folds lists of values, whatever their length, into one.

use super::pieces::SqlPiece;

/// The open groups, in brackets of any kind.
#[derive(Debug, Default)]
pub(super) struct ValueLists {
    open: Vec<ParenGroup>,
    /// Start and end of the row of values that ended last.
    row: Option<(usize, usize)>,
}

#[derive(Clone, Copy, Debug)]
struct ParenGroup {
    at: usize,
    kind: GroupKind,
    /// Contains only values and their separators.
    is_values: bool,
}

/// The kind of a group, from what precedes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GroupKind {
    /// After `IN`, or a collection.
    List,
    /// After `VALUES`, or another row.
    Row,
    Other,
}

impl ValueLists {
    /// Folds the group that the last piece of `all` ends, if it ends one.
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
        let is_row = |(_, end)| end + 1 == before.len() && before.last() == Some(&SqlPiece::Symbol(","));
        match (bracket, before.last()) {
            ("(", Some(SqlPiece::Reserved(word))) if word.eq_ignore_ascii_case("IN") => GroupKind::List,
            ("(", Some(SqlPiece::Reserved(word))) if word.eq_ignore_ascii_case("VALUES") => GroupKind::Row,
            ("(", _) if self.row.is_some_and(is_row) => GroupKind::Row,
            ("(", _) => GroupKind::Other,
            // After an operand, a bracket selects an element.
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
        // The empty parentheses of a function call are kept.
        let is_plain = group.is_values && (group.kind != GroupKind::Other || has_some);
        if let Some(outer) = self.open.last_mut() {
            outer.is_values &= is_plain;
        }
        if group.kind == GroupKind::Row {
            self.end_row(group.at, all);
        }
    }

    /// Drops a row that equals the previous one.
    fn end_row(&mut self, at: usize, all: &mut Vec<SqlPiece<'_>>) {
        let row = (at, all.len());
        let Some((start, end)) = self.row.replace(row) else { return };
        if end + 1 == at && all.get(start..end) == all.get(at..) {
            all.truncate(end);
            self.row = Some((start, end));
        }
    }
}

/// Returns whether a piece after `before` is a value or belongs to the punctuation of values.
fn is_of_values(piece: SqlPiece<'_>, before: &[SqlPiece<'_>]) -> bool {
    match piece {
        SqlPiece::Literal
        | SqlPiece::Marker(_)
        | SqlPiece::Named(_)
        | SqlPiece::Symbol("," | ":" | "::")
        | SqlPiece::LeftOut => true,
        SqlPiece::Reserved(word) => {
            ["NULL", "TRUE", "FALSE", "DEFAULT"].iter().any(|value| word.eq_ignore_ascii_case(value))
        }
        // The sign of a value.
        SqlPiece::Symbol(_) => piece.is_sign() && !before.last().is_some_and(|before| before.is_operand()),
        SqlPiece::Word(_) => before.last() == Some(&SqlPiece::Symbol("::")),
        _ => false,
    }
}
