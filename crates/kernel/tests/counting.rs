//! Checks the counters against loads with known counts. Skips without root or a kernel with BTF.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code)]
mod child;

use child::{Child, calls, counters, named};
use overhead_kernel::{
    CounterOptions, CycleChoice, Error, KernelCounters, OwnCost, ProcessRole, ProcessSelection, doctor,
};
use overhead_model::record::{self, Measured};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

fn server(counters: &record::Counters) -> &record::Role {
    counters.server.value().expect("there is a server")
}

/// Lets a child work and end as one of this role, and returns what was counted.
fn record_of(counters: &mut KernelCounters, role: ProcessRole, child: Child) -> record::Counters {
    counters.add_process(role, child.pid).unwrap();
    counters.begin().unwrap();
    child.run();
    counters.record_so_far().unwrap()
}

fn within(value: u64, expected: u64, share: f64) -> bool {
    (value as f64 - expected as f64).abs() <= expected as f64 * share
}

#[test]
fn every_call_of_a_process_is_counted() {
    let Some(mut counters) = counters(&named()) else { return };
    let child = Child::waiting(|| child::getppid(1_000_003));
    counters.add_process(ProcessRole::Server, child.pid).unwrap();
    counters.begin().unwrap();
    let pid = child.pid;
    child.run();
    let record = counters.record_so_far().unwrap();
    let role = server(&record);
    assert_eq!(calls(role, "getppid"), 1_000_003);
    assert_eq!(calls(role, "exit_group"), 1);
    assert_eq!(role.pids, [pid]);
    assert_eq!(record.client.reason(), Some("no client was named"));
    assert_eq!(counters.warnings(), Vec::<String>::new());
}

#[test]
fn errors_are_counted_with_their_calls() {
    let Some(mut counters) = counters(&named()) else { return };
    let child = Child::waiting(|| child::close_nothing(250));
    let record = record_of(&mut counters, ProcessRole::Server, child);
    let close = &server(&record).syscalls["close"];
    assert_eq!((close.count, close.errors), (250, 250));
}

#[test]
fn threads_are_followed_whether_old_or_new() {
    let Some(mut counters) = counters(&named()) else { return };
    let child = Child::with_waiting_threads(
        3,
        || child::getppid(1_000),
        || {
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| child::getppid(10_000));
                }
            });
        },
    );
    let record = record_of(&mut counters, ProcessRole::Server, child);
    assert_eq!(calls(server(&record), "getppid"), 3 * 1_000 + 4 * 10_000);
}

#[test]
fn forks_are_followed_to_the_grandchildren() {
    let Some(mut counters) = counters(&named()) else { return };
    let child = Child::waiting(|| {
        for _ in 0..3 {
            child::fork_and_wait(|| {
                child::getppid(500);
                child::fork_and_wait(|| child::getppid(70));
            });
        }
    });
    let record = record_of(&mut counters, ProcessRole::Client, child);
    let role = record.client.value().unwrap();
    assert_eq!(calls(role, "getppid"), 3 * 570);
    assert_eq!(role.pids.len(), 7);
    assert_eq!(calls(role, "exit_group"), 7);
    assert_eq!(clones(role), 6);
}

/// Returns the number of calls that created a thread or process.
fn clones(role: &record::Role) -> u64 {
    ["clone", "clone3", "fork", "vfork"].into_iter().map(|name| calls(role, name)).sum()
}

#[test]
fn a_new_thread_does_not_return_from_the_call_that_made_it_and_its_end_is_a_call() {
    let Some(mut counters) = counters(&named()) else { return };
    let child = Child::waiting(|| {
        for _ in 0..5 {
            std::thread::spawn(|| child::getppid(1)).join().unwrap();
        }
        for _ in 0..3 {
            std::process::Command::new("/bin/true").status().unwrap();
        }
    });
    let record = record_of(&mut counters, ProcessRole::Server, child);
    let role = server(&record);
    assert_eq!((clones(role), calls(role, "exit"), calls(role, "exit_group")), (8, 5, 4), "{:?}", role.syscalls);
    assert_eq!(calls(role, "execve"), 3);
}

