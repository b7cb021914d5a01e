use super::*;
use crate::config::AgentConfig;
use crate::governor::Governor;
use crate::metrics::exposition;
use crate::servers::{ServerEnd, WatchedServers};
use crate::windows::CapturedWindow;
use crate::work::ServerWork;
use overhead_kernel::{FollowedTraffic, SegmentTotals, SocketGroup, SocketTotals, TcpServer};
use overhead_model::{Class, Protocol};
use overhead_report::composition::{PartBytes, TrafficPart, WindowSample};

fn books() -> AgentBooks {
    let config = AgentConfig::default();
    AgentBooks {
        servers: WatchedServers::default(),
        candidates: CandidateBook::default(),
        flows: FlowBook::default(),
        compositions: CompositionBook::new(50),
        work: WorkBook::default(),
        governor: Governor::new(config.budget, config.windows, 1),
        archive: ArchiveRows::default(),
        time: RunningTime::default(),
        uncounted: Duration::ZERO,
        config,
    }
}

/// A server of a container on loopback, its client in another control group, and a server elsewhere.
fn groups() -> [SocketGroup; 3] {
    let group = |control_group, local: &str, remote: &str, is_server| SocketGroup {
        control_group,
        network_namespace: 7,
        local: local.parse().unwrap(),
        remote: remote.parse().unwrap(),
        is_server,
        is_adopted: false,
    };
    [
        group(1, "127.0.0.1:6379", "127.0.0.1:0", true),
        group(2, "127.0.0.1:0", "127.0.0.1:6379", false),
        group(3, "10.0.0.9:0", "10.0.0.2:5432", false),
    ]
}

/// Adds traffic of these groups, and a window that shows some of it.
fn count(books: &mut AgentBooks, groups: &[SocketGroup], bytes: u64) {
    let segments = |payload_bytes| SegmentTotals { segments: 1, payload_bytes, header_bytes: 52 };
    let totals =
        SocketTotals { sent: segments(bytes), received: segments(3 * bytes), opened: 1, ..SocketTotals::default() };
    let traffic = FollowedTraffic {
        groups: groups.iter().map(|group| (*group, totals)).collect(),
        remaining: [totals; 4],
        lost: bytes,
        ..FollowedTraffic::default()
    };
    books.flows.take(&traffic, &books.config.zones);
    books.compositions.take_growth(std::mem::take(&mut books.flows.growth));
    let server = ServerEnd::new("127.0.0.1:6379".parse().unwrap(), 7);
    let part = |name: &str| TrafficPart::Operations {
        class: Class::Workload,
        protocol: Protocol::Resp,
        name: name.to_owned(),
        statement: String::new(),
    };
    let part_bytes = |bytes| PartBytes { count: 2, wire_bytes: [bytes, bytes] };
    let sample = WindowSample {
        parts: BTreeMap::from([(part("GET"), part_bytes(bytes)), (part("SET"), part_bytes(70))]),
        ..WindowSample::default()
    };
    let window = CapturedWindow {
        number: 7,
        samples: [((server, "127.0.0.1".parse().unwrap()), sample)].into(),
        // The time that windows cover counts from the restart on, like that of the period.
        sampled: Duration::ZERO,
        frames: 4,
        dropped: 0,
        open: Duration::from_millis(100),
        work: Ok(None),
    };
    books.compositions.add_window(&window, &books.config.zones);
    books.work.add(server, &ServerWork { windows: 1, operations: bytes, syscalls: 5, cpu_ns: 9 });
}

fn end_period(books: &mut AgentBooks) {
    books.compositions.end_period(Duration::from_secs(10), false);
}

fn counted() -> AgentBooks {
    let mut books = books();
    books.servers.add_names(BTreeMap::from([(2, "docker app".to_owned())]));
    for bytes in [100, 250, 90] {
        count(&mut books, &groups(), bytes);
    }
    end_period(&mut books);
    books.flows.mark_archived();
    books.compositions.clear_latest();
    count(&mut books, &groups(), 400);
    books
}

fn restored(content: &[u8], replaced: Option<&str>) -> AgentBooks {
    let mut books = books();
    let saved = parse(content, Path::new("/state")).unwrap().unwrap();
    saved.restore(&mut books, replaced.map(str::to_owned));
    books
}

/// Returns metrics and rows for the archive.
fn shown(books: &AgentBooks) -> String {
    let totals = books.totals(Duration::ZERO);
    format!("{}{:#?}", exposition(totals), books.rows(true, [0, 0]))
}

