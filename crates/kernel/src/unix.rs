//! Who listens on UNIX stream sockets: from the socket tables of every network namespace, and the files of processes.

use crate::discover::{comm, sockets};
use crate::error::Error;
use procfs::process::{Process, all_processes};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;

/// `__SO_ACCEPTCON` in the column of flags: the socket listens.
const LISTENS: u64 = 0x10000;
/// `SOCK_STREAM` in the column of types.
const STREAM: u64 = 1;

/// A UNIX stream socket that somebody listens on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixServer {
    /// What it is bound to: a path, or `@` and the name of an abstract socket.
    pub socket: String,
    /// Processes that have it open, in order of their numbers.
    pub pids: Vec<u32>,
    /// Command name of the first of them.
    pub comm: String,
}

/// Returns the sockets that processes listen on, this process left out, in order of their names. Those of processes that this user may
/// not see are absent.
///
/// # Errors
///
/// [`Error::Proc`] where `/proc` cannot be read.
pub fn unix_servers() -> Result<Vec<UnixServer>, Error> {
    let processes: Vec<Process> = all_processes()?.flatten().collect();
    let names = listeners(&processes);
    let mut servers = BTreeMap::<&str, Vec<u32>>::new();
    for process in &processes {
        let pid = process.pid as u32;
        if pid == std::process::id() {
            continue;
        }
        for name in sockets(process).filter_map(|inode| names.get(&inode)) {
            let pids = servers.entry(name).or_default();
            if !pids.contains(&pid) {
                pids.push(pid);
            }
        }
    }
    let server = |(socket, mut pids): (&str, Vec<u32>)| {
        // Process 1 may hold a socket for a service that it starts.
        if pids.len() > 1 {
            pids.retain(|pid| *pid != 1);
        }
        pids.sort_unstable();
        let comm = pids.first().and_then(|pid| comm(*pid)).unwrap_or_default();
        UnixServer { socket: socket.to_owned(), pids, comm }
    };
    Ok(servers.into_iter().map(server).collect())
}

/// Listening stream sockets with a name, by inode, over the network namespaces of all processes.
fn listeners(processes: &[Process]) -> HashMap<u64, String> {
    let mut seen = HashSet::new();
    let mut found = HashMap::new();
    for process in processes {
        let Ok(namespace) = fs::metadata(format!("/proc/{}/ns/net", process.pid)) else { continue };
        if !seen.insert(namespace.ino()) {
            continue;
        }
        let Ok(table) = fs::read(format!("/proc/{}/net/unix", process.pid)) else { continue };
        found.extend(String::from_utf8_lossy(&table).lines().filter_map(listener));
    }
    found
}

/// Inode and name of a line of `/proc/net/unix`, if the socket listens: `Num RefCount Protocol Flags Type St Inode Path`.
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
