//! Listeners on UNIX stream sockets, from the socket tables of all network namespaces.

use crate::discover::{by_namespace, comm, holders};
use crate::error::Error;
use procfs::process::{Process, all_processes};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;

/// `__SO_ACCEPTCON` in the flags column: the socket listens.
const LISTENS: u64 = 0x10000;
/// `SOCK_STREAM` in the type column.
const STREAM: u64 = 1;

/// A listening UNIX stream socket and its processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixServer {
    /// A path, or `@` and the name of an abstract socket.
    pub socket: String,
    /// In ascending order.
    pub pids: Vec<u32>,
    /// Command name of the first process.
    pub comm: String,
}

/// Returns all listening UNIX stream sockets by name, except this process's. Sockets of processes that this user may
/// not inspect are missing.
pub fn unix_servers() -> Result<Vec<UnixServer>, Error> {
    let processes: Vec<Process> = all_processes()?.flatten().collect();
    let names = listeners(&processes);
    let mut servers = BTreeMap::<&str, BTreeSet<u32>>::new();
    for (inode, pids) in holders(&processes, &names) {
        servers.entry(&names[&inode]).or_default().extend(pids);
    }
    let server = |(socket, mut pids): (&str, BTreeSet<u32>)| {
        // systemd may hold a socket for a service that it activates.
        if pids.len() > 1 {
            pids.remove(&1);
        }
        let comm = pids.first().and_then(|pid| comm(*pid)).unwrap_or_default();
        UnixServer { socket: socket.to_owned(), pids: pids.into_iter().collect(), comm }
    };
    Ok(servers.into_iter().map(server).collect())
}

/// Returns the named listening stream sockets of all network namespaces, by inode.
fn listeners(processes: &[Process]) -> HashMap<u64, String> {
    let table = |process: &Process| fs::read(format!("/proc/{}/net/unix", process.pid)).ok();
    let lines = |table: Vec<u8>| String::from_utf8_lossy(&table).lines().filter_map(listener).collect::<Vec<_>>();
    by_namespace(processes, table).into_values().flat_map(lines).collect()
}

/// Parses a line of `/proc/net/unix`: `Num RefCount Protocol Flags Type St Inode Path`. `None` unless it listens.
fn listener(line: &str) -> Option<(u64, String)> {
    let mut columns = line.split_ascii_whitespace();
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let flags = number(columns.nth(3)?)?;
    let kind = number(columns.next()?)?;
    let inode = columns.nth(1)?;
    // A path may hold spaces.
    let (_, path) = line.split_once(&format!(" {inode} "))?;
    let listens = flags & LISTENS != 0 && kind == STREAM && !path.is_empty();
    listens.then_some((inode.parse().ok()?, path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_table() {
        let listening = "0000000000000000: 00000002 00000000 00010000 0001 01 28672 /run/a b.sock";
        assert_eq!(listener(listening), Some((28_672, "/run/a b.sock".to_owned())));
        let connected = "0000000000000000: 00000003 00000000 00000000 0001 03 28673 /run/a b.sock";
        assert_eq!(listener(connected), None);
        assert_eq!(listener("Num       RefCount Protocol Flags    Type St Inode Path"), None);
        let hidden = "0000000000000000: 00000002 00000000 00010000 0001 01 9 @name";
        assert_eq!(listener(hidden), Some((9, "@name".to_owned())));
    }
}
