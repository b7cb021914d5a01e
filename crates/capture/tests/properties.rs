//! No input makes the reader panic, and what is written is what is read.

// Test helpers fail by panicking.
use crate::support::*;
use overhead_capture::{PcapngWriter, WriterOptions};
use overhead_model::frame::{Frame, LinkType};
use proptest::collection::vec;
use proptest::prelude::*;

/// First bytes of every known format.
const STARTS: [&[u8]; 9] = [
    b"",
    b"\xd4\xc3\xb2\xa1\x02\0\x04\0",
    b"\xa1\xb2\xc3\xd4\0\x02\0\x04",
    b"\x34\xcd\xb2\xa1\x02\0\x04\0",
    b"\x0a\x0d\x0d\x0a\x1c\0\0\0\x4d\x3c\x2b\x1a\x01\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\x1c\0\0\0",
    b"\x0a\x0d\x0d\x0a\0\0\0\x1c\x1a\x2b\x3c\x4d\0\x01\0\0\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\x1c",
    b"\x1f\x8b\x08\0",
    b"\x28\xb5\x2f\xfd",
    b"\x04\x22\x4d\x18",
];

/// Blocks of a pcapng section with correct lengths and random content.
fn blocks() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![Just(1_u32), Just(2), Just(3), Just(5), Just(6), Just(0x0a0d_0d0a), any::<u32>()];
    let one = (kind, vec(prop_oneof![Just(0_u8), Just(1), any::<u8>()], 0..80));
    vec(one, 0..12).prop_map(|list| list.iter().flat_map(|(kind, body)| block(Order::Little, *kind, body)).collect())
}

fn read(bytes: &[u8]) {
    if let Ok(source) = open(bytes) {
        let (frames, end, _) = drain(source);
        assert!(frames.iter().all(|frame| frame.bytes.len() <= frame.original_len as usize));
        assert!(frames.iter().map(|frame| frame.bytes.len()).sum::<usize>() <= bytes.len() * 2048, "out of proportion");
        assert_eq!(drain_buffered(open(bytes).unwrap()), (frames, end));
    }
}

/// Files many times as long as the buffer, and frames longer than it.
#[test]
fn frames_are_the_same_in_one_go_and_one_by_one() {
    let mut file = pcap_header(Order::Little, NANO, 1);
    for number in 0..2_000_u32 {
        let len = if number % 700 == 699 { 200_000 } else { number * 97 % 3_000 };
        let bytes: Vec<u8> = (0..len).map(|at| (at * 31 + number) as u8).collect();
        file.extend(record(Order::Little, number, 0, len, &bytes));
    }
    let (frames, end, _) = drain(open(&file).unwrap());
    assert_eq!(drain_buffered(open(&file).unwrap()), (frames, end));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_panic(start in 0..STARTS.len(), rest in vec(any::<u8>(), 0..600)) {
        read(&[STARTS[start], &rest].concat());
    }

    #[test]
    fn arbitrary_blocks_never_panic(blocks in blocks()) {
        read(&[section(Order::Little), blocks.clone()].concat());
        read(&[section(Order::Little), interface(Order::Little, 1, 0, &[]), blocks].concat());
    }

    #[test]
    fn what_is_written_is_read(
        list in vec((any::<u64>(), vec(any::<u8>(), 0..200), any::<u16>()), 0..20),
        link in any::<u16>(),
        texts in vec("\\PC{0,20}", 3),
    ) {
        let mut options = WriterOptions::new(LinkType(link));
        options.interface.clone_from(&texts[0]);
        options.filter.clone_from(&texts[1]);
        options.comment.clone_from(&texts[2]);
        let mut writer = PcapngWriter::new("memory", Vec::new(), &options).unwrap();
        let mut expected = Vec::new();
        for (time_ns, bytes, extra) in &list {
            let original_len = bytes.len() as u32 + u32::from(*extra);
            writer.write(&Frame { time_ns: *time_ns, link: LinkType(link), original_len, interface: 9, bytes }).unwrap();
            expected.push(owned(*time_ns, link, original_len, 0, bytes));
        }
        let file = writer.finish(None).unwrap();
        prop_assert_eq!(frames(&file), expected);
    }
}
