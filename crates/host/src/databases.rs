//! Databases that listen on this host, in any network namespace and container.

use overhead_containers::{HostContainers, HostPaths, RunningContainer};
use overhead_kernel::{
    ProcessTls, TcpServer, UnixServer, own_network_namespace, process_tls, raised, tcp_servers, unix_servers,
};
use overhead_model::{Protocol, System, sorted_distinct};
use std::net::SocketAddr;

/// `--db` names that reveal nothing about a process with that name.
const TOO_GENERAL: [&str; 3] = ["http", "https", "pg"];

/// A listening process that is a database, judged by its name or port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    /// The database, such as Valkey.
    pub system: System,
    /// Whether it was identified by its name; otherwise, by its port.
    pub by_name: bool,
    /// The process, and its descendants that share the sockets.
    pub pids: Vec<u32>,
    /// Name of the command, as the kernel has it: at most 15 bytes.
    pub comm: String,
    /// Number of the network namespace of its TCP sockets; `None` if it has none.
    pub network_namespace: Option<u32>,
    /// Addresses that it listens on for the protocol.
    pub addresses: Vec<SocketAddr>,
    /// UNIX sockets that it listens on.
    pub unix: Vec<String>,
    /// Its container; `None` for a process of the host.
    pub container: Option<RunningContainer>,
}

impl Database {
    /// Returns its ports in order, without duplicates.
    pub fn ports(&self) -> Vec<u16> {
        sorted_distinct(self.addresses.iter().map(SocketAddr::port))
    }

    /// Returns whether all its addresses are those of loopback.
    pub fn is_local(&self) -> bool {
        self.addresses.iter().all(|address| address.ip().is_loopback())
    }

    /// Returns the process that the others descend from.
    pub fn pid(&self) -> u32 {
        self.pids.first().copied().unwrap_or_default()
    }
}

/// Returns the current containers; none if they cannot be determined.
pub fn containers_now() -> HostContainers {
    raised(|| HostContainers::read(&HostPaths::default())).unwrap_or_default()
}

/// Returns the listening databases, grouped by container. Processes that this user may not see are absent.
pub fn listening(containers: &HostContainers) -> Result<Vec<Database>, overhead_kernel::Error> {
    let (tcp, unix) = raised(|| Ok::<_, overhead_kernel::Error>((tcp_servers()?, unix_servers()?)))?;
    Ok(join(tcp, &unix, containers))
}

/// Returns the names of the libraries with which a process may encrypt, and whether `--tls-keys` supports them.
pub fn encryption(pid: u32) -> std::io::Result<(String, bool)> {
    let ProcessTls { readable, others } = raised(|| process_tls(pid))?;
    let names: Vec<&str> = readable.iter().map(|name| name.rsplit('/').next().unwrap_or(name)).collect();
    let is_readable = !names.is_empty();
    Ok((if is_readable { names.join(" and ") } else { others.join(" and ") }, is_readable))
}

/// Returns the databases with TCP sockets in this network namespace; none if they cannot be determined.
pub fn listening_here() -> Vec<Database> {
    in_namespace(listening(&HostContainers::default()).unwrap_or_default(), own_network_namespace())
}

fn in_namespace(mut all: Vec<Database>, here: u32) -> Vec<Database> {
    all.retain(|database| database.network_namespace == Some(here));
    all
}

/// Returns why connections to these ports do not speak the protocols that are expected there: one of the servers on them has the name of
/// another; `None` if none is known to.
pub fn contradiction(ports: &[(u16, Vec<Protocol>)], all: &[Database]) -> Option<String> {
    ports.iter().find_map(|(port, protocols)| {
        let is_on = |database: &&Database| database.ports().contains(port);
        let fits = |database: &Database| !database.by_name || protocols.contains(&database.system.protocol);
        if protocols.is_empty() || all.iter().filter(is_on).any(fits) {
            return None;
        }
        let found = all.iter().find(is_on)?;
        let (comm, pid, system) = (&found.comm, found.pid(), found.system.name);
        Some(format!("port {port} is that of {comm} (process {pid}): use --db {system}, or name another --port"))
    })
}

