//! Checks the totals of connections against what this test sends. Skips without root or a kernel with BTF.

#![allow(clippy::unwrap_used, clippy::panic)]

#[allow(dead_code)]
mod child;

use overhead_kernel::{FollowedTraffic, ServerPort, SocketGroup, SocketTotals, TcpFollower, own_network_namespace};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

fn follower(ports: &[u16], by_connection: bool) -> Option<TcpFollower> {
    child::or_skip(TcpFollower::start(ports, by_connection))
}

/// Sends a request and reads an answer, of the given lengths.
fn exchange(client: &mut TcpStream, server: &mut TcpStream, lengths: [usize; 2]) {
    for (length, from_client) in lengths.into_iter().zip([true, false]) {
        let (from, to) = if from_client { (&mut *client, &mut *server) } else { (&mut *server, &mut *client) };
        from.write_all(&vec![b'x'; length]).unwrap();
        to.read_exact(&mut vec![0; length]).unwrap();
    }
}

/// Sums since the start, from all readings.
#[derive(Default)]
struct Sums(BTreeMap<SocketGroup, SocketTotals>);

impl Sums {
    fn read(&mut self, follower: &mut TcpFollower) {
        let traffic = follower.read().unwrap();
        assert_eq!((traffic.lost, traffic.remaining), (0, [SocketTotals::default(); 4]));
        for (group, grown) in traffic.groups {
            self.0.entry(group).or_default().add(&grown);
        }
    }

    fn at(&self, is_server: bool) -> Vec<(SocketGroup, SocketTotals)> {
        self.0.iter().filter(|(group, _)| group.is_server == is_server).map(|(group, sum)| (*group, *sum)).collect()
    }
}

#[test]
fn both_ends_count_what_they_sent_from_their_first_segment() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let Some(mut follower) = follower(&[address.port()], true) else { return };
    let mut sums = Sums::default();
    let mut client = TcpStream::connect(address).unwrap();
    let (mut server, peer) = listener.accept().unwrap();
    exchange(&mut client, &mut server, [100, 3_000]);
    sums.read(&mut follower);
    let open = sums.at(true);
    exchange(&mut client, &mut server, [20, 70_000]);
    // The client closes first, and reads the server's FIN.
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(server.read(&mut [0; 1]).unwrap(), 0);
    drop(server);
    assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
    drop(client);
    sums.read(&mut follower);
    let ([(server_end, server)], [(client_end, client)]) = (&sums.at(true)[..], &sums.at(false)[..]) else {
        panic!("one group at each end");
    };
    assert_eq!((server_end.local, server_end.remote), (address, peer));
    assert_eq!((client_end.local, client_end.remote), (peer, address));
    assert_eq!(server_end.network_namespace, own_network_namespace());
    assert!(!server_end.is_adopted && server_end.control_group > 0);
    assert_eq!((open[0].1.received.payload_bytes, open[0].1.sent.payload_bytes), (100, 3_000));
    assert_eq!((client.sent.payload_bytes, client.received.payload_bytes), (120, 73_000));
    // Nothing is lost on loopback, so each end receives the segments and headers that the other sends.
    assert_eq!((server.sent, server.received), (client.received, client.sent));
    assert_eq!([server.opened, server.closed, client.opened, client.closed], [1; 4]);
    assert!(server.round_trips > 0 && server.retransmitted_segments == 0);
    // A SYN of 40 bytes, and 32 bytes of TCP header in all other segments.
    assert_eq!(client.sent.header_bytes, client.sent.segments * (20 + 32) + 8);
}

#[test]
fn connections_of_one_client_share_a_sum_however_they_end() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let Some(mut follower) = follower(&[address.port()], false) else { return };
    for server_ends_first in [true, false] {
        for _ in 0..20 {
            let mut client = TcpStream::connect(address).unwrap();
            let mut server = listener.accept().unwrap().0;
            exchange(&mut client, &mut server, [10, 1_000]);
            let (first, mut last) = if server_ends_first { (server, client) } else { (client, server) };
            drop(first);
            assert_eq!(last.read(&mut [0; 1]).unwrap(), 0);
        }
    }
    let mut sums = Sums::default();
    sums.read(&mut follower);
    let ([(group, server)], [(_, client)]) = (&sums.at(true)[..], &sums.at(false)[..]) else {
        panic!("one group at each end");
    };
    assert_eq!(group.remote.port(), 0);
    assert_eq!((server.opened, server.closed), (40, 40));
    assert_eq!((server.received.payload_bytes, server.sent.payload_bytes), (400, 40_000));
    assert_eq!((server.sent, server.received), (client.received, client.sent), "also what TIME-WAIT answers");
    assert!(follower.read().unwrap().groups.is_empty(), "each reading has what is new");
}

