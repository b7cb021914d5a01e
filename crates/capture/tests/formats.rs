//! Reads every kind of file in both byte orders.

// Test helpers fail by panicking.
use crate::support::*;
use overhead_capture::FrameSource;
use std::io::Write;

#[test]
fn pcap_in_both_byte_orders_and_both_units() {
    for order in BOTH {
        for (magic, time_ns) in [(MICRO, 1_700_000_000_000_123_000), (NANO, 1_700_000_000_000_000_123)] {
            let file = [
                pcap_header(order, magic, 1),
                record(order, 1_700_000_000, 123, 60, b"abc"),
                record(order, 1_700_000_000, 123, 5, b"defgh"),
            ];
            let (frames, end, source) = drain(open(&file.concat()).unwrap());
            assert_eq!(frames, [owned(time_ns, 1, 60, 0, b"abc"), owned(time_ns, 1, 5, 0, b"defgh")]);
            assert_eq!(end.cut, None);
            assert_eq!(source.interfaces()[0].snaplen, 262_144);
        }
    }
}

#[test]
fn pcap_time_reaches_the_year_2106() {
    let file = [pcap_header(Order::Little, NANO, 1), record(Order::Little, u32::MAX, 999_999_999, 1, b"a")];
    assert_eq!(frames(&file.concat())[0].time_ns, 4_294_967_295_999_999_999);
}

#[test]
fn modified_pcap_has_longer_record_headers() {
    let mut data = record(Order::Little, 1, 2, 3, b"abc");
    data.splice(16..16, [0xee; 8]);
    let file = [pcap_header(Order::Little, MODIFIED, 1), data].concat();
    assert_eq!(frames(&file), [owned(1_000_002_000, 1, 3, 0, b"abc")]);
}

#[test]
fn a_version_in_the_wrong_byte_order_is_read_all_the_same() {
    let mut file = [pcap_header(Order::Little, MICRO, 1), record(Order::Little, 0, 0, 1, b"a")].concat();
    file[4..8].copy_from_slice(&[0, 2, 0, 4]);
    assert_eq!(frames(&file).len(), 1);
}

#[test]
fn the_frame_check_sequence_bits_are_no_part_of_the_link_type() {
    for order in BOTH {
        let file = [pcap_header(order, MICRO, 0x2400_0114), record(order, 0, 0, 1, b"a")];
        assert_eq!(frames(&file.concat())[0].link, 276);
    }
}

#[test]
fn a_link_type_nobody_knows_is_delivered_all_the_same() {
    let file = [pcap_header(Order::Little, MICRO, 65_000), record(Order::Little, 0, 0, 1, b"a")];
    assert_eq!(frames(&file.concat()), [owned(0, 65_000, 1, 0, b"a")]);
}

#[test]
fn a_frame_longer_than_it_was_counts_with_its_captured_length() {
    let file = [pcap_header(Order::Little, MICRO, 1), record(Order::Little, 0, 0, 2, b"abcde")];
    assert_eq!(frames(&file.concat())[0].original_len, 5);
}

#[test]
fn pcapng_with_interfaces_of_different_link_types_and_clocks() {
    for order in BOTH {
        let file = [
            section(order),
            interface(order, 1, 0, &[option(order, 2, b"eth0"), option(order, 0, b"")]),
            interface(order, 113, 96, &[option(order, 9, &[9])]),
            interface(order, 101, 0, &[option(order, 9, &[0x80 | 0x0a]), option(order, 14, &order.u64(100))]),
            interface(order, 276, 0, &[option(order, 9, &[6]), option(order, 14, &order.u64(-2_i64 as u64))]),
            enhanced(order, 2, 1536, 7, b"raw", &[option(order, 2, &[0; 4]), option(order, 0, b"")]),
            enhanced(order, 0, 1_700_000_000_000_001, 60, b"ether", &[]),
            enhanced(order, 1, 1_700_000_000_000_000_001, 4, b"cook", &[]),
            enhanced(order, 3, 5_000_001, 2, b"v2", &[]),
        ];
        let (frames, end, source) = drain(open(&file.concat()).unwrap());
        let expected = [
            owned(101_500_000_000, 101, 7, 2, b"raw"),
            owned(1_700_000_000_000_001_000, 1, 60, 0, b"ether"),
            owned(1_700_000_000_000_000_001, 113, 4, 1, b"cook"),
            owned(3_000_001_000, 276, 2, 3, b"v2"),
        ];
        assert_eq!(frames, expected, "{order:?}");
        assert_eq!(end.cut, None);
        assert_eq!(source.interfaces()[0].name.as_deref(), Some("eth0"));
        assert_eq!((source.interfaces()[1].name.as_deref(), source.interfaces()[1].snaplen), (None, 96));
    }
}

