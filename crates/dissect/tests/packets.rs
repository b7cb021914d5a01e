//! Everything around a TCP segment: link layers, tags, extension headers, tunnels, fragments, padding, and lengths that lie.

use crate::common::{Book, Captured, HEADERS, Talk, dissect};
use overhead_decode::{ApparentProtocol, ForeignTraffic, Note};
use overhead_dissect::Selection;
use overhead_model::Account::{Data, Ip, Link, Retransmission, Tcp};
use overhead_model::Side::{Request, Response};
use overhead_model::{LinkType, Protocol};
use proptest::prelude::*;

const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
const VALUE: &[u8] = b"$3\r\nabc\r\n";

fn exchange() -> Talk {
    Talk::new().handshake().send(Request, GET).send(Response, VALUE).close()
}

fn redis_book(frames: &[Captured]) -> Book {
    dissect(frames, &Selection { ports: vec![(6379, vec![Protocol::Resp])], ..Selection::default() })
}

/// The exchange with each frame's IP packet put into another frame.
fn around(wrap: impl Fn(&[u8]) -> Vec<u8>) -> Book {
    link_book(LinkType::ETHERNET, wrap)
}

fn link_book(link: LinkType, wrap: impl Fn(&[u8]) -> Vec<u8>) -> Book {
    let mut talk = exchange();
    for frame in &mut talk.frames {
        *frame = Captured { link, ..Captured::ethernet(frame.time_ns, wrap(&frame.bytes[14..])) };
    }
    redis_book(&talk.frames)
}

/// The one `GET` was decoded, and its request's headers are of these lengths.
#[track_caller]
fn has_headers(book: &Book, expected: [u64; 3]) {
    let [get] = &book.row("GET").operations[..] else { panic!("one GET") };
    assert_eq!([Link, Ip, Tcp].map(|account| get.sides[0].amounts[account]), expected);
    assert_eq!(get.sides[0].amounts.payload(), GET.len() as u64);
    assert_eq!(get.sides[1].amounts[Data], 3);
    assert_eq!((book.totals.malformed_frames, book.totals.other, book.totals.tcp.connections), (0, 0, 1));
}

#[track_caller]
fn is_other(book: &Book) {
    assert_eq!((book.totals.malformed_frames, book.totals.other), (0, book.totals.wire_bytes));
}

#[track_caller]
fn is_malformed(book: &Book) {
    assert_eq!((book.totals.malformed_frames, book.totals.other), (book.totals.frames, book.totals.wire_bytes));
}

/// An Ethernet header with these bytes after the addresses.
fn ethernet(after: &[u8], packet: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2], after, packet].concat()
}

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let builder = etherparse::PacketBuilder::ipv4([192, 0, 2, 1], [192, 0, 2, 2], 64).udp(49_152, port);
    builder.write(&mut bytes, payload).unwrap();
    bytes
}

fn ip(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let header = etherparse::Ipv4Header::new(payload.len() as u16, 64, protocol.into(), [192, 0, 2, 1], [192, 0, 2, 2]);
    header.unwrap().write(&mut bytes).unwrap();
    [&bytes, payload].concat()
}

/// The TCP segment of an IPv4 packet in an IPv6 packet behind extension headers.
fn v6(extensions: &[u8], first: u8, payload_length: Option<u16>, packet: &[u8]) -> Vec<u8> {
    let segment = &packet[20..];
    let len = payload_length.unwrap_or((extensions.len() + segment.len()) as u16).to_be_bytes();
    let mapped = |address: &[u8]| [&[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], address].concat();
    let (source, destination) = (mapped(&packet[12..16]), mapped(&packet[16..20]));
    [&[0x60, 0, 0, 0, len[0], len[1], first, 64], &source[..], &destination, extensions, segment].concat()
}

#[test]
fn tags_and_labels_are_link() {
    for (tags, link) in [
        (&[0x08, 0x00][..], 14),
        (&[0x81, 0x00, 0, 100, 0x08, 0x00], 18),
        (&[0x88, 0xa8, 0, 10, 0x81, 0x00, 0, 100, 0x08, 0x00], 22),
        (&[0x91, 0x00, 0, 9, 0x88, 0xa8, 0, 10, 0x81, 0x00, 0, 100, 0x08, 0x00], 26),
        (&[0x88, 0x47, 0, 1, 0x01, 64], 18),
        (&[0x88, 0x47, 0, 1, 0x00, 64, 0, 2, 0x00, 64, 0, 3, 0x01, 64], 26),
        (&[0x81, 0x00, 0, 100, 0x88, 0x47, 0, 1, 0x01, 64], 22),
    ] {
        has_headers(&around(|packet| ethernet(tags, packet)), [link, 20, 20]);
    }
}

