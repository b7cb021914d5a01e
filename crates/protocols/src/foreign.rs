//! Recognises protocols by the first bytes of a direction: those we do not decode, so that a warning can name them, and
//! ours on a port where another one was expected.
//!
//! Everything here is a pure function of a few captured bytes. A verdict needs a structure that the expected protocol
//! cannot have, or lengths that agree, because users act on the warning.

use super::limits::SNIFF;
use super::{Sniff, facts, mysql, sniff};
use overhead_decode::ApparentProtocol;
use overhead_model::{Protocol, Side};

/// The verdict on a connection that is expected to speak some protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SniffVerdict {
    /// It speaks that protocol, or nothing contradicts it.
    Expected,
    Foreign(ApparentProtocol),
    /// More bytes are needed.
    Open,
}

/// Judges the first bytes that `side` sends on a connection expected to speak `protocol`.
pub fn judge(protocol: Protocol, side: Side, bytes: &[u8], mid_stream: bool) -> SniffVerdict {
    match marked(bytes) {
        Some(look) if look != ApparentProtocol::Ours(protocol) => return SniffVerdict::Foreign(look),
        _ => {}
    }
    if is_definite(sniff(protocol, bytes)) {
        return SniffVerdict::Expected;
    }
    if is_tls(bytes) {
        // A client may start with TLS, which is decoded.
        let begins = !mid_stream && side == Side::Request;
        return if begins { SniffVerdict::Expected } else { SniffVerdict::Foreign(ApparentProtocol::Tls) };
    }
    let other = Protocol::ALL.into_iter().find(|other| *other != protocol && is_definite(sniff(*other, bytes)));
    let look = other.map(ApparentProtocol::Ours).or_else(|| structured(side, bytes));
    look.map_or(SniffVerdict::Open, SniffVerdict::Foreign)
}

/// Like [`judge`], for a side that may still send more while the other is silent: returns `Open` until the first
/// message of `protocol` is long enough to recognise, because its start may look like another protocol.
pub fn judge_so_far(protocol: Protocol, side: Side, bytes: &[u8], mid_stream: bool) -> SniffVerdict {
    match judge(protocol, side, bytes, mid_stream) {
        SniffVerdict::Foreign(_) if bytes.len() < SNIFF && sniff(protocol, bytes) == Sniff::More => SniffVerdict::Open,
        judged => judged,
    }
}

/// Judges a connection by the first bytes of both sides, if neither is conclusive. `is_last`: nothing more will come
/// from a side that is empty or short. `server_first`: the server spoke before the client.
pub fn judge_both(protocol: Protocol, starts: [&[u8]; 2], server_first: bool, is_last: bool) -> SniffVerdict {
    if !facts(protocol).is_text {
        let both = starts.iter().all(|start| !start.is_empty());
        return if both || is_last { SniffVerdict::Expected } else { SniffVerdict::Open };
    }
    let [asked, answered] = starts.map(|start| sniff(protocol, start));
    match (asked, answered) {
        (Sniff::No, Sniff::Perhaps(_)) if server_first => SniffVerdict::Foreign(ApparentProtocol::Unknown),
        (_, Sniff::Perhaps(Side::Response)) => SniffVerdict::Expected,
        _ if starts[1].is_empty() => match asked {
            Sniff::No if is_last && !starts[0].is_empty() => SniffVerdict::Foreign(ApparentProtocol::Unknown),
            _ if is_last => SniffVerdict::Expected,
            _ => SniffVerdict::Open,
        },
        (_, Sniff::More) if is_last => SniffVerdict::Expected,
        (_, Sniff::More) => SniffVerdict::Open,
        _ if starts[0].is_empty() && !is_last => SniffVerdict::Open,
        _ => SniffVerdict::Foreign(ApparentProtocol::Unknown),
    }
}

