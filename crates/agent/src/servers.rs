//! The servers and clients of known protocols on this host and in its containers.

use anyhow::Result;
use overhead_capture::live::NetworkNamespace;
use overhead_containers::{HostContainers, RunningContainer};
use overhead_dissect::Selection;
use overhead_host::databases::{self, Database};
use overhead_kernel::{ClientOfServer, ServerPort, TcpServer, own_network_namespace, raised, tcp_clients};
use overhead_model::{Protocol, sorted_distinct};
use overhead_report::text::clean;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Number of names above which those of ended containers are dropped.
const GROUPS: usize = 10_000;
/// Most databases outside the last search whose names are kept: each had its own address.
const NOTED: usize = 1_000;

/// The server's end of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ServerEnd {
    pub address: SocketAddr,
    /// 0 unless the address is a loopback address, because each namespace has its own loopback.
    pub network_namespace: u32,
}

impl ServerEnd {
    /// Stands for the servers that share sums.
    pub const OTHER: Self =
        Self { address: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0), network_namespace: 0 };

    pub fn new(address: SocketAddr, network_namespace: u32) -> Self {
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        Self { address, network_namespace: if address.ip().is_loopback() { network_namespace } else { 0 } }
    }

    /// Returns the server's end if it was seen before the host started again: its network namespace is none of today's.
    #[must_use]
    pub fn before_boot(self) -> Self {
        Self { network_namespace: if self.network_namespace == 0 { 0 } else { u32::MAX }, ..self }
    }
}

/// The servers that listen on this host, and the ports to follow.
#[derive(Default)]
pub struct WatchedServers {
    pub databases: Vec<Database>,
    /// Databases that have started or ended since the last search, the newest last. Traffic may name them for a while.
    noted: Vec<Database>,
    /// Other ports that the user named.
    named: Vec<u16>,
    /// Names of containers by the inodes of their control groups, also of those that have ended.
    groups: HashMap<u64, String>,
    /// Names of the processes of clients on this host.
    clients: HashMap<(ServerEnd, IpAddr), BTreeSet<String>>,
    pub ports: Vec<u16>,
}

impl WatchedServers {
    /// Finds the servers, and lists the ports to follow: theirs, those that the user named, and all usual ones, on which clients of
    /// this host may use servers elsewhere.
    pub fn find(containers: &HostContainers, named: &[u16]) -> Result<Self> {
        let databases = databases::listening(containers)?;
        // A web port does not identify what listens there.
        let usual = Protocol::ALL.into_iter().filter(|protocol| *protocol != Protocol::Http);
        let usual = usual.flat_map(|protocol| protocol.ports().iter().copied());
        let ports =
            sorted_distinct(databases.iter().flat_map(Database::ports).chain(named.iter().copied()).chain(usual));
        let groups = control_groups(containers);
        let clients = clients_of(&ports);
        Ok(Self { databases, noted: Vec::new(), named: named.to_vec(), groups, clients, ports })
    }

    /// Returns the protocols that each port may have. The content decides on ports that the user named.
    pub fn selection(&self) -> Selection {
        let listening: Vec<_> = self.databases.iter().map(|it| (it.ports(), it.system.protocol)).collect();
        let protocols = |port: u16| {
            let listens = |(ports, _): &&(Vec<u16>, Protocol)| ports.binary_search(&port).is_ok();
            let known = listening.iter().filter(listens).map(|(_, protocol)| *protocol);
            let usual = Protocol::ALL.into_iter().filter(|protocol| protocol.ports().contains(&port));
            let protocols = sorted_distinct(known.chain(usual));
            let is_any = protocols.is_empty() || self.named.contains(&port);
            (port, if is_any { sorted_distinct(Protocol::ALL) } else { protocols })
        };
        Selection { ports: self.ports.iter().copied().map(protocols).collect(), ..Selection::default() }
    }

