//! Captures that tests make of what two sides say.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use etherparse::PacketBuilder;
use std::fs;
use std::path::{Path, PathBuf};

/// A capture of some connections that is written to a file.
pub struct Capture {
    file: Vec<u8>,
    frames: u32,
    /// By connection, the next sequence numbers of client and server.
    next: Vec<[u32; 2]>,
    port: u16,
}

impl Capture {
    pub fn new(connections: usize, port: u16) -> Self {
        let header = [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
        Self { file: header.to_vec(), frames: 0, next: vec![[1_000, 9_000]; connections], port }
    }

    /// A segment from the client or the server.
    pub fn send(&mut self, connection: usize, is_client: bool, payload: &[u8]) {
        let [client, server] = self.next[connection];
        let (seq, ack) = if is_client { (client, server) } else { (server, client) };
        let ports = [40_000 + connection as u16, self.port];
        let [from, to] = if is_client { ports } else { [ports[1], ports[0]] };
        let hosts = if is_client { [[10, 0, 0, 1], [10, 0, 0, 2]] } else { [[10, 0, 0, 2], [10, 0, 0, 1]] };
        let builder = PacketBuilder::ethernet2([0; 6], [0; 6]).ipv4(hosts[0], hosts[1], 64);
        let mut frame = Vec::new();
        builder.tcp(from, to, seq, 512).ack(ack).write(&mut frame, payload).unwrap();
        let micros = self.frames * 10;
        for word in [1_700_000_000 + micros / 1_000_000, micros % 1_000_000, frame.len() as u32, frame.len() as u32] {
            self.file.extend(word.to_le_bytes());
        }
        self.file.extend(frame);
        self.frames += 1;
        self.next[connection][usize::from(!is_client)] += payload.len() as u32;
    }

    pub fn turn(&mut self, connection: usize, request: &[u8], response: &[u8]) {
        self.send(connection, true, request);
        self.send(connection, false, response);
    }

    pub fn write(&self, folder: &Path, name: &str) -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, &self.file).unwrap();
        path
    }
}
