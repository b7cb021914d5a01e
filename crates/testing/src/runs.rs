//! Run records for tests: payload amounts come from real captures, times and counters are invented.

use overhead_model::record::{
    ContextSwitches, Counters, CycleSource, Cycles, Environment, InputFile, Interface, Observer, OnCpu, Role, Run,
    Selected, Socket, Softirq, Source, SourceKind, Split, Syscall, TcpTotals, Tool, Workload,
};
use overhead_model::{Account, Amounts, Class, Measured, Operation, Outcome, Protocol, RowKey, SideTotals, Tally};
use overhead_report::{Aggregate, RunFacts, build_run};
use std::collections::BTreeMap;

use Account::{Control, Data, Framing, Ip, Link, Metadata, Query, Retransmission, Schema, Status, Tcp};

/// Payload accounts of one direction.
type Payload = &'static [(Account, u64)];

/// System calls by name, in thousandths per operation.
type Calls = &'static [(&'static str, u64)];

/// A kind of operation to tally.
struct FixtureKind {
    key: RowKey<'static>,
    count: u64,
    sides: [Payload; 2],
    latency_ns: u64,
}

const fn kind(
    protocol: Protocol,
    name: &'static str,
    via: &'static str,
    sides: [Payload; 2],
    latency_ns: u64,
) -> FixtureKind {
    FixtureKind {
        key: RowKey { protocol, class: Class::Workload, name, via, statement: "" },
        count: 1_000,
        sides,
        latency_ns,
    }
}

const GET: FixtureKind = kind(
    Protocol::Resp,
    "GET",
    "array",
    [&[(Framing, 16), (Query, 3), (Data, 6)], &[(Framing, 8), (Data, 108)]],
    42_000,
);
const SET: FixtureKind = kind(
    Protocol::Resp,
    "SET",
    "array",
    [&[(Framing, 24), (Query, 3), (Data, 114)], &[(Framing, 3), (Status, 2)]],
    45_000,
);
const PG_SELECT: FixtureKind = kind(
    Protocol::Pgwire,
    "SELECT",
    "prepared",
    [&[(Framing, 28), (Metadata, 10), (Data, 8)], &[(Framing, 115), (Schema, 4), (Data, 108), (Status, 9)]],
    88_000,
);
const PG_INSERT: FixtureKind = kind(
    Protocol::Pgwire,
    "INSERT",
    "prepared",
    [&[(Framing, 116), (Metadata, 14), (Schema, 4), (Data, 108)], &[(Framing, 16), (Status, 11)]],
    410_000,
);
const CQL_SELECT: FixtureKind = kind(
    Protocol::Cql,
    "SELECT",
    "prepared",
    [&[(Framing, 14), (Metadata, 24), (Data, 8)], &[(Framing, 108), (Metadata, 7), (Schema, 33), (Data, 108)]],
    230_000,
);
const CQL_INSERT: FixtureKind = kind(
    Protocol::Cql,
    "INSERT",
    "prepared",
    [&[(Framing, 90), (Metadata, 24), (Data, 108)], &[(Framing, 6), (Metadata, 3), (Status, 4)]],
    260_000,
);
const MONGO_FIND: FixtureKind = kind(
    Protocol::Mongo,
    "find",
    "",
    [
        &[(Framing, 55), (Metadata, 71), (Schema, 3), (Query, 11), (Data, 8)],
        &[(Framing, 117), (Metadata, 51), (Schema, 16), (Data, 108), (Status, 10)],
    ],
    310_000,
);
const MONGO_INSERT: FixtureKind = kind(
    Protocol::Mongo,
    "insert",
    "",
    [
        &[(Framing, 125), (Metadata, 57), (Schema, 16), (Query, 10), (Data, 108)],
        &[(Framing, 18), (Metadata, 12), (Status, 15)],
    ],
    350_000,
);

