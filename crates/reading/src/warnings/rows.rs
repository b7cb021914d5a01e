//! Warnings about statements without a text, and about traffic that was captured on both sides of a router.

use super::Warnings;
use overhead_dissect::PREPARED_BEFORE;
use overhead_model::record::{Connection, Counters, OperationRow, Role};
use overhead_model::{Account, Class, Measured};
use overhead_report::text::{counted, grouped};
use std::collections::{BTreeMap, BTreeSet};

/// Operations from which a capture is of a load, not of a few trials.
const LOAD: u64 = 100;

/// Share of the window from which a thread is taken to work all the time, and up to which it is not.
const SATURATED: f64 = 0.95;
const UNSATURATED: f64 = 0.8;
/// A shorter window is mostly start and end.
const SHORTEST_NS: u64 = 2_000_000_000;
/// Calls that wait for work.
const WAITS: [&str; 8] =
    ["epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select", "pselect6", "io_uring_enter"];
/// Share of these calls that sleep up to which a process is taken to have work all the time, and from which it has not. This holds
/// on a busy machine too, where others keep the process from its core.
const ALWAYS_BUSY: f64 = 0.1;
const OFTEN_IDLE: f64 = 0.5;
/// Calls that move bytes for each that waits, from which a client has several answers to take at a time. One that waits for a single
/// answer finds it at once, too, if the server took the core meanwhile.
const BACKLOG: u64 = 4;
/// System calls for each call that moves bytes; beyond, a client mostly asks whether there are any.
const MOST_CALLS: u64 = 8;
/// Share of the captured payload from which the clients are those of the server.
const NEARLY_ALL: f64 = 0.9;

/// Commands that read one value by its key.
const LOOKUPS: [&str; 4] = ["GET", "HGET", "get", "gets"];

impl Warnings {
    /// Reports statements that were prepared before the capture, and where their texts can be found.
    pub fn warn_of_unseen_statements(&mut self, operations: &[OperationRow]) {
        let mut unseen = BTreeMap::<&str, BTreeSet<&str>>::new();
        for row in operations {
            let texts = row.statements.iter().map(|statement| statement.text.as_str());
            let texts = texts.filter(|text| text.starts_with(PREPARED_BEFORE));
            unseen.entry(&row.protocol).or_default().extend(texts);
        }
        for (protocol, texts) in unseen.iter().filter(|(_, texts)| !texts.is_empty()) {
            let source = match *protocol {
                "cql" => "`overhead bench cassandra --server HOST:PORT --list-statements` prints them",
                "mysql" => {
                    "while the clients are connected, `overhead bench mysql --server HOST:PORT --list-statements` prints them if the server's performance schema is on"
                }
                // Each session sees only its own statements.
                _ => "the server does not tell them, so take them from the application or its driver's log",
            };
            self.remark(format!(
                "{} prepared before the capture, and named by name or id; to see the texts, add --statements FILE, with a line of name or id, a tab and the text for each: {source}",
                if texts.len() == 1 { "1 statement was".to_owned() } else { format!("{} were", counted(texts.len() as u64, "statement")) }
            ));
        }
    }

    /// Says that no read finds anything, or that most bytes are set-up: a load test was perhaps set up wrong.
    pub fn warn_of_load(&mut self, operations: &[OperationRow]) {
        let bytes = |row: &OperationRow| row.request.wire_bytes.total + row.response.wire_bytes.total;
        let of_class = |class| operations.iter().filter(move |row| row.class == class);
        let is_miss = |row: &&OperationRow| {
            let answers = &row.response.accounts;
            let is_read = LOOKUPS.contains(&row.name.as_str()) && row.count >= LOAD && row.errors + row.unanswered == 0;
            is_read && row.response.unseen.is_none() && answers[Account::Data] + answers[Account::Unknown] == 0
        };
        for row in of_class(Class::Workload).filter(is_miss) {
            let (count, name) = (grouped(row.count), &row.name);
            self.remark(format!(
                "none of {count} answers to {name} has a value: the keys do not exist, or are empty; if they should, store them before you measure"
            ));
        }
        let [workload, setup] = [Class::Workload, Class::Setup].map(|class| of_class(class).map(bytes).sum::<u64>());
        let count: u64 = of_class(Class::Workload).map(|row| row.count).sum();
        if setup > workload && count >= LOAD {
            self.remark(format!(
                "connecting, authenticating and preparing take more bytes ({}) than the operations ({}): keep connections open, or measure longer",
                grouped(setup),
                grouped(workload)
            ));
        }
    }

