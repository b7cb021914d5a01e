//! Captures on loopback. Tests skip, with a line on standard error, if that is not permitted.

// Test helpers fail by panicking.
#![allow(clippy::unwrap_used, clippy::panic)]

use overhead_capture::live::{InterfaceFlag, LiveOptions, LiveSource, interface_facts, list_interfaces};
use overhead_capture::{FrameSource, KernelFilter, NextFrame, PcapngWriter, SourceError, WriterOptions};
use overhead_model::frame::LinkType;
use overhead_model::record::Measured;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// `None` if capturing is not permitted.
fn open(options: &LiveOptions) -> Option<LiveSource> {
    match LiveSource::open(options) {
        Ok(source) => Some(source),
        Err(error @ SourceError::NotPermitted { .. }) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn loopback(ports: &[u16], user: Option<&str>) -> LiveOptions {
    LiveOptions { filter: KernelFilter::new(ports.iter().copied(), user), ..LiveOptions::new("lo") }
}

/// Sends numbered datagrams to a socket of this test.
fn send(count: u32, socket: &UdpSocket) {
    for number in 0..count {
        socket.send_to(&number.to_be_bytes(), socket.local_addr().unwrap()).unwrap();
    }
}

fn udp() -> (UdpSocket, String) {
    let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    let filter = format!("udp port {}", socket.local_addr().unwrap().port());
    (socket, filter)
}

#[test]
fn datagrams_are_captured_once_and_in_order_until_the_stop() {
    let (socket, filter) = udp();
    let Some(mut source) = open(&loopback(&[], Some(&filter))) else { return };
    assert_eq!(source.link, LinkType::ETHERNET);
    send(50, &socket);
    source.stop_handle().stop();
    send(50, &socket);
    let mut numbers = Vec::new();
    loop {
        match source.next_frame().unwrap() {
            NextFrame::Frame(frame) => {
                assert_eq!(frame.original_len, 14 + 20 + 8 + 4);
                numbers.push(u32::from_be_bytes(frame.bytes[42..46].try_into().unwrap()));
            }
            NextFrame::Idle => {}
            NextFrame::End => break,
        }
    }
    assert_eq!(numbers, (0..50).collect::<Vec<u32>>());
    assert_eq!(source.totals.wire_bytes, 50 * 46);
    let Measured::Value(kernel) = source.kernel() else { panic!("no statistics") };
    assert!(kernel.received >= 50 && kernel.dropped == 0, "{kernel:?}");
}

/// The load goes on after the end of the window and fills the smallest ring.
#[test]
fn what_is_dropped_after_the_end_of_the_window_is_none_of_it() {
    let (socket, filter) = udp();
    let options = LiveOptions { buffer_bytes: 1 << 16, ..loopback(&[], Some(&filter)) };
    let dropped = |source: &mut LiveSource| source.kernel().value().unwrap().dropped;
    // Ended by a stop, and by a caller with enough frames.
    for stops in [true, false] {
        let Some(mut source) = open(&options) else { return };
        send(10, &socket);
        let mut frames = 0;
        while frames < 10 {
            frames += usize::from(source.next_frame().unwrap().frame().is_some());
        }
        assert_eq!(dropped(&mut source), 0);
        if stops {
            source.stop_handle().stop();
            assert!(!matches!(source.next_frame().unwrap(), NextFrame::Frame(_)), "there is nothing left");
        }
        send(100_000, &socket);
        if stops {
            while !matches!(source.next_frame().unwrap(), NextFrame::End) {}
        } else {
            source.end_window();
        }
        assert_eq!(dropped(&mut source), 0, "stops: {stops}");
    }
    // Within the window, they count.
    let Some(mut source) = open(&options) else { return };
    send(100_000, &socket);
    source.stop_handle().stop();
    while !matches!(source.next_frame().unwrap(), NextFrame::End) {}
    assert!(dropped(&mut source) > 0);
}

#[test]
fn a_lone_frame_is_delivered_soon_and_an_idle_interface_stops_promptly() {
    let (socket, filter) = udp();
    let Some(mut source) = open(&loopback(&[], Some(&filter))) else { return };
    assert!(matches!(source.next_frame().unwrap(), NextFrame::Idle));
    let sent = Instant::now();
    send(1, &socket);
    while source.next_frame().unwrap().frame().is_none() {
        assert!(sent.elapsed() < Duration::from_secs(5));
    }
    let latency = sent.elapsed();
    let handle = source.stop_handle();
    let stopper = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(250));
        handle.stop();
        Instant::now()
    });
    while !matches!(source.next_frame().unwrap(), NextFrame::End) {}
    let stop = stopper.join().unwrap().elapsed();
    eprintln!("latency of a lone frame {latency:?}, of a stop {stop:?}");
    assert!(latency < Duration::from_millis(500) && stop < Duration::from_millis(500), "{latency:?} {stop:?}");
}