/// Returns a frame's headers on Ethernet with TCP time stamps, and its payload.
fn side(payload: Payload, acks: u64) -> SideTotals {
    let mut amounts = Amounts::ZERO;
    payload.iter().chain(&[(Link, 14), (Ip, 20), (Tcp, 32)]).for_each(|&(account, bytes)| amounts[account] += bytes);
    amounts[Control] = 66 * acks;
    SideTotals { frames: 1 + acks, amounts }
}

fn tally(aggregate: &mut Aggregate, kind: &FixtureKind) {
    let row = aggregate.row(kind.key);
    for number in 0..kind.count {
        let sides = [side(kind.sides[0], number % 2), side(kind.sides[1], 0)];
        let latency_ns = Some(kind.latency_ns + number * number % 977 * 31);
        let outcome = if number % 500 == 499 { Outcome::Error } else { Outcome::Ok };
        aggregate.operation(row, &Operation { sides, outcome, latency_ns, round_trips: 1 });
    }
}

fn connect(aggregate: &mut Aggregate, protocol: Protocol) {
    let row = aggregate.row(RowKey { protocol, class: Class::Setup, name: "CONNECT", via: "", statement: "" });
    let control = |frames| SideTotals { frames, amounts: Amounts::new(Control, 70 * frames) };
    let sides = [control(4), control(3)];
    let operation = Operation { sides, outcome: Outcome::Ok, latency_ns: Some(31_000), round_trips: 1 };
    aggregate.operation(row, &operation);
}

fn facts(path: &str, wire_bytes: u64, other_bytes: u64) -> RunFacts {
    let offline = || Measured::unavailable("offline");
    RunFacts {
        tool: Tool { name: "overhead".to_owned(), version: "0.1.0".to_owned() },
        environment: None,
        source: Source {
            rotation: None,
            kind: SourceKind::File,
            inputs: vec![InputFile { path: path.to_owned(), frames: 3_012, wire_bytes }],
            selection: Selected::default(),
            only_command: None,
            link_types: vec!["EN10MB".to_owned()],
            first_ns: 1_700_000_000_000_000_000,
            last_ns: 1_700_000_001_234_500_000,
            frames: 3_012,
            wire_bytes,
            captured_bytes: wire_bytes,
            truncated_frames: 0,
            duplicate_frames: 0,
            malformed_frames: 0,
            header_snapped_frames: 0,
            kernel_drops: Measured::unavailable("offline"),
        },
        transport: overhead_model::Transport::Tcp,
        tcp: TcpTotals { connections: 1, ..TcpTotals::default() },
        other_bytes,
        counters: Measured::unavailable("offline"),
        observer: Observer { cpu_ns: offline(), bpf_ns: offline(), frames_per_second: offline(), watching: None },
        warnings: Vec::new(),
        exit: 0,
    }
}

/// Returns a run read from a file: no counters.
fn offline(path: &str, kinds: &[FixtureKind]) -> Run {
    let mut aggregate = Aggregate::new();
    let protocol = kinds.first().map_or(Protocol::Resp, |kind| kind.key.protocol);
    connect(&mut aggregate, protocol);
    for kind in kinds {
        tally(&mut aggregate, kind);
    }
    let wire_bytes = overhead_model::Side::BOTH.map(|side| aggregate.ledger(side).total()).iter().sum::<u64>();
    build_run(&aggregate, aggregate.operations(), aggregate.connections(), facts(path, wire_bytes + 420, 420))
}

/// Returns a run whose source holds `bytes` more than were posted.
pub fn unbalanced(bytes: i64) -> Run {
    let mut aggregate = Aggregate::new();
    tally(&mut aggregate, &GET);
    let posted = overhead_model::Side::BOTH.map(|side| aggregate.ledger(side).total()).iter().sum::<u64>();
    build_run(
        &aggregate,
        aggregate.operations(),
        aggregate.connections(),
        facts("redis.pcap", posted.saturating_add_signed(bytes), 0),
    )
}