#[test]
fn counters_go_on_where_they_were() {
    let mut before = counted();
    let mut after = restored(&content(&before, None).unwrap(), None);
    assert_eq!(shown(&after), shown(&before));
    for books in [&mut before, &mut after] {
        // The first reading has the client's end of a connection only. Its server's end is known from before.
        count(books, &groups()[1..], 300);
        count(books, &groups(), 500);
        end_period(books);
    }
    assert_eq!(shown(&after), shown(&before));
    assert!(shown(&after).contains("client_container=\"docker app\""));
}

#[test]
fn a_server_that_is_found_after_a_restart_has_its_traffic_from_before() {
    let mut before = books();
    let address = "10.0.0.1:7777".parse().unwrap();
    let group = SocketGroup { local: address, ..groups()[0] };
    let sent = SegmentTotals { segments: 1, payload_bytes: 100, header_bytes: 52 };
    let totals = SocketTotals { sent, ..SocketTotals::default() };
    let mut traffic = FollowedTraffic { groups: [(group, totals)].into(), ..FollowedTraffic::default() };
    before.candidates.take(&mut traffic, &before.servers);
    let mut after = restored(&content(&before, None).unwrap(), None);
    let comm = "redis-server".to_owned();
    after.servers.note(vec![TcpServer { pids: vec![4_000_000], comm, network_namespace: 7, addresses: vec![address] }]);
    let mut found = FollowedTraffic::default();
    after.candidates.take(&mut found, &after.servers);
    assert_eq!((traffic.groups.len(), found.groups), (0, [(group, totals)].into()));
}

#[test]
fn sums_of_new_programs_are_added_to_those_of_the_old() {
    let before = counted();
    let mut after = restored(&content(&before, None).unwrap(), Some("a test"));
    let nothing = FollowedTraffic::default();
    after.flows.take(&nothing, &after.config.zones);
    assert_eq!(after.flows.without_room, before.flows.without_room);
    count(&mut after, &groups(), 50);
    let lost = restored(&content(&after, None).unwrap(), None).flows.lost_connections;
    assert_eq!((before.flows.lost_connections, lost), (400, 450));
}

#[test]
fn numbers_of_another_start_of_the_host_mean_nothing() {
    let before = counted();
    let mut saved: serde_json::Value = serde_json::from_slice(&content(&before, None).unwrap()).unwrap();
    saved["moment"]["boot"] = "another".into();
    let mut after = restored(&serde_json::to_vec(&saved).unwrap(), None);
    after.servers.add_names(BTreeMap::from([(2, "docker other".to_owned())]));
    let bytes = |books: &AgentBooks| {
        let flows = books.rows(true, [0, 0]).flows;
        (flows.iter().map(|flow| flow.wire_bytes.iter().sum::<u64>()).sum::<u64>(), flows.len())
    };
    assert_eq!(bytes(&after), bytes(&before), "rows that wait for the archive");
    assert!(!shown(&after).contains("docker other"), "{}", shown(&after));
}

#[test]
fn fewer_statements_leave_the_sum_as_it_is() {
    let mut before = counted();
    end_period(&mut before);
    let mut after = books();
    after.config.statements = 1;
    let saved = parse(&content(&before, None).unwrap(), Path::new("/state")).unwrap().unwrap();
    saved.restore(&mut after, None);
    let statements = |books: &AgentBooks| {
        let parts = books.totals(Duration::ZERO).parts;
        let names = parts.iter().map(|part| part.labels[1].clone()).collect::<Vec<_>>();
        (parts.iter().map(|part| part.total.wire_bytes).sum::<u64>(), names)
    };
    let ((sum, all), (kept_sum, kept)) = (statements(&before), statements(&after));
    assert_eq!((kept_sum, all.contains(&"SET".to_owned()), kept.contains(&"SET".to_owned())), (sum, true, false));
    assert!(kept.contains(&"(other)".to_owned()));
}

/// If this fails, files of earlier versions cannot be read: raise [`VERSION`].
#[test]
fn a_file_of_this_version_is_read() {
    let saved = restored(include_bytes!("saved.json"), None);
    let rows = saved.rows(true, [0, 0]);
    assert_eq!((rows.flows.len(), saved.rows(false, [0, 0]).statements.len()), (2, 3));
}

#[test]
fn damage_has_a_fix() {
    let good = content(&books(), None).unwrap();
    let fault =
        |bytes: &[u8]| parse(bytes, Path::new("/s/f")).map(|saved| saved.is_some()).map_err(|it| it.to_string());
    assert_eq!(fault(&good), Ok(true));
    let fix = "run rm /s/f, and counters start at 0";
    for damaged in [&b""[..], b"{", b"[]", b"{\"version\": 1}", &good[..good.len() - 1]] {
        let fault = fault(damaged).unwrap_err();
        assert!(fault.starts_with("state: /s/f is damaged (") && fault.ends_with(fix), "{fault}");
    }
    assert_eq!(fault(b"{\"version\": 99, \"flows\": 1}"), Ok(false));
}
