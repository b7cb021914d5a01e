//! Who listens on TCP ports, and who is connected to them: from the socket tables of every network namespace.

use crate::discover::{comm, network_namespace, sockets};
use crate::error::Error;
use procfs::net::{TcpNetEntry, TcpState};
use procfs::process::{Process, all_processes};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

/// Processes that listen on TCP ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpServer {
    /// Those that have the sockets open and descend from one another; the first is the one that the others descend from.
    pub pids: Vec<u32>,
    /// Its command name.
    pub comm: String,
    /// Number of the network namespace of the sockets.
    pub network_namespace: u32,
    /// Where they listen, in order.
    pub addresses: Vec<SocketAddr>,
}

/// Returns who listens on TCP ports, in all network namespaces, this process left out: in the order of process numbers. Listeners of
/// processes that this user may not see are absent.
///
/// # Errors
///
/// [`Error::Proc`] where `/proc` cannot be read.
pub fn tcp_servers() -> Result<Vec<TcpServer>, Error> {
    let processes: Vec<Process> = all_processes()?.flatten().collect();
    let listening = listening(&processes);
    let mut owners = BTreeMap::<u64, BTreeSet<u32>>::new();
    for process in processes.iter().filter(|process| process.pid as u32 != std::process::id()) {
        for inode in sockets(process).filter(|inode| listening.contains_key(inode)) {
            owners.entry(inode).or_default().insert(process.pid as u32);
        }
    }
    let parents: HashMap<u32, u32> =
        processes.iter().filter_map(|it| Some((it.pid as u32, it.stat().ok()?.ppid as u32))).collect();
    let mut servers = BTreeMap::<(u32, u32), (BTreeSet<u32>, BTreeSet<SocketAddr>)>::new();
    for (inode, mut pids) in owners {
        // Process 1 may hold a socket for a service that it starts.
        if pids.len() > 1 {
            pids.remove(&1);
        }
        let Some((namespace, address)) = listening.get(&inode) else { continue };
        for top in pids.iter().filter(|pid| parents.get(pid).is_none_or(|parent| !pids.contains(parent))) {
            let (all, addresses) = servers.entry((*top, *namespace)).or_default();
            all.extend(pids.iter().filter(|pid| descends(**pid, *top, &parents)));
            addresses.insert(*address);
        }
    }
    let server = |((top, network_namespace), (mut all, addresses)): ((u32, u32), (BTreeSet<u32>, BTreeSet<_>))| {
        all.remove(&top);
        let pids = std::iter::once(top).chain(all).collect();
        let comm = comm(top).unwrap_or_default();
        TcpServer { pids, comm, network_namespace, addresses: addresses.into_iter().collect() }
    };
    Ok(servers.into_iter().map(server).collect())
}

fn descends(pid: u32, top: u32, parents: &HashMap<u32, u32>) -> bool {
    let mut at = pid;
    // A process is no descendant of its own, but what `/proc` says is of several moments.
    for _ in 0..parents.len() {
        if at == top {
            return true;
        }
        let Some(parent) = parents.get(&at) else { return false };
        at = *parent;
    }
    false
}

/// Listening sockets by inode, over the network namespaces of all processes, with the number of theirs.
fn listening(processes: &[Process]) -> HashMap<u64, (u32, SocketAddr)> {
    let (mut seen, mut found) = (HashSet::new(), HashMap::new());
    for process in processes {
        let namespace = network_namespace(process.pid as u32);
        if namespace == 0 || seen.contains(&namespace) {
            continue;
        }
        let Some(table) = table(process) else { continue };
        seen.insert(namespace);
        let listeners = table.filter(|entry| entry.state == TcpState::Listen && entry.inode != 0);
        found.extend(listeners.map(|entry| (entry.inode, (namespace, canonical(entry.local_address)))));
    }
    found
}

/// Returns the sockets of a process's network namespace; `None` where they cannot be read.
fn table(process: &Process) -> Option<impl Iterator<Item = TcpNetEntry> + use<>> {
    let (v4, v6) = (process.tcp().ok()?, process.tcp6().unwrap_or_default());
    Some(v4.into_iter().chain(v6))
}

/// An IPv4 address as such, wherever it comes from. `[::]` stays what it is.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// A connection on some ports, as the network namespace of one of its ends has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpConnection {
    /// The end that is here.
    pub local: SocketAddr,
    /// The other one.
    pub remote: SocketAddr,
}

/// Returns the connections with one end on these ports in the network namespace of a process; of one that is on loopback, both ends
/// are here.
///
/// # Errors
///
/// [`Error::NoSuchProcess`], also where its sockets may not be seen.
pub fn tcp_connections(pid: u32, ports: &[u16]) -> Result<Vec<TcpConnection>, Error> {
    let process = i32::try_from(pid).ok().and_then(|pid| Process::new(pid).ok());
    let table = process.as_ref().and_then(table).ok_or(Error::NoSuchProcess(pid))?;
    let is_on = |address: SocketAddr| ports.contains(&address.port());
    let connected = table.filter(|entry| {
        entry.state == TcpState::Established && (is_on(entry.local_address) || is_on(entry.remote_address))
    });
    let ends = |entry: TcpNetEntry| TcpConnection {
        local: canonical(entry.local_address),
        remote: canonical(entry.remote_address),
    };
    Ok(connected.map(ends).collect())
}

impl TcpServer {
    /// Returns whether somebody on another host, or in another network namespace, can reach one of these addresses.
    pub fn is_reachable(&self) -> bool {
        !self.addresses.iter().all(|address| match address.ip() {
            IpAddr::V4(ip) => ip.is_loopback(),
            IpAddr::V6(ip) => ip.is_loopback(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn descent_is_followed_and_never_in_a_circle() {
        let parents = HashMap::from([(30, 20), (20, 10), (10, 1), (40, 41), (41, 40)]);
        assert!(descends(30, 10, &parents) && descends(10, 10, &parents));
        assert!(!descends(10, 30, &parents) && !descends(40, 10, &parents));
    }

    #[test]
    fn connections_of_a_namespace_have_both_ends_on_loopback() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let client = TcpStream::connect(server).unwrap().local_addr().unwrap();
        let _kept = TcpStream::connect(server).unwrap();
        let found = tcp_connections(std::process::id(), &[server.port()]).unwrap();
        assert!(found.iter().any(|it| it.local == server) && found.iter().any(|it| it.remote == server), "{found:?}");
        assert!(found.iter().all(|it| it.local.port() == server.port() || it.remote.port() == server.port()));
        assert!(client.ip().is_loopback());
    }

    #[test]
    fn who_listens_is_listed_and_this_process_is_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = tcp_servers().unwrap().into_iter().any(|server| server.pids.contains(&std::process::id()));
        assert!(!own, "{listener:?}");
    }
}