/// Counters of a role that makes `calls` per operation, in thousandths.
fn role(pid: u32, comm: &str, operations: u64, calls: &[(&str, u64)], cycles: [u64; 2], source: CycleSource) -> Role {
    let reference = source == CycleSource::Reference;
    let on_cpu = OnCpu {
        user: cycles[0] * operations * 10 / 27,
        kernel: cycles[1] * operations * 10 / 27,
        split: Split { method: "sampled".to_owned(), samples: operations / 16 },
    };
    let call = |thousandths| Syscall {
        count: operations * thousandths / 1_000,
        errors: 0,
        ns: Measured::unavailable("no clock at each call"),
    };
    Role {
        pids: vec![pid],
        comms: vec![comm.to_owned()],
        containers: Vec::new(),
        syscalls: calls.iter().map(|(name, n)| ((*name).to_owned(), call(n))).collect(),
        cycles: Measured::Value(Cycles {
            user: cycles[0] * operations,
            kernel: cycles[1] * operations,
            source,
            reason: reference.then(|| "perf_event_open: ENOENT, no PMU in this VM".to_owned()),
            ticks_per_ns: reference.then_some(2.7),
        }),
        on_cpu_ns: Measured::Value(on_cpu),
        threads: 1,
        busiest_thread_ns: Measured::unavailable("not recorded"),
        context_switches: Measured::Value(ContextSwitches { voluntary: operations, involuntary: 12 }),
        migrations: Measured::Value(3),
        wakeups: Measured::Value(operations),
        socket: Measured::Value(Socket {
            send_calls: operations,
            send_bytes: 0,
            recv_calls: operations,
            recv_bytes: 0,
        }),
        retransmissions: Measured::Value(0),
        coverage: Measured::Value(1.0),
        captured_share: Measured::Value(1.0),
        withheld: None,
        since_connect: None,
    }
}

/// Makes a run a live one with counters.
fn live(mut run: Run, command: &[&str], server: Measured<Role>, client: Measured<Role>) -> Run {
    run.counters = Measured::Value(Counters {
        window_ns: 1_250_000_000,
        server,
        client,
        softirq: Measured::Value(Softirq::default()),
        protocols: Vec::new(),
        by_operation: Measured::unavailable("not asked for"),
    });
    run.source.kind = SourceKind::Live;
    run.source.kernel_drops = Measured::Value(0);
    run.observer = Observer {
        cpu_ns: Measured::Value(41_000_000),
        bpf_ns: Measured::Value(2_300_000),
        frames_per_second: Measured::Value(2_431),
        watching: None,
    };
    run.environment = Some(Environment {
        workload: Some(Workload {
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            exit_code: Some(0),
            was_ended: false,
        }),
        interface: Some(Interface {
            name: "lo".to_owned(),
            mtu: Some(65_536),
            driver: None,
            offloads: BTreeMap::new(),
        }),
        ..Environment::default()
    });
    run
}

const REDIS_SERVER: Calls = &[("read", 1_000), ("write", 1_000), ("epoll_wait", 1_000), ("getpid", 6)];
const ASYNC_CLIENT: Calls =
    &[("recvfrom", 1_870), ("sendto", 1_000), ("epoll_wait", 1_020), ("futex", 212), ("write", 31)];
const PG_SERVER: Calls = &[
    ("recvfrom", 1_990),
    ("sendto", 1_000),
    ("epoll_wait", 1_000),
    ("pwrite64", 143),
    ("fdatasync", 121),
    ("lseek", 88),
];
const JVM_SERVER: Calls =
    &[("epoll_wait", 2_130), ("futex", 3_410), ("read", 1_010), ("write", 1_980), ("writev", 400), ("sched_yield", 97)];

/// GET over one connection, from a file.
pub fn redis() -> Run {
    offline("redis.pcap", &[GET])
}

