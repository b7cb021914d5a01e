//! TCP listeners and connections, from the socket tables of all network namespaces.

use crate::discover::{by_namespace, comm, holders, tcp_table};
use crate::error::Error;
use crate::ownership::canonical;
use procfs::net::{TcpNetEntry, TcpState};
use procfs::process::{Process, all_processes};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::path::Path;

/// A family of processes that listens on TCP ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpServer {
    /// Processes with the sockets open; the first is the ancestor of the others.
    pub pids: Vec<u32>,
    /// Command name of the first process.
    pub comm: String,
    /// Inode number.
    pub network_namespace: u32,
    /// In ascending order; IPv4-mapped addresses as IPv4.
    pub addresses: Vec<SocketAddr>,
}

/// Returns all TCP listeners except this process, ordered by process number. Listeners whose process this user may
/// not inspect are missing.
pub fn tcp_servers() -> Result<Vec<TcpServer>, Error> {
    let processes: Vec<Process> = all_processes()?.flatten().collect();
    let listening = listening(&processes);
    let parents: HashMap<u32, u32> =
        processes.iter().filter_map(|it| Some((it.pid as u32, it.stat().ok()?.ppid as u32))).collect();
    let mut servers = BTreeMap::<(u32, u32), (BTreeSet<u32>, BTreeSet<SocketAddr>)>::new();
    for (inode, mut pids) in holders(&processes, &listening) {
        // systemd may hold a socket for a service that it activates.
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
    // Bounded: `/proc` is not read atomically, so it may show a cycle.
    for _ in 0..parents.len() {
        if at == top {
            return true;
        }
        let Some(parent) = parents.get(&at) else { return false };
        at = *parent;
    }
    false
}

/// Returns the listening sockets of all network namespaces by inode, with their namespace.
fn listening(processes: &[Process]) -> HashMap<u64, (u32, SocketAddr)> {
    let mut found = HashMap::new();
    for (namespace, table) in by_namespace(processes, tcp_table) {
        let listeners = table.filter(|entry| entry.state == TcpState::Listen && entry.inode != 0);
        found.extend(listeners.map(|entry| (entry.inode, (namespace, canonical(entry.local_address)))));
    }
    found
}

/// A connection as one network namespace shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpConnection {
    /// In canonical form: IPv4 if mapped.
    pub local: SocketAddr,
    /// In canonical form, too.
    pub remote: SocketAddr,
}

/// Returns the connections on these ports in a process's network namespace. A loopback connection appears from both
/// ends.
///
/// # Errors
///
/// [`Error::NoSuchProcess`], also if its sockets cannot be inspected.
pub fn tcp_connections(pid: u32, ports: &[u16]) -> Result<Vec<TcpConnection>, Error> {
    let process = i32::try_from(pid).ok().and_then(|pid| Process::new(pid).ok());
    let table = process.as_ref().and_then(tcp_table).ok_or(Error::NoSuchProcess(pid))?;
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

/// Returns the sockets of established connections on these ports in the network namespace of this thread, by the ends of the connection,
/// the lesser first. A number stands for one socket, or for those at both ends, and changes if the ends are used again.
pub fn connected_sockets(ports: &[u16]) -> HashMap<[SocketAddr; 2], u64> {
    let thread = std::fs::read_link("/proc/thread-self").ok().map(|place| Path::new("/proc").join(place));
    let table = thread.and_then(|place| tcp_table(&Process::new_with_root(place).ok()?));
    let is_on = |address: SocketAddr| ports.contains(&address.port());
    let mut sockets = HashMap::new();
    for TcpNetEntry { local_address, remote_address, inode, state, .. } in table.into_iter().flatten() {
        if state == TcpState::Established && (is_on(local_address) || is_on(remote_address)) {
            let (local, remote) = (canonical(local_address), canonical(remote_address));
            let ends = if local <= remote { [local, remote] } else { [remote, local] };
            sockets.entry(ends).and_modify(|least| *least = inode.min(*least)).or_insert(inode);
        }
    }
    sockets
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
    fn ends_that_are_used_again_have_another_number() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let number = || connected_sockets(&[server.port()]).into_values().next();
        assert_eq!(number(), None);
        let connect = || (TcpStream::connect(server).unwrap(), listener.accept().unwrap().0);
        let (client, accepted) = connect();
        let first = number().unwrap();
        assert_eq!(number(), Some(first));
        drop((client, accepted));
        let _kept = connect();
        assert_ne!(number(), Some(first));
    }

    #[test]
    fn who_listens_is_listed_and_this_process_is_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = tcp_servers().unwrap().into_iter().any(|server| server.pids.contains(&std::process::id()));
        assert!(!own, "{listener:?}");
    }
}