#[test]
fn a_return_from_a_signal_is_a_call_and_a_call_of_no_number_is_none() {
    let Some(mut counters) = counters(&named()) else { return };
    let child = Child::waiting(|| {
        child::handle_signals(40);
        child::no_call(-1, 30);
        child::no_call(100_000, 20);
    });
    let record = record_of(&mut counters, ProcessRole::Server, child);
    let role = server(&record);
    let other = &role.syscalls["other"];
    assert_eq!((calls(role, "rt_sigreturn"), other.count, other.errors), (40, 20, 20), "{:?}", role.syscalls);
}

#[test]
fn a_call_that_seccomp_refuses_counts_with_its_error() {
    let Some(mut counters) = counters(&named()) else { return };
    let child = Child::waiting_after(child::refuse_getppid, |()| child::getppid(250));
    let record = record_of(&mut counters, ProcessRole::Server, child);
    let getppid = &server(&record).syscalls["getppid"];
    assert_eq!((getppid.count, getppid.errors), (250, 250));
}

#[test]
fn a_thread_that_is_killed_in_a_call_returns_from_it_once() {
    let Some(mut counters) = counters(&named()) else { return };
    let mut child = Child::waiting(|| ());
    counters.add_process(ProcessRole::Server, child.pid).unwrap();
    counters.begin().unwrap();
    child.kill();
    let record = counters.record_so_far().unwrap();
    let role = server(&record);
    let all: u64 = role.syscalls.values().map(|call| call.count).sum();
    assert_eq!((all, role.syscalls["read"].count, role.syscalls["read"].errors), (1, 1, 1), "{:?}", role.syscalls);
}

#[test]
fn children_born_before_the_counters_belong_to_their_parent() {
    let Some(mut counters) = counters(&named()) else { return };
    let child = Child::with_waiting_fork(|| child::getppid(321), || ());
    let record = record_of(&mut counters, ProcessRole::Server, child);
    assert_eq!(calls(server(&record), "getppid"), 321);
}

#[test]
fn a_command_counts_from_its_exec() {
    let Some(mut counters) = counters(&named()) else { return };
    let child = Child::waiting(|| child::exec(&["/bin/sh", "-c", "/bin/true; exec /bin/true"]));
    let record = record_of(&mut counters, ProcessRole::Client, child);
    let role = record.client.value().unwrap();
    assert!(calls(role, "execve") >= 3, "{:?}", role.syscalls);
    assert!(role.comms.contains(&"true".to_owned()), "{:?}", role.comms);
    assert_eq!(role.pids.len(), 2);
}

#[test]
fn time_agrees_with_the_clock_at_process_start() {
    let Some(mut counters) = counters(&named()) else { return };
    let child = Child::waiting(|| child::spin(Duration::from_secs(1)));
    counters.add_process(ProcessRole::Server, child.pid).unwrap();
    counters.begin().unwrap();
    let before = child.cpu_ns();
    let usage = child.run();
    let record = counters.record_so_far().unwrap();
    let on_cpu = server(&record).on_cpu_ns.value().unwrap().clone();
    let counted = on_cpu.user + on_cpu.kernel;
    assert!(within(counted, usage.cpu_ns - before, 0.01), "{counted} {}", usage.cpu_ns);
    assert!(on_cpu.user > counted * 9 / 10, "{on_cpu:?}");
    let switches = server(&record).context_switches.value().unwrap();
    assert!(switches.voluntary + switches.involuntary <= usage.switches, "{switches:?} {usage:?}");
}

#[test]
fn the_slice_that_is_not_over_counts() {
    let Some(mut counters) = counters(&named()) else { return };
    let child = Child::waiting(|| child::spin(Duration::from_secs(30)));
    counters.add_process(ProcessRole::Server, child.pid).unwrap();
    let mut child = child.let_go();
    std::thread::sleep(Duration::from_millis(100));
    let before_begin = child.schedstat_ns();
    counters.begin().unwrap();
    let begun = child.schedstat_ns();
    std::thread::sleep(Duration::from_millis(500));
    let before_read = child.schedstat_ns();
    let record = counters.record_so_far().unwrap();
    let read = child.schedstat_ns();
    child.kill();
    let on_cpu = server(&record).on_cpu_ns.value().unwrap().clone();
    let counted = on_cpu.user + on_cpu.kernel;
    // The child runs on during a reading, and its CPU time is updated at ticks, so each end may lag by one.
    let expected = before_read - begun - 10_000_000..=read - before_begin + 10_000_000;
    assert!(expected.contains(&counted), "{on_cpu:?} {expected:?}");
}