#[test]
fn a_port_filter_takes_in_a_whole_connection() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let Some(mut source) = open(&loopback(&[address.port()], Some("host 127.0.0.1"))) else { return };
    assert!(source.filter().unwrap().contains("vlan"));
    let mut client = TcpStream::connect(address).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    client.write_all(&vec![7; 100_000]).unwrap();
    drop(client);
    let mut received = Vec::new();
    server.read_to_end(&mut received).unwrap();
    source.stop_handle().stop();
    let mut writer = PcapngWriter::new("memory", Vec::new(), &WriterOptions::new(source.link)).unwrap();
    loop {
        match source.next_frame().unwrap() {
            NextFrame::Frame(frame) => {
                assert_eq!(frame.bytes.len(), frame.original_len as usize, "it is captured whole");
                writer.write(&frame).unwrap();
            }
            NextFrame::Idle => writer.flush().unwrap(),
            NextFrame::End => break,
        }
    }
    assert!(source.totals.wire_bytes > 100_000, "{:?}", source.totals);
    assert_eq!(writer.frames(), source.totals.frames);
}

#[test]
fn frames_are_snapped_and_keep_their_length() {
    let (socket, filter) = udp();
    let Some(mut source) = open(&LiveOptions { snaplen: 42, ..loopback(&[], Some(&filter)) }) else { return };
    send(1, &socket);
    let frame = loop {
        if let NextFrame::Frame(frame) = source.next_frame().unwrap() {
            break frame;
        }
    };
    assert_eq!((frame.bytes.len(), frame.original_len), (42, 46));
}

#[test]
fn any_is_captured_with_the_header_that_names_interfaces() {
    let (socket, filter) = udp();
    let Some(mut source) = open(&LiveOptions { interface: "any".into(), ..loopback(&[1], Some(&filter)) }) else {
        return;
    };
    assert!(!source.filter().unwrap().contains("vlan"));
    assert_eq!(source.link, LinkType::LINUX_SLL2);
    send(1, &socket);
    assert!(source.next_frame().is_ok());
}

#[test]
fn errors_name_the_interface_or_the_filter_and_the_remedy() {
    let text = LiveSource::open(&LiveOptions::new("nosuch0")).err().unwrap().to_string();
    assert!(text.starts_with("interface nosuch0 does not exist: choose one of "), "{text}");
    assert!(text.contains("lo"), "{text}");
    let text = LiveSource::open(&LiveOptions { snaplen: 0, ..LiveOptions::new("lo") }).err().unwrap().to_string();
    assert_eq!(text, "snap length 0 is out of range: give 1 to 2147483647 bytes");
    if open(&LiveOptions::new("lo")).is_some() {
        for bad in ["tcp prt 80", "host a) or (host b", "vlan and no such word"] {
            let text = LiveSource::open(&loopback(&[6379], Some(bad))).err().unwrap().to_string();
            assert!(text.starts_with(&format!("the filter `{bad}` is not valid (")), "{text}");
            assert!(text.ends_with("): see `man pcap-filter`"), "{text}");
        }
    }
}