    /// Notes servers that have started to listen, and returns whether one of them is a database. One that is not replaces a database with
    /// its address that has ended.
    pub fn note(&mut self, new: Vec<TcpServer>) -> bool {
        let mut has_database = false;
        for server in new {
            let is_replaced = |known: &Database| {
                known.network_namespace == Some(server.network_namespace)
                    && known.addresses.iter().any(|address| server.addresses.contains(address))
            };
            self.noted.retain(|known| !is_replaced(known));
            if let Some(database) = databases::tcp_database(server) {
                self.noted.push(database);
                has_database = true;
            }
        }
        has_database
    }

    /// Returns whether traffic on a port is that of databases: a usual one, one that the user named, or that of a database.
    pub fn has_port(&self, port: ServerPort) -> bool {
        let is_on = |database: &Database| {
            (port.network_namespace == 0 || database.network_namespace == Some(port.network_namespace))
                && database.addresses.iter().any(|address| address.port() == port.port)
        };
        self.ports.binary_search(&port.port).is_ok() || self.noted.iter().any(is_on)
    }

    /// Returns the database behind a server's end, if it listens on this host or has done so.
    pub fn database(&self, server: &ServerEnd) -> Option<&Database> {
        self.databases.iter().chain(self.noted.iter().rev()).find(|database| {
            let listens = |address: &SocketAddr| {
                address.port() == server.address.port()
                    && (address.ip().is_unspecified() || address.ip().to_canonical() == server.address.ip())
            };
            let is_here = server.network_namespace == 0 || database.network_namespace == Some(server.network_namespace);
            is_here && database.addresses.iter().any(listens)
        })
    }

    /// Returns the system of a server, or else the protocol that usually has its port.
    pub fn system(&self, server: &ServerEnd) -> &'static str {
        let usual = || Protocol::ALL.into_iter().find(|protocol| protocol.ports().contains(&server.address.port()));
        self.database(server).map(|database| database.system.name).or_else(|| usual().map(Protocol::name)).unwrap_or("")
    }

    /// Returns the container of a server, without harmful characters.
    pub fn container(&self, server: &ServerEnd) -> Option<String> {
        self.database(server)?.container.as_ref().map(|container| clean(&container.argument()))
    }

    /// Returns the container whose processes are in a control group.
    pub fn container_of_group(&self, group: u64) -> Option<&str> {
        self.groups.get(&group).map(String::as_str)
    }

    /// Returns the names of the processes of a client, as far as they are on this host.
    pub fn processes(&self, server: &ServerEnd, client: IpAddr) -> Option<&BTreeSet<String>> {
        self.clients.get(&(*server, client))
    }

    /// Returns the names of the containers that have these control groups.
    pub fn names(&self, groups: impl Iterator<Item = u64>) -> BTreeMap<u64, String> {
        groups.filter_map(|group| Some((group, self.container_of_group(group)?.to_owned()))).collect()
    }

    /// Adds names of containers that an earlier agent found.
    pub fn add_names(&mut self, names: BTreeMap<u64, String>) {
        for (group, name) in names {
            self.groups.entry(group).or_insert(name);
        }
    }

    /// Keeps the names of databases, containers and processes that have ended since an earlier search.
    pub fn remember(&mut self, before: Self) {
        let is_found = |old: &Database| {
            let is_same = |new: &Database| {
                new.network_namespace == old.network_namespace
                    && (new.pid() == old.pid() || new.addresses.iter().any(|address| old.addresses.contains(address)))
            };
            self.databases.iter().any(is_same)
        };
        self.noted = before.noted.into_iter().chain(before.databases).filter(|old| !is_found(old)).collect();
        self.noted.drain(..self.noted.len().saturating_sub(NOTED));
        if before.clients.len() < GROUPS {
            before.clients.into_iter().for_each(|(client, names)| _ = self.clients.entry(client).or_insert(names));
        }
        if before.groups.len() < GROUPS {
            self.groups = before.groups.into_iter().chain(std::mem::take(&mut self.groups)).collect();
        }
    }
}

/// Returns the ports of these servers that are not databases, at both ends. Process 1 may hold sockets for databases that it starts later.
pub fn other_ports(servers: Vec<TcpServer>) -> BTreeSet<ServerPort> {
    let others =
        servers.into_iter().filter(|server| server.pids != [1] && databases::tcp_database(server.clone()).is_none());
    let ports = |server: TcpServer| {
        let at =
            move |port| [server.network_namespace, 0].map(|network_namespace| ServerPort { network_namespace, port });
        server.addresses.into_iter().flat_map(move |address| at(address.port()))
    };
    others.flat_map(ports).collect()
}