/// Returns the protocol that the bytes of an unknown connection look like, and the side that sends them.
pub fn look(bytes: &[u8]) -> Option<(ApparentProtocol, Side)> {
    let by_side = |side: Side| structured(side, bytes).map(|look| (look, side));
    let marked = marked(bytes).map(|look| (look, if is_servers(bytes) { Side::Response } else { Side::Request }));
    let ours = || {
        Protocol::ALL.into_iter().find_map(|protocol| match sniff(protocol, bytes) {
            Sniff::Request => Some((ApparentProtocol::Ours(protocol), Side::Request)),
            Sniff::Response => Some((ApparentProtocol::Ours(protocol), Side::Response)),
            Sniff::No | Sniff::More | Sniff::Perhaps(_) => None,
        })
    };
    marked.or_else(|| by_side(Side::Request)).or_else(|| by_side(Side::Response)).or_else(ours)
}

fn is_definite(sniff: Sniff) -> bool {
    matches!(sniff, Sniff::Request | Sniff::Response)
}

/// Returns whether the bytes carry the mark of a server.
fn is_servers(bytes: &[u8]) -> bool {
    mysql::is_greeting(bytes) || bytes.starts_with(X_HELLO) || bytes.starts_with(b"INFO {")
}

/// First message of a server of `MySQL`'s X Protocol: a notice with a hello.
const X_HELLO: &[u8] = &[5, 0, 0, 0, 11, 8, 5, 26, 0];

/// Returns the protocol whose unique first bytes these are.
pub fn marked(bytes: &[u8]) -> Option<ApparentProtocol> {
    // The second is in RFC 9113 section 3.4.
    const MARKS: [(&[u8], ApparentProtocol); 3] = [
        (b"SSH-", ApparentProtocol::Ssh),
        (b"PRI * HTTP/2.0\r\n", ApparentProtocol::Http2),
        (X_HELLO, ApparentProtocol::MysqlX),
    ];
    let marked = MARKS.iter().find(|(mark, _)| bytes.starts_with(mark)).map(|(_, look)| *look);
    let greeting = || mysql::is_greeting(bytes).then_some(ApparentProtocol::Ours(Protocol::Mysql));
    marked.or_else(greeting).or_else(|| broker(bytes))
}

/// Returns the message broker or remote call protocol whose first message this is.
fn broker(bytes: &[u8]) -> Option<ApparentProtocol> {
    match bytes {
        // AMQP 0-9-1 section 4.2.2, AMQP 1.0 section 2.2.
        [b'A', b'M', b'Q', b'P', 0..=3, 0..=1, 0..=9, _, ..] => Some(ApparentProtocol::Amqp),
        // Both sides send their options as JSON.
        [b'I', b'N', b'F', b'O', b' ', b'{', ..] | [b'C', b'O', b'N', b'N', b'E', b'C', b'T', b' ', b'{', ..] => {
            Some(ApparentProtocol::Nats)
        }
        // CONNECT, its length in one or two bytes, and the protocol's name (MQTT 5.0 section 3.1).
        [0x10, 0..=0x7f, name @ ..] | [0x10, 0x80..=0xff, 1..=0x7f, name @ ..]
            if name.starts_with(b"\0\x04MQTT") || name.starts_with(b"\0\x06MQIsdp") =>
        {
            Some(ApparentProtocol::Mqtt)
        }
        // Signature and major version (ZMTP 3.1 section 2.2).
        [0xff, _, _, _, _, _, _, _, _, 0x7f, 1..=3, ..] => Some(ApparentProtocol::Zmtp),
        // Length, no checksums, CONNECT, and the versions 300 to 399.
        [_, _, 0, 0, 1, 0, 0, 0, 1, 0x2c..=0x8f, ..] if has_length(bytes) => Some(ApparentProtocol::Tns),
        [_, _, _, _, framed @ ..] if is_thrift_call(bytes) || is_thrift_call(framed) => Some(ApparentProtocol::Thrift),
        _ => None,
    }
}

/// Returns whether the first two bytes are the length of the message, as far as it is here.
fn has_length(bytes: &[u8]) -> bool {
    let len = bytes.first_chunk().map_or(0, |len| usize::from(u16::from_be_bytes(*len)));
    if bytes.len() < SNIFF { len == bytes.len() } else { len >= SNIFF }
}