#[test]
fn sessions_over_ethernet_are_link() {
    let book = around(|packet| {
        let len = (packet.len() as u16 + 2).to_be_bytes();
        ethernet(&[0x88, 0x64, 0x11, 0, 0, 7, len[0], len[1], 0x00, 0x21], packet)
    });
    has_headers(&book, [22, 20, 20]);
    let short = around(|packet| {
        let len = (packet.len() as u16 + 1).to_be_bytes();
        ethernet(&[0x88, 0x64, 0x11, 0, 0, 7, len[0], len[1], 0x21], packet)
    });
    has_headers(&short, [21, 20, 20]);
    // Discovery, and control protocols, are something else.
    is_other(&around(|packet| ethernet(&[0x88, 0x64, 0x11, 0x65, 0, 7, 0, 4, 0xc0, 0x21], packet)));
    is_other(&around(|packet| ethernet(&[0x88, 0x64, 0x11, 0, 0, 7, 0, 4, 0xc0, 0x21], packet)));
}

#[test]
fn frames_of_ppp_have_long_and_short_protocol_fields() {
    for (link, header) in [
        (LinkType::PPP, &[0xff, 3, 0, 0x21][..]),
        (LinkType::PPP, &[0, 0x21]),
        (LinkType::PPP, &[0x21]),
        (LinkType::PPP_SERIAL, &[0xff, 3, 0, 0x21]),
        (LinkType::PPP_SERIAL, &[0xff, 3, 0x21]),
    ] {
        let book = link_book(link, |packet| [header, packet].concat());
        has_headers(&book, [header.len() as u64, 20, 20]);
    }
    let session = |packet: &[u8]| {
        let len = (packet.len() as u16 + 2).to_be_bytes();
        [&[0x11, 0, 0, 7, len[0], len[1], 0x00, 0x21], packet].concat()
    };
    has_headers(&link_book(LinkType::PPP_ETHER, session), [8, 20, 20]);
    // A control protocol.
    is_other(&link_book(LinkType::PPP_SERIAL, |packet| [&[0xff, 3, 0xc0, 0x21], packet].concat()));
}

#[test]
fn metadata_of_switches_is_link() {
    let book = around(|packet| ethernet(&[0x89, 0x09, 1, 1, 0, 1, 0, 9, 8, 0], packet));
    has_headers(&book, [22, 20, 20]);
}

#[test]
fn mirrored_frames_are_taken_out_of_their_tunnels() {
    let inner = |packet: &[u8]| ethernet(&[8, 0], packet);
    for header in [
        &[0, 0, 0x88, 0xbe][..],
        &[0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 0x10, 1, 0, 5, 0, 0, 0, 0],
        &[0x10, 0, 0x22, 0xeb, 0, 0, 0, 1, 0x20, 1, 0, 5, 0, 0, 0, 9, 0, 0, 0, 0],
        &[0x10, 0, 0x22, 0xeb, 0, 0, 0, 1, 0x20, 1, 0, 5, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0],
    ] {
        let book = around(|packet| ethernet(&[8, 0], &ip(47, &[header, &inner(packet)].concat())));
        has_headers(&book, [14, 20 + header.len() as u64 + 14 + 20, 20]);
    }
    let of_ip = [0x10, 0, 0x22, 0xeb, 0, 0, 0, 1, 0x20, 1, 0, 5, 0, 0, 0, 9, 0, 0, 8, 0];
    let book = around(|packet| ethernet(&[8, 0], &ip(47, &[&of_ip, packet].concat())));
    has_headers(&book, [14, 20 + of_ip.len() as u64 + 20, 20]);
}

#[test]
fn cooked_frames_can_be_tagged() {
    let sll = |protocol: &[u8], packet: &[u8]| [&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0], protocol, packet].concat();
    has_headers(&link_book(LinkType::LINUX_SLL, |packet| sll(&[8, 0], packet)), [16, 20, 20]);
    has_headers(&link_book(LinkType::LINUX_SLL, |packet| sll(&[0x81, 0, 0, 100, 8, 0], packet)), [20, 20, 20]);
    let sll2 = |protocol: &[u8], tag: &[u8], packet: &[u8]| {
        [protocol, &[0, 0, 0, 0, 0, 2, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0], tag, packet].concat()
    };
    has_headers(&link_book(LinkType::LINUX_SLL2, |packet| sll2(&[8, 0], &[], packet)), [20, 20, 20]);
    let tagged = link_book(LinkType::LINUX_SLL2, |packet| sll2(&[0x81, 0], &[0, 100, 8, 0], packet));
    has_headers(&tagged, [24, 20, 20]);
}

