//! Capturing on the loopback interface; each test is skipped, with a line on standard error, where that is not
//! permitted.

// Helpers of tests fail by panicking.
#![allow(clippy::unwrap_used, clippy::panic)]

use overhead_capture::live::{InterfaceFlag, LiveOptions, LiveSource, interface_facts, list_interfaces};
use overhead_capture::{KernelFilter, Next, PcapngWriter, Source, SourceError, WriterOptions};
use overhead_model::frame::LinkType;
use overhead_model::record::Measured;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// Opens a capture; `None` where it is not permitted.
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
    let Some(mut source) = open(&loopback(&[], Some(&filter))) else {
        return;
    };
    assert_eq!(source.link_type(), LinkType::ETHERNET);
    send(50, &socket);
    source.stop_handle().stop();
    send(50, &socket);
    let mut numbers = Vec::new();
    loop {
        match source.next_frame().unwrap() {
            Next::Frame(frame) => {
                assert_eq!(frame.original_len, 14 + 20 + 8 + 4);
                numbers.push(u32::from_be_bytes(frame.bytes[42..46].try_into().unwrap()));
            }
            Next::Idle => {}
            Next::End => break,
        }
    }
    assert_eq!(numbers, (0..50).collect::<Vec<u32>>());
    assert_eq!(source.totals().wire_bytes, 50 * 46);
    let Measured::Value(kernel) = source.kernel() else { panic!("no statistics") };
    assert!(kernel.received >= 50 && kernel.dropped == 0, "{kernel:?}");
}

/// The load goes on after the end of the window, and fills the smallest ring there is.
#[test]
fn what_is_dropped_after_the_end_of_the_window_is_none_of_it() {
    let (socket, filter) = udp();
    let options = LiveOptions { buffer_bytes: 1 << 16, ..loopback(&[], Some(&filter)) };
    let dropped = |source: &mut LiveSource| source.kernel().value().unwrap().dropped;
    // Ended by a stop, and by whoever has enough frames.
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
            assert!(!matches!(source.next_frame().unwrap(), Next::Frame(_)), "there is nothing left");
        }
        send(100_000, &socket);
        if stops {
            while !matches!(source.next_frame().unwrap(), Next::End) {}
        } else {
            source.end_window();
        }
        assert_eq!(dropped(&mut source), 0, "stops: {stops}");
    }
    // And within the window they count.
    let Some(mut source) = open(&options) else { return };
    send(100_000, &socket);
    source.stop_handle().stop();
    while !matches!(source.next_frame().unwrap(), Next::End) {}
    assert!(dropped(&mut source) > 0);
}

#[test]
fn a_lone_frame_is_delivered_soon_and_an_idle_interface_stops_promptly() {
    let (socket, filter) = udp();
    let Some(mut source) = open(&loopback(&[], Some(&filter))) else {
        return;
    };
    assert!(matches!(source.next_frame().unwrap(), Next::Idle));
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
    while !matches!(source.next_frame().unwrap(), Next::End) {}
    let stop = stopper.join().unwrap().elapsed();
    eprintln!("latency of a lone frame {latency:?}, of a stop {stop:?}");
    assert!(latency < Duration::from_millis(500) && stop < Duration::from_millis(500), "{latency:?} {stop:?}");
}

#[test]
fn a_port_filter_takes_in_a_whole_connection() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let Some(mut source) = open(&loopback(&[address.port()], Some("host 127.0.0.1"))) else {
        return;
    };
    assert!(source.filter().unwrap().contains("vlan"));
    let mut client = TcpStream::connect(address).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    client.write_all(&vec![7; 100_000]).unwrap();
    drop(client);
    let mut received = Vec::new();
    server.read_to_end(&mut received).unwrap();
    source.stop_handle().stop();
    let mut writer = PcapngWriter::new("memory", Vec::new(), &WriterOptions::new(source.link_type())).unwrap();
    loop {
        match source.next_frame().unwrap() {
            Next::Frame(frame) => writer.write(&frame).unwrap(),
            Next::Idle => writer.flush().unwrap(),
            Next::End => break,
        }
    }
    assert!(source.totals().wire_bytes > 100_000, "{:?}", source.totals());
    assert_eq!(source.totals().truncated_frames, 0);
    assert_eq!(writer.frames(), source.totals().frames);
}

#[test]
fn frames_are_snapped_and_keep_their_length() {
    let (socket, filter) = udp();
    let Some(mut source) = open(&LiveOptions { snaplen: 42, ..loopback(&[], Some(&filter)) }) else {
        return;
    };
    send(1, &socket);
    let frame = loop {
        if let Next::Frame(frame) = source.next_frame().unwrap() {
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
    assert_eq!(source.link_type(), LinkType::LINUX_SLL2);
    send(1, &socket);
    assert!(source.next_frame().is_ok());
}

#[test]
fn errors_name_the_interface_or_the_filter_and_the_remedy() {
    let text = LiveSource::open(&LiveOptions::new("nosuch0")).unwrap_err().to_string();
    assert!(text.starts_with("there is no interface nosuch0: choose one of "), "{text}");
    assert!(text.contains("lo"), "{text}");
    let text = LiveSource::open(&LiveOptions { snaplen: 0, ..LiveOptions::new("lo") }).unwrap_err().to_string();
    assert_eq!(text, "snap length 0 is out of range: give 1 to 2147483647 bytes");
    if open(&LiveOptions::new("lo")).is_some() {
        for bad in ["tcp prt 80", "host a) or (host b", "vlan and no such word"] {
            let text = LiveSource::open(&loopback(&[6379], Some(bad))).unwrap_err().to_string();
            assert!(text.starts_with(&format!("the filter `{bad}` is not valid (")), "{text}");
            assert!(text.ends_with("): correct it as `man pcap-filter` says"), "{text}");
        }
    }
}

#[test]
fn many_ports_still_compile() {
    let ports: Vec<u16> = (0..60).map(|i| 1_000 + i * 7).collect();
    let Some(source) = open(&loopback(&ports, Some("not port 22"))) else {
        return;
    };
    assert!(source.filter().is_some());
}

#[test]
fn facts_of_the_loopback_interface() {
    let list = list_interfaces().unwrap();
    let lo = list.iter().find(|interface| interface.name == "lo").unwrap();
    assert!(lo.flags.contains(&InterfaceFlag::Loopback) && lo.flags.contains(&InterfaceFlag::Up), "{lo:?}");
    let facts = interface_facts("lo");
    assert!(facts.mtu.is_some_and(|mtu| mtu >= 1_280), "{facts:?}");
    assert_eq!(facts.driver, None);
    assert!(facts.offloads.contains_key("gso"), "{facts:?}");
    assert_eq!(interface_facts("any"), overhead_model::record::Interface { name: "any".into(), ..Default::default() });
    assert_eq!(interface_facts("../net/lo").mtu, None);
}