/// Returns all network namespaces that processes are in or that have a name, by number; that of this process is absent from the values.
/// Some may have ended since.
pub fn namespaces() -> BTreeMap<u32, Option<NetworkNamespace>> {
    let mut found = BTreeMap::from([(own_network_namespace(), None)]);
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        let Ok(link) = fs::metadata(format!("/proc/{pid}/ns/net")) else { continue };
        if !found.contains_key(&(link.ino() as u32))
            && let Ok(namespace) = NetworkNamespace::from_process(pid)
        {
            found.insert(namespace.number as u32, Some(namespace));
        }
    }
    for namespace in named_namespaces() {
        found.entry(namespace.number as u32).or_insert(Some(namespace));
    }
    found
}

/// Returns the network namespaces that are mounted, as by `ip netns add`, here or for the host's first process. Sockets may be in them
/// without any process.
fn named_namespaces() -> Vec<NetworkNamespace> {
    let mounted = |process: &str| {
        let mounts = fs::read_to_string(format!("/proc/{process}/mountinfo")).unwrap_or_default();
        let opened = |line: &str| {
            let mut columns = line.split(' ').skip(3);
            let place = columns.next()?.starts_with("net:[").then(|| columns.next())??;
            NetworkNamespace::open(Path::new(&format!("/proc/{process}/root{place}"))).ok()
        };
        mounts.lines().filter_map(opened).collect::<Vec<_>>()
    };
    ["self", "1"].into_iter().flat_map(mounted).collect()
}

/// Returns the names of the processes of this host's clients. Without rights, they have none.
fn clients_of(ports: &[u16]) -> HashMap<(ServerEnd, IpAddr), BTreeSet<String>> {
    let mut clients = HashMap::<_, BTreeSet<String>>::new();
    for (ClientOfServer { network_namespace, client, server }, names) in
        raised(|| tcp_clients(ports)).unwrap_or_default()
    {
        clients.entry((ServerEnd::new(server, network_namespace), client)).or_default().extend(names);
    }
    clients
}

/// Returns the names of containers by the inodes of their control groups (version 2), which identify the owners of sockets.
fn control_groups(containers: &HostContainers) -> HashMap<u64, String> {
    let inode = |pid: &u32| {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
        fs::metadata(format!("/sys/fs/cgroup{path}")).ok().map(|folder| folder.ino())
    };
    let named = |container: &RunningContainer| {
        let name = clean(&container.argument());
        container.pids.iter().filter_map(inode).map(|inode| (inode, name.clone())).collect::<Vec<_>>()
    };
    raised(|| containers.all.iter().flat_map(named).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(pid: u32, comm: &str, port: u16) -> TcpServer {
        let address = SocketAddr::from(([10, 0, 0, 1], port));
        TcpServer { pids: vec![pid], comm: comm.to_owned(), network_namespace: 7, addresses: vec![address] }
    }

    #[test]
    fn a_database_that_has_ended_keeps_its_name_until_another_server_has_its_port() {
        let (mut before, mut servers) = (WatchedServers::default(), WatchedServers::default());
        let end = ServerEnd::new("10.0.0.1:7777".parse().unwrap(), 7);
        assert!(before.note(vec![server(4_000_000, "redis-server", 7777)]));
        servers.remember(before);
        assert_eq!((servers.system(&end), servers.databases.len()), ("redis", 0));
        assert!(!servers.note(vec![server(4_000_001, "nginx", 7777)]));
        assert_eq!(servers.system(&end), "");
    }

    #[test]
    fn other_servers_need_not_be_followed() {
        let servers = vec![
            server(10, "redis-server", 7777),
            server(11, "nginx", 80),
            server(12, "java", 9042),
            server(1, "systemd", 7000),
        ];
        let ports = [0, 7].map(|network_namespace| ServerPort { network_namespace, port: 80 });
        assert_eq!(other_ports(servers), BTreeSet::from(ports));
    }
}