    /// Says that the clients were the limit: they always had work, and no thread of the server had.
    pub fn warn_of_generator(&mut self, counters: &Measured<Counters>) {
        let Measured::Value(Counters { window_ns, server, client, .. }) = counters else { return };
        let (Some(server), Some(client)) = (server.value(), client.value()) else { return };
        let share = |ns: u64, threads: u64| ns as f64 / (*window_ns as f64 * threads as f64);
        let (Some(on_cpu), Some(busiest)) = (client.on_cpu_ns.value(), server.busiest_thread_ns.value()) else {
            return;
        };
        let (used, servers) = (share(on_cpu.user + on_cpu.kernel, client.threads), share(*busiest, 1));
        let is_all =
            client.captured_share.value().is_some_and(|share| *share > NEARLY_ALL) && client.withheld.is_none();
        // A client that polls without pause is always busy.
        let moving = client.socket.value().map_or(0, |socket| socket.send_calls + socket.recv_calls);
        let polls = client.syscalls.values().map(|call| call.count).sum::<u64>() > MOST_CALLS * moving;
        if !is_all || polls || servers > UNSATURATED {
            return;
        }
        let percent = |share: f64| format!("{:.0}%", share.min(1.0) * 100.0);
        let (clients, at_most) = (client.comms.join(", "), percent(servers));
        let servers = server.comms.join(", ");
        let facts = if *window_ns >= SHORTEST_NS && used.is_finite() && used >= SATURATED {
            let cores = if client.threads == 1 { "one core".to_owned() } else { counted(client.threads, "core") };
            let used = percent(used);
            format!(
                "{clients} used {used} of {cores} for the whole window, and no thread of {servers} more than {at_most}"
            )
        } else {
            let (Some(slept), Some(servers_slept)) = (slept(client), slept(server)) else { return };
            if slept > ALWAYS_BUSY || servers_slept < OFTEN_IDLE || moving < BACKLOG * waits(client) {
                return;
            }
            let busy = percent(1.0 - slept);
            format!(
                "{clients} had work {busy} of the times that it asked for some, and no thread of {servers} used more than {at_most} of a core"
            )
        };
        self.remark(format!("{facts}: the rates are the client's limit; use more threads or hosts"));
    }

    /// Says that totals include both sides of an address translation, if nearly all connections have a twin between other addresses. At
    /// one interface, as of a router with one leg, nothing but this tells it.
    pub fn warn_of_translated_twins(&mut self, connections: &[Connection]) {
        let mut alike = BTreeMap::<(&str, &str, u64, u64), BTreeSet<[&str; 2]>>::new();
        for of in connections.iter().filter(|of| of.operations > 0) {
            let client_port = of.client.rsplit(':').next().unwrap_or_default();
            let key = (of.protocol.as_str(), client_port, of.operations, of.wire_bytes);
            alike.entry(key).or_default().insert([&of.client, &of.server]);
        }
        let (mut twins, mut all) = (0, 0);
        for ((_, _, operations, _), ends) in alike {
            all += operations * ends.len() as u64;
            twins += if ends.len() == 2 { operations * 2 } else { 0 };
        }
        if twins > 0 && all - twins <= all / 8 {
            self.partial(
                "connections between other addresses have the same client ports, operations and bytes: they may be the two sides of an address translation, each counted; capture on `any`, or one side with a filter such as -f 'host ADDRESS'",
            );
        }
    }
}

/// Returns how often a role waited for work.
fn waits(role: &Role) -> u64 {
    role.syscalls.iter().filter(|(name, _)| WAITS.contains(&name.as_str())).map(|(_, call)| call.count).sum()
}

