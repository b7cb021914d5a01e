//! Recorded sessions joined at any frame: without options, each connection has the protocol and the server that it has with them.

use overhead_capture::{FileSource, FrameSource, NextFrame};
use overhead_decode::{ApparentProtocol, ForeignTraffic, Note};
use overhead_dissect::{Dissector, Selection, Totals};
use overhead_model::{ConnectionSummary, Protocol, System, Tally};
use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

/// Cuts per session.
const CUTS: usize = 8;

#[derive(Debug, Default)]
struct Connections(Vec<ConnectionSummary>);

impl Tally for Connections {
    fn connection(&mut self, connection: ConnectionSummary) {
        self.0.push(connection);
    }
}

/// Dissects a session from its frame number `start` on.
fn dissect(capture: &Path, start: usize, selection: Selection) -> (Vec<ConnectionSummary>, Totals) {
    let mut dissector = Dissector::new(selection, Connections::default());
    let mut source = FileSource::open(capture).unwrap();
    let mut number = 0;
    while let NextFrame::Frame(frame) = source.next_frame().unwrap() {
        if number >= start {
            dissector.frame(&frame);
        }
        number += 1;
    }
    let (connections, totals) = dissector.finish();
    (connections.0, totals)
}

fn frames(capture: &Path) -> usize {
    let mut source = FileSource::open(capture).unwrap();
    std::iter::from_fn(|| matches!(source.next_frame(), Ok(NextFrame::Frame(_))).then_some(())).count()
}

/// By ends in either order, the protocol and the server.
fn verdicts(connections: &[ConnectionSummary]) -> BTreeMap<[SocketAddr; 2], (Protocol, SocketAddr)> {
    let entry = |of: &ConnectionSummary| {
        let mut ends = [of.client, of.server];
        ends.sort_unstable();
        (ends, (of.protocol, of.server))
    };
    connections.iter().map(entry).collect()
}

fn selection(args: &str) -> Selection {
    let value = |option: &str| args.split_whitespace().skip_while(|word| *word != option).nth(1);
    let system = value("--db").and_then(System::named).unwrap();
    let port = value("--port").map_or(system.port, |port| port.parse().unwrap());
    Selection { ports: vec![(port, vec![system.protocol])], ..Selection::default() }
}

#[test]
fn a_connection_joined_midway_is_recognised_without_options() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let mut folders: Vec<_> = fs::read_dir(fixtures).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    let (mut compared, mut undecided, mut seed) = (0, 0, 1_u64);
    for capture in folders.iter().map(|folder| folder.join("capture.pcap")).filter(|capture| capture.exists()) {
        let args = fs::read_to_string(capture.with_file_name("args")).unwrap();
        let frames = frames(&capture);
        for _ in 0..CUTS {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let start = (seed >> 33) as usize % frames;
            let (told, _) = dissect(&capture, start, selection(&args));
            let (found, totals) = dissect(&capture, start, Selection::default());
            let found = verdicts(&found);
            for (ends, verdict) in
                verdicts(&told.into_iter().filter(|of| of.operations > 0 && !of.tls).collect::<Vec<_>>())
            {
                compared += 1;
                let place = format!("{} from frame {start}, {ends:?}", capture.display());
                if let Some(other) = found.get(&ends) {
                    assert_eq!(*other, verdict, "{place}");
                    continue;
                }
                undecided += 1;
                let is_reported = |note: &Note| {
                    matches!(note, Note::Foreign(ForeignTraffic { look: ApparentProtocol::Undecided, .. }))
                };
                assert!(totals.notes.keys().any(is_reported), "{place} is not reported");
            }
        }
    }
    assert!(compared > 600, "{compared}");
    assert!(undecided * 50 <= compared, "{undecided} of {compared} are undecided");
}