#[test]
fn many_ports_still_compile() {
    let ports: Vec<u16> = (0..60).map(|i| 1_000 + i * 7).collect();
    let Some(source) = open(&loopback(&ports, Some("not port 22"))) else { return };
    assert!(source.filter().is_some());
}

#[test]
fn facts_of_the_loopback_interface() {
    let list = list_interfaces(None).unwrap();
    let lo = list.iter().find(|interface| interface.name == "lo").unwrap();
    assert!(lo.flags.contains(&InterfaceFlag::Loopback) && lo.flags.contains(&InterfaceFlag::Up), "{lo:?}");
    let facts = interface_facts("lo", None);
    assert!(facts.mtu.is_some_and(|mtu| mtu >= 1_280), "{facts:?}");
    assert_eq!(facts.driver, None);
    assert!(facts.offloads.contains_key("gso"), "{facts:?}");
    assert_eq!(
        interface_facts("any", None),
        overhead_model::record::Interface { name: "any".into(), ..Default::default() }
    );
    assert_eq!(interface_facts("../net/lo", None).mtu, None);
}

/// Reads this many frames. Returns their bytes and original lengths.
fn read(source: &mut LiveSource, count: usize) -> Vec<(Vec<u8>, u32)> {
    let (begun, mut frames) = (Instant::now(), Vec::new());
    while frames.len() < count {
        assert!(begun.elapsed() < Duration::from_secs(20), "{} of {count} frames came", frames.len());
        if let NextFrame::Frame(frame) = source.next_frame().unwrap() {
            frames.push((frame.bytes.to_vec(), frame.original_len));
        }
    }
    frames
}

#[test]
fn the_ring_is_read_without_libpcap_but_on_any() {
    let Some(source) = open(&LiveOptions::new("lo")) else { return };
    assert!(source.reads_ring());
    let Some(source) = open(&LiveOptions::new("any")) else { return };
    assert!(!source.reads_ring());
}

/// The ring has four blocks, so it wraps many times.
#[test]
fn frames_of_all_blocks_come_in_order() {
    let (socket, filter) = udp();
    let Some(mut source) = open(&LiveOptions { buffer_bytes: 1 << 20, ..loopback(&[], Some(&filter)) }) else { return };
    let address = socket.local_addr().unwrap();
    let mut next = 0_u32;
    for _ in 0..200 {
        for number in next..next + 100 {
            let mut payload = vec![number as u8; 700];
            payload[..4].copy_from_slice(&number.to_be_bytes());
            socket.send_to(&payload, address).unwrap();
        }
        for (bytes, original_len) in read(&mut source, 100) {
            assert_eq!((bytes.len(), original_len), (742, 742));
            assert_eq!(bytes[42..46], next.to_be_bytes());
            assert!(bytes[46..].iter().all(|byte| *byte == next as u8));
            next += 1;
        }
    }
    assert_eq!((next, source.kernel().value().unwrap().dropped), (20_000, 0));
}

/// Two connected interfaces (veth) instead of a network card.
struct Cable([String; 2]);

impl Cable {
    /// `None` if not permitted or not supported.
    fn new() -> Option<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let ends = ["a", "b"].map(|end| format!("o{}{end}{number}", std::process::id()));
        let [a, b] = &ends;
        if !ip(&["link", "add", a, "mtu", "9000", "type", "veth", "peer", "name", b, "mtu", "9000"]) {
            eprintln!("skipped: no interface could be made");
            return None;
        }
        assert!(ip(&["link", "set", a, "up"]) && ip(&["link", "set", b, "up"]));
        Some(Self(ends))
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        ip(&["link", "del", &self.0[0]]);
    }
}