/// Returns the servers of these systems, or of any, that listen on none of the `usual` ports. A protocol with a server on a usual port has
/// none: its other servers are often tests or guards.
pub fn on_other_ports(systems: &[System], usual: &[u16], mut all: Vec<Database>) -> Vec<Database> {
    let is_meant = |database: &Database| {
        systems.is_empty() || systems.iter().any(|system| system.protocol == database.system.protocol)
    };
    all.retain(is_meant);
    let is_usual = |database: &&Database| database.ports().iter().any(|port| usual.contains(port));
    let served: Vec<Protocol> = all.iter().filter(is_usual).map(|database| database.system.protocol).collect();
    all.retain(|database| !served.contains(&database.system.protocol));
    all
}

fn join(tcp: Vec<TcpServer>, unix: &[UnixServer], containers: &HostContainers) -> Vec<Database> {
    let mut all: Vec<Database> = tcp.into_iter().filter_map(tcp_database).collect();
    for server in unix {
        if let Some(database) = all.iter_mut().find(|it| server.pids.iter().any(|pid| it.pids.contains(pid))) {
            database.unix.push(server.socket.clone());
        } else if let Some(system) = by_name(&server.comm) {
            all.push(Database {
                system,
                by_name: true,
                pids: server.pids.clone(),
                comm: server.comm.clone(),
                network_namespace: None,
                addresses: Vec::new(),
                unix: vec![server.socket.clone()],
                container: None,
            });
        }
    }
    for database in &mut all {
        database.container = containers.by_process(database.pid()).cloned();
    }
    let place = |database: &Database| (database.container.as_ref().map(RunningContainer::argument), database.pid());
    all.sort_by_cached_key(place);
    all
}

/// Returns the database that a listening process is, without its container; `None` if neither its name nor its port is that of one.
pub fn tcp_database(server: TcpServer) -> Option<Database> {
    let named = by_name(&server.comm);
    let system = named.or_else(|| server.addresses.iter().find_map(|address| by_port(address.port())))?;
    let is_usual =
        |address: &&SocketAddr| address.port() == system.port || system.protocol.ports().contains(&address.port());
    // Servers also listen for administration and for each other. If no port is a usual one, keep all but the cluster bus of Redis,
    // whose port is 10,000 higher.
    let usual: Vec<SocketAddr> = server.addresses.iter().filter(is_usual).copied().collect();
    let ports: Vec<u16> = server.addresses.iter().map(SocketAddr::port).collect();
    let is_bus =
        |port: u16| system.protocol == Protocol::Resp && port.checked_sub(10_000).is_some_and(|of| ports.contains(&of));
    let served = || server.addresses.iter().filter(|address| !is_bus(address.port())).copied().collect();
    Some(Database {
        system,
        by_name: named.is_some(),
        network_namespace: Some(server.network_namespace),
        addresses: if usual.is_empty() { served() } else { usual },
        pids: server.pids,
        comm: server.comm,
        unix: Vec::new(),
        container: None,
    })
}

/// Returns the system whose name a command starts with; the shortest such name is the usual one.
fn by_name(comm: &str) -> Option<System> {
    let starts = |system: &&System| !TOO_GENERAL.contains(&system.name) && comm.starts_with(system.name);
    System::ALL.iter().filter(starts).min_by_key(|system| system.name.len()).copied()
}

