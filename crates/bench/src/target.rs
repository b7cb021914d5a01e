//! Servers and credentials.

use crate::tls::TlsTrust;
use anyhow::{Result, ensure};
use overhead_model::exit::StatusFault;
use overhead_model::{System, bail_usage};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use url::Url;

/// Everything needed to connect.
#[derive(Clone, Debug)]
pub struct BenchTarget {
    /// In command-line order. Several only for shards or a cluster.
    pub servers: Vec<ServerEndpoint>,
    /// The original URL, for driver-specific options.
    pub url: Option<Url>,
    pub user: Option<String>,
    pub password: Option<String>,
    /// Database name, keyspace or database number.
    pub database: Option<String>,
    /// `None` without encryption.
    pub tls: Option<TlsTrust>,
    /// Limit for a connection or an answer.
    pub timeout: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerEndpoint {
    Tcp {
        /// Without brackets.
        host: String,
        port: u16,
    },
    /// Path of a local socket.
    Unix(PathBuf),
}

impl ServerEndpoint {
    /// Returns host and port. Fails for a socket path, which few drivers accept.
    pub fn tcp(&self) -> Result<(&str, u16)> {
        match self {
            Self::Tcp { host, port } => Ok((host, *port)),
            Self::Unix(_) => {
                Err(StatusFault::usage(format!("--server {self}: this driver needs host and port")).into())
            }
        }
    }
}

impl fmt::Display for ServerEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

/// Prefix of a socket path.
const UNIX: &str = "unix:";

/// The parsed `--server` options.
#[derive(Debug, Default)]
pub struct NamedServers {
    pub servers: Vec<ServerEndpoint>,
    pub url: Option<Url>,
    /// The URL requires TLS.
    pub tls: bool,
}

impl NamedServers {
    /// Parses `host`, `host:port`, `[::1]:port`, `unix:path` and URLs. Defaults to this host.
    pub fn parse(texts: &[String], system: &System) -> Result<Self> {
        let mut named = Self::default();
        for text in texts {
            if let Some(path) = text.strip_prefix(UNIX) {
                named.servers.push(socket(path)?);
            } else if text.contains("://") {
                named.add_url(text, system)?;
            } else {
                named.servers.push(address(text, system.port)?);
            }
        }
        if named.url.is_some() && named.servers.len() != 1 {
            bail_usage!("--server: only one URL is allowed, and no other server");
        }
        if named.servers.is_empty() {
            named.servers.push(ServerEndpoint::Tcp { host: "127.0.0.1".to_owned(), port: system.port });
        }
        Ok(named)
    }

