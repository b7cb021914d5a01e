//! Finds processes: by the sockets on ports in all network namespaces, by control group, by name.

use crate::error::Error;
use overhead_model::privilege::{DAC_READ_SEARCH, Privilege, SYS_PTRACE};
use procfs::net::{TcpNetEntry, TcpState};
use procfs::process::{FDTarget, Process, all_processes};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// `PROC_PID_INIT_INO` in the kernel's `proc_ns.h`.
const INITIAL_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// Owners of sockets on the captured ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PortOwners {
    /// Processes that listen or serve a connection.
    pub(crate) servers: BTreeSet<u32>,
    /// Processes that are connected and no servers.
    pub(crate) clients: BTreeSet<u32>,
    /// At least one of the servers listens.
    pub(crate) listening: bool,
    /// There is a listener whose process this user may not inspect.
    pub(crate) hidden: bool,
}

/// Privileges needed to find the owner of another user's socket.
pub(crate) const INSPECT_PRIVILEGES: [Privilege; 2] = [SYS_PTRACE, DAC_READ_SEARCH];

/// Tests whether other users' open files can be inspected. Succeeds if other users have no processes.
pub(crate) fn try_inspect_others() -> io::Result<()> {
    let own = fs::metadata("/proc/self/status")?.uid();
    // The first process always exists, so `/proc` hides it.
    if fs::metadata("/proc/1").is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Err(io::Error::other("/proc hides them, by its option hidepid"));
    }
    let mut seen = Ok(());
    for entry in fs::read_dir("/proc")?.flatten() {
        let is_process = entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit);
        if !is_process || entry.metadata().map_or(own, |process| process.uid()) == own {
            continue;
        }
        match open_file(&entry.path()) {
            Ok(true) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => seen = Err(error),
            _ => {}
        }
    }
    seen
}