/// GET and SET with all counters of the hardware.
pub fn redis_live() -> (&'static str, Run) {
    let run = offline("packets.pcapng", &[GET, SET]);
    let server = role(812, "redis-server", 2_000, REDIS_SERVER, [7_310, 21_480], CycleSource::Hardware);
    let client = role(4_711, "bench", 2_000, ASYNC_CLIENT, [9_120, 26_870], CycleSource::Hardware);
    let command = ["overhead", "bench", "redis", "--ops", "1000"];
    ("redis", live(run, &command, Measured::Value(server), Measured::Value(client)))
}

/// One live run per database, one or both operations each, in reference cycles.
pub fn databases(both: bool) -> Vec<(&'static str, Run)> {
    let kinds: [(&str, [FixtureKind; 2], Calls, [u64; 2]); 4] = [
        ("redis", [GET, SET], REDIS_SERVER, [7_310, 21_480]),
        ("postgres", [PG_SELECT, PG_INSERT], PG_SERVER, [41_900, 38_220]),
        ("cassandra", [CQL_SELECT, CQL_INSERT], JVM_SERVER, [311_400, 96_300]),
        ("mongodb", [MONGO_FIND, MONGO_INSERT], PG_SERVER, [88_300, 47_700]),
    ];
    kinds
        .into_iter()
        .map(|(name, kinds, calls, cycles)| {
            let taken = if both { 2 } else { 1 };
            let operations = 1_000 * taken as u64;
            let run = offline("packets.pcapng", &kinds[..taken]);
            let server = role(1, name, operations, calls, cycles, CycleSource::Reference);
            let client = role(2, "bench", operations, ASYNC_CLIENT, [12_300, 27_100], CycleSource::Reference);
            let command = ["overhead", "bench", name, "--ops", "1000", "--value-size", "100"];
            (name, live(run, &command, Measured::Value(server), Measured::Value(client)))
        })
        .collect()
}

/// Runs from files, without any counter.
pub fn files() -> Vec<(&'static str, Run)> {
    [("redis-rust-read", GET), ("pg-rust-read", PG_SELECT), ("cass-rust-read", CQL_SELECT)]
        .map(|(name, kind)| (name, offline(&format!("{name}.pcap"), &[kind])))
        .to_vec()
}

/// Returns a run with every kind of warning, a client on another host, and names that try to inject markup.
pub fn warned() -> (&'static str, Run) {
    const ODD: FixtureKind = kind(
        Protocol::Resp,
        "EVAL|<b>\x1b[31m",
        "array",
        [&[(Framing, 30), (Query, 900), (Data, 6)], &[(Framing, 5)]],
        900_000,
    );
    const LONG: FixtureKind = kind(
        Protocol::Resp,
        "FT.AGGREGATE WITH A RATHER LONG SUBCOMMAND THAT GOES ON AND ON",
        "inline",
        [&[(Framing, 30), (Query, 60), (Data, 16)], &[(Framing, 225), (Account::Unknown, 1_402)]],
        1_900_000,
    );
    let mut run = offline("packets.pcapng", &[GET, ODD, LONG]);
    let mut server = role(812, "redis-server", 3_000, REDIS_SERVER, [7_310, 21_480], CycleSource::Hardware);
    server.cycles = Measured::unavailable("perf_event_open: EACCES, perf_event_paranoid is 3");
    run.ledger.balanced = false;
    run.ledger.difference = 1_234;
    run.tcp.gap_bytes = 2_896;
    run.source.truncated_frames = 12;
    run.warnings.push("12 frames were snapped at 96 bytes: 4,096 payload bytes are in `unknown`".to_owned());
    for row in run.operations.iter_mut().filter(|row| row.name == "GET") {
        row.response.accounts[Retransmission] += 66_000;
    }
    let remote = Measured::unavailable("not on this host (10.0.0.7)");
    (
        "a-run-of-a-rather-long-name-2026-11-21T10-30-00Z-redis-cluster",
        live(run, &["sh", "-c", "bench --all | tee log"], Measured::Value(server), remote),
    )
}
