//! Warnings about content that stayed encrypted, and what would open it.

use super::Warnings;
use overhead_model::record::{Connection, Selected};
use overhead_model::{Protocol, System};
use overhead_report::text::counted;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// The servers that a capture can name, and whether it took the secrets of handshakes.
#[derive(Clone, Debug, Default)]
pub struct TlsServers {
    /// Addresses of the captured network namespace.
    pub local: Vec<IpAddr>,
    pub servers: Vec<TlsServer>,
    pub has_secrets: bool,
}

/// A process that listens in the captured network namespace.
#[derive(Clone, Debug)]
pub struct TlsServer {
    pub ports: Vec<u16>,
    pub pid: u32,
    pub comm: String,
    /// The libraries that it may encrypt with.
    pub libraries: String,
    /// `--tls-keys` supports them.
    pub is_readable: bool,
}

impl TlsServer {
    fn title(&self) -> String {
        let Self { comm, pid, libraries, .. } = self;
        let libraries = if libraries.is_empty() { "an unknown TLS library" } else { libraries };
        format!("{comm} (process {pid}, {libraries})")
    }
}

impl TlsServers {
    fn on_port(&self, port: u16) -> Option<&TlsServer> {
        self.servers.iter().find(|server| server.ports.contains(&port))
    }

    fn at(&self, address: SocketAddr) -> Option<&TlsServer> {
        let is_local = address.ip().is_loopback() || self.local.contains(&address.ip());
        self.on_port(address.port()).filter(|_| is_local)
    }

    /// Returns what opens connections of which a capture has no beginning.
    pub(super) fn remedy_midway(&self, port: u16) -> String {
        let start = "begin the capture before they connect (restart the client, or its pool)";
        match self.on_port(port).filter(|server| server.is_readable) {
            _ if self.has_secrets => {
                format!("they are older than the capture, and only a handshake shows their keys: {start}")
            }
            Some(server) => {
                format!("{} listens on it: repeat with `--tls-keys {}`, and {start}", server.title(), server.pid)
            }
            None => format!("{start}, with `--tls-keys auto` or a key log (--keylog)"),
        }
    }
}

impl Warnings {
    /// Describes the connections with encrypted content: where they lead, its share of all bytes on the wire, and what would open them.
    pub fn warn_of_encrypted(&mut self, connections: &[Connection], selected: &Selected, [encrypted, all]: [u64; 2]) {
        let mut servers = BTreeMap::<&str, (u64, &Connection)>::new();
        for connection in connections.iter().filter(|connection| connection.encrypted) {
            servers.entry(&connection.server).or_insert((0, connection)).0 += connection.wire_bytes;
        }
        let Some((_, largest)) = servers.values().max_by_key(|entry| entry.0) else { return };
        let share = encrypted as f64 * 100.0 / all.max(1) as f64;
        let address = largest.server.parse().ok();
        let server = address.and_then(|address| self.tls.at(address));
        let place = server.map_or_else(|| largest.server.clone(), TlsServer::title);
        let more = servers.len() - 1;
        let others = if more > 0 { format!(" and {}", counted(more as u64, "other server")) } else { String::new() };
        let count = std::mem::take(&mut self.encrypted);
        let remedy = match server.filter(|_| !self.tls.has_secrets) {
            Some(server) if server.is_readable => format!("repeat with `--tls-keys {}`", server.pid),
            Some(_) => "have it or its client write a key log, and name that with --keylog".to_owned(),
            None if self.tls.has_secrets => "name a key log with their keys (--keylog)".to_owned(),
            None => remedy_elsewhere(system(selected, largest)),
        };
        self.remark(format!(
            "{} to {place}{others} {} encrypted, {share:.1}% of the wire bytes: {remedy}",
            counted(count, "connection"),
            if count == 1 { "is" } else { "are" }
        ));
    }
}

/// Returns the server's system: the selected one of its protocol, else the most common one.
fn system(selected: &Selected, connection: &Connection) -> Option<System> {
    let protocol = Protocol::named(&connection.protocol)?;
    let mut named = selected.db.iter().filter_map(|name| System::named(name));
    named.find(|system| system.protocol == protocol).or_else(|| System::default_for(protocol))
}