    fn add_url(&mut self, text: &str, system: &System) -> Result<()> {
        let url = Url::parse(text)
            .map_err(|error| StatusFault::usage(format!("--server {}: {error}", without_password(text))))?;
        let protocol = system.protocol;
        if protocol.schemes().all(|scheme| scheme != url.scheme()) {
            let wanted = protocol.schemes().collect::<Vec<_>>().join("://, ");
            bail_usage!("--server: {}:// is not for {}: use {wanted}://", url.scheme(), system.name);
        }
        let host = url.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| StatusFault::usage("--server: the URL lacks a host"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        self.servers.push(ServerEndpoint::Tcp { host, port: url.port().unwrap_or(system.port) });
        let option = |name: &str| url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
        self.tls = protocol.is_tls_scheme(url.scheme())
            || option("sslmode").is_some_and(|mode| matches!(mode.as_str(), "require" | "verify-ca" | "verify-full"))
            || ["tls", "ssl"].iter().any(|name| option(name).is_some_and(|value| value == "true"));
        self.url = Some(url);
        Ok(())
    }

    pub fn user(&self) -> Option<String> {
        self.url.as_ref().map(|url| decoded(url.username())).filter(|user| !user.is_empty())
    }

    pub fn password(&self) -> Option<String> {
        self.url.as_ref().and_then(Url::password).map(decoded)
    }

    /// Returns the path of the URL: a database name or number.
    pub fn database(&self) -> Option<String> {
        let path = self.url.as_ref().map(|url| decoded(url.path().trim_matches('/')));
        path.filter(|path| !path.is_empty())
    }
}

/// Parses `host`, `host:port`, `[address]:port` or a bare IPv6 address.
fn address(text: &str, port: u16) -> Result<ServerEndpoint> {
    let wrong = || StatusFault::usage(format!("invalid --server {text}: use HOST:PORT"));
    let (host, number) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None if text.matches(':').count() > 1 => (text, None),
        None => text.split_once(':').map_or((text, None), |(host, number)| (host, Some(number))),
    };
    let port = match number {
        Some(number) => number.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?,
        None => port,
    };
    if host.is_empty() { Err(wrong().into()) } else { Ok(ServerEndpoint::Tcp { host: host.to_owned(), port }) }
}

/// Parses `unix:/path` or `unix:///path`, without the prefix.
fn socket(path: &str) -> Result<ServerEndpoint> {
    let path = path.strip_prefix("//").unwrap_or(path);
    ensure!(!path.is_empty(), StatusFault::usage(format!("--server {UNIX}: not the path of a socket")));
    Ok(ServerEndpoint::Unix(path.into()))
}

/// Decodes percent-encoding.
fn decoded(text: &str) -> String {
    let query = format!("_={}", text.replace('+', "%2B"));
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    pairs.next().map_or_else(|| text.to_owned(), |(_, value)| value.into_owned())
}

/// Masks the password of a URL.
pub fn without_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let end = rest.find('/').unwrap_or(rest.len());
    let Some(at) = rest[..end].rfind('@') else { return text.to_owned() };
    let user = rest[..at].split(':').next().unwrap_or_default();
    format!("{scheme}://{user}:***{}", &rest[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(name: &str) -> System {
        System::named(name).unwrap()
    }

    fn one(text: &str, db: &str) -> String {
        let named = NamedServers::parse(&[text.to_owned()], &system(db)).unwrap();
        named.servers[0].to_string()
    }

    #[test]
    fn addresses_may_leave_out_the_port() {
        assert_eq!(one("db.example", "redis"), "db.example:6379");
        assert_eq!(one("db.example:1", "redis"), "db.example:1");
        assert_eq!(one("::1", "postgres"), "[::1]:5432");
        assert_eq!(one("[::1]:77", "postgres"), "[::1]:77");
        assert_eq!(NamedServers::parse(&[], &system("scylla")).unwrap().servers[0].to_string(), "127.0.0.1:9042");
    }

    #[test]
    fn a_socket_has_a_path() {
        assert_eq!(one("unix:/run/redis.sock", "redis"), "unix:/run/redis.sock");
        assert_eq!(one("unix:///run/redis.sock", "redis"), "unix:/run/redis.sock");
        assert_eq!(socket("/s").unwrap(), ServerEndpoint::Unix("/s".into()));
        assert!(socket("/s").unwrap().tcp().is_err());
        assert!(socket("").is_err());
    }

    #[test]
    fn a_url_has_it_all() {
        let url = "postgres://me:p%40ss+word@db.example:5433/things?sslmode=require".to_owned();
        let named = NamedServers::parse(&[url], &system("postgres")).unwrap();
        assert_eq!(named.servers[0].to_string(), "db.example:5433");
        assert_eq!(named.user().as_deref(), Some("me"));
        assert_eq!(named.password().as_deref(), Some("p@ss+word"));
        assert_eq!(named.database().as_deref(), Some("things"));
        assert!(named.tls);
    }

    #[test]
    fn what_is_no_server_is_refused() {
        for text in ["", ":1", "host:0", "host:x", "host:70000", "mysql://host", "redis://"] {
            assert!(NamedServers::parse(&[text.to_owned()], &system("redis")).is_err(), "{text}");
        }
        let two = ["redis://a".to_owned(), "redis://b".to_owned()];
        assert!(NamedServers::parse(&two, &system("redis")).is_err());
    }

    #[test]
    fn passwords_are_not_recorded() {
        assert_eq!(without_password("redis://me:secret@host/0"), "redis://me:***@host/0");
        assert_eq!(without_password("redis://:se@cret@host"), "redis://:***@host");
        assert_eq!(without_password("host:1"), "host:1");
        assert_eq!(without_password("redis://host/a@b"), "redis://host/a@b");
    }
}
