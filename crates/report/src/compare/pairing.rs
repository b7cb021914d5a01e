//! Pairs equivalent operations of two subjects, whichever way they were sent.

use super::shape::shape;
use crate::run::RunGroup;
use crate::sums::{ALIKE, OperationSum, SumKey, by_name, by_statement, is_one_statement};
use overhead_model::record::{By, OperationRow, SideSums, Whole};
use overhead_model::{Account, Amounts, Class, Transport};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A way of sending is a stray if another was used this many times as often.
const STRAY: u64 = 10;

pub(crate) type Pairs = Vec<[OperationSum; 2]>;
pub(crate) type Rest = [Vec<OperationSum>; 2];

/// Pairs operations in three steps. First: equal protocol, class and name (and statement, if the subjects have any in common),
/// across ways of sending. Second: equivalent workload operations of two protocols, such as `GET` and `SELECT`, most bytes
/// first. Third: the rest, if each has one operation left. The others have no partner.
pub(crate) fn pairs(first: &RunGroup, second: &RunGroup, by: By) -> (Pairs, Rest) {
    let mut pairs = Vec::new();
    let mut rest = Rest::default();
    let mut second_names = names(second);
    for (name, firsts) in names(first) {
        let Some(seconds) = second_names.remove(&name) else {
            rest[0].extend(firsts.ways);
            continue;
        };
        let (found, left) =
            if by == By::Statement { pair_by_name(firsts, seconds) } else { by_way(firsts.ways, seconds.ways) };
        pairs.extend(found);
        for (all, left) in rest.iter_mut().zip(left) {
            all.extend(left);
        }
    }
    rest[1].extend(second_names.into_values().flat_map(|sums| sums.ways));
    for sums in &mut rest {
        sums.sort_by_key(|sum| Reverse(sum.total()));
    }
    for names in ALIKE {
        take(&mut rest, &mut pairs, |a, b| {
            a.protocol != b.protocol && names.contains(&&*a.name) && names.contains(&&*b.name)
        });
    }
    let of_workload = |sums: &Vec<OperationSum>| sums.iter().filter(|sum| sum.key.class == Class::Workload).count();
    if rest.iter().all(|sums| of_workload(sums) == 1) {
        take(&mut rest, &mut pairs, |a, b| a.statement.is_none() && b.statement.is_none());
    }
    (pairs, rest)
}

/// Operations of one name: sums by way of sending, and their statements.
#[derive(Default)]
struct NameSums {
    ways: Vec<OperationSum>,
    statements: Vec<OperationSum>,
}

type NameKey = (String, Class, String);

fn names(group: &RunGroup) -> BTreeMap<NameKey, NameSums> {
    let key = |sum: &OperationSum| (sum.key.protocol.clone(), sum.key.class, sum.key.name.clone());
    let mut names: BTreeMap<NameKey, NameSums> = BTreeMap::new();
    for sum in by_name(&group.runs) {
        names.entry(key(&sum)).or_default().ways.push(sum);
    }
    for sum in by_statement(&group.runs) {
        names.entry(key(&sum)).or_default().statements.push(sum);
    }
    names
}

/// Pairs statements that both have, ignoring placeholder syntax, or all operations of the name if they have none in common.
fn pair_by_name(first: NameSums, second: NameSums) -> (Pairs, Rest) {
    let shapes = |sums: Vec<OperationSum>| {
        let mut shapes: BTreeMap<String, Vec<OperationSum>> = BTreeMap::new();
        for sum in sums {
            shapes.entry(shape(sum.key.statement.as_deref().unwrap_or_default())).or_default().push(sum);
        }
        shapes
    };
    let (firsts, mut seconds) = (shapes(first.statements), shapes(second.statements));
    if !firsts.keys().any(|shape| is_one_statement(shape) && seconds.contains_key(shape)) {
        return by_way(first.ways, second.ways);
    }
    let (mut pairs, mut rest) = (Pairs::new(), Rest::default());
    for (shape, firsts) in firsts {
        let seconds = if is_one_statement(&shape) { seconds.remove(&shape) } else { None };
        let (found, left) = by_way(firsts, seconds.unwrap_or_default());
        pairs.extend(found);
        for (all, left) in rest.iter_mut().zip(left) {
            all.extend(left);
        }
    }
    rest[1].extend(seconds.into_values().flatten());
    (pairs, rest)
}

/// Pairs sums that differ only in the way of sending: first equal ways, unless one is a stray, then by operation count.
fn by_way(first: Vec<OperationSum>, second: Vec<OperationSum>) -> (Pairs, Rest) {
    let most = [&first, &second].map(|sums| sums.iter().map(|sum| sum.count).max().unwrap_or(0));
    let mut rest = [first, second];
    let mut pairs = Pairs::new();
    let is_stray = |sum: &OperationSum, most: u64| sum.count.saturating_mul(STRAY) < most;
    let [firsts, seconds] = &mut rest;
    firsts.retain(|first| {
        let same = seconds.iter().position(|second| {
            second.key.via == first.key.via && is_stray(first, most[0]) == is_stray(second, most[1])
        });
        same.map(|at| pairs.push([first.clone(), seconds.remove(at)])).is_none()
    });
    for sums in &mut rest {
        sums.sort_by_key(|sum| Reverse(sum.count));
    }
    let both = rest[0].len().min(rest[1].len());
    let [firsts, seconds] = &mut rest;
    pairs.extend(firsts.drain(..both).zip(seconds.drain(..both)).map(|(first, second)| [first, second]));
    (pairs, rest)
}

/// Moves matching workload operations from the rest to the pairs.
fn take(rest: &mut Rest, pairs: &mut Pairs, fits: impl Fn(&SumKey, &SumKey) -> bool) {
    let is_workload = |sum: &OperationSum| sum.key.class == Class::Workload;
    let [firsts, seconds] = rest;
    firsts.retain(|first| {
        let fit = |second: &OperationSum| is_workload(first) && is_workload(second) && fits(&first.key, &second.key);
        let partner = seconds.iter().position(fit);
        partner.map(|at| pairs.push([first.clone(), seconds.remove(at)])).is_none()
    });
}

/// Returns whether exactly one of the two subjects has connections in frames.
pub(super) fn differ(groups: [&RunGroup; 2]) -> bool {
    let transports = groups.map(|group| group.runs.iter().map(|named| named.run.transport));
    let [has_frames, others_have] = transports.map(|mut transports| transports.any(Transport::has_frames));
    has_frames != others_have
}

/// Reduces a subject to its payload, as if captured without frames.
pub(super) fn alone(group: &RunGroup) -> RunGroup {
    let mut group = group.clone();
    for named in &mut group.runs {
        let run = &mut named.run;
        alone_rows(&mut run.operations);
        let work = run.whole.work.take();
        run.whole = Whole { work, ..Whole::new(&run.operations, &run.tcp) };
    }
    group
}

fn alone_rows(rows: &mut [OperationRow]) {
    for row in rows {
        for side in [&mut row.request, &mut row.response] {
            side.accounts = payload(side.accounts);
            side.wire_bytes = side.payload_bytes;
        }
        let totals = row.statements.iter_mut().map(|statement| &mut statement.totals);
        for side in totals.flat_map(|totals| [&mut totals.request, &mut totals.response]) {
            *side = SideSums { unseen: side.unseen.take(), ..SideSums::new(side.frames, payload(side.accounts)) };
        }
    }
}

fn payload(mut amounts: Amounts) -> Amounts {
    for account in Account::ALL.into_iter().filter(|account| !account.is_payload()) {
        amounts[account] = 0;
    }
    amounts
}