#[test]
fn threads_that_have_ended_leave_their_time() {
    let Some(mut counters) = counters(&named()) else { return };
    let child = Child::waiting(|| {
        for _ in 0..20 {
            std::thread::spawn(|| child::spin(Duration::from_millis(20))).join().unwrap();
        }
    });
    counters.add_process(ProcessRole::Server, child.pid).unwrap();
    counters.begin().unwrap();
    let before = child.cpu_ns();
    let usage = child.run();
    let record = counters.record_so_far().unwrap();
    let on_cpu = server(&record).on_cpu_ns.value().unwrap();
    let counted = on_cpu.user + on_cpu.kernel;
    assert!(within(counted, usage.cpu_ns - before, 0.01), "{counted} {}", usage.cpu_ns);
}

#[test]
fn a_process_that_lives_in_system_calls_spends_kernel_time() {
    let Some(mut counters) = counters(&named()) else { return };
    let child = Child::waiting(|| child::read_zeroes(4_000, 1 << 20));
    let record = record_of(&mut counters, ProcessRole::Server, child);
    let on_cpu = server(&record).on_cpu_ns.value().unwrap();
    assert!(on_cpu.kernel > (on_cpu.user + on_cpu.kernel) * 9 / 10, "{on_cpu:?}");
    let read = &server(&record).syscalls["read"];
    let ns = *read.ns.value().unwrap();
    // Other tests may take the processor away within a call, so it can last longer than its time on the CPU.
    let on_cpu_ns = on_cpu.user + on_cpu.kernel;
    assert!((on_cpu_ns * 3 / 4..on_cpu_ns * 4).contains(&ns), "{ns} of {on_cpu:?}");
}

#[test]
fn waiting_is_not_time_inside_a_call() {
    let Some(mut counters) = counters(&named()) else { return };
    let child = Child::waiting(|| child::sleep_often(200, Duration::from_millis(2)));
    let record = record_of(&mut counters, ProcessRole::Server, child);
    let role = server(&record);
    let sleep = &role.syscalls["clock_nanosleep"];
    assert_eq!(sleep.count, 200);
    assert!(*sleep.ns.value().unwrap() < 40_000_000, "{sleep:?}");
    assert!(role.context_switches.value().unwrap().voluntary >= 200, "{role:?}");
    // A wake-up from an interrupt during another one on the same CPU is not seen.
    assert!(*role.wakeups.value().unwrap() >= 190, "{role:?}");
}

#[test]
fn a_process_that_was_not_named_is_not_counted_and_roles_do_not_mix() {
    let Some(mut counters) = counters(&named()) else { return };
    let (one, two) = (Child::waiting(|| child::getppid(100)), Child::waiting(|| child::getppid(2_000)));
    let stranger = Child::waiting(|| child::getppid(30_000));
    counters.add_process(ProcessRole::Server, one.pid).unwrap();
    counters.add_process(ProcessRole::Client, two.pid).unwrap();
    counters.begin().unwrap();
    let pids = (one.pid, two.pid);
    stranger.run();
    one.run();
    two.run();
    let record = counters.record_so_far().unwrap();
    let client = record.client.value().unwrap();
    assert_eq!((calls(server(&record), "getppid"), calls(client, "getppid")), (100, 2_000));
    assert_eq!((server(&record).pids.as_slice(), client.pids.as_slice()), ([pids.0].as_slice(), [pids.1].as_slice()));
}

