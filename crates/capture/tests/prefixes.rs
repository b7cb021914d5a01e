//! Every prefix of a file gives a prefix of its frames and reports the cut, or is an error that does.

// Test helpers fail by panicking.
use crate::support::*;
use overhead_capture::{CutReason, SourceError};
use std::io::Write;

fn pcap(order: Order, magic: u32) -> Vec<u8> {
    let mut file = pcap_header(order, magic, 1);
    for (i, data) in [&b"one"[..], b"", b"three", b"four four"].iter().enumerate() {
        file.extend(record(order, i as u32, 7, data.len() as u32 + 1, data));
    }
    file
}

fn pcapng(order: Order) -> Vec<u8> {
    [
        section(order),
        interface(order, 1, 0, &[option(order, 2, b"eth0"), option(order, 9, &[9])]),
        enhanced(order, 0, 1, 3, b"one", &[option(order, 1, b"a comment")]),
        block(order, 0xbad, b"whatever this is"),
        simple(order, 5, b"three"),
        interface(order, 113, 0, &[]),
        obsolete(order, 1, 2, 4, b"four"),
        statistics(order, 0, &[option(order, 5, &order.u64(1))]),
        section(order),
        interface(order, 101, 0, &[]),
        enhanced(order, 0, 3, 0, b"", &[]),
    ]
    .concat()
}

/// Checks all prefixes. With `plain` (no compression), the report must account for each byte.
fn check(file: &[u8], whole: &[Owned], plain: bool) {
    let mut most = 0;
    for length in 0..file.len() {
        let source = match open(&file[..length]) {
            Ok(source) => source,
            Err(
                SourceError::Empty { .. }
                | SourceError::NotACapture { .. }
                | SourceError::HeaderCut { .. }
                | SourceError::HeaderDamaged { .. },
            ) => {
                assert_eq!(most, 0, "an error at {length}, where less gave frames");
                continue;
            }
            Err(error) => panic!("{length}: {error}"),
        };
        let (found, end, _) = drain(source);
        assert!(whole.starts_with(&found), "{length}");
        assert!(found.len() >= most, "{length}: fewer frames than a shorter prefix");
        most = found.len();
        match end.cut {
            Some(cut) if plain => {
                assert_eq!(cut.offset + cut.bytes.unwrap(), length as u64, "{length}: {cut:?}");
                assert!(matches!(cut.reason, CutReason::Incomplete { wanted } if wanted > cut.bytes.unwrap()));
            }
            Some(_) => {}
            None => assert!(plain, "{length}: a cut of a compressed file went unseen"),
        }
    }
    assert!(!plain || most + 1 >= whole.len());
}

#[test]
fn pcap_files() {
    for order in BOTH {
        for magic in [MICRO, NANO] {
            let file = pcap(order, magic);
            check(&file, &frames(&file), true);
        }
    }
}

#[test]
fn pcapng_files() {
    for order in BOTH {
        let file = pcapng(order);
        assert_eq!(frames(&file).len(), 4);
        check(&file, &frames(&file), true);
    }
}

#[test]
fn compressed_files() {
    let file = pcapng(Order::Little);
    let whole = frames(&file);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&file).unwrap();
    check(&gzip.finish().unwrap(), &whole, false);
    check(&zstd::encode_all(&file[..], 1).unwrap(), &whole, false);
    let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
    lz4.write_all(&file).unwrap();
    let lz4 = lz4.finish().unwrap();
    check(&lz4, &whole, false);
    let second = [lz4.clone(), lz4[..4].to_vec()].concat();
    assert!(drain(open(&second).unwrap()).1.cut.is_some());
}

#[test]
fn every_changed_byte_gives_frames_or_a_reason_but_no_panic() {
    for file in [pcap(Order::Little, NANO), pcap(Order::Big, MICRO), pcapng(Order::Little), pcapng(Order::Big)] {
        for at in 0..file.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = file.clone();
                changed[at] = value;
                if let Ok(source) = open(&changed) {
                    drain(source);
                }
            }
        }
    }
}
