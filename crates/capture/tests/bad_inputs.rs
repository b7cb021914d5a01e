//! Inputs that yield nothing give one sentence that names the file and the remedy. Inputs with a bad tail give their
//! good frames, and a description of the tail.

// Test helpers fail by panicking.
use crate::support::*;
use overhead_capture::{CutReason, FileSource};
use std::fs;
use std::path::PathBuf;

/// Checks the error of each input, after the name.
fn check(table: &[(&[u8], &str)]) {
    for (bytes, expected) in table {
        assert_eq!(open(bytes).err().unwrap().to_string(), format!("x.pcap {expected}"));
    }
}

#[test]
fn inputs_that_are_no_captures() {
    let give = "give a pcap or pcapng file, plain or compressed by gzip, zstd or lz4";
    let xz = "decompress it first, as in `xz -dc FILE | overhead analyze -`";
    let editcap = "convert it with `editcap -F pcapng`";
    check(&[
        (b"", "is empty (0 bytes): whatever captured it wrote nothing, so capture again"),
        (b"h", &format!("is not a capture (it starts with 68): {give}")),
        (b"hello, world", &format!("is not a capture (it starts with 68 65 6c 6c): {give}")),
        (b"\xfd7zXZ\0\0\0", &format!("is xz-compressed, which is not read: {xz}")),
        (b"snoop\0\0\0\0\0\0\x02", &format!("is a snoop capture, which is not read: {editcap}")),
        (
            b"\xa1\xb2\x34\xcd\0\x02\0\x04",
            &format!("is a big-endian capture of the modified pcap format, which is not read: {editcap}"),
        ),
    ]);
}

#[test]
fn captures_that_end_in_their_header() {
    let cut = |bytes: &[u8], length: u32| {
        let text = format!("ends inside its header, after {length} bytes: it was cut, so copy it or capture it again");
        check(&[(bytes, &text)]);
    };
    cut(b"\xd4\xc3", 2);
    cut(b"\xd4\xc3\xb2\xa1\x02\0\x04\0", 8);
    cut(b"\x0a\x0d\x0d\x0a\x1c\0\0\0", 8);
    cut(&section(Order::Little)[..20], 20);
}

#[test]
fn captures_with_a_damaged_header() {
    let order = Order::Little;
    let v1 = [order.u32(MICRO), order.u16(1), order.u16(0), vec![0; 16]].concat();
    let ng2 = block(order, 0x0a0d_0d0a, &[order.u32(0x1a2b_3c4d), order.u16(2), vec![0; 10]].concat());
    let head = |length: u32| [&b"\x0a\x0d\x0d\x0a"[..], &order.u32(length), &order.u32(0x1a2b_3c4d)].concat();
    let table: [(&[u8], &str); 7] = [
        (&v1, "pcap version 1.0"),
        (&ng2, "pcapng version 2.0"),
        (b"\x0a\x0d\x0d\x0a\x1c\0\0\0\0\0\0\0", "a section header without the byte-order magic"),
        (&head(0x7fff_ffff), "a block length of 2147483647"),
        (&head(0x7fff_fffc), "a block of 2147483644 bytes, where 1048576 is the limit for its type"),
        (b"\x1f\x8b\x08\0\0\0", "the gzip stream breaks off"),
        (b"\x04\x22\x4d\x18", "the lz4 stream breaks off"),
    ];
    for (bytes, reason) in table {
        check(&[(bytes, &format!("has a damaged header ({reason}): copy it or capture it again"))]);
    }
}