fn ip(arguments: &[&str]) -> bool {
    let mut command = std::process::Command::new("ip");
    command.args(arguments).stderr(std::process::Stdio::null()).status().is_ok_and(|status| status.success())
}

/// The kernel removes a frame's VLAN tag and reports it separately.
#[test]
fn tagged_and_long_frames_are_those_that_were_sent_and_those_that_libpcap_reads() {
    let Some(cable) = Cable::new() else { return };
    let [a, b] = &cable.0;
    for snaplen in [262_144_i32, 60] {
        let options = LiveOptions { snaplen: snaplen.cast_unsigned(), ..LiveOptions::new(b) };
        // Excludes frames such as neighbour discovery.
        let filter = "ether src 02:00:00:00:00:01 or (vlan and ether src 02:00:00:00:00:01)";
        let options = LiveOptions { filter: KernelFilter::new([], Some(filter)), ..options };
        let Some(mut source) = open(&options) else { return };
        assert!(source.reads_ring());
        let opened = pcap::Capture::from_device(b.as_str()).unwrap().snaplen(snaplen).promisc(false);
        let mut reference = opened.timeout(10).open().unwrap();
        reference.filter(filter, true).unwrap();
        let mut cable_end = pcap::Capture::from_device(a.as_str()).unwrap().open().unwrap();
        for (tag, len) in [(None, 60), (Some(7_u16), 64), (None, 9_000), (Some(0x2fff), 9_000)] {
            let tag = tag.map_or(Vec::new(), |tag| [0x8100_u16.to_be_bytes(), tag.to_be_bytes()].concat());
            let mut sent = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1], &tag, &[0x88, 0xb5]].concat();
            sent.extend((0..len - sent.len()).map(|at| at as u8));
            cable_end.sendpacket(sent.as_slice()).unwrap();
            let (bytes, original_len) = read(&mut source, 1).remove(0);
            let captured = sent.len().min(snaplen as usize);
            assert_eq!((original_len as usize, &bytes[..]), (sent.len(), &sent[..captured]));
            let packet = reference.next_packet().unwrap();
            assert_eq!((packet.header.len, packet.data), (original_len, &bytes[..]));
        }
    }
}

/// Sends one frame through the cable. Returns whether it is captured in time.
fn passes(from: &str, source: &mut LiveSource) -> bool {
    let mut sender = pcap::Capture::from_device(from).unwrap().open().unwrap();
    sender.sendpacket([&[0xff; 6][..], &[2, 0, 0, 0, 0, 1, 0x88, 0xb5], &[7; 46]].concat()).unwrap();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(5) {
        if source.next_frame().unwrap().frame().is_some_and(|frame| frame.bytes[6..12] == [2, 0, 0, 0, 0, 1]) {
            return true;
        }
    }
    false
}

#[test]
fn an_interface_that_goes_down_is_captured_on_again_and_one_that_is_removed_is_not() {
    let Some(cable) = Cable::new() else { return };
    let [a, b] = &cable.0;
    let Some(mut source) = open(&LiveOptions::new(b)) else { return };
    assert!(passes(a, &mut source) && source.times_down() == 0);
    assert!(ip(&["link", "set", b, "down"]));
    let begun = Instant::now();
    while source.times_down() == 0 {
        assert!(!matches!(source.next_frame().unwrap(), NextFrame::End));
        assert!(begun.elapsed() < Duration::from_secs(5), "nobody said so");
    }
    assert!(ip(&["link", "set", b, "up"]));
    assert!(passes(a, &mut source), "it goes on");
    assert!(ip(&["link", "del", b]));
    let begun = Instant::now();
    let error = loop {
        match source.next_frame() {
            Ok(_) => assert!(begun.elapsed() < Duration::from_secs(5), "nobody said so"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, SourceError::InterfaceRemoved { .. }), "{error}");
    assert!(source.kernel().value().is_some(), "what was dropped until then is known");
}
