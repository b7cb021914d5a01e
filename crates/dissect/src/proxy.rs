//! Reads the header by which a proxy names the client (`HAProxy`'s PROXY protocol, versions 1 and 2).

/// Start of a version 2 header.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes in the fixed part of a version 2 header, up to and including its length field (section 2.2).
const FIXED: usize = 16;
/// Maximum length of a version 1 header in bytes (section 2.1).
const LINE: usize = 107;
/// Longest version 2 header, in bytes, considered when detecting a protocol by content.
pub const LONGEST: usize = FIXED + 536;

/// The PROXY header at a connection's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeader {
    None,
    /// Possibly the start of one.
    Begun,
    /// A header of this many bytes.
    Len(usize),
}

impl ProxyHeader {
    /// Classifies the first bytes of a connection.
    pub fn detect(bytes: &[u8]) -> Self {
        let begins = |start: &[u8]| start.starts_with(bytes) || bytes.starts_with(start);
        match bytes.first() {
            None => Self::Begun,
            Some(b'P') if [&b"PROXY TCP4 "[..], b"PROXY TCP6 ", b"PROXY UNKNOWN"].iter().any(|start| begins(start)) => {
                let line = bytes.get(..LINE).unwrap_or(bytes);
                match line.windows(2).position(|end| end == b"\r\n") {
                    Some(end) => Self::Len(end + 2),
                    None if bytes.len() < LINE => Self::Begun,
                    None => Self::None,
                }
            }
            Some(b'\r') if begins(SIGNATURE) => match bytes.get(12..FIXED) {
                None => Self::Begun,
                Some(&[0x20 | 0x21, _, high, low]) => Self::Len(FIXED + usize::from(u16::from_be_bytes([high, low]))),
                Some(_) => Self::None,
            },
            Some(_) => Self::None,
        }
    }

    /// Returns the bytes after the header, out of the connection's first bytes.
    pub fn behind(bytes: &[u8]) -> &[u8] {
        match Self::detect(bytes) {
            Self::None => bytes,
            Self::Begun => &[],
            Self::Len(len) => bytes.get(len..).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\nGET / HTTP/1.1\r\n";

    #[test]
    fn a_line_and_a_binary_header_are_told_from_what_protocols_begin_with() {
        let binary = [&SIGNATURE[..], &[0x21, 0x11, 0, 12], &[1; 12], b"\x0a\0\0\0"].concat();
        assert_eq!(ProxyHeader::detect(TEXT), ProxyHeader::Len(47));
        assert_eq!(ProxyHeader::behind(TEXT), b"GET / HTTP/1.1\r\n");
        assert_eq!(ProxyHeader::detect(&binary), ProxyHeader::Len(28));
        assert_eq!(ProxyHeader::behind(&binary), b"\x0a\0\0\0");
        assert_eq!(ProxyHeader::detect(b"PROXY UNKNOWN\r\n"), ProxyHeader::Len(15));
        for other in [
            &b"PING\r\n"[..],
            b"PROPFIND / HTTP/1.1\r\n",
            b"PROXY\r\n",
            b"\r\n\r\nGET / HTTP/1.1\r\n",
            b"*1\r\n",
            b"\0",
        ] {
            assert_eq!(ProxyHeader::detect(other), ProxyHeader::None, "{other:?}");
        }
        for bytes in [TEXT, &binary] {
            let ProxyHeader::Len(len) = ProxyHeader::detect(bytes) else { panic!("{bytes:?}") };
            // Version 2 states its length in advance.
            let told = if bytes == TEXT { len } else { FIXED };
            (0..told).for_each(|cut| {
                assert_eq!(ProxyHeader::detect(&bytes[..cut]), ProxyHeader::Begun, "{cut} of {bytes:?}");
            });
        }
        assert_eq!(ProxyHeader::detect(&[b"PROXY TCP4 ", &[b'1'; 100][..]].concat()), ProxyHeader::None);
    }
}