#[test]
fn options_behind_the_end_mark_are_not_options() {
    let order = Order::Little;
    let options = [option(order, 0, b""), option(order, 9, &[0])];
    let file = [section(order), interface(order, 1, 0, &options), enhanced(order, 0, 7, 1, b"a", &[])];
    assert_eq!(frames(&file.concat())[0].time_ns, 7_000);
}

#[test]
fn pcapng_with_obsolete_and_simple_packets() {
    for order in BOTH {
        let file = [
            section(order),
            interface(order, 1, 4, &[]),
            obsolete(order, 0, 5, 9, b"abc"),
            simple(order, 3, b"xyz"),
            simple(order, 100, b"snap"),
        ];
        let expected = [owned(5_000, 1, 9, 0, b"abc"), owned(5_000, 1, 3, 0, b"xyz"), owned(5_000, 1, 100, 0, b"snap")];
        assert_eq!(frames(&file.concat()), expected);
    }
}

#[test]
fn a_simple_packet_on_an_interface_without_limit_is_as_long_as_it_says() {
    let order = Order::Big;
    let file = [section(order), interface(order, 1, 0, &[]), simple(order, 5, b"abcde")];
    assert_eq!(frames(&file.concat())[0].bytes, b"abcde");
}

#[test]
fn a_section_has_its_own_byte_order_and_interfaces() {
    let (little, big) = (Order::Little, Order::Big);
    let file = [
        section(little),
        interface(little, 1, 0, &[]),
        enhanced(little, 0, 1, 1, b"a", &[]),
        section(big),
        interface(big, 113, 0, &[]),
        enhanced(big, 0, 2, 1, b"b", &[]),
    ];
    assert_eq!(frames(&file.concat()), [owned(1_000, 1, 1, 0, b"a"), owned(2_000, 113, 1, 1, b"b")]);
}

#[test]
fn blocks_without_packets_are_passed_over_whatever_their_length() {
    for order in BOTH {
        let file = [
            section(order),
            block(order, 0x0bad, &vec![7; 3 << 20]),
            interface(order, 1, 0, &[]),
            block(order, 4, b"names"),
            block(order, 0x8000_0bad, b""),
            enhanced(order, 0, 1, 1, b"a", &[]),
        ];
        assert_eq!(frames(&file.concat()).len(), 1);
    }
}

#[test]
fn the_last_drop_count_of_each_interface_stands() {
    for order in BOTH {
        let drops = |interface, ifdrop: u64, osdrop: u64| {
            let options = [option(order, 5, &order.u64(ifdrop)), option(order, 7, &order.u64(osdrop))];
            statistics(order, interface, &options)
        };
        let file = [
            section(order),
            interface(order, 1, 0, &[]),
            interface(order, 1, 0, &[]),
            drops(0, 1, 1),
            drops(1, 10, 20),
            drops(0, 2, 3),
        ];
        assert_eq!(drain(open(&file.concat()).unwrap()).2.recorded_drops(), Some(35));
    }
    let none = [section(Order::Big), interface(Order::Big, 1, 0, &[]), statistics(Order::Big, 0, &[])];
    assert_eq!(drain(open(&none.concat()).unwrap()).2.recorded_drops(), None);
}