/// Returns whether the process has an open file that can be inspected.
fn open_file(process: &Path) -> io::Result<bool> {
    match fs::read_dir(process.join("fd"))?.next() {
        Some(file) => fs::read_link(file?.path()).map(|_| true),
        None => Ok(false),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SocketEnd {
    Listener,
    Server,
    Client,
}

/// Returns the inode of this process's network namespace; 0 if the kernel has none.
pub fn own_network_namespace() -> u32 {
    fs::metadata("/proc/self/ns/net").map_or(0, |namespace| namespace.ino() as u32)
}

/// Returns the inode of a process's network namespace; 0 if unknown.
pub(crate) fn network_namespace(pid: u32) -> u32 {
    fs::metadata(format!("/proc/{pid}/ns/net")).map_or(0, |namespace| namespace.ino() as u32)
}

/// Fails if process numbers here are not the kernel's, or cannot be checked.
pub(crate) fn check_pid_namespace() -> Result<(), Error> {
    let namespace = fs::metadata("/proc/self/ns/pid").map_err(|error| Error::NoProc(error.to_string()))?;
    if namespace.ino() == INITIAL_PID_NAMESPACE { Ok(()) } else { Err(Error::PidNamespace) }
}

/// Returns the owners of sockets on `ports` in all network namespaces, except this process.
pub(crate) fn owners(ports: &[u16]) -> Result<PortOwners, Error> {
    let processes: Vec<Process> = all_processes()?.flatten().collect();
    let entries = by_namespace(&processes, tcp_table).into_values().flatten();
    let ends: HashMap<u64, SocketEnd> = entries.filter_map(|entry| Some((entry.inode, end(&entry, ports)?))).collect();
    let mut owners = PortOwners::default();
    let mut seen = HashSet::new();
    for process in &processes {
        let pid = process.pid as u32;
        for (inode, end) in sockets(process).filter_map(|inode| ends.get_key_value(&inode)) {
            seen.insert(*inode);
            if pid == std::process::id() {
                continue;
            }
            owners.listening |= *end == SocketEnd::Listener;
            match end {
                SocketEnd::Listener | SocketEnd::Server => owners.servers.insert(pid),
                SocketEnd::Client => owners.clients.insert(pid),
            };
        }
    }
    // systemd may hold a socket for a service that it activates, and is everyone's ancestor.
    if owners.servers.len() > 1 {
        owners.servers.remove(&1);
    }
    owners.clients.retain(|pid| !owners.servers.contains(pid));
    owners.hidden = ends.iter().any(|(inode, end)| *end == SocketEnd::Listener && !seen.contains(inode));
    Ok(owners)
}

/// Returns the processes that hold TCP sockets, in all network namespaces.
pub(crate) fn tcp_processes() -> Result<BTreeSet<u32>, Error> {
    let processes: Vec<Process> = all_processes()?.flatten().collect();
    let entries = by_namespace(&processes, tcp_table).into_values().flatten();
    let inodes = entries.map(|entry| (entry.inode, ())).collect();
    Ok(holders(&processes, &inodes).into_values().flatten().collect())
}

/// Returns a table of each network namespace, as one of its processes shows it.
pub(crate) fn by_namespace<T>(processes: &[Process], table: impl Fn(&Process) -> Option<T>) -> BTreeMap<u32, T> {
    let mut tables = BTreeMap::new();
    for process in processes {
        let namespace = network_namespace(process.pid as u32);
        if namespace > 0
            && !tables.contains_key(&namespace)
            && let Some(table) = table(process)
        {
            tables.insert(namespace, table);
        }
    }
    tables
}

/// Returns the sockets in a process's network namespace; `None` if unreadable.
pub(crate) fn tcp_table(process: &Process) -> Option<impl Iterator<Item = TcpNetEntry> + use<>> {
    let (v4, v6) = (process.tcp().ok()?, process.tcp6().unwrap_or_default());
    Some(v4.into_iter().chain(v6))
}

/// Returns the processes, except this one, that have each socket in `wanted` open.
pub(crate) fn holders<T>(processes: &[Process], wanted: &HashMap<u64, T>) -> BTreeMap<u64, BTreeSet<u32>> {
    let mut holders = BTreeMap::<u64, BTreeSet<u32>>::new();
    for process in processes.iter().filter(|process| process.pid as u32 != std::process::id()) {
        for inode in sockets(process).filter(|inode| wanted.contains_key(inode)) {
            holders.entry(inode).or_default().insert(process.pid as u32);
        }
    }
    holders
}

fn end(entry: &TcpNetEntry, ports: &[u16]) -> Option<SocketEnd> {
    // The owner is gone, or has not accepted the connection yet.
    if entry.inode == 0 {
        return None;
    }
    if ports.contains(&entry.local_address.port()) {
        return Some(if entry.state == TcpState::Listen { SocketEnd::Listener } else { SocketEnd::Server });
    }
    ports.contains(&entry.remote_address.port()).then_some(SocketEnd::Client)
}

fn sockets(process: &Process) -> impl Iterator<Item = u64> + use<> {
    process.fd().into_iter().flatten().flatten().filter_map(|fd| match fd.target {
        FDTarget::Socket(inode) => Some(inode),
        _ => None,
    })
}

/// Returns the topmost roots, each with all current descendants. Process 1 has no descendants here.
pub(crate) fn families(roots: &BTreeSet<u32>) -> Result<Vec<(u32, BTreeSet<u32>)>, Error> {
    let parents: Vec<(u32, u32)> = all_processes()?
        .flatten()
        .filter_map(|process| Some((process.pid as u32, process.stat().ok()?.ppid as u32)))
        .collect();
    Ok(top_families(roots, &parents))
}

fn top_families(roots: &BTreeSet<u32>, parents: &[(u32, u32)]) -> Vec<(u32, BTreeSet<u32>)> {
    let of: Vec<(u32, BTreeSet<u32>)> =
        roots.iter().map(|root| (*root, descendants(&BTreeSet::from([*root]), parents))).collect();
    let is_top = |root: &u32| !of.iter().any(|(other, family)| other != root && family.contains(root));
    of.iter().filter(|(root, _)| is_top(root)).cloned().collect()
}

fn descendants(roots: &BTreeSet<u32>, parents: &[(u32, u32)]) -> BTreeSet<u32> {
    let own = std::process::id();
    let mut family = roots.clone();
    loop {
        let before = family.len();
        for (pid, parent) in parents {
            if *parent > 1 && *pid != own && family.contains(parent) {
                family.insert(*pid);
            }
        }
        if family.len() == before {
            return family;
        }
    }
}

/// Returns the processes of a control group and its descendants; fails if there are none.
pub(crate) fn in_cgroup(path: &Path) -> Result<BTreeSet<u32>, Error> {
    let mut pids = BTreeSet::new();
    collect_cgroup(path, &mut pids)
        .map_err(|error| Error::Cgroup { path: path.to_owned(), reason: error.to_string() })?;
    if pids.is_empty() {
        return Err(Error::Cgroup { path: path.to_owned(), reason: "it has no processes".to_owned() });
    }
    Ok(pids)
}

fn collect_cgroup(path: &Path, pids: &mut BTreeSet<u32>) -> io::Result<()> {
    let list = fs::read_to_string(path.join("cgroup.procs"))?;
    pids.extend(list.lines().filter_map(|line| line.parse::<u32>().ok()).filter(|pid| *pid != std::process::id()));
    for entry in fs::read_dir(path)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            // The group may disappear meanwhile.
            let _ = collect_cgroup(&entry.path(), pids);
        }
    }
    Ok(())
}