#[test]
fn headers_of_tunnels_are_ip() {
    let inner = |packet: &[u8]| ethernet(&[8, 0], packet);
    let outer = |packet: &[u8]| ethernet(&[8, 0], packet);
    let vxlan = |packet: &[u8]| udp(4789, &[&[8, 0, 0, 0, 0, 0, 7, 0], &inner(packet)[..]].concat());
    has_headers(&around(|packet| outer(&vxlan(packet))), [14, 20 + 8 + 8 + 14 + 20, 20]);
    // The older port of Linux, and a tagged inner frame.
    let tagged = |packet: &[u8]| [&[8, 0, 0, 0, 0, 0, 7, 0], &ethernet(&[0x81, 0, 0, 5, 8, 0], packet)[..]].concat();
    has_headers(&around(|packet| outer(&udp(8472, &tagged(packet)))), [14, 20 + 8 + 8 + 18 + 20, 20]);

    let geneve = |kind: [u8; 2], options: &[u8], payload: &[u8]| {
        let header = [(options.len() / 4) as u8, 0, kind[0], kind[1], 0, 0, 7, 0];
        udp(6081, &[&header, options, payload].concat())
    };
    let book = around(|packet| outer(&geneve([0x65, 0x58], &[0; 12], &inner(packet))));
    has_headers(&book, [14, 20 + 8 + 8 + 12 + 14 + 20, 20]);
    has_headers(&around(|packet| outer(&geneve([8, 0], &[], packet))), [14, 20 + 8 + 8 + 20, 20]);

    let gre = |header: &[u8], payload: &[u8]| ip(47, &[header, payload].concat());
    has_headers(&around(|packet| outer(&gre(&[0, 0, 8, 0], packet))), [14, 20 + 4 + 20, 20]);
    let bridged = |packet: &[u8]| outer(&gre(&[0, 0, 0x65, 0x58], &inner(packet)));
    has_headers(&around(bridged), [14, 20 + 4 + 14 + 20, 20]);
    for flags in [0x80u8, 0x20, 0x10, 0xa0, 0xb0] {
        let optional = flags.count_ones() as usize * 4;
        let header = [&[flags, 0, 8, 0][..], &vec![0; optional]].concat();
        has_headers(&around(|packet| outer(&gre(&header, packet))), [14, 20 + 4 + optional as u64 + 20, 20]);
    }

    has_headers(&around(|packet| outer(&ip(4, packet))), [14, 20 + 20, 20]);
    let within_v4 = |packet: &[u8]| outer(&ip(41, &v6(&[], 6, None, packet)));
    has_headers(&around(within_v4), [14, 20 + 40, 20]);
    has_headers(&around(|packet| outer(&ip(137, &[&[0, 1, 1, 64], packet].concat()))), [14, 20 + 4 + 20, 20]);
    let twice = |packet: &[u8]| outer(&vxlan(&ip(4, packet)));
    has_headers(&around(twice), [14, 20 + 8 + 8 + 14 + 20 + 20, 20]);
}

#[test]
fn tunnels_that_are_none_are_other() {
    let plain = |packet: &[u8]| ethernet(&[8, 0], &udp(53, packet));
    is_other(&around(plain));
    is_other(&around(|packet| ethernet(&[8, 0], &udp(4789, &[&[0; 8], packet].concat()))));
    is_other(&around(|packet| ethernet(&[8, 0], &udp(6081, &[&[0x40, 0, 8, 0, 0, 0, 0, 0], packet].concat()))));
    is_other(&around(|packet| ethernet(&[8, 0], &ip(47, &[&[0x40, 0, 8, 0], packet].concat()))));
    is_other(&around(|packet| ethernet(&[8, 0], &ip(47, &[&[0x20, 1, 0x88, 0x0b, 0, 0, 0, 0], packet].concat()))));
    let broken = around(|_| ethernet(&[8, 0], &udp(4789, &[8, 0, 0])));
    is_malformed(&broken);
}

#[test]
fn tunnels_end_at_some_depth() {
    let deep = |levels: usize| {
        move |packet: &[u8]| {
            let wrapped = (0..levels).fold(packet.to_vec(), |packet, _| ip(4, &packet));
            ethernet(&[8, 0], &wrapped)
        }
    };
    has_headers(&around(deep(20)), [14, 21 * 20, 20]);
    is_other(&around(deep(100)));
}