#[test]
fn paths_that_are_no_files() {
    let folder = scratch("paths");
    let missing = folder.join("nothing.pcap");
    let message = |path: &PathBuf| FileSource::open(path).err().unwrap().to_string();
    assert_eq!(
        message(&missing),
        format!("{} does not exist: check the path, or give `-` to read standard input", missing.display())
    );
    assert_eq!(
        message(&folder),
        format!("{0} is a directory: name the capture files in it, as in `{0}/*.pcap`", folder.display())
    );
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_valid_file_without_frames_is_no_error() {
    let order = Order::Little;
    assert_eq!(frames(&pcap_header(order, MICRO, 1)), []);
    assert_eq!(frames(&section(order)), []);
}

/// Returns the number of frames before a bad last part, and the report on it.
fn tail(parts: &[Vec<u8>]) -> (usize, String) {
    let (frames, end, _) = drain(open(&parts.concat()).unwrap());
    (frames.len(), end.cut.unwrap().to_string())
}

#[test]
fn a_cut_record_is_reported_with_its_place_and_length() {
    let order = Order::Little;
    let mut last = record(order, 1, 0, 60, &[0; 60]);
    last.truncate(30);
    let (count, text) = tail(&[pcap_header(order, MICRO, 1), record(order, 0, 0, 4, b"abcd"), last]);
    assert_eq!(count, 1);
    assert_eq!(text, "is cut: of the record at byte 44, 30 of 76 bytes are there");
}

#[test]
fn a_length_no_frame_has_is_damage_and_allocates_nothing() {
    for order in BOTH {
        let hostile = [0, 0, u32::MAX, u32::MAX].iter().flat_map(|field| order.u32(*field)).collect();
        let (count, text) = tail(&[pcap_header(order, MICRO, 1), record(order, 0, 0, 1, b"a"), hostile]);
        assert_eq!(count, 1);
        assert_eq!(
            text,
            "is damaged at byte 41 (a frame of 4294967295 bytes, where 268435456 is the limit): \
             nothing from there on was read"
        );
    }
}

#[test]
fn a_length_just_within_the_limit_is_a_cut() {
    let order = Order::Little;
    let long = [0, 0, 256 << 20, 60].iter().flat_map(|field| order.u32(*field)).collect();
    let (_, text) = tail(&[pcap_header(order, MICRO, 1), long]);
    assert_eq!(text, "is cut: of the record at byte 24, 16 of 268435472 bytes are there");
}

#[test]
fn pcapng_blocks_that_contradict_themselves() {
    let order = Order::Little;
    let start = [section(order), interface(order, 1, 0, &[]), enhanced(order, 0, 1, 1, b"a", &[])].concat();
    let mut two_lengths = enhanced(order, 0, 1, 1, b"a", &[]);
    *two_lengths.last_mut().unwrap() = 1;
    let mut too_long = enhanced(order, 0, 1, 1, b"abcd", &[]);
    too_long[20] = 5;
    let table = [
        (two_lengths, "a block whose two lengths differ"),
        (too_long, "a packet of 5 bytes in a block of 36"),
        (enhanced(order, 1, 1, 1, b"a", &[]), "interface 1, which is not described"),
        (statistics(order, 8, &[]), "interface 8, which is not described"),
        (block(order, 6, b"abcd"), "a packet of"),
        (block(order, 3, b""), "a packet block too short for its fields"),
        (block(order, 1, b""), "an interface description that cannot be read"),
        ([order.u32(6), order.u32(8), order.u32(8)].concat(), "a block length of 8"),
        ([order.u32(6), order.u32(33), order.u32(0)].concat(), "a block length of 33"),
        ([order.u32(6), order.u32(0xffff_fff0), order.u32(0)].concat(), "a block of 4294967280 bytes"),
        (section(Order::Big)[..12].iter().map(|_| 0x0a).collect(), "a block length of 168430090"),
    ];
    for (bad, expected) in table {
        let (frames, end, _) = drain(open(&[start.clone(), bad].concat()).unwrap());
        assert_eq!(frames.len(), 1, "{expected}");
        let cut = end.cut.unwrap();
        let CutReason::Damaged(why) = &cut.reason else { panic!("{cut:?}") };
        assert!(why.contains(expected) || expected == "a packet of", "{why:?} instead of {expected:?}");
        assert_eq!(cut.offset, start.len() as u64);
    }
}

#[test]
fn a_simple_packet_without_interface_is_damage() {
    let order = Order::Little;
    let (count, text) = tail(&[section(order), simple(order, 1, b"a")]);
    assert_eq!((count, text.contains("interface 0, which is not described")), (0, true));
}

#[test]
fn a_block_that_is_passed_over_may_be_cut_too() {
    let order = Order::Little;
    let mut long = block(order, 0xbad, &vec![0; 1 << 20]);
    long.truncate(600_000);
    let (_, text) = tail(&[section(order), long]);
    assert_eq!(text, "is cut: of the record at byte 28, 600000 of 1048588 bytes are there");
}

#[test]
fn a_compressed_file_that_turns_to_garbage_keeps_its_start() {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&pcap_header(Order::Little, MICRO, 1)).unwrap();
    encoder.write_all(&record(Order::Little, 1, 0, 1, b"a")).unwrap();
    let mut file = encoder.finish().unwrap();
    let length = file.len();
    file[length - 8] ^= 1;
    let (frames, end, _) = drain(open(&file).unwrap());
    assert_eq!(frames.len(), 1);
    let cut = end.cut.unwrap();
    assert!(matches!(cut.reason, CutReason::Compression(_)), "{cut:?}");
    assert!(
        cut.to_string().starts_with("is cut at byte 41 of its decompressed data (the gzip stream is damaged"),
        "{cut}"
    );
}

fn scratch(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("overhead-capture-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}