/// Returns the processes with this command name; fails if there are none.
pub(crate) fn pids_named(comm: &str) -> Result<BTreeSet<u32>, Error> {
    let pids: BTreeSet<u32> = all_processes()?
        .flatten()
        .map(|process| process.pid as u32)
        .filter(|pid| *pid != std::process::id() && self::comm(*pid).as_deref() == Some(comm))
        .collect();
    if pids.is_empty() { Err(Error::NoSuchCommand(comm.to_owned())) } else { Ok(pids) }
}

/// Returns a process's command name; `None` if there is no such process.
pub(crate) fn comm(pid: u32) -> Option<String> {
    let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end_matches('\n').to_owned())
}

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
    use std::net::TcpListener;
    use std::net::TcpStream;

    #[test]
    fn the_family_is_followed_whatever_the_order_of_the_list() {
        let parents = [(30, 20), (20, 10), (10, 1), (40, 1), (50, 30)];
        assert_eq!(descendants(&BTreeSet::from([10]), &parents), BTreeSet::from([10, 20, 30, 50]));
    }

    #[test]
    fn a_server_and_the_processes_it_forked_are_one_family() {
        let parents = [(20, 10), (21, 10), (10, 1), (40, 1)];
        let families = top_families(&BTreeSet::from([10, 20, 21, 40]), &parents);
        assert_eq!(families, [(10, BTreeSet::from([10, 20, 21])), (40, BTreeSet::from([40]))]);
    }

    #[test]
    fn nothing_descends_from_process_1() {
        assert_eq!(descendants(&BTreeSet::from([1]), &[(10, 1), (20, 10)]), BTreeSet::from([1]));
    }

    #[test]
    fn this_process_is_nobody() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let _client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        assert_eq!(owners(&[port]).unwrap(), PortOwners::default());
    }

    #[test]
    fn groups_below_a_group_belong_to_it() {
        let top = std::env::temp_dir().join(format!("overhead-cgroup-{}", std::process::id()));
        fs::create_dir_all(top.join("below")).unwrap();
        fs::write(top.join("cgroup.procs"), format!("7\n{}\n", std::process::id())).unwrap();
        fs::write(top.join("below/cgroup.procs"), "8\n9\n").unwrap();
        let pids = in_cgroup(&top);
        fs::remove_dir_all(&top).unwrap();
        assert_eq!(pids.unwrap(), BTreeSet::from([7, 8, 9]));
    }

    #[test]
    fn a_folder_that_is_no_cgroup_is_named() {
        let error = in_cgroup(Path::new("/proc/self")).unwrap_err();
        assert!(error.to_string().starts_with("/proc/self is not a control group"), "{error}");
    }

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