#[test]
fn a_frame_larger_than_the_buffer_is_delivered_whole() {
    let big: Vec<u8> = (0..3_000_000_u32).map(|i| i as u8).collect();
    let order = Order::Little;
    let pcap = [pcap_header(order, MICRO, 1), record(order, 1, 0, 3_000_000, &big), record(order, 2, 0, 1, b"z")];
    let pcapng = [
        section(order),
        interface(order, 1, 0, &[]),
        enhanced(order, 0, 1_000_000, 3_000_000, &big, &[]),
        enhanced(order, 0, 2_000_000, 1, b"z", &[]),
    ];
    for file in [pcap.concat(), pcapng.concat()] {
        let frames = frames(&file);
        assert_eq!(frames, [owned(1_000_000_000, 1, 3_000_000, 0, &big), owned(2_000_000_000, 1, 1, 0, b"z")]);
    }
}

/// Builds a file larger than the buffer, so that records cross its end at many offsets.
fn long_file() -> (Vec<u8>, usize) {
    let mut file = pcap_header(Order::Little, NANO, 1);
    for i in 0..5_000_u32 {
        file.extend(record(Order::Little, i, i, 2_000, &vec![i as u8; (i % 1_500) as usize]));
    }
    (file, 5_000)
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn lz4(data: &[u8]) -> Vec<u8> {
    let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn compressed_files_are_recognised_and_may_have_several_parts() {
    let (file, count) = long_file();
    let plain = frames(&file);
    let (a, b) = file.split_at(file.len() / 3);
    let zstd = |data| zstd::encode_all(data, 3).unwrap();
    let skippable = [0x52, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4].to_vec();
    let cases = [
        ("gzip", gzip(&file)),
        ("gzip", [gzip(a), gzip(b)].concat()),
        ("zstd", zstd(&file[..])),
        ("zstd", [zstd(a), zstd(b)].concat()),
        ("zstd", [skippable, zstd(&file[..])].concat()),
        ("lz4", lz4(&file)),
        ("lz4", [lz4(a), lz4(b)].concat()),
    ];
    for (compression, bytes) in cases {
        let (found, end, _) = drain(open(&bytes).unwrap());
        assert_eq!(end.cut, None, "{compression}");
        assert_eq!(found.len(), count);
        assert!(found == plain, "{compression}");
    }
}

/// Gives one byte at a time, as a slow pipe may.
struct Trickle(std::io::Cursor<Vec<u8>>);

impl std::io::Read for Trickle {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(&mut buf[..1])
    }
}

#[test]
fn a_reader_may_give_as_little_as_it_likes() {
    let order = Order::Big;
    let file = [section(order), interface(order, 1, 0, &[]), enhanced(order, 0, 1, 3, b"abc", &[])].concat();
    let trickle = Trickle(std::io::Cursor::new(file.clone()));
    let (found, ..) = drain(overhead_capture::FileSource::from_reader("pipe", trickle).unwrap());
    assert_eq!(found, frames(&file));
}

#[test]
fn pcapng_secrets_of_tls_come_out_as_they_are_passed() {
    for order in BOTH {
        let secrets = |kind: u32, text: &[u8]| {
            let body = [order.u32(kind), order.u32(text.len() as u32), text.to_vec()].concat();
            block(order, 10, &body)
        };
        let file = [
            section(order),
            interface(order, 1, 0, &[]),
            secrets(0x544c_534b, b"CLIENT_RANDOM a b"),
            secrets(0x5747_4b4c, b"keys of something else"),
            block(order, 10, &[order.u32(0x544c_534b), order.u32(1000), vec![b'x'; 8]].concat()),
            block(order, 10, &[]),
            enhanced(order, 0, 1, 5, b"hello", &[]),
            secrets(0x544c_534b, b"CLIENT_RANDOM c d\n"),
            enhanced(order, 0, 2, 5, b"hello", &[]),
        ]
        .concat();
        let mut source = open(&file).unwrap();
        let secrets = source.secrets();
        assert_eq!(secrets.take(), b"");
        assert!(source.next_frame().unwrap().frame().is_some());
        assert_eq!(secrets.take(), b"CLIENT_RANDOM a b\n");
        assert!(source.next_frame().unwrap().frame().is_some());
        assert_eq!(secrets.take(), b"CLIENT_RANDOM c d\n\n");
        assert_eq!(secrets.take(), b"");
    }
}
