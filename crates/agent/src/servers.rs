//! The servers and clients of known protocols on this host and in its containers.

use anyhow::Result;
use overhead_capture::live::NetworkNamespace;
use overhead_containers::{HostContainers, RunningContainer};
use overhead_dissect::Selection;
use overhead_host::databases::{self, Database};
use overhead_kernel::{ClientOfServer, own_network_namespace, raised, tcp_clients};
use overhead_model::Protocol;
use overhead_report::text::clean;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;

/// Number of names above which those of ended containers are dropped.
const GROUPS: usize = 10_000;

/// The server's end of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
}

/// The servers that listen on this host, and the ports to follow.
pub struct WatchedServers {
    databases: Vec<Database>,
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
        let mut ports: Vec<u16> = databases.iter().flat_map(Database::ports).chain(named.iter().copied()).collect();
        ports.extend(usual);
        ports.sort_unstable();
        ports.dedup();
        let groups = control_groups(containers);
        let clients = clients_of(&ports);
        Ok(Self { databases, named: named.to_vec(), groups, clients, ports })
    }

    /// Returns the protocols that each port may have. The content decides on ports that the user named.
    pub fn selection(&self) -> Selection {
        let listening: Vec<_> = self.databases.iter().map(|it| (it.ports(), it.system.protocol)).collect();
        let protocols = |port: u16| {
            let listens = |(ports, _): &&(Vec<u16>, Protocol)| ports.binary_search(&port).is_ok();
            let known = listening.iter().filter(listens).map(|(_, protocol)| *protocol);
            let usual = Protocol::ALL.into_iter().filter(|protocol| protocol.ports().contains(&port));
            let mut protocols: Vec<Protocol> = known.chain(usual).collect();
            if protocols.is_empty() || self.named.contains(&port) {
                protocols.extend(Protocol::ALL);
            }
            protocols.sort_unstable();
            protocols.dedup();
            (port, protocols)
        };
        Selection { ports: self.ports.iter().copied().map(protocols).collect(), ..Selection::default() }
    }

    /// Returns the database behind a server's end, if it listens on this host.
    pub fn database(&self, server: &ServerEnd) -> Option<&Database> {
        self.databases.iter().find(|database| {
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

    /// Keeps the names of containers and processes that have ended since an earlier search.
    pub fn remember(&mut self, before: Self) {
        if before.clients.len() < GROUPS {
            before.clients.into_iter().for_each(|(client, names)| _ = self.clients.entry(client).or_insert(names));
        }
        if before.groups.len() < GROUPS {
            self.groups = before.groups.into_iter().chain(std::mem::take(&mut self.groups)).collect();
        }
    }

    pub fn databases(&self) -> &[Database] {
        &self.databases
    }
}

/// Returns all network namespaces with processes, by number; that of this process is absent from the values. Some may have ended since.
pub fn namespaces() -> BTreeMap<u32, Option<NetworkNamespace>> {
    let mut found = BTreeMap::from([(own_network_namespace(), None)]);
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        let Ok(link) = fs::metadata(format!("/proc/{pid}/ns/net")) else { continue };
        if !found.contains_key(&(link.ino() as u32))
            && let Ok(namespace) = NetworkNamespace::from_process(pid)
        {
            found.insert(namespace.number() as u32, Some(namespace));
        }
    }
    found
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
    raised(|| containers.all().iter().flat_map(named).collect())
}
