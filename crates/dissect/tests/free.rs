//! The promise of `Decoder::idle_state` and `Out::post_free`, on what was recorded of real servers and drivers.

use etherparse::{SlicedPacket, TransportSlice};
use overhead_model::{Side, System};
use overhead_protocols::{AnyDecoder, SharedContext};
use overhead_testing::free::{Checked, check};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The segments sent, in order.
type Conversation = Vec<(Side, Vec<u8>)>;

/// One connection of a capture.
#[derive(Default)]
struct Connection {
    /// Sequence number of the next byte of each side.
    next: [Option<u32>; 2],
    said: Conversation,
    /// A segment was not captured.
    is_torn: bool,
}

impl Connection {
    fn segment(&mut self, side: Side, seq: u32, syn: bool, payload: &[u8]) {
        let next = &mut self.next[side as usize];
        if syn {
            *next = Some(seq.wrapping_add(1));
            return;
        }
        let expected = *next.get_or_insert(seq);
        self.is_torn |= seq.wrapping_sub(expected).cast_signed() > 0;
        if seq == expected && !payload.is_empty() && !self.is_torn {
            *next = Some(seq.wrapping_add(payload.len() as u32));
            self.said.push((side, payload.to_vec()));
        }
    }
}

/// The connections of a capture to a server at `port`.
fn connections(capture: &[u8], port: u16) -> Vec<Conversation> {
    let mut connections: BTreeMap<u16, Connection> = BTreeMap::new();
    let mut rest = &capture[24..];
    while let Some((head, after)) = rest.split_at_checked(16) {
        let len = u32::from_le_bytes(head[8..12].try_into().unwrap()) as usize;
        let (frame, after) = after.split_at(len);
        rest = after;
        let packet = SlicedPacket::from_ethernet(frame).unwrap();
        let Some(TransportSlice::Tcp(tcp)) = packet.transport else { continue };
        let (side, client) = match (tcp.source_port(), tcp.destination_port()) {
            (client, to) if to == port => (Side::Request, client),
            (from, client) if from == port => (Side::Response, client),
            _ => continue,
        };
        connections.entry(client).or_default().segment(side, tcp.sequence_number(), tcp.syn(), tcp.payload());
    }
    connections.into_values().map(|connection| connection.said).collect()
}

/// Checks the connections of a fixture, and returns the sums.
fn fixture(name: &str) -> Checked {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name);
    let args = fs::read_to_string(folder.join("args")).unwrap();
    let of = |option: &str| args.split_whitespace().skip_while(|word| *word != option).nth(1).unwrap();
    let (protocol, port) = (System::named(of("--db")).unwrap().protocol, of("--port").parse().unwrap());
    let mut sums = Checked::default();
    for said in connections(&fs::read(folder.join("capture.pcap")).unwrap(), port) {
        let said: Vec<(Side, &[u8])> = said.iter().map(|(side, bytes)| (*side, bytes.as_slice())).collect();
        let checked = check(|| AnyDecoder::new(protocol, false, &SharedContext::default()), &said);
        sums.turns += checked.turns;
        sums.repeatable += checked.repeatable;
        sums.repeated += checked.repeated;
        sums.free += checked.free;
    }
    println!("{name}: {sums:?}");
    sums
}

#[test]
fn every_fixture_keeps_the_promise() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let folders = fs::read_dir(fixtures).unwrap().map(|entry| entry.unwrap().path());
    for folder in folders.filter(|folder| folder.join("capture.pcap").exists()) {
        fixture(folder.file_name().unwrap().to_str().unwrap());
    }
}

#[test]
fn most_of_what_applications_send_repeats_itself() {
    for name in ["redis-get-set", "ferretdb-rust"] {
        let Checked { turns, repeatable, free, .. } = fixture(name);
        assert!(repeatable * 10 > turns * 8, "{name}: {repeatable} of {turns} turns");
        assert!(free > turns as u64 * 8, "{name}: {free} free bytes in {turns} turns");
    }
}
