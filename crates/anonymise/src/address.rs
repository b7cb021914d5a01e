//! Replaces addresses of the link layer, IP and TCP with others of the same kind.
//!
//! Shared values stay: loopback, unspecified, broadcast and multicast addresses, and ports that servers listen on.
//! Different IPv4 addresses stay different; common prefixes are not kept.

use crate::fill::Filler;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Lower ports belong to servers; clients usually get higher ones (`net.ipv4.ip_local_port_range` starts here).
const CLIENTS: u16 = 32_768;
/// Rounds of the permutation of IPv4 addresses: twice as many as make it look random.
const ROUNDS: u8 = 8;

#[derive(Clone, Debug)]
pub struct Addresses {
    filler: Filler,
    /// Server ports in the range of clients.
    servers: Vec<u16>,
}

impl Addresses {
    pub fn new(filler: Filler, servers: Vec<u16>) -> Self {
        Self { filler, servers }
    }

    /// Replaces an address of 4, 6 or 16 bytes; others stay.
    pub fn replace(&self, bytes: &mut [u8]) {
        if let Ok(address) = <&mut [u8; 4]>::try_from(&mut *bytes) {
            *address = self.v4(Ipv4Addr::from(*address)).octets();
        } else if let Ok(address) = <&mut [u8; 16]>::try_from(&mut *bytes) {
            *address = self.v6(Ipv6Addr::from(*address)).octets();
        } else if let Ok(address) = <&mut [u8; 6]>::try_from(bytes) {
            *address = self.hardware(*address);
        }
    }

    pub fn v4(&self, address: Ipv4Addr) -> Ipv4Addr {
        let stays = |address: Ipv4Addr| {
            let first = address.octets()[0];
            first == 0 || first == 127 || first >= 224
        };
        if stays(address) {
            return address;
        }
        let mut bits = address.to_bits();
        loop {
            // A Feistel network over two halves. A result that must not be used goes in again.
            for round in 0..ROUNDS {
                let (left, right) = (bits >> 16, bits & 0xffff);
                let by = self.filler.number(b'4' + round, &right.to_be_bytes()) as u32 & 0xffff;
                bits = right << 16 | (left ^ by);
            }
            if !stays(Ipv4Addr::from_bits(bits)) {
                return Ipv4Addr::from_bits(bits);
            }
        }
    }

    /// Returns a unique local address (RFC 4193), or a link-local one for a link-local one.
    pub fn v6(&self, address: Ipv6Addr) -> Ipv6Addr {
        if address.is_loopback() || address.is_unspecified() || address.is_multicast() {
            return address;
        }
        if let Some(mapped) = address.to_ipv4_mapped() {
            return self.v4(mapped).to_ipv6_mapped();
        }
        let octets = address.octets();
        let number = |kind| u128::from(self.filler.number(kind, &octets));
        if address.is_unicast_link_local() {
            return Ipv6Addr::from_bits(0xfe80 << 112 | number(b'l'));
        }
        Ipv6Addr::from_bits(0xfd << 120 | (number(b'h') << 64 | number(b'l')) & (u128::MAX >> 8))
    }

    /// Returns a locally administered Ethernet address.
    pub fn hardware(&self, address: [u8; 6]) -> [u8; 6] {
        let is_group = address[0] & 1 != 0;
        if is_group || address == [0; 6] {
            return address;
        }
        let [_, _, mut other @ ..] = self.filler.number(b'm', &address).to_be_bytes();
        other[0] = other[0] & 0xfc | 2;
        other
    }

    /// Replaces a client port with another one; server ports stay.
    pub fn port(&self, port: u16) -> u16 {
        if port < CLIENTS || self.servers.contains(&port) {
            return port;
        }
        let (factor, by) = (self.filler.number(b'p', &[]) as u16 | 1, self.filler.number(b'q', &[]) as u16);
        let mut other = port;
        loop {
            // An odd factor makes a permutation.
            other = CLIENTS | (other & (CLIENTS - 1)).wrapping_mul(factor).wrapping_add(by) & (CLIENTS - 1);
            if !self.servers.contains(&other) {
                return other;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fill::FillerKey;
    use std::collections::BTreeSet;

    fn addresses() -> Addresses {
        Addresses::new(Filler::new(FillerKey(*b"a key for tests.")), vec![40_000])
    }

    #[test]
    fn addresses_that_differ_stay_apart_and_those_of_everybody_stay() {
        let all: BTreeSet<_> =
            (0..20_000).map(|host| addresses().v4(Ipv4Addr::from_bits(0x0a00_0001 + host))).collect();
        assert_eq!(all.len(), 20_000);
        for stays in [Ipv4Addr::LOCALHOST, Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST, Ipv4Addr::new(224, 0, 0, 1)] {
            assert_eq!(addresses().v4(stays), stays);
        }
        assert_eq!(addresses().v6(Ipv6Addr::LOCALHOST), Ipv6Addr::LOCALHOST);
        let v6: Ipv6Addr = "2001:db8::1".parse().unwrap();
        assert_eq!(addresses().v6(v6).octets()[0], 0xfd);
        assert_eq!(addresses().hardware([0xff; 6]), [0xff; 6]);
        assert_eq!(addresses().hardware([0, 1, 2, 3, 4, 5])[0] & 3, 2);
    }

    #[test]
    fn ports_of_clients_are_permuted() {
        let all: BTreeSet<_> = (0..=u16::MAX).map(|port| addresses().port(port)).collect();
        assert_eq!(all.len(), 1 << 16);
        for stays in [6_379, 32_767, 40_000] {
            assert_eq!(addresses().port(stays), stays);
        }
        assert_ne!(addresses().port(50_000), 50_000);
    }
}
