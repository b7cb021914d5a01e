//! Tells which TCP connections the processes of a command open, before their first frame can be read.
//!
//! The programs in `bpf/opened.bpf.c` note each connection that is opened to a captured port when its SYN is sent. The
//! command is every child of this process that starts a program, with its threads and descendants.

use crate::clock::ClockStamp;
use crate::error::Error;
use crate::object::{self, bytes_of, lookup, map, plain_types};
use crate::skeleton::opened_types as types;
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};
use std::net::{IpAddr, SocketAddr};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/opened.bpf.o"));

plain_types!(u32, types::syn_key, types::opened, types::opened_counts, types::connection_key);

/// The opener of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionOpener {
    /// A process of the command; else another one of this host.
    pub is_command: bool,
    /// The SYN was asked for before.
    pub is_known: bool,
}

/// Running programs and their maps. Dropping it detaches them.
#[derive(Debug)]
pub struct OpenedConnections {
    by_syn: MapHandle,
    by_ends: MapHandle,
    counts: MapHandle,
    clock: ClockStamp,
    _links: Vec<Link>,
}

impl OpenedConnections {
    /// Loads the programs for connections to these ports that are captured in this network namespace.
    ///
    /// # Errors
    ///
    /// [`Error::NoBtf`], [`Error::Permission`], [`Error::PidNamespace`], [`Error::NoProc`], [`Error::Load`] or
    /// [`Error::Attach`] if this machine cannot do it.
    pub fn start(ports: &[u16], netns: u32) -> Result<Self, Error> {
        let object = object::load_whole(OBJECT)?;
        let settings = [&std::process::id().to_ne_bytes()[..], &netns.to_ne_bytes(), &object::port_set(ports)].concat();
        map(&object, "settings")?.update(&0_u32.to_ne_bytes(), &settings, MapFlags::ANY)?;
        let links = object.progs_mut().map(|program| object::attach(&program)).collect::<Result<_, _>>()?;
        let map = |name| map(&object, name);
        let (by_syn, by_ends, counts) = (map("by_syn")?, map("by_ends")?, map("counts")?);
        Ok(Self { by_syn, by_ends, counts, clock: ClockStamp::now(), _links: links })
    }

    /// Returns who sent a SYN; `None` if no process of this host did, or if its port was translated.
    pub fn opener_of_syn(&self, client_port: u16, sequence: u32) -> Result<Option<ConnectionOpener>, Error> {
        let key = types::syn_key { sequence, client_port: client_port.into() };
        let Some(mut opened) = lookup::<types::opened>(&self.by_syn, bytes_of(&key))? else { return Ok(None) };
        let opener = ConnectionOpener { is_command: opened.by_command != 0, is_known: opened.seen != 0 };
        if !opener.is_known {
            opened.seen = 1;
            self.by_syn.update(bytes_of(&key), bytes_of(&opened), MapFlags::ANY)?;
        }
        Ok(Some(opener))
    }

    /// Returns whether the command opened the last connection between two ends; `None` if no process of this host opened
    /// one since the programs run.
    pub fn opened_by_command(&self, client: SocketAddr, server: SocketAddr) -> Result<Option<bool>, Error> {
        let key = types::connection_key {
            netns: 0,
            local_port: client.port(),
            remote_port: server.port(),
            local: words(client.ip()),
            remote: words(server.ip()),
        };
        Ok(lookup::<u32>(&self.by_ends, bytes_of(&key))?.map(|by_command| by_command != 0))
    }

    /// Returns how many connections the command opened, and how many of any process could not be noted.
    pub fn counts(&self) -> Result<(u64, u64), Error> {
        let counts: types::opened_counts = lookup(&self.counts, &0_u32.to_ne_bytes())?.unwrap_or_default();
        Ok((counts.by_command, counts.lost))
    }

    /// Returns how many connections the command opened after a moment, Unix nanoseconds.
    pub fn opened_after(&self, time_ns: u64) -> u64 {
        let opened = self.by_syn.keys().filter_map(|key| lookup::<types::opened>(&self.by_syn, &key).ok()?);
        opened.filter(|of| of.by_command != 0 && self.clock.unix_ns_at(of.time_ns) > time_ns).count() as u64
    }
}

/// Converts an address to the kernel's words; IPv4 is mapped to IPv6.
pub(crate) fn words(address: IpAddr) -> [u32; 4] {
    let bytes = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
    .octets();
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *word = u32::from_ne_bytes(*bytes);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ownership::end;

    #[test]
    fn addresses_are_written_as_they_are_read() {
        for address in ["127.0.0.1:7", "[2001:db8::1]:7"] {
            let address: SocketAddr = address.parse().unwrap();
            assert_eq!(end(words(address.ip()), address.port()), address);
        }
    }
}