/// A server that closes with unread data sends a RST, after its socket is closed.
#[test]
fn a_reset_counts_at_both_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let Some(mut follower) = follower(&[address.port()], false) else { return };
    let mut client = TcpStream::connect(address).unwrap();
    let mut server = listener.accept().unwrap().0;
    exchange(&mut client, &mut server, [100, 200]);
    client.write_all(&[b'x'; 10]).unwrap();
    server.peek(&mut [0; 10]).unwrap();
    drop(server);
    assert_eq!(client.read(&mut [0; 1]).unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    drop(client);
    let mut sums = Sums::default();
    sums.read(&mut follower);
    let ([(_, server)], [(_, client)]) = (&sums.at(true)[..], &sums.at(false)[..]) else { panic!("one group each") };
    assert_eq!((server.sent.segments, server.sent), (client.received.segments, client.received));
    assert_eq!((server.received, server.closed), (client.sent, 1));
}

/// The socket is closed, and what waits for the client's FIN counts nothing.
#[test]
fn what_arrives_after_a_close_counts_and_what_never_comes_does_not() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let Some(mut follower) = follower(&[address.port()], false) else { return };
    if !follower.sees_drops {
        println!("skipped: this kernel does not show which segments it drops");
        return;
    }
    let mut client = TcpStream::connect(address).unwrap();
    let mut server = listener.accept().unwrap().0;
    exchange(&mut client, &mut server, [100, 200]);
    drop(server);
    assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
    let mut sums = Sums::default();
    sums.read(&mut follower);
    let ([(_, server)], [(_, open)]) = (&sums.at(true)[..], &sums.at(false)[..]) else { panic!("one group each") };
    assert_eq!((server.sent, server.received), (open.received, open.sent), "the client does not close");
    client.write_all(&[b'x'; 700]).unwrap();
    while client.write_all(b"x").is_ok() {}
    drop(client);
    sums.read(&mut follower);
    let ([(_, server)], [(_, client)]) = (&sums.at(true)[..], &sums.at(false)[..]) else { panic!("one group each") };
    assert_eq!((server.sent, server.received), (client.received, client.sent));
    assert!(server.refused_bytes >= 700 && server.received.payload_bytes >= 800, "{server:?}");
}

#[test]
fn connections_that_were_open_before_count_from_then_on() {
    let listener = TcpListener::bind("[::1]:0").unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    let mut server = listener.accept().unwrap().0;
    exchange(&mut client, &mut server, [100, 100]);
    let Some(mut follower) = follower(&[], false) else { return };
    follower.follow_ports(&[address.port()]).unwrap();
    follower.adopt_open().unwrap();
    exchange(&mut client, &mut server, [7, 9]);
    let mut sums = Sums::default();
    sums.read(&mut follower);
    let [(group, totals)] = sums.at(true)[..] else { panic!("one group") };
    assert!(group.is_adopted && group.local == address);
    assert_eq!((totals.received.payload_bytes, totals.sent.payload_bytes), (7, 9));
    assert_eq!((totals.opened, totals.closed), (1, 0));
    assert_eq!(totals.sent.header_bytes, totals.sent.segments * (40 + 32));
}

/// 70,000 groups between two readings do not fit, and are added up. Later ones have room again, while old connections are open.
#[test]
fn a_full_table_has_room_again_after_a_reading() {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let Some(mut follower) = follower(&[port], true) else { return };
    let connect = |place: u16| {
        let client = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1 + (place % 250) as u8], port))).unwrap();
        (client, listener.accept().unwrap().0)
    };
    let mut open = connect(0);
    (0..35_000).for_each(|place| drop(connect(place)));
    let traffic = follower.read().unwrap();
    assert_eq!((traffic.groups.len(), traffic.lost), (65_536, 0));
    let sums = || traffic.groups.values().chain(&traffic.remaining);
    assert_eq!(sums().map(|sum| sum.opened).sum::<u64>(), 2 * 35_001, "what found no room is counted");
    assert_eq!(traffic.remaining[0], SocketTotals::default(), "the servers' ends have local connections");
    let new = connect(0);
    exchange(&mut open.0, &mut open.1, [10, 20]);
    let later = follower.read().unwrap();
    assert_eq!((later.groups.len(), later.remaining), (4, traffic.remaining));
    let payload: u64 = later.groups.values().map(|sum| sum.received.payload_bytes).sum();
    assert_eq!((payload, later.groups.values().map(|sum| sum.opened).sum()), (30, 2));
    drop(new);
}