#[test]
fn the_window_holds_what_is_done_in_it() {
    let Some(mut counters) = counters(&named()) else { return };
    let mut child = Child::in_steps(|step| child::getppid(1_000 * (step + 1)));
    counters.add_process(ProcessRole::Server, child.pid).unwrap();
    child.step();
    counters.begin().unwrap();
    child.step();
    let middle = counters.record_so_far().unwrap();
    let end = counters.record_so_far().unwrap();
    child.step();
    assert_eq!(calls(server(&middle), "getppid"), 2_000);
    assert_eq!(calls(server(&end), "getppid"), 2_000);
    counters.begin().unwrap();
    child.step();
    assert_eq!(calls(server(&counters.record_so_far().unwrap()), "getppid"), 4_000);
}

#[test]
fn a_window_that_was_not_begun_cannot_be_read() {
    let Some(mut counters) = counters(&named()) else { return };
    assert!(matches!(counters.record_so_far(), Err(Error::NotBegun)));
}

#[test]
fn socket_bytes_are_those_sent() {
    let port = child::free_port();
    let server_child = Child::waiting_after(
        move || TcpListener::bind(("127.0.0.1", port)).unwrap(),
        |listener| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).unwrap();
            stream.write_all(&bytes[..12_345]).unwrap();
        },
    );
    let mut options = CounterOptions::for_ports([port]);
    options.softirq = true;
    let Some(mut counters) = counters(&options) else { return };
    counters.begin().unwrap();
    let (mut witness, mut from_client) = std::io::pipe().unwrap();
    let client_child = Child::waiting(move || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        for _ in 0..100 {
            stream.write_all(&[7; 1_000]).unwrap();
        }
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
        from_client.write_all(&child::retransmitted_segments(&stream).to_ne_bytes()).unwrap();
    });
    let pids = (server_child.pid, client_child.pid);
    let server_child = server_child.let_go();
    client_child.run();
    server_child.join();
    let record = counters.record_so_far().unwrap();
    let client = record.client.value().expect("the kernel finds who connects");
    assert_eq!((server(&record).pids.as_slice(), client.pids.as_slice()), ([pids.0].as_slice(), [pids.1].as_slice()));
    assert_eq!(calls(client, "connect"), 1);
    let (Measured::Value(ours), Measured::Value(theirs)) = (&server(&record).socket, &client.socket) else {
        println!("skipped: {:?}", client.socket.reason());
        return;
    };
    assert_eq!((theirs.send_calls, theirs.send_bytes, theirs.recv_bytes), (100, 100_000, 12_345));
    assert_eq!((ours.recv_bytes, ours.send_bytes), (100_000, 12_345));
    assert!(record.softirq.value().unwrap().rx_count > 0);
    let mut segments = [0; 4];
    witness.read_exact(&mut segments).unwrap();
    let (segments, counted) = (u64::from(u32::from_ne_bytes(segments)), *client.retransmissions.value().unwrap());
    // A busy machine delays acknowledgments until the kernel probes again. It counts segments, and the tracepoint packets.
    assert!(counted <= segments && (counted == 0) == (segments == 0), "{counted} counted, {segments} in TCP_INFO");
}

#[test]
fn a_listener_in_another_network_namespace_is_found() {
    let port = child::free_port();
    let listener = Child::waiting_after(
        move || {
            if child::leave_network_namespace() {
                return Some(TcpListener::bind(("0.0.0.0", port)).unwrap());
            }
            None
        },
        drop,
    );
    if !child::is_root() {
        println!("skipped: a network namespace needs root");
        return;
    }
    let Some(mut counters) = counters(&CounterOptions::for_ports([port])) else { return };
    counters.begin().unwrap();
    let pid = listener.pid;
    assert_eq!(server(&counters.record_so_far().unwrap()).pids, [pid]);
}

#[test]
fn a_server_that_is_started_again_is_found_again() {
    let port = child::free_port();
    let bind = move || TcpListener::bind(("127.0.0.1", port)).unwrap();
    let first = Child::waiting_after(bind, drop);
    let Some(mut counters) = counters(&CounterOptions::for_ports([port])) else { return };
    counters.begin().unwrap();
    let mut pids = vec![first.pid];
    first.run();
    let second = Child::waiting_after(bind, |_listener| child::getppid(77));
    pids.push(second.pid);
    second.run();
    let record = counters.record_so_far().unwrap();
    assert_eq!(server(&record).pids, pids);
    assert_eq!(calls(server(&record), "getppid"), 77);
}