/// Returns the system with this usual port. A web port does not identify a database.
fn by_port(port: u16) -> Option<System> {
    let is_general = |system: &System| TOO_GENERAL.contains(&system.name);
    let of_system = System::ALL.iter().find(|system| system.port == port && !is_general(system)).copied();
    let of_protocol = || {
        let with = Protocol::ALL.into_iter().filter(|protocol| *protocol != Protocol::Http);
        with.filter(|protocol| protocol.ports().contains(&port)).find_map(System::default_for)
    };
    of_system.or_else(of_protocol)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(pid: u32, comm: &str, addresses: &[&str]) -> TcpServer {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        TcpServer { pids: vec![pid], comm: comm.to_owned(), network_namespace: 7, addresses }
    }

    fn found(tcp: Vec<TcpServer>, unix: &[UnixServer]) -> Vec<(u32, &'static str, bool, Vec<u16>)> {
        let all = join(tcp, unix, &HostContainers::default());
        all.iter().map(|it| (it.pid(), it.system.name, it.by_name, it.ports())).collect()
    }

    #[test]
    fn a_database_is_told_by_its_name_else_by_its_port() {
        let tcp = vec![
            server(10, "redis-server", &["0.0.0.0:7777", "[::]:7777"]),
            server(11, "java", &["127.0.0.1:7199", "10.0.0.1:9042"]),
            server(12, "nginx", &["0.0.0.0:80", "0.0.0.0:8080"]),
            server(13, "mysqld", &["[::]:33060", "[::]:3306"]),
        ];
        let wanted =
            [(10, "redis", true, vec![7777]), (11, "cassandra", false, vec![9042]), (13, "mysql", true, vec![3306])];
        assert_eq!(found(tcp, &[]), wanted);
    }

    #[test]
    fn servers_on_other_ports_count_if_none_of_their_protocol_is_on_a_usual_one() {
        let tcp = vec![
            server(10, "redis-server", &["127.0.0.1:16379", "127.0.0.1:26379"]),
            server(11, "postgres", &["127.0.0.1:5432"]),
            server(12, "postgres", &["127.0.0.1:15432"]),
        ];
        let all = join(tcp, &[], &HostContainers::default());
        let ports = |systems: &[System], here| {
            let found = on_other_ports(systems, &[6379, 5432], in_namespace(all.clone(), here));
            found.iter().flat_map(Database::ports).collect::<Vec<_>>()
        };
        assert_eq!(ports(&[], 7), [16_379], "the cluster bus is no server");
        assert_eq!(ports(&[System::named("valkey").unwrap()], 7), [16_379]);
        assert!(ports(&[System::named("postgres").unwrap()], 7).is_empty() && ports(&[], 8).is_empty());
    }

    #[test]
    fn a_server_with_the_name_of_another_system_contradicts_its_port() {
        let tcp = vec![server(13, "mariadbd", &["127.0.0.1:5432"]), server(14, "java", &["127.0.0.1:9042"])];
        let all = join(tcp, &[], &HostContainers::default());
        let expected_in =
            |here, port, protocol| contradiction(&[(port, vec![protocol])], &in_namespace(all.clone(), here));
        let expected = |port, protocol| expected_in(7, port, protocol);
        let reason = expected(5432, Protocol::Pgwire).unwrap();
        assert!(reason.contains("port 5432 is that of mariadbd (process 13): use --db mariadb"), "{reason}");
        assert_eq!(expected(5432, Protocol::Mysql), None);
        assert_eq!(expected(9042, Protocol::Pgwire), None, "known by its port alone");
        assert_eq!(expected(6379, Protocol::Resp), None);
        assert_eq!(expected_in(8, 5432, Protocol::Pgwire), None, "elsewhere");
    }

    #[test]
    fn a_unix_socket_is_its_servers_or_a_server_by_itself() {
        let unix =
            |socket: &str, pid, comm: &str| UnixServer { socket: socket.into(), pids: vec![pid], comm: comm.into() };
        let sockets =
            [unix("/run/redis.sock", 10, "redis-server"), unix("/run/pg", 11, "postgres"), unix("/run/x", 12, "bash")];
        let all = join(vec![server(10, "redis-server", &["127.0.0.1:6379"])], &sockets, &HostContainers::default());
        let shown: Vec<_> = all.iter().map(|it| (it.pid(), it.unix.join(" "), it.network_namespace)).collect();
        assert_eq!(shown, [(10, "/run/redis.sock".to_owned(), Some(7)), (11, "/run/pg".to_owned(), None)]);
        assert!(all[0].is_local());
    }
}