/// Returns the sum of the servers' ends on a port.
fn at_port(traffic: &FollowedTraffic, port: u16) -> SocketTotals {
    let mut sum = SocketTotals::default();
    let here = traffic.groups.iter().filter(|(group, _)| group.is_server && group.local.port() == port);
    here.for_each(|(_, totals)| sum.add(totals));
    sum
}

#[test]
fn a_server_on_any_port_counts_from_its_listen_on() {
    let Some(mut follower) = child::or_skip(TcpFollower::start_with_listeners(&[])) else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let connect = || {
        let client = TcpStream::connect(address).unwrap();
        (client, listener.accept().unwrap().0)
    };
    let (mut client, mut server) = connect();
    exchange(&mut client, &mut server, [1_000, 250_000]);
    let traffic = follower.read().unwrap();
    let sum = at_port(&traffic, address.port());
    assert_eq!((sum.received.payload_bytes, sum.sent.payload_bytes, sum.opened), (1_000, 250_000, 1));
    let own = traffic.new_listeners.iter().find(|server| server.addresses.contains(&address)).unwrap();
    assert_eq!((own.pids[0], own.network_namespace), (std::process::id(), own_network_namespace()));
    assert!(!own.comm.is_empty() && std::fs::read_to_string("/proc/self/comm").unwrap().trim_end() == own.comm);
    let clients: Vec<_> = traffic.groups.keys().filter(|group| !group.is_server && group.remote == address).collect();
    let ports: Vec<_> = clients.iter().map(|group| group.server_port()).collect();
    assert_eq!(ports, [ServerPort { network_namespace: 0, port: address.port() }], "clients are followed too");

    // Ignored: neither open connections nor new ones.
    for network_namespace in [own_network_namespace(), 0] {
        follower.ignore(ServerPort { network_namespace, port: address.port() }).unwrap();
    }
    exchange(&mut client, &mut server, [10, 10]);
    let (mut late_client, mut late_server) = connect();
    exchange(&mut late_client, &mut late_server, [10, 10]);
    assert_eq!(at_port(&follower.read().unwrap(), address.port()), SocketTotals::default());

    // Another server on the same port counts again.
    drop((client, server, late_client, late_server, listener));
    let listener = TcpListener::bind(address).unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    exchange(&mut client, &mut listener.accept().unwrap().0, [7, 9]);
    let traffic = follower.read().unwrap();
    assert_eq!(at_port(&traffic, address.port()).sent.payload_bytes, 9);
    assert!(traffic.new_listeners.iter().any(|server| server.addresses.contains(&address)));
}

#[test]
fn connections_of_any_listener_that_were_open_before_count_from_then_on() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    let mut server = listener.accept().unwrap().0;
    exchange(&mut client, &mut server, [100, 100]);
    let Some(mut follower) = child::or_skip(TcpFollower::start_with_listeners(&[])) else { return };
    follower.adopt_open().unwrap();
    exchange(&mut client, &mut server, [7, 9]);
    let traffic = follower.read().unwrap();
    let sum = at_port(&traffic, address.port());
    assert_eq!((sum.received.payload_bytes, sum.sent.payload_bytes), (7, 9));
    assert!(traffic.groups.keys().all(|group| group.is_adopted || group.local != address));
}

/// 70,000 groups of a server on another port do not displace one on a port of the settings.
#[test]
fn known_ports_have_room_when_others_have_none() {
    let (known, other) = (TcpListener::bind("0.0.0.0:0").unwrap(), TcpListener::bind("0.0.0.0:0").unwrap());
    let ports = [&known, &other].map(|listener| listener.local_addr().unwrap().port());
    let Some(mut follower) = child::or_skip(TcpFollower::start_with_listeners(&ports[..1])) else { return };
    follower.adopt_open().unwrap();
    // Each address of a client has a group at each end.
    for number in 0..35_000_u32 {
        let [high, low] = [(number / 250) as u8, 1 + (number % 250) as u8];
        let from = SocketAddr::from(([127, 7, high, low], 0));
        let client = child::connected(child::bound(from), SocketAddr::from(([127, 0, 0, 1], ports[1])));
        drop((client, other.accept().unwrap().0));
    }
    let mut client = TcpStream::connect(("127.0.0.1", ports[0])).unwrap();
    exchange(&mut client, &mut known.accept().unwrap().0, [10, 20]);
    let traffic = follower.read().unwrap();
    assert_eq!(at_port(&traffic, ports[0]).sent.payload_bytes, 20);
    let [clients, servers, local_clients, others] = traffic.remaining;
    assert_eq!([clients, servers, local_clients], [SocketTotals::default(); 3]);
    // The rest is of the whole machine: other programs may have connected meanwhile.
    let found = at_port(&traffic, ports[1]).opened;
    assert!(found < 35_000 && found + others.opened >= 35_000, "{found} and {}", others.opened);
}