#[test]
fn a_process_is_found_by_its_name() {
    let child = Child::waiting_after(|| child::take_name("ovh-by-name"), |()| child::getppid(55));
    let mut options = named();
    options.server = ProcessSelection::Comm("ovh-by-name".to_owned());
    let Some(mut counters) = counters(&options) else { return };
    counters.begin().unwrap();
    child.run();
    let record = counters.record_so_far().unwrap();
    assert_eq!(server(&record).comms, ["ovh-by-name"]);
    assert_eq!(calls(server(&record), "getppid"), 55);
}

#[test]
fn a_client_that_was_connected_before_is_found() {
    let port = child::free_port();
    let listener = Child::waiting_after(
        move || TcpListener::bind(("127.0.0.1", port)).unwrap(),
        |listener| drop(listener.accept().unwrap().0.read(&mut [0; 10])),
    );
    let client = Child::waiting_after(
        move || TcpStream::connect(("127.0.0.1", port)).unwrap(),
        |mut stream| stream.write_all(b"0123456789").unwrap(),
    );
    let Some(mut counters) = counters(&CounterOptions::for_ports([port])) else { return };
    counters.begin().unwrap();
    let pid = client.pid;
    client.run();
    listener.run();
    let record = counters.record_so_far().unwrap();
    assert_eq!(record.client.value().unwrap().pids, [pid]);
}

#[test]
fn softirqs_are_timed_where_that_is_asked_for() {
    let Some(mut counters) = counters(&named()) else { return };
    counters.begin().unwrap();
    let record = counters.record_so_far().unwrap();
    assert!(record.softirq.reason().unwrap().contains("not asked for (--softirq)"), "{:?}", record.softirq);
}

#[test]
fn without_a_client_here_the_client_is_absent_not_zero() {
    let port = child::free_port();
    let _listener = Child::waiting_after(move || TcpListener::bind(("127.0.0.1", port)).unwrap(), drop);
    let Some(mut counters) = counters(&CounterOptions::for_ports([port])) else { return };
    // This process does not count as a client.
    let _ours = TcpStream::connect(("127.0.0.1", port)).unwrap();
    counters.begin().unwrap();
    let record = counters.record_so_far().unwrap();
    assert!(record.client.reason().unwrap().starts_with("the client is not on this host"), "{:?}", record.client);
}

#[test]
fn a_server_that_listens_later_is_found_then() {
    let port = child::free_port();
    let Some(mut counters) = counters(&CounterOptions::for_ports([port])) else { return };
    assert!(counters.awaiting);
    counters.begin().unwrap();
    let absent = counters.record_so_far().unwrap();
    assert!(absent.server.reason().unwrap().contains(&format!("listened on port {port}")), "{:?}", absent.server);
    let server_child =
        Child::waiting(move || drop((TcpListener::bind(("127.0.0.1", port)).unwrap(), child::getppid(99))));
    let pid = server_child.pid;
    server_child.run();
    let record = counters.record_so_far().unwrap();
    assert_eq!((server(&record).pids.as_slice(), calls(server(&record), "getppid")), ([pid].as_slice(), 99));
}

#[test]
fn a_process_that_does_not_exist_is_an_error() {
    let mut options = named();
    options.server = ProcessSelection::Pids(vec![u32::MAX / 2]);
    match KernelCounters::load(&options) {
        Err(Error::NoSuchProcess(pid)) => assert_eq!(pid, u32::MAX / 2),
        Err(error) => println!("skipped: {error}"),
        Ok(_) => panic!("there is no such process"),
    }
}