/// Returns the share of these times in which it slept, or `None` if they were few.
fn slept(role: &Role) -> Option<f64> {
    let (waits, switches) = (waits(role), role.context_switches.value()?);
    (waits >= LOAD).then(|| switches.voluntary as f64 / waits as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(operations: &[OperationRow]) -> Vec<String> {
        let mut warnings = Warnings::default();
        warnings.warn_of_load(operations);
        warnings.settle().0
    }

    #[test]
    fn misses_and_setup_are_named_only_if_they_prevail() {
        let record = include_str!("../../../../fixtures/redis-get-set/expected.json");
        let record: serde_json::Value = serde_json::from_str(record).unwrap();
        let mut operations: Vec<OperationRow> = serde_json::from_value(record["operations"].clone()).unwrap();
        assert_eq!(said(&operations), Vec::<String>::new());
        let get = operations.iter_mut().find(|row| row.name == "GET").unwrap();
        (get.response.accounts[Account::Data], get.count) = (0, LOAD);
        assert!(said(&operations)[0].starts_with("none of 100 answers to GET has a value"));
        for row in operations.iter_mut().filter(|row| row.name == "SET") {
            (row.class, row.request.wire_bytes.total) = (Class::Setup, 1 << 40);
        }
        assert!(said(&operations)[1].contains("keep connections open"), "{operations:?}");
    }

    /// Says what is said of 10 s in which redis-benchmark, of one thread, used 99% of a core, and the server's busiest thread 61%.
    fn said_of_generator(change: impl FnOnce(&mut Role, &mut Role)) -> Vec<String> {
        let none = serde_json::json!({"unavailable": "not measured"});
        let role = |comm: &str| -> Role {
            serde_json::from_value(serde_json::json!({
                "pids": [1], "comms": [comm], "syscalls": {"read": {"count": 1000, "errors": 0, "ns": none}}, "cycles": none,
                "on_cpu_ns": {"user": 4_000_000_000_u64, "kernel": 5_900_000_000_u64, "split": {"method": "all", "samples": 1}},
                "threads": 1, "busiest_thread_ns": 6_100_000_000_u64, "context_switches": none, "migrations": none,
                "wakeups": none, "socket": {"send_calls": 500, "send_bytes": 1, "recv_calls": 500, "recv_bytes": 1},
                "retransmissions": none, "captured_share": 1.0
            }))
            .unwrap()
        };
        let (mut client, mut server) = (role("redis-benchmark"), role("redis-server"));
        change(&mut client, &mut server);
        let mut warnings = Warnings::default();
        warnings.warn_of_generator(&Measured::Value(Counters {
            window_ns: 10_000_000_000,
            server: Measured::Value(server),
            client: Measured::Value(client),
            softirq: Measured::unavailable("not asked for"),
            protocols: Vec::new(),
            by_operation: Measured::unavailable("not asked for"),
        }));
        warnings.settle().0
    }

    #[test]
    fn a_generator_is_the_limit_only_if_it_alone_works_all_the_time() {
        assert_eq!(
            said_of_generator(|_, _| {}),
            [
                "redis-benchmark used 99% of one core for the whole window, and no thread of redis-server more than 61%: \
              the rates are the client's limit; use more threads or hosts"
            ]
        );
        let changes: [fn(&mut Role, &mut Role); 6] = [
            |client, _| client.threads = 2,
            |client, _| client.threads = 0,
            |client, _| client.captured_share = Measured::Value(0.5),
            |client, _| client.syscalls.get_mut("read").unwrap().count = 1 << 40,
            |_, server| server.busiest_thread_ns = Measured::Value(9_000_000_000),
            |_, server| server.busiest_thread_ns = Measured::unavailable("not recorded"),
        ];
        for change in changes {
            assert_eq!(said_of_generator(change), Vec::<String>::new());
        }
    }

    /// Says what is said if client and server shared a busy core, of 1,000 waits of each so many slept, and the client sent and
    /// received so often.
    fn said_of_waits([clients, servers, moved]: [u64; 3]) -> Vec<String> {
        said_of_generator(|client, server| {
            client.threads = 2;
            let socket =
                serde_json::json!({"send_calls": moved, "send_bytes": 1, "recv_calls": moved, "recv_bytes": 1});
            client.socket = serde_json::from_value(socket).unwrap();
            for (role, slept) in [(client, clients), (server, servers)] {
                let calls = role.syscalls.remove("read").unwrap();
                role.syscalls.insert("epoll_wait".to_owned(), calls);
                let switches = serde_json::json!({"voluntary": slept, "involuntary": 9_000});
                role.context_switches = serde_json::from_value(switches).unwrap();
            }
        })
    }

    #[test]
    fn a_generator_that_never_sleeps_is_the_limit_if_the_server_does() {
        assert_eq!(
            said_of_waits([35, 787, 16_000]),
            [
                "redis-benchmark had work 96% of the times that it asked for some, and no thread of redis-server used more than 61% of \
                a core: the rates are the client's limit; use more threads or hosts"
            ]
        );
        for numbers in [[234, 765, 16_000], [35, 90, 16_000], [970, 990, 1_000], [35, 940, 1_000]] {
            assert_eq!(said_of_waits(numbers), Vec::<String>::new());
        }
    }
}
