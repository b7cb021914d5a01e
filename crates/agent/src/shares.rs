//! Who keeps a place in a table without room for all.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

/// Bytes in [`RecentUse`] fall by this with each reading. So a gigabyte is forgotten after 200 readings.
const FALL: f64 = 0.9;

/// The bytes of an entry lately, and where they come from.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct RecentUse {
    bytes: f64,
    network_namespace: u32,
}

impl RecentUse {
    pub fn fall(&mut self) {
        self.bytes *= FALL;
    }

    pub fn add(&mut self, bytes: u64, network_namespace: u32) {
        self.bytes += bytes as f64;
        self.network_namespace = network_namespace;
    }

    pub fn absorb(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.network_namespace = other.network_namespace;
    }
}

/// Returns the entries that must go, so that `limit` are left: first those without recent bytes, then those of the network namespaces
/// and networks with the most entries, and of these the ones with the fewest bytes. So no namespace and no network can displace others
/// that have less than an equal share.
pub fn beyond<K: Clone>(limit: usize, entries: impl Iterator<Item = (K, IpAddr, RecentUse)>) -> Vec<K> {
    let mut ranked: Vec<_> = entries.map(|(key, address, used)| (0_usize, network(address), used, key)).collect();
    if ranked.len() <= limit {
        return Vec::new();
    }
    ranked.sort_by(|(.., a, _), (.., b, _)| b.bytes.total_cmp(&a.bytes));
    // The second sort is stable: it keeps the order of the first within a namespace.
    for is_network in [true, false] {
        let mut counts = HashMap::<_, usize>::new();
        for (rank, network, used, _) in &mut ranked {
            let count = counts.entry((used.network_namespace, is_network.then_some(*network))).or_default();
            *rank = *count;
            *count += 1;
        }
        ranked.sort_by_key(|(rank, _, used, _)| (used.bytes < 1.0, *rank));
    }
    ranked.into_iter().skip(limit).map(|(.., key)| key).collect()
}

/// Returns the network that has a share: a /24 of IPv4, a /64 of IPv6, or all of loopback but its usual address, since every user of
/// this host has all of it.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        usual @ IpAddr::V4(Ipv4Addr::LOCALHOST) => usual,
        IpAddr::V4(address) => {
            let mask = if address.is_loopback() { 0xff00_0000 } else { 0xffff_ff00 };
            Ipv4Addr::from_bits(address.to_bits() & mask).into()
        }
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() & !u128::from(u64::MAX)).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(limit: usize, entries: &[(&str, u32, f64)]) -> Vec<String> {
        let all = || {
            entries.iter().map(|(address, network_namespace, bytes)| {
                let used = RecentUse { bytes: *bytes, network_namespace: *network_namespace };
                ((*address).to_owned(), address.parse().unwrap(), used)
            })
        };
        let gone = beyond(limit, all());
        all().map(|(key, ..)| key).filter(|key| !gone.contains(key)).collect()
    }

    #[test]
    fn the_least_used_go_and_each_network_and_namespace_has_its_share() {
        let entries = [("10.0.0.1", 1, 5.0), ("10.0.1.1", 1, 3.0), ("10.0.2.1", 1, 4.0)];
        assert_eq!(left(2, &entries), ["10.0.0.1", "10.0.2.1"]);
        assert_eq!(left(3, &entries).len(), 3);
        // However much the addresses of one network send, that of another has its place.
        let flood = [("127.0.0.1", 1, 2.0), ("127.1.0.2", 1, 9.0), ("127.2.0.3", 1, 8.0), ("127.3.0.4", 1, 7.0)];
        assert_eq!(left(2, &flood), ["127.0.0.1", "127.1.0.2"]);
        let six = [("2001:db8::1", 1, 9.0), ("2001:db8::2", 1, 8.0), ("2001:db8:0:1::1", 1, 1.0)];
        assert_eq!(left(2, &six), ["2001:db8::1", "2001:db8:0:1::1"]);
        // The same for a namespace with many networks.
        let namespaces = [("10.0.0.1", 1, 9.0), ("10.0.1.1", 1, 8.0), ("10.0.2.1", 1, 7.0), ("10.9.0.1", 2, 1.0)];
        assert_eq!(left(2, &namespaces), ["10.0.0.1", "10.9.0.1"]);
        // What is idle goes first, whatever its share.
        let idle = [("10.0.0.1", 1, 9.0), ("10.0.0.2", 1, 8.0), ("10.0.1.1", 1, 0.5)];
        assert_eq!(left(2, &idle), ["10.0.0.1", "10.0.0.2"]);
    }
}