#[test]
fn cycles_come_through_perf_events_by_the_same_way_as_on_hardware() {
    let mut options = named();
    options.cycles = CycleChoice::TscAsHardware;
    let Some(mut counters) = counters(&options) else { return };
    let child = Child::waiting(|| child::spin(Duration::from_millis(500)));
    let record = record_of(&mut counters, ProcessRole::Server, child);
    let role = server(&record);
    let cycles = role.cycles.value().unwrap();
    if cycles.source == record::CycleSource::Reference {
        println!("skipped: {:?}", cycles.reason);
        return;
    }
    let on_cpu = role.on_cpu_ns.value().unwrap();
    // Both are the same counter. The counter may lose cycles at switches that the tracepoint misses.
    assert!(within(cycles.user, cycles.kernel, 0.01), "{cycles:?}");
    let rate = cycles.user as f64 / (on_cpu.user + on_cpu.kernel) as f64;
    assert!(rate > 0.5 && rate < 10.0, "{rate} ticks per ns: {cycles:?}");
}

#[test]
fn cycles_of_the_cpu_come_apart_by_mode() {
    let Some(mut counters) = counters(&named()) else { return };
    let child = Child::waiting(|| {
        child::spin(Duration::from_millis(300));
        child::read_zeroes(100, 1 << 20);
    });
    let record = record_of(&mut counters, ProcessRole::Server, child);
    let role = server(&record);
    let cycles = role.cycles.value().unwrap();
    if cycles.source == record::CycleSource::Reference {
        println!("skipped: {:?}", cycles.reason);
        return;
    }
    let on_cpu = role.on_cpu_ns.value().unwrap();
    assert!(cycles.user > 0 && cycles.kernel > 0, "{cycles:?}");
    let rate = (cycles.user + cycles.kernel) as f64 / (on_cpu.user + on_cpu.kernel) as f64;
    assert!(rate > 0.3 && rate < 10.0, "{rate} cycles per ns: {cycles:?} {on_cpu:?}");
}

#[test]
fn reference_cycles_are_time_at_a_rate_and_say_why() {
    let mut options = named();
    options.cycles = CycleChoice::Reference;
    let Some(mut counters) = counters(&options) else { return };
    let child = Child::waiting(|| child::spin(Duration::from_millis(100)));
    let record = record_of(&mut counters, ProcessRole::Server, child);
    let cycles = server(&record).cycles.value().unwrap();
    assert_eq!(cycles.source, record::CycleSource::Reference);
    assert_eq!(cycles.reason.as_deref(), Some("hardware cycles were not asked for"));
    let on_cpu = server(&record).on_cpu_ns.value().unwrap();
    let expected = (on_cpu.user as f64 * cycles.ticks_per_ns.unwrap()).round() as u64;
    assert_eq!(cycles.user, expected);
}

#[test]
fn own_cost_is_measured_when_asked_for() {
    let mut options = named();
    options.own_cost = OwnCost::Timed;
    let Some(mut counters) = counters(&options) else { return };
    let child = Child::waiting(|| child::getppid(100_000));
    counters.add_process(ProcessRole::Server, child.pid).unwrap();
    counters.begin().unwrap();
    child.run();
    assert!(*counters.bpf_ns().value().unwrap() > 100_000, "{:?}", counters.bpf_ns());
}

#[test]
fn own_cost_is_sampled_when_asked_for() {
    let mut options = named();
    options.own_cost = OwnCost::Sampled;
    let Some(mut counters) = counters(&options) else { return };
    let mut child = Child::in_steps(|_| child::getppid(10_000));
    counters.add_process(ProcessRole::Server, child.pid).unwrap();
    counters.begin().unwrap();
    let started = Instant::now();
    while counters.bpf_ns().value().is_none_or(|ns| *ns == 0) {
        child.step();
        assert!(started.elapsed() < Duration::from_secs(30), "{:?}", counters.bpf_ns());
    }
}

#[test]
fn the_doctor_names_everything_once() {
    let list = doctor();
    let started = Instant::now();
    assert!(!list.is_empty() && started.elapsed() < Duration::from_secs(1));
    for capability in &list {
        assert_eq!(list.iter().filter(|other| other.name == capability.name).count(), 1, "{}", capability.name);
        if let Err(absence) = &capability.outcome {
            assert!(!absence.reason.is_empty() && !absence.remedy.is_empty(), "{capability:?}");
        }
    }
}
