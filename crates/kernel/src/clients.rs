//! Processes of this host with the clients' ends of TCP connections.

use crate::discover::{by_namespace, comm, holders, tcp_table};
use crate::error::Error;
use crate::ownership::canonical;
use procfs::net::TcpState;
use procfs::process::{Process, all_processes};
use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};

/// The connections of a client with a server, as a network namespace shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientOfServer {
    /// Inode number of that of the client's sockets.
    pub network_namespace: u32,
    /// In canonical form: IPv4 if mapped.
    pub client: IpAddr,
    /// In canonical form, too.
    pub server: SocketAddr,
}

/// Returns the names of the processes that have connections to these ports open, in all network namespaces. This process, and those that
/// this user may not inspect, are missing.
pub fn tcp_clients(ports: &[u16]) -> Result<HashMap<ClientOfServer, BTreeSet<String>>, Error> {
    let processes: Vec<Process> = all_processes()?.flatten().collect();
    let mut ends = HashMap::new();
    for (network_namespace, table) in by_namespace(&processes, tcp_table) {
        for entry in table.filter(|entry| entry.state == TcpState::Established && entry.inode != 0) {
            let (local, server) = (canonical(entry.local_address), canonical(entry.remote_address));
            if ports.contains(&server.port()) && !ports.contains(&local.port()) {
                ends.insert(entry.inode, ClientOfServer { network_namespace, client: local.ip(), server });
            }
        }
    }
    let mut clients = HashMap::<_, BTreeSet<String>>::new();
    if ends.is_empty() {
        return Ok(clients);
    }
    for (inode, pids) in holders(&processes, &ends) {
        let Some(client) = ends.get(&inode) else { continue };
        clients.entry(*client).or_default().extend(pids.into_iter().filter_map(comm));
    }
    Ok(clients)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    #[test]
    fn a_client_has_the_name_of_its_process() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{}; read -r _", server.port());
        let client = Command::new("bash").args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        let Ok(mut client) = client else { return println!("skipped: bash is missing") };
        let _accepted = listener.accept().unwrap();
        let (deadline, mut found) = (Instant::now() + Duration::from_secs(20), None);
        while found.is_none() && Instant::now() < deadline {
            let clients = tcp_clients(&[server.port()]).unwrap();
            found = clients.into_iter().find(|(client, _)| client.server == server && client.client.is_loopback());
        }
        client.kill().unwrap();
        client.wait().unwrap();
        assert_eq!(found.unwrap().1, BTreeSet::from(["bash".to_owned()]));
    }
}
