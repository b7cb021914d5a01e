//! The contract of an aggregate, which holds for any order of calls.

use super::*;
use crate::limits::{CONNECTIONS, ROWS};
use overhead_model::operation::DecidedBy;
use overhead_model::{Account, Class, OTHER, Outcome, Protocol};
use proptest::prelude::*;
use std::net::{Ipv4Addr, SocketAddr};

/// A call of [`Tally`], as data.
#[derive(Clone, Debug)]
enum Call {
    Operation(RowKey<'static>, Operation),
    Late(RowKey<'static>, Side, SideTotals),
    Connection(ConnectionSummary),
}

fn key() -> impl Strategy<Value = RowKey<'static>> {
    let names = prop_oneof![Just("GET"), Just("SET"), Just("SELECT"), Just("find"), Just(OTHER)];
    let classes = prop_oneof![Just(Class::Workload), Just(Class::Setup), Just(Class::Unmatched)];
    let protocols = prop_oneof![Just(Protocol::Resp), Just(Protocol::Mongo)];
    let statements = prop_oneof![Just(""), Just("GET key:#"), Just("GET user:#"), Just(OTHER)];
    (protocols, classes, names, prop_oneof![Just(""), Just("prepared")], statements)
        .prop_map(|(protocol, class, name, via, statement)| RowKey { protocol, class, name, via, statement })
}

fn totals() -> impl Strategy<Value = SideTotals> {
    let posting = (0..Account::COUNT, prop_oneof![0_u64..200, 0_u64..5_000_000]);
    (0_u64..5, proptest::collection::vec(posting, 0..6)).prop_map(|(frames, postings)| {
        let mut amounts = Amounts::ZERO;
        for (account, bytes) in postings {
            amounts[Account::ALL[account]] += bytes;
        }
        SideTotals { frames, amounts }
    })
}

fn operation() -> impl Strategy<Value = Operation> {
    let outcomes =
        prop_oneof![Just(Outcome::Ok), Just(Outcome::Error), Just(Outcome::NoReply), Just(Outcome::Unanswered)];
    (totals(), totals(), outcomes, proptest::option::of(1_u64..10_000_000_000)).prop_map(
        |(request, response, outcome, latency_ns)| Operation {
            sides: [request, response],
            outcome,
            latency_ns,
            round_trips: 1,
        },
    )
}

fn summary(port: u16, wire_bytes: u64, first_ns: u64) -> ConnectionSummary {
    ConnectionSummary {
        client: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        server: SocketAddr::from((Ipv4Addr::LOCALHOST, 6_379)),
        transport: overhead_model::Transport::Tcp,
        names: None,
        protocol: Protocol::Resp,
        server_software: None,
        client_software: None,
        tls: false,
        encrypted: false,
        server_decided_by: DecidedBy::Syn,
        first_ns,
        operations: 1,
        wire_bytes,
        payload_bytes: wire_bytes / 2,
        round_trips: 1,
        round_trips_to_answer: None,
    }
}

fn call() -> impl Strategy<Value = Call> {
    let sides = prop_oneof![Just(Side::Request), Just(Side::Response)];
    let connection = (0_u16..9, 0_u64..4, 0_u64..3).prop_map(|(port, bytes, first)| summary(port, bytes, first));
    prop_oneof![
        6 => (key(), operation()).prop_map(|(key, operation)| Call::Operation(key, operation)),
        1 => (key(), sides, totals()).prop_map(|(key, side, totals)| Call::Late(key, side, totals)),
        1 => connection.prop_map(Call::Connection),
    ]
}

fn tallied<'a>(calls: impl IntoIterator<Item = &'a Call>) -> Aggregate {
    let mut aggregate = Aggregate::new();
    for call in calls {
        match call {
            Call::Operation(key, operation) => {
                let row = aggregate.row(*key);
                aggregate.operation(row, operation);
            }
            Call::Late(key, side, totals) => {
                let row = aggregate.row(*key);
                aggregate.late(row, *side, totals);
            }
            Call::Connection(summary) => aggregate.connection(summary.clone()),
        }
    }
    aggregate
}