#[test]
fn extension_headers_are_ip() {
    let options = [60u8, 0, 1, 4, 0, 0, 0, 0];
    let destination = [6u8, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let both = [&options[..], &destination].concat();
    has_headers(&around(|packet| ethernet(&[0x86, 0xdd], &v6(&both, 0, None, packet))), [14, 40 + 24, 20]);
    let routing = [6u8, 0, 4, 0, 0, 0, 0, 0];
    has_headers(&around(|packet| ethernet(&[0x86, 0xdd], &v6(&routing, 43, None, packet))), [14, 48, 20]);
    let authentication = [6u8, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    has_headers(&around(|packet| ethernet(&[0x86, 0xdd], &v6(&authentication, 51, None, packet))), [14, 64, 20]);
    // A fragment header that stands for the whole.
    let atomic = [6u8, 0, 0, 0, 0, 0, 0, 9];
    has_headers(&around(|packet| ethernet(&[0x86, 0xdd], &v6(&atomic, 44, None, packet))), [14, 48, 20]);
    // Encrypted: nothing can be said. Broken off: something can.
    is_other(&around(|packet| ethernet(&[0x86, 0xdd], &v6(&[0; 8], 50, None, packet))));
    is_malformed(&around(|packet| ethernet(&[0x86, 0xdd], &v6(&[6, 255, 1, 4, 0, 0, 0, 0], 60, None, packet))));
}

#[test]
fn a_jumbogram_is_as_long_as_its_option_says() {
    let value = [b"$70000\r\n".as_slice(), &vec![b'x'; 70_000], b"\r\n"].concat();
    let talk = |jumbo: bool, padding: usize| {
        let mut talk = Talk::new().handshake().send(Request, GET);
        let mut frame = talk.clone().send(Response, &[]).frames.pop().unwrap();
        let packet = [&frame.bytes[14..], &value[..]].concat();
        let len = (8 + packet.len() - 20) as u32;
        let extension = [&[6u8, 0, 0xc2, 4][..], &len.to_be_bytes()].concat();
        let packet = if jumbo { v6(&extension, 0, Some(0), &packet) } else { v6(&[], 6, Some(0), &packet) };
        frame.bytes = [&ethernet(&[0x86, 0xdd], &packet)[..], &vec![0; padding]].concat();
        frame.original_len = frame.bytes.len() as u32;
        for frame in &mut talk.frames {
            let packet = v6(&[], 6, None, &frame.bytes[14..]);
            *frame = Captured::ethernet(frame.time_ns, ethernet(&[0x86, 0xdd], &packet));
        }
        talk.frames.push(frame);
        redis_book(&talk.frames)
    };
    for (book, ip, link) in [(talk(true, 0), 48, 14), (talk(false, 0), 40, 14), (talk(true, 5), 48, 19)] {
        let amounts = book.row("GET").amounts(Response);
        assert_eq!([amounts[Data], amounts[Ip], amounts[Link]], [70_000, ip, link]);
    }
}

#[test]
fn padding_and_trailers_are_link() {
    let mut talk = exchange();
    for frame in &mut talk.frames {
        frame.bytes.extend([0; 6]);
        frame.original_len = frame.bytes.len() as u32;
    }
    has_headers(&redis_book(&talk.frames), [20, 20, 20]);
    // A trailer that is on the wire but was not captured.
    let mut talk = exchange();
    talk.frames.iter_mut().for_each(|frame| frame.original_len += 16);
    let book = redis_book(&talk.frames);
    has_headers(&book, [30, 20, 20]);
    assert_eq!((book.totals.tcp.snapped_bytes, book.totals.truncated_frames), (0, book.totals.frames));
    // Padding within a tunnel is padding all the same.
    let padded = |packet: &[u8]| {
        let inner = [&ethernet(&[8, 0], packet)[..], &[0; 6]].concat();
        ethernet(&[8, 0], &udp(4789, &[&[8, 0, 0, 0, 0, 0, 7, 0], &inner[..]].concat()))
    };
    has_headers(&around(padded), [20, 70, 20]);
}

#[test]
fn lengths_that_lie_are_not_believed() {
    let with_length = |len: fn(u16) -> u16| {
        let mut talk = exchange();
        for frame in &mut talk.frames {
            let len = len(frame.bytes.len() as u16 - 14).to_be_bytes();
            frame.bytes[16..18].copy_from_slice(&len);
        }
        redis_book(&talk.frames)
    };
    // Segmentation offload leaves 0; a length beyond the frame is as good as none.
    has_headers(&with_length(|_| 0), [14, 20, 20]);
    has_headers(&with_length(|len| len + 1000), [14, 20, 20]);
    is_malformed(&with_length(|_| 19));
    is_malformed(&with_length(|_| 30));
}

#[test]
fn headers_that_break_off_are_malformed_and_those_that_were_not_captured_are_counted_apart() {
    let whole = exchange();
    for len in 0..54 {
        let mut talk = whole.clone().snapped(len);
        let book = redis_book(&talk.frames);
        assert_eq!(book.totals.other, book.totals.wire_bytes, "{len}");
        let counts = |book: &Book| (book.totals.malformed_frames, book.totals.header_snapped_frames);
        assert_eq!(counts(&book), (0, book.totals.frames), "{len}");
        assert_eq!(book.totals.snap_bytes, len as u64);
        // So many bytes are enough: none is cut off any more.
        assert!((54..=194).contains(&book.totals.header_bytes), "{len}: {}", book.totals.header_bytes);
        talk.frames.iter_mut().for_each(|frame| frame.original_len = frame.bytes.len() as u32);
        let book = redis_book(&talk.frames);
        assert_eq!(book.totals.other, book.totals.wire_bytes, "{len}");
        assert_eq!(counts(&book), (book.totals.frames, 0), "{len}");
    }
    has_headers(&redis_book(&whole.snapped(54 + GET.len()).frames), [14, 20, 20]);
}

#[test]
fn headers_of_every_kind_that_were_not_captured_are_not_malformed() {
    let tagged = |packet: &[u8]| ethernet(&[0x81, 0, 0, 7, 8, 0], packet);
    let in_vxlan = |packet: &[u8]| {
        let inner = ethernet(&[8, 0], packet);
        ethernet(&[8, 0], &udp(4789, &[&[8, 0, 0, 0, 0, 0, 7, 0], &inner[..]].concat()))
    };
    for (wrap, headers) in [(&tagged as &dyn Fn(&[u8]) -> Vec<u8>, 58), (&in_vxlan, 104)] {
        let mut talk = exchange();
        for frame in &mut talk.frames {
            frame.bytes = wrap(&frame.bytes[14..]);
            frame.original_len = frame.bytes.len() as u32;
        }
        for len in 0..headers {
            let totals = redis_book(&talk.clone().snapped(len).frames).totals;
            assert_eq!((totals.malformed_frames, totals.header_snapped_frames), (0, totals.frames), "{len}");
        }
        assert_eq!(redis_book(&talk.snapped(headers).frames).totals.header_snapped_frames, 0);
    }
}

/// A frame of 20 kB on loopback would be 14 on Ethernet.
#[test]
fn what_ethernet_does_not_carry_in_one_frame_is_counted() {
    let value = [&b"$20000\r\n"[..], &vec![b'x'; 20_000], b"\r\n"].concat();
    let totals = redis_book(&Talk::new().handshake().send(Request, GET).send(Response, &value).frames).totals;
    let (payload, room) = (value.len() as u64, 1500 - 40);
    assert_eq!(totals.tcp.oversize_frames, 1);
    assert_eq!(totals.tcp.oversize_header_bytes, (payload.div_ceil(room) - 1) * HEADERS);
    assert_eq!(totals.tcp.oversize_longest_bytes, payload + 40);
    let full = [&b"$1451\r\n"[..], &[b'x'; 1_451], b"\r\n"].concat();
    let talk = Talk::new().handshake().send(Request, GET).send(Response, &full);
    assert_eq!(full.len(), 1460);
    assert_eq!(redis_book(&talk.frames).totals.tcp.oversize_frames, 0);
}

#[test]
fn link_types_of_one_capture_can_differ() {
    let mut talk = exchange();
    for (index, frame) in talk.frames.iter_mut().enumerate() {
        if index % 2 == 1 {
            frame.interface = 1;
            frame.link = LinkType::RAW;
            frame.bytes.drain(..14);
            frame.original_len -= 14;
        }
    }
    let book = redis_book(&talk.frames);
    assert_eq!(book.totals.link_types.len(), 2);
    assert_eq!(book.totals.duplicate_frames, 0);
    let get = &book.row("GET").operations[0];
    assert_eq!([get.sides[0].amounts[Link], get.sides[1].amounts[Link]], [0, 14]);
}

/// The fragments of an IPv4 frame, each with `size` bytes of payload.
fn fragments(frame: &Captured, size: usize) -> Vec<Captured> {
    let (header, payload) = frame.bytes[14..].split_at(20);
    let parts: Vec<&[u8]> = payload.chunks(size).collect();
    let last = parts.len() - 1;
    let part = |(index, part): (usize, &&[u8])| {
        let mut header = header.to_vec();
        header[2..4].copy_from_slice(&(20 + part.len() as u16).to_be_bytes());
        let more = if index < last { 0x2000 } else { 0 };
        header[6..8].copy_from_slice(&(more | (index * size / 8) as u16).to_be_bytes());
        Captured::ethernet(frame.time_ns, ethernet(&[8, 0], &[&header[..], part].concat()))
    };
    parts.iter().enumerate().map(part).collect()
}

/// The exchange with its request in fragments of 16 bytes: 40 bytes are three.
fn fragmented(change: impl Fn(&mut Vec<Captured>)) -> Book {
    let talk = exchange();
    let mut parts = fragments(&talk.frames[3], 16);
    change(&mut parts);
    redis_book(&[&talk.frames[..3], &parts, &talk.frames[4..]].concat())
}

#[test]
fn a_whole_set_of_fragments_is_one_segment() {
    has_headers(&fragmented(|_| {}), [3 * 14, 3 * 20, 20]);
    has_headers(&fragmented(|parts| parts.reverse()), [3 * 14, 3 * 20, 20]);
    has_headers(&fragmented(|parts| parts.swap(1, 2)), [3 * 14, 3 * 20, 20]);
    // Padding of any of the frames is link.
    let padded = |parts: &mut Vec<Captured>| {
        parts[2].bytes.extend([0; 10]);
        parts[2].original_len += 10;
    };
    has_headers(&fragmented(padded), [3 * 14 + 10, 3 * 20, 20]);
    let book = fragmented(|_| {});
    assert_eq!(book.row("GET").operations[0].sides[0].frames, 3);
    assert_eq!(book.totals.frames, exchange().frames.len() as u64 + 2);
}

#[test]
fn an_incomplete_set_of_fragments_is_other() {
    for missing in 0..3 {
        let book = fragmented(|parts| drop(parts.remove(missing)));
        let left: u64 = [50, 50, 42].iter().sum::<u64>() - [50, 50, 42][missing];
        assert_eq!(book.totals.other, left);
        assert_eq!(book.totals.tcp.gap_bytes, 0);
        assert_eq!(book.totals.notes.get(&Note::EndNotCaptured), Some(&1));
        assert!(book.find("GET").is_none());
    }
}

#[test]
fn repeated_fragments_and_sets() {
    let book = fragmented(|parts| parts.insert(1, parts[0].clone()));
    assert_eq!((book.totals.other, book.totals.tcp.retransmitted_bytes), (50, 0));
    assert_eq!(book.row("GET").operations.len(), 1);
    // The whole set again is a retransmission.
    let book = fragmented(|parts| parts.extend(parts.clone()));
    assert_eq!((book.totals.other, book.totals.tcp.retransmitted_bytes), (0, GET.len() as u64));
    assert_eq!(book.row("GET").amounts(Request)[Retransmission], 142);
}

#[test]
fn overlapping_fragments_are_other() {
    let overlap = |parts: &mut Vec<Captured>| {
        let mut odd = parts[1].clone();
        odd.bytes[14 + 7] -= 1;
        parts.insert(1, odd);
    };
    let book = fragmented(overlap);
    assert!(book.find("GET").is_none());
    assert_eq!(book.totals.other, 50 + 50 + 50 + 42);
}

#[test]
fn snapped_fragments_keep_their_lengths() {
    let talk = exchange();
    let value = [b"$1000\r\n".as_slice(), &[b'x'; 1000], b"\r\n"].concat();
    let long = Talk::new().handshake().send(Request, GET).send(Response, &value);
    let mut parts = fragments(&long.frames[4], 512);
    for part in &mut parts {
        part.bytes.truncate(100);
    }
    let book = redis_book(&[&talk.frames[..4], &parts].concat());
    assert_eq!(book.row("GET").amounts(Response)[Data], 1000);
    assert_eq!(book.totals.tcp.snapped_bytes, value.len() as u64 - (100 - 34 - 20));
}

#[test]
fn fragments_of_ipv6_and_within_tunnels() {
    let talk = exchange();
    let as_v6 = |frame: &Captured| {
        Captured::ethernet(frame.time_ns, ethernet(&[0x86, 0xdd], &v6(&[], 6, None, &frame.bytes[14..])))
    };
    let mut frames: Vec<Captured> = talk.frames.iter().map(as_v6).collect();
    let (addresses, segment) = (&talk.frames[3].bytes[14..34], &talk.frames[3].bytes[34..]);
    let (head, tail) = segment.split_at(24);
    let part = |extension: [u8; 8], bytes: &[u8]| {
        let packet = v6(&extension, 44, None, &[addresses, bytes].concat());
        Captured::ethernet(4_000, ethernet(&[0x86, 0xdd], &packet))
    };
    // Only the first fragment has to name the protocol.
    frames.splice(3..4, [part([59, 0, 0, 24, 0, 0, 0, 9], tail), part([6, 0, 0, 1, 0, 0, 0, 9], head)]);
    has_headers(&redis_book(&frames), [28, 2 * 48, 20]);

    // The packet of a tunnel comes in fragments, and so does the packet within.
    let mut frames = talk.frames.clone();
    let inner = fragments(&frames[3], 24);
    let wrapped = |frame: &Captured| {
        let packet = ip(4, &frame.bytes[14..]);
        fragments(&Captured::ethernet(frame.time_ns, ethernet(&[8, 0], &packet)), 32)
    };
    let mut outer = wrapped(&inner[0]);
    for part in &mut outer {
        part.bytes[19] = 1;
    }
    let second = wrapped(&inner[1]);
    frames.splice(3..4, [outer, second].concat());
    has_headers(&redis_book(&frames), [4 * 14, 4 * 20 + 2 * 20, 20]);
}

/// Frames of an exchange as `any` shows them: the first place's copy, then the second's.
fn copied(place: impl Fn(&Captured, bool) -> Captured) -> Vec<Captured> {
    exchange().frames.iter().flat_map(|frame| [place(frame, false), place(frame, true)]).collect()
}

fn sll2(frame: &Captured, index: u8, packet_type: u8) -> Captured {
    let header = [8, 0, 0, 0, 0, 0, 0, index, 3, 4, packet_type, 6, 0, 0, 0, 0, 0, 0, 0, 0];
    let bytes = [&header[..], &frame.bytes[14..]].concat();
    Captured { link: LinkType::LINUX_SLL2, ..Captured::ethernet(frame.time_ns, bytes) }
}

fn sll(frame: &Captured, packet_type: u8) -> Captured {
    let bytes = [&[0, packet_type, 3, 4, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0][..], &frame.bytes[14..]].concat();
    Captured { link: LinkType::LINUX_SLL, ..Captured::ethernet(frame.time_ns, bytes) }
}

#[track_caller]
fn halves(book: &Book) {
    assert_eq!(book.totals.duplicate_frames * 2, book.totals.frames);
    assert_eq!(book.totals.other * 2, book.totals.wire_bytes);
    assert_eq!((book.totals.tcp.retransmitted_bytes, book.totals.tcp.control_frames), (0, 6));
    assert_eq!(book.row("GET").operations.len(), 1);
}

#[test]
fn the_second_copy_on_any_is_other() {
    halves(&redis_book(&copied(|frame, second| sll(frame, if second { 0 } else { 4 }))));
    halves(&redis_book(&copied(|frame, second| sll2(frame, 1, if second { 0 } else { 4 }))));
    halves(&redis_book(&copied(|frame, second| sll2(frame, if second { 7 } else { 3 }, 0))));
    halves(&redis_book(&copied(|frame, second| Captured { interface: u32::from(second), ..frame.clone() })));
    // Three places: a port of a bridge, the bridge, another port.
    let frames = exchange().frames;
    let thrice: Vec<_> = frames.iter().flat_map(|frame| [3, 4, 5].map(|index| sll2(frame, index, 0))).collect();
    assert_eq!(redis_book(&thrice).totals.duplicate_frames, 2 * frames.len() as u64);
}

#[test]
fn a_routed_copy_is_a_copy() {
    let routed = |frame: &Captured, second: bool| {
        let mut frame = frame.clone();
        if second {
            // Hop limit, checksums, addresses of the link.
            frame.bytes[14 + 8] -= 1;
            for at in [0, 6, 24, 25, 50, 51] {
                frame.bytes[at] ^= 0x55;
            }
            frame.interface = 1;
        }
        frame
    };
    halves(&redis_book(&copied(routed)));
    // In a tunnel on another interface, too.
    let tunnelled = |frame: &Captured, second: bool| {
        if !second {
            return frame.clone();
        }
        let packet = udp(4789, &[&[8, 0, 0, 0, 0, 0, 7, 0], &frame.bytes[..]].concat());
        Captured { interface: 1, ..Captured::ethernet(frame.time_ns, ethernet(&[8, 0], &packet)) }
    };
    let book = redis_book(&copied(tunnelled));
    assert_eq!(book.totals.duplicate_frames, exchange().frames.len() as u64);
    assert_eq!(book.totals.tcp.retransmitted_bytes, 0);
}

#[test]
fn the_same_frame_at_the_same_place_is_a_retransmission() {
    let talk = Talk::new().handshake().send(Request, GET).again(Request, GET.len() as u32, GET).send(Response, VALUE);
    let frames: Vec<Captured> = talk.frames.iter().map(|frame| sll2(frame, 3, 0)).collect();
    let book = redis_book(&frames);
    assert_eq!((book.totals.duplicate_frames, book.totals.tcp.retransmitted_bytes), (0, GET.len() as u64));
    // And each of its copies elsewhere is a copy.
    let twice: Vec<Captured> = talk.frames.iter().flat_map(|frame| [3, 4].map(|index| sll2(frame, index, 0))).collect();
    let book = redis_book(&twice);
    assert_eq!(book.totals.duplicate_frames, talk.frames.len() as u64);
    assert_eq!(book.totals.tcp.retransmitted_bytes, GET.len() as u64);
}

#[test]
fn the_same_headers_much_later_are_no_copy() {
    let talk = Talk::new().handshake().send(Request, GET).again(Request, GET.len() as u32, GET);
    let mut frames = talk.frames;
    let last = frames.last_mut().unwrap();
    last.bytes[47] |= 8;
    (last.interface, last.time_ns) = (1, last.time_ns + 200_000_000);
    let book = redis_book(&frames);
    assert_eq!((book.totals.duplicate_frames, book.totals.tcp.retransmitted_bytes), (0, GET.len() as u64));
}

#[test]
fn fragments_are_copied_too() {
    let talk = exchange();
    let parts = fragments(&talk.frames[3], 16);
    let all = [&talk.frames[..3], &parts, &talk.frames[4..]].concat();
    let twice: Vec<_> = all.iter().flat_map(|frame| [3, 4].map(|index| sll2(frame, index, 0))).collect();
    let book = redis_book(&twice);
    assert_eq!(book.totals.duplicate_frames, all.len() as u64);
    assert_eq!((book.totals.other * 2, book.totals.tcp.retransmitted_bytes), (book.totals.wire_bytes, 0));
}

proptest! {
    /// Any bytes in any frame, with a length of its own: nothing panics and everything balances (`dissect` checks).
    #[test]
    fn the_ledger_balances_for_arbitrary_frames(
        frames in prop::collection::vec((0usize..9, prop::collection::vec(any::<u8>(), 0..120), prop::option::of(any::<u32>())), 0..30)
    ) {
        let links = [0u16, 1, 12, 101, 108, 113, 228, 276, 147];
        let captured = frames.into_iter().enumerate().map(|(index, (link, bytes, original_len))| {
            let original_len = original_len.unwrap_or(0).max(bytes.len() as u32);
            let time_ns = index as u64 * 10_000_000_000;
            Captured { time_ns, link: LinkType(links[link]), interface: 0, bytes, original_len }
        });
        redis_book(&captured.collect::<Vec<_>>());
    }

    /// Real headers with bytes changed: likewise.
    #[test]
    fn the_ledger_balances_for_damaged_headers(
        kind in 0usize..6,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        longer in prop::option::of(any::<u32>()),
    ) {
        let mut talk = exchange();
        let parts = fragments(&talk.frames[3], 16);
        talk.frames.splice(3..4, parts);
        for frame in &mut talk.frames {
            let packet = &frame.bytes[14..];
            let mut bytes = match kind {
                0 => ethernet(&[8, 0], packet),
                1 => ethernet(&[8, 0], &udp(4789, &[&[8, 0, 0, 0, 0, 0, 7, 0], &ethernet(&[8, 0], packet)[..]].concat())),
                2 => ethernet(&[8, 0], &ip(47, &[&[0x20, 0, 8, 0, 0, 0, 0, 1], packet].concat())),
                3 => ethernet(&[0x86, 0xdd], &v6(&[60, 0, 1, 4, 0, 0, 0, 0, 6, 0, 1, 4, 0, 0, 0, 0], 0, None, packet)),
                4 => ethernet(&[0x81, 0, 0, 1, 0x88, 0x47, 0, 1, 1, 64], packet),
                _ => ethernet(&[8, 0], &udp(6081, &[&[1, 0, 8, 0, 0, 0, 0, 0, 1, 2, 3, 4], packet].concat())),
            };
            let len = bytes.len().min(100);
            for (at, byte) in &damage {
                bytes[at.index(len)] = *byte;
            }
            *frame = Captured::ethernet(frame.time_ns, bytes);
            frame.original_len = longer.unwrap_or(0).max(frame.original_len);
        }
        redis_book(&talk.frames);
    }
}

/// The exchange with this option in its first frame, a SYN.
fn opened_with(option: &[u8; 12]) -> Talk {
    begun_with(0, option)
}

/// An exchange from frame `first` on, which has this TCP option.
fn begun_with(first: usize, option: &[u8; 12]) -> Talk {
    let mut talk = exchange();
    talk.frames.drain(..first);
    let frame = &mut talk.frames[0].bytes;
    frame.splice(54..54, *option);
    frame[17] += 12;
    frame[46] += 0x30;
    talk.frames[0] = Captured::ethernet(talk.frames[0].time_ns, talk.frames[0].bytes.clone());
    talk
}

#[test]
fn subflows_of_multipath_tcp_are_named() {
    let joins = opened_with(&[1, 1, 30, 10, 0x10, 0, 1, 2, 3, 4, 5, 6]);
    let any = Selection { ports: vec![(6379, vec![Protocol::Resp, Protocol::Memcache])], ..Selection::default() };
    for (selection, expected) in [(Selection::default(), Some(Protocol::Resp)), (any, None)] {
        let book = dissect(&joins.frames, &selection);
        let note = Note::Foreign(ForeignTraffic { port: 6379, look: ApparentProtocol::Subflow, expected });
        assert_eq!(book.totals.notes.get(&note), Some(&1), "{:?}", book.totals.notes);
        assert!(book.find("GET").is_none(), "{:?}", book.names());
    }
    // A connection that starts before the capture may have no other subflow.
    let book = redis_book(&begun_with(3, &[1, 1, 30, 10, 0x20, 0x01, 1, 2, 3, 4, 0, 0]).frames);
    let note = Note::Foreign(ForeignTraffic { port: 6379, look: ApparentProtocol::Subflow, expected: None });
    assert_eq!((book.row("GET").operations.len(), book.totals.notes.get(&note)), (1, Some(&1)));
    // The first subflow, and other options, say nothing of the kind.
    for option in [
        [1, 1, 30, 10, 0x01, 0, 1, 2, 3, 4, 5, 6],
        [2, 4, 5, 180, 1, 1, 4, 2, 1, 1, 1, 0],
        [0, 30, 30, 9, 0x10, 0, 0, 0, 0, 0, 0, 0],
    ] {
        let book = redis_book(&opened_with(&option).frames);
        assert_eq!((book.row("GET").operations.len(), book.totals.notes.len()), (1, 0));
    }
}
