//! Builds frames of Ethernet, IP and TCP, with unusual headers on request.

use overhead_model::Side;

const ETHERNET: usize = 14;
const TCP: usize = 20;

/// Values of a frame's headers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FrameHeaders {
    /// Number of the connection, which selects the addresses.
    pub connection: u8,
    /// Ports of client and server.
    pub ports: [u16; 2],
    pub ipv6: bool,
    /// Sets the IP length to 0, as it is before the network card fills it in.
    pub no_length: bool,
    /// Adds an 802.1Q tag.
    pub tag: bool,
    /// Adds the timestamps option with this value.
    pub timestamps: Option<u32>,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
}

impl FrameHeaders {
    /// Writes the headers over `bytes`, for `len` bytes of payload sent by `side`.
    pub fn write(&self, side: Side, len: usize, bytes: &mut Vec<u8>) {
        let (connection, from_server) = (self.connection, u8::from(side == Side::Response));
        let tcp = TCP + if self.timestamps.is_some() { 12 } else { 0 };
        bytes.clear();
        bytes.resize(ETHERNET - 2, 2);
        if self.tag {
            bytes.extend([0x81, 0, 0, 7]);
        }
        if self.ipv6 {
            let total = if self.no_length { 0 } else { (tcp + len) as u16 };
            bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            bytes.extend(total.to_be_bytes());
            bytes.extend([6, 64]);
            for end in [from_server, 1 - from_server] {
                bytes.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, connection, 1 + end]);
            }
        } else {
            let total = if self.no_length { 0 } else { (20 + tcp + len) as u16 };
            bytes.extend([8, 0, 0x45, 0]);
            bytes.extend(total.to_be_bytes());
            bytes.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
            bytes.extend([10, 0, connection, 1 + from_server, 10, 0, connection, 2 - from_server]);
        }
        let (from, to) = (self.ports[usize::from(from_server)], self.ports[usize::from(1 - from_server)]);
        bytes.extend(from.to_be_bytes());
        bytes.extend(to.to_be_bytes());
        bytes.extend(self.seq.to_be_bytes());
        bytes.extend(self.ack.to_be_bytes());
        bytes.extend([(tcp as u8) << 2, self.flags]);
        bytes.extend(self.window.to_be_bytes());
        bytes.extend([0; 4]);
        if let Some(value) = self.timestamps {
            bytes.extend([1, 1, 8, 10]);
            bytes.extend(value.to_be_bytes());
            bytes.extend([0; 4]);
        }
    }
}