/// Version 1 and a call, then the name of the method with its length.
fn is_thrift_call(bytes: &[u8]) -> bool {
    let Some((&[0x80, 1, 0, 1 | 4, 0, 0, 0, len @ 1..=127], name)) = bytes.split_first_chunk::<8>() else {
        return false;
    };
    let name = name.get(..usize::from(len)).unwrap_or(name);
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_.:".contains(byte))
}

/// Returns a protocol recognised by lengths that agree.
fn structured(side: Side, bytes: &[u8]) -> Option<ApparentProtocol> {
    match side {
        Side::Request if is_kafka_request(bytes) => Some(ApparentProtocol::Kafka),
        _ if is_tds(bytes) => Some(ApparentProtocol::Tds),
        _ => None,
    }
}

/// RFC 8446 section 5.1: a record's type, version and length.
fn is_tls(bytes: &[u8]) -> bool {
    let [20..=23, 3, 0..=4, high, low, ..] = *bytes else { return false };
    (1..=(1 << 14) + 2048).contains(&(usize::from(high) << 8 | usize::from(low)))
}

/// Type, status, length, process, packet number and window (MS-TDS section 2.2.3.1). A batch, a call, an answer, a login or its prelude.
fn is_tds(bytes: &[u8]) -> bool {
    let Some(&[1 | 3 | 4 | 0x10 | 0x12, status @ (0 | 1), high, low, _, _, 0 | 1, 0]) = bytes.first_chunk() else {
        return false;
    };
    // A message goes on only behind a full packet.
    let (len, least) = (usize::from(u16::from_be_bytes([high, low])), if status == 1 { SNIFF } else { 512 });
    if bytes.len() < SNIFF { len == bytes.len() } else { (least..=32 << 10).contains(&len) }
}

