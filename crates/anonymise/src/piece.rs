//! Replaces the names in pieces of UNIX socket streams.

use crate::fill::Filler;
use overhead_model::stream::unix_ends;
use overhead_model::{StreamPiece, Transport};

/// Returns the tags of a piece with another process and path, and the same length. `None` for other packets of the link
/// type, whose content is unknown.
pub fn tags(filler: &Filler, bytes: &[u8]) -> Option<Vec<u8>> {
    let (piece, at) = StreamPiece::read(bytes)?;
    let [client, server] = [piece.client, piece.server].map(|end| replaced(filler, end));
    let (pid, path) = (client.strip_prefix("pid:")?.parse().ok()?, server.strip_prefix("unix:")?);
    let addresses = unix_ends(pid, path, piece.id, piece.addresses[1].port());
    let mut tags = Vec::with_capacity(at);
    StreamPiece { client: &client, server: &server, addresses, ..piece }.write(&mut tags);
    (piece.transport == Transport::Unix && tags.len() == at).then_some(tags)
}

/// Replaces the name after the first colon.
fn replaced(filler: &Filler, end: &str) -> String {
    let (kind, name) = end.split_once(':').unwrap_or(("", end));
    let mut name = name.as_bytes().to_vec();
    // Different processes and paths stay different.
    filler.name(&mut name, |_| false);
    format!("{kind}:{}", String::from_utf8_lossy(&name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fill::FillerKey;

    fn piece(path: &str) -> Vec<u8> {
        let server = format!("unix:{path}");
        let addresses = unix_ends(4_711, path, 7, 6_379);
        let mut bytes = Vec::new();
        let (transport, client) = (Transport::Unix, "pid:4711");
        let (offset, server) = (1 << 33, server.as_str());
        let (id, to_server, begins, ends) = (7, true, true, false);
        StreamPiece { transport, id, to_server, offset, begins, ends, client, server, addresses }.write(&mut bytes);
        bytes
    }

    #[test]
    fn neither_process_nor_path_are_left_and_all_else_is() {
        let original = piece("/run/shop/redis.sock");
        let tags = tags(&Filler::new(FillerKey(*b"a key for tests.")), &original).unwrap();
        let ((was, at), (is, end)) = (StreamPiece::read(&original).unwrap(), StreamPiece::read(&tags).unwrap());
        assert_eq!((at, is.id, is.to_server, is.offset, is.begins), (end, was.id, was.to_server, was.offset, true));
        assert!(is.client != was.client && is.server != was.server && is.addresses != was.addresses);
        assert!(!is.server.contains("shop") && !is.server.contains("redis") && is.server.starts_with("unix:/"));
        assert_eq!(is.addresses[1].port(), was.addresses[1].port());
        assert_eq!(is.addresses, unix_ends(is.client[4..].parse().unwrap(), &is.server[5..], 7, 6_379));
    }

    #[test]
    fn packets_of_other_programs_are_not_known() {
        assert_eq!(tags(&Filler::new(FillerKey(*b"a key for tests.")), b"\0\x0c\0\x04data\0\0\0\0"), None);
    }
}