/// Reads all results of an aggregate.
fn read(aggregate: &Aggregate) -> impl PartialEq + std::fmt::Debug {
    let ledger = Side::BOTH.map(|side| aggregate.ledger(side));
    let connections = (aggregate.connections(), aggregate.connections_omitted());
    (aggregate.operations(), connections, ledger, aggregate.warnings())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_order_of_calls_does_not_matter(calls in proptest::collection::vec(call(), 0..200), turn in 0_usize..200) {
        let mut turned = calls.clone();
        turned.rotate_left(turn % calls.len().max(1));
        turned.reverse();
        let (turned, calls) = (tallied(&turned), tallied(&calls));
        prop_assert_eq!(read(&turned), read(&calls));
    }

    #[test]
    fn sums_agree_wherever_they_are_read(calls in proptest::collection::vec(call(), 0..100)) {
        let aggregate = tallied(&calls);
        let mut posted = [Amounts::ZERO; 2];
        for call in &calls {
            match call {
                Call::Operation(_, operation) => Side::BOTH.iter().for_each(|&side| posted[side as usize] += operation.sides[side as usize].amounts),
                Call::Late(_, side, totals) => posted[*side as usize] += totals.amounts,
                Call::Connection(_) => {}
            }
        }
        prop_assert_eq!(Side::BOTH.map(|side| aggregate.ledger(side)), posted);
        let rows = aggregate.operations();
        for row in &rows {
            for side in [&row.request, &row.response] {
                prop_assert_eq!(side.wire_bytes.total, side.accounts.total());
                prop_assert_eq!(side.payload_bytes.total, side.accounts.payload());
                let sizes = &side.wire_bytes;
                let ascending = [sizes.min, sizes.p50, sizes.p90, sizes.p99, sizes.p999, sizes.max];
                prop_assert!(ascending.is_sorted());
            }
        }
        let names: Vec<_> = rows.iter().map(|row| (row.protocol.clone(), row.class, row.name.clone(), row.via.clone())).collect();
        prop_assert!(names.is_sorted_by(|a, b| a < b));
    }
}

fn one_byte() -> Operation {
    let side = SideTotals { frames: 1, amounts: Amounts::new(Account::Data, 1) };
    Operation { sides: [side, SideTotals::default()], outcome: Outcome::Ok, latency_ns: None, round_trips: 1 }
}

/// Tallies an operation of each name, and a late byte by the id from the first call.
fn named(names: impl Iterator<Item = usize>) -> Aggregate {
    let mut aggregate = Aggregate::new();
    let mut ids = Vec::new();
    for number in names {
        let name = format!("CMD{number:06}");
        let (protocol, class) = (Protocol::Resp, Class::Workload);
        let id = aggregate.row(RowKey { protocol, class, name: &name, via: "array", statement: "" });
        aggregate.operation(id, &one_byte());
        ids.push(id);
    }
    for id in ids {
        aggregate.late(id, Side::Response, &one_byte().sides[0]);
    }
    aggregate
}

#[test]
fn rows_beyond_the_limit_are_folded_alike_in_any_order() {
    let kinds = ROWS + 700;
    let ascending = named(0..kinds);
    let rows = ascending.operations();
    assert_eq!(rows.len(), ROWS + 1);
    let other = rows.iter().find(|row| row.name == OTHER).unwrap();
    assert_eq!((other.count, other.request.accounts.total(), other.response.accounts.total()), (700, 700, 700));
    assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), kinds as u64);
    assert!(ascending.warnings()[0].contains("more than 1,024 kinds of operation"));

    let descending = named((0..kinds).rev());
    assert_eq!(read(&descending), read(&ascending));
}

#[test]
fn the_largest_connections_are_kept_and_the_others_counted() {
    let count = 3 * CONNECTIONS as u64 + 17;
    let aggregate = tallied(
        &(0..count).map(|n| Call::Connection(summary((n % 50_000) as u16, n * 7_919 % 10_007, n))).collect::<Vec<_>>(),
    );
    let kept = aggregate.connections();
    assert_eq!((kept.len(), aggregate.connections_omitted()), (CONNECTIONS, count - CONNECTIONS as u64));
    let mut sizes: Vec<u64> = (0..count).map(|n| n * 7_919 % 10_007).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    assert!(kept.iter().map(|connection| connection.wire_bytes).eq(sizes.into_iter().take(CONNECTIONS)));
}

#[test]
fn a_ledger_that_does_not_balance_says_by_how_much() {
    let run = crate::fixture::redis();
    assert!(run.ledger.balanced && run.exit == 0 && run.warnings.is_empty());
    let posted = run.ledger.request.total() + run.ledger.response.total() + run.ledger.other;
    assert_eq!(posted, run.source.wire_bytes);

    let off = crate::fixture::unbalanced(5);
    assert_eq!((off.ledger.balanced, off.ledger.difference, off.exit), (false, 5, 3));
    assert!(
        off.warnings[0].starts_with("the ledger does not balance: 5 bytes were posted nowhere"),
        "{:?}",
        off.warnings
    );
    assert_eq!(crate::fixture::unbalanced(-2).ledger.difference, -2);
}

#[test]
fn rows_asked_for_and_never_used_are_not_in_the_record() {
    let mut aggregate = Aggregate::new();
    let key = RowKey { protocol: Protocol::Cql, class: Class::Setup, name: "STARTUP", via: "", statement: "" };
    let id = aggregate.row(key);
    assert_eq!(aggregate.row(key), id);
    assert!(aggregate.operations().is_empty());
    aggregate.late(id, Side::Request, &one_byte().sides[0]);
    assert_eq!(aggregate.operations()[0].count, 0);
}