/// Length, API key, version, correlation id, and the client's name with its length, which is -1 without a name.
fn is_kafka_request(bytes: &[u8]) -> bool {
    let Some((&[l0, l1, l2, l3, key0, key1, version0, version1, _, _, _, _, name0, name1], name)) =
        bytes.split_first_chunk::<14>()
    else {
        return false;
    };
    let len = u32::from_be_bytes([l0, l1, l2, l3]);
    let (key, version) = (u16::from_be_bytes([key0, key1]), u16::from_be_bytes([version0, version1]));
    let name_len = usize::from(u16::from_be_bytes([name0, name1]));
    let named = name.get(..name_len.min(name.len())).unwrap_or_default();
    let is_name = (1..=128).contains(&name_len) && named.iter().all(u8::is_ascii_graphic);
    // Without a name, only the length agrees.
    let is_whole = matches!(name_len, 0 | 0xffff) && bytes.len() < SNIFF && bytes.len() as u64 == 4 + u64::from(len);
    let fits = (10..=100 << 20).contains(&len) && (!is_name || len as usize >= 10 + name_len);
    fits && key <= 92 && version <= 20 && (is_name || is_whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESP: Protocol = Protocol::Resp;
    const MEMCACHED: ApparentProtocol = ApparentProtocol::Ours(Protocol::Memcache);

    fn look_at(side: Side, bytes: &[u8]) -> Option<ApparentProtocol> {
        match judge(RESP, side, bytes, false) {
            SniffVerdict::Foreign(look) => Some(look),
            _ => None,
        }
    }

    #[test]
    fn each_protocol_is_named_by_its_first_bytes() {
        let greeting = b"\x4a\0\0\0\x0a8.0.36\0\x0b\0\0\0\x3aBK\x1e\x30\x16\x02\x05\0\xff\xff\xff\x02\0\xff\xdf\x15";
        let login = b"\x54\0\0\x01\x8d\xa6\xff\x19\0\0\0\x01\xff\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0root\0";
        let answer = b"\x01\0\0\x01\x01\x27\0\0\x02\x03def\0\0\0\x111";
        let kafka = b"\0\0\0\x23\0\x12\0\x03\0\0\0\x01\0\x07rdkafka\x0blibrdkafka\x062.3.0\0";
        let hello = b"\x17\x03\x03\0\x29\0\x01\x02\x03\x04";
        let metadata = b"\0\0\0\x19\0\x03\0\0\0\0\0\x01\0\x0bkafka-admin\0\0\0\0";
        let prelude = b"\x12\x01\0\x1a\0\0\x01\0\0\0\x0b\0\x06\x01\0\x11\0\x01\xff\x0f\0\x07\xd0\0\0\0";
        let connect = b"\0\x23\0\0\x01\0\0\0\x01\x3e\x01\x2c\0\0\x20\0\xff\xff\x7f\x08\0\0\0\x01\0\0\0\0(C=(A))";
        let cases: [(ApparentProtocol, Side, &[u8]); 31] = [
            (ApparentProtocol::Kafka, Side::Request, metadata),
            (ApparentProtocol::Kafka, Side::Request, b"\0\0\0\x0a\0\x12\0\0\0\0\0\x07\xff\xff"),
            (ApparentProtocol::Tds, Side::Request, prelude),
            (ApparentProtocol::Tds, Side::Response, b"\x04\x01\0\x15\0\x33\x01\0\xfd\0\0\0\0\0\0\0\0\0\0\0\0"),
            (ApparentProtocol::Amqp, Side::Request, b"AMQP\0\0\x09\x01"),
            (ApparentProtocol::Nats, Side::Response, b"INFO {\"server_id\":\"NA\"}\r\n"),
            (ApparentProtocol::Nats, Side::Request, b"CONNECT {\"verbose\":false}\r\n"),
            (ApparentProtocol::Mqtt, Side::Request, b"\x10\x0d\0\x04MQTT\x04\x02\0\x3c\0\x01a"),
            (ApparentProtocol::Mqtt, Side::Request, b"\x10\x8d\x01\0\x06MQIsdp\x03\x02\0\x3c\0\x7fa"),
            (ApparentProtocol::Zmtp, Side::Request, b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\x01NULL"),
            (ApparentProtocol::Tns, Side::Request, connect),
            (ApparentProtocol::Thrift, Side::Request, b"\x80\x01\0\x01\0\0\0\x04ping\0\0\0\x01\0"),
            (ApparentProtocol::Thrift, Side::Request, b"\0\0\0\x11\x80\x01\0\x01\0\0\0\x04ping\0\0\0\x01\0"),
            (ApparentProtocol::Ours(Protocol::Mysql), Side::Response, greeting),
            (ApparentProtocol::Ours(Protocol::Mysql), Side::Request, login),
            (ApparentProtocol::Ours(Protocol::Mysql), Side::Request, b"\x09\0\0\0\x03SELECT 1"),
            (ApparentProtocol::Ours(Protocol::Mysql), Side::Response, answer),
            (ApparentProtocol::Ours(Protocol::Mysql), Side::Response, b"\x07\0\0\x01\0\0\0\x02\0\0\0"),
            (MEMCACHED, Side::Request, b"set key 0 60 5\r\nhello\r\n"),
            (MEMCACHED, Side::Response, b"VALUE key 0 5\r\nhello\r\nEND\r\n"),
            (MEMCACHED, Side::Response, b"STORED\r\n"),
            (MEMCACHED, Side::Request, b"\x80\0\0\x03\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\0\0\0\0\0key"),
            (ApparentProtocol::Ours(Protocol::Http), Side::Request, b"GET /index.html HTTP/1.1\r\nHost: a\r\n"),
            (ApparentProtocol::Ours(Protocol::Http), Side::Response, b"HTTP/1.1 200 OK\r\n"),
            (ApparentProtocol::Http2, Side::Request, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
            (ApparentProtocol::Tls, Side::Request, hello),
            (ApparentProtocol::Kafka, Side::Request, kafka),
            (ApparentProtocol::MysqlX, Side::Response, b"\x05\0\0\0\x0b\x08\x05\x1a\0"),
            (ApparentProtocol::Ssh, Side::Response, b"SSH-2.0-OpenSSH_9.6\r\n"),
            (ApparentProtocol::Ours(Protocol::Pgwire), Side::Request, b"\0\0\0\x11\0\x03\0\0user\0me\0\0"),
            (ApparentProtocol::Ours(Protocol::Cql), Side::Request, b"\x04\0\0\0\x05\0\0\0\0"),
        ];
        for (look, side, bytes) in cases {
            let mid_stream = look == ApparentProtocol::Tls;
            let judged = judge(RESP, side, bytes, mid_stream);
            assert_eq!(judged, SniffVerdict::Foreign(look), "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn what_redis_says_is_not_taken_for_another_protocol() {
        for (side, bytes) in [
            (Side::Request, &b"*1\r\n$4\r\nPING\r\n"[..]),
            (Side::Request, b"PING\r\n"),
            (Side::Request, b"get key\r\n"),
            (Side::Request, b"set key value\r\n"),
            (Side::Request, b"SET key 0 0 5\r\n"),
            (Side::Request, b"GET /path\r\n"),
            (Side::Response, b"+OK\r\n"),
            (Side::Response, b"-ERR unknown command\r\n"),
            (Side::Response, b"$-1\r\n"),
            (Side::Response, b":1\r\n"),
        ] {
            assert_eq!(look_at(side, bytes), None, "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn what_has_come_of_a_message_so_far_is_not_taken_for_another_protocols() {
        // MongoDB drivers number their requests consecutively, so the id byte may look like a MySQL command.
        let mut looked_like_another = false;
        for id in 0..=u8::MAX {
            let hello = [&[0x44, 1, 0, 0, id], &[0; 7][..], b"\xdd\x07\0\0\0\0\0\0\0\x2f\x01\0\0\x10hello\0"].concat();
            for end in 1..hello.len() {
                let judged = judge_so_far(Protocol::Mongo, Side::Request, &hello[..end], false);
                assert!(!matches!(judged, SniffVerdict::Foreign(_)), "id {id}, {end} bytes: {judged:?}");
                looked_like_another |= judge(Protocol::Mongo, Side::Request, &hello[..end], false) != judged;
            }
        }
        assert!(looked_like_another);
        for protocol in Protocol::ALL {
            let (asked, answered) = (facts(protocol).greeting, facts(protocol).reply);
            for (side, bytes) in [(Side::Request, asked), (Side::Response, answered)] {
                for end in 1..bytes.len() {
                    let judged = judge_so_far(protocol, side, &bytes[..end], false);
                    assert!(!matches!(judged, SniffVerdict::Foreign(_)), "{protocol}, {end} bytes: {judged:?}");
                }
            }
        }
    }

    #[test]
    fn the_answer_decides_what_a_line_of_text_was() {
        let judged = |asked: &[u8], answered: &[u8]| judge_both(RESP, [asked, answered], false, false);
        assert_eq!(judged(b"PING\r\n", b"+PONG\r\n"), SniffVerdict::Expected);
        assert_eq!(judged(b"FOO bar\r\n", b"-ERR unknown command 'FOO'\r\n"), SniffVerdict::Expected);
        assert_eq!(judged(b"FOO bar\r\n", b""), SniffVerdict::Open);
        assert_eq!(judged(b"EHLO me\r\n", b"250 OK\r\n"), SniffVerdict::Foreign(ApparentProtocol::Unknown));
        assert_eq!(judge_both(RESP, [b"PING\r\n", b""], false, true), SniffVerdict::Expected);
        assert_eq!(
            judge_both(RESP, [b"AAAAAAAA\r\n", b""], false, true),
            SniffVerdict::Foreign(ApparentProtocol::Unknown)
        );
        assert_eq!(
            judge_both(RESP, [b"USER me\r\n", b"+OK POP3\r\n"], true, false),
            SniffVerdict::Foreign(ApparentProtocol::Unknown)
        );
    }

    #[test]
    fn one_end_of_a_connection_is_enough_to_see_which_is_the_server() {
        assert_eq!(look(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Some((ApparentProtocol::Http2, Side::Request)));
        assert_eq!(look(b"set key 0 60 5\r\nhello\r\n"), Some((MEMCACHED, Side::Request)));
        assert_eq!(look(b"STORED\r\n"), Some((MEMCACHED, Side::Response)));
        assert_eq!(look(b"+OK\r\n"), None);
    }
}
