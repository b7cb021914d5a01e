//! Which operations of one run stand against which of the other.

use crate::summary::workload;
use overhead_model::Run;
use overhead_model::record::OperationRow;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;

/// What each protocol calls reading by a key, and what it calls writing.
const ALIKE: [&[&str]; 3] = [&["GET", "SELECT", "find"], &["SET", "INSERT", "insert"], &["SET", "UPDATE", "update"]];

/// Returns what an operation does, as far as protocols have it in common; else its name.
pub(crate) fn kind(row: &OperationRow) -> &str {
    let alike = ALIKE.iter().find(|names| names.contains(&&*row.name));
    alike.and_then(|names| names.first()).map_or(&row.name, |name| *name)
}

type Pairs<'a> = Vec<[&'a OperationRow; 2]>;
type Rest<'a> = [Vec<&'a OperationRow>; 2];

/// Pairs workload operations of the same protocol, name and way of sending; then those of the same protocol and name; then
/// those that do the same in two protocols, a `GET` and a `SELECT`, those of most bytes first; then what is left, where it
/// is one operation of each run. The others have no partner.
pub(super) fn pairs<'a>(first: &'a Run, second: &'a Run) -> (Pairs<'a>, Rest<'a>) {
    let mut rest = [workload(first), workload(second)];
    let mut pairs = Vec::new();
    take_alike(&mut rest, &mut pairs, |row| (&row.protocol, &row.name, &row.via));
    take_alike(&mut rest, &mut pairs, |row| (&row.protocol, &row.name));
    for names in ALIKE {
        take(&mut rest, &mut pairs, |a, b| {
            a.protocol != b.protocol && names.contains(&&*a.name) && names.contains(&&*b.name)
        });
    }
    if rest.iter().all(|rows| rows.len() == 1) {
        take(&mut rest, &mut pairs, |_, _| true);
    }
    (pairs, rest)
}

/// Moves what has the same key from the rest to the pairs, in order.
fn take_alike<'a, K: Hash + Eq>(rest: &mut Rest<'a>, pairs: &mut Pairs<'a>, key: impl Fn(&'a OperationRow) -> K) {
    let [firsts, seconds] = rest;
    let mut of_key: HashMap<K, VecDeque<(usize, &'a OperationRow)>> = HashMap::new();
    for (at, second) in seconds.iter().enumerate() {
        of_key.entry(key(second)).or_default().push_back((at, second));
    }
    let mut taken = HashSet::new();
    firsts.retain(|first| match of_key.get_mut(&key(first)).and_then(VecDeque::pop_front) {
        Some((at, second)) => {
            pairs.push([first, second]);
            taken.insert(at);
            false
        }
        None => true,
    });
    let mut at = 0..;
    seconds.retain(|_| at.next().is_none_or(|at| !taken.contains(&at)));
}

/// Moves what fits from the rest to the pairs.
fn take<'a>(rest: &mut Rest<'a>, pairs: &mut Pairs<'a>, fits: impl Fn(&OperationRow, &OperationRow) -> bool) {
    let [firsts, seconds] = rest;
    firsts.retain(|first| match seconds.iter().position(|second| fits(first, second)) {
        Some(at) => {
            pairs.push([first, seconds.remove(at)]);
            false
        }
        None => true,
    });
}