/// Returns what opens the connections of a server that is on another host.
fn remedy_elsewhere(system: Option<System>) -> String {
    let client = "repeat with `--tls-keys auto` on its client's host";
    match system.and_then(|system| Some((system.name, system.tls_library()?))) {
        Some((name, library)) if library == System::JAVA => {
            format!(
                "{client}, or name a key log (--keylog): {name} usually encrypts with {library}, which keeps its secrets"
            )
        }
        Some((name, library)) => format!("{client} or its own, as {name} usually encrypts with {library}"),
        None => format!(
            "{client} or its own, if that end uses OpenSSL, BoringSSL, GnuTLS or Go, or name a key log (--keylog)"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use overhead_model::{DecidedBy, Measured, exit};

    fn connection(server: &str, protocol: Protocol, encrypted: bool) -> Connection {
        Connection {
            client: "10.0.0.9:40000".to_owned(),
            server: server.to_owned(),
            transport: None,
            protocol: protocol.name().to_owned(),
            server_software: None,
            client_software: None,
            tls: true,
            encrypted,
            server_decided_by: DecidedBy::Syn,
            operations: 1,
            wire_bytes: 600,
            round_trips: Measured::Value(1),
            round_trips_to_answer: Measured::Value(1),
            kernel: Measured::unavailable("offline"),
        }
    }

    fn said(tls: TlsServers, db: &[&str], connections: &[Connection]) -> String {
        let selected = Selected { db: db.iter().map(ToString::to_string).collect(), ports: Vec::new() };
        let mut warnings = Warnings { tls, encrypted: connections.len() as u64, ..Warnings::default() };
        warnings.warn_of_encrypted(connections, &selected, [540, 1_000]);
        let (sentences, status) = warnings.settle();
        assert_eq!(status, exit::COMPLETE);
        sentences.join("; ")
    }

    fn server(libraries: &str, is_readable: bool) -> TlsServers {
        let (ports, comm, libraries) = (vec![5432], "postgres".to_owned(), libraries.to_owned());
        let servers = vec![TlsServer { ports, pid: 812, comm, libraries, is_readable }];
        TlsServers { local: vec![[10, 0, 0, 5].into()], servers, has_secrets: false }
    }

    #[test]
    fn a_server_here_is_named_with_what_opens_its_connections() {
        let here = [connection("10.0.0.5:5432", Protocol::Pgwire, true)];
        assert_eq!(
            said(server("libssl.so.3", true), &[], &here),
            "1 connection to postgres (process 812, libssl.so.3) is encrypted, 54.0% of the wire bytes: repeat with `--tls-keys 812`"
        );
        let java = said(server("Java's own TLS", false), &[], &here);
        assert!(java.contains("(process 812, Java's own TLS)"), "{java}");
        assert!(java.ends_with("have it or its client write a key log, and name that with --keylog"), "{java}");
        let again = said(TlsServers { has_secrets: true, ..server("libssl.so.3", true) }, &[], &here);
        assert!(!again.contains("--tls-keys"), "{again}");
    }

    #[test]
    fn a_server_elsewhere_has_the_library_of_its_system() {
        let of = |db: &[&str], server: &str, protocol| {
            said(TlsServers::default(), db, &[connection(server, protocol, true)])
        };
        let postgres = of(&[], "10.0.0.6:5432", Protocol::Pgwire);
        assert!(
            postgres.contains(
                "`--tls-keys auto` on its client's host or its own, as postgres usually encrypts with OpenSSL"
            ),
            "{postgres}"
        );
        let cockroach = of(&["cockroach"], "10.0.0.6:26257", Protocol::Pgwire);
        assert!(cockroach.ends_with("or its own, as cockroach usually encrypts with Go's crypto/tls"), "{cockroach}");
        let cassandra = of(&["cassandra"], "10.0.0.6:9042", Protocol::Cql);
        assert!(
            cassandra.ends_with("cassandra usually encrypts with Java's own TLS, which keeps its secrets"),
            "{cassandra}"
        );
        let ssdb = of(&[], "10.0.0.6:8888", Protocol::Ssdb);
        assert!(ssdb.ends_with("OpenSSL, BoringSSL, GnuTLS or Go, or name a key log (--keylog)"), "{ssdb}");
        // The port is that of a local server, but the address is not.
        let other = said(server("libssl.so.3", true), &[], &[connection("10.0.0.6:5432", Protocol::Pgwire, true)]);
        assert!(other.starts_with("1 connection to 10.0.0.6:5432 is encrypted"), "{other}");
    }

    #[test]
    fn decrypted_connections_are_not_named() {
        assert_eq!(said(TlsServers::default(), &[], &[]), "");
        let opened = [connection("10.0.0.5:5432", Protocol::Pgwire, false)];
        assert!(said(TlsServers::default(), &[], &opened).starts_with("1 connection is encrypted"));
    }
}
