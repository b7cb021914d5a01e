//! Where the servers are, and who we are to them.

use crate::fault::Fault;
use crate::tls::Tls;
use anyhow::Result;
use overhead_model::System;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use url::Url;

/// The servers, and everything that is needed to connect to them.
#[derive(Clone, Debug)]
pub struct Target {
    /// In the order in which they were named. More than one only where the client shards or the database is a cluster.
    pub servers: Vec<Address>,
    /// The URL as it was given, for the options in it that are the driver's own.
    pub url: Option<Url>,
    /// User name.
    pub user: Option<String>,
    /// Password.
    pub password: Option<String>,
    /// Database, keyspace or number of the database.
    pub database: Option<String>,
    /// How connections are encrypted, if they are.
    pub tls: Option<Tls>,
    /// How long to wait for a connection or an answer.
    pub timeout: Duration,
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Host and port.
    Tcp {
        /// Name or address, without brackets.
        host: String,
        /// Port.
        port: u16,
    },
    /// A socket of this machine, by its path.
    Unix(PathBuf),
}

impl Address {
    /// Returns host and port. Fails for a socket: not every driver can connect to one.
    pub fn tcp(&self) -> Result<(&str, u16)> {
        match self {
            Self::Tcp { host, port } => Ok((host, *port)),
            Self::Unix(_) => Err(Fault::usage(format!("--server {self}: this driver needs host and port")).into()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

/// What the path of a socket follows.
const UNIX: &str = "unix:";

/// What `--server` says.
#[derive(Debug, Default)]
pub struct Named {
    /// Addresses.
    pub servers: Vec<Address>,
    /// The URL, if it was one.
    pub url: Option<Url>,
    /// The URL asks for TLS.
    pub tls: bool,
}

impl Named {
    /// Reads `host`, `host:port`, `[::1]:port`, `unix:path` and URLs; without any, it is this host.
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
            return Err(Fault::usage("--server: a URL stands alone".to_owned()).into());
        }
        if named.servers.is_empty() {
            named.servers.push(Address::Tcp { host: "127.0.0.1".to_owned(), port: system.port });
        }
        Ok(named)
    }

    fn add_url(&mut self, text: &str, system: &System) -> Result<()> {
        let url =
            Url::parse(text).map_err(|error| Fault::usage(format!("--server {}: {error}", without_password(text))))?;
        let protocol = system.protocol;
        if protocol.schemes().all(|scheme| scheme != url.scheme()) {
            let wanted = protocol.schemes().collect::<Vec<_>>().join("://, ");
            return Err(Fault::usage(format!(
                "--server: {}:// is not for {}: use {wanted}://",
                url.scheme(),
                system.name
            ))
            .into());
        }
        let host = url.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| Fault::usage("--server: the URL names no host".to_owned()))?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        self.servers.push(Address::Tcp { host, port: url.port().unwrap_or(system.port) });
        let option = |name: &str| url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
        self.tls = protocol.is_tls_scheme(url.scheme())
            || option("sslmode").is_some_and(|mode| matches!(mode.as_str(), "require" | "verify-ca" | "verify-full"))
            || ["tls", "ssl"].iter().any(|name| option(name).is_some_and(|value| value == "true"));
        self.url = Some(url);
        Ok(())
    }

    /// User in the URL.
    pub fn user(&self) -> Option<String> {
        self.url.as_ref().map(|url| decoded(url.username())).filter(|user| !user.is_empty())
    }

    /// Password in the URL.
    pub fn password(&self) -> Option<String> {
        self.url.as_ref().and_then(Url::password).map(decoded)
    }

    /// Path of the URL: the name or number of the database.
    pub fn database(&self) -> Option<String> {
        let path = self.url.as_ref().map(|url| decoded(url.path().trim_matches('/')));
        path.filter(|path| !path.is_empty())
    }
}

/// `host`, `host:port`, `[address]:port` or an IPv6 address alone.
fn address(text: &str, port: u16) -> Result<Address> {
    let wrong = || Fault::usage(format!("--server {text}: not host:port"));
    let (host, number) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None if text.matches(':').count() > 1 => (text, None),
        None => text.split_once(':').map_or((text, None), |(host, number)| (host, Some(number))),
    };
    let port = match number {
        Some(number) => number.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?,
        None => port,
    };
    if host.is_empty() {
        return Err(wrong().into());
    }
    Ok(Address::Tcp { host: host.to_owned(), port })
}

/// The path of a socket, as `unix:/path` or `unix:///path`.
fn socket(path: &str) -> Result<Address> {
    let path = path.strip_prefix("//").unwrap_or(path);
    if path.is_empty() {
        return Err(Fault::usage(format!("--server {UNIX}: not the path of a socket")).into());
    }
    Ok(Address::Unix(path.into()))
}

/// Percent-encoding undone; text that is not UTF-8 then stays as it is.
fn decoded(text: &str) -> String {
    let query = format!("_={}", text.replace('+', "%2B"));
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    pairs.next().map_or_else(|| text.to_owned(), |(_, value)| value.into_owned())
}

/// Returns the text, a password in a URL replaced.
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
        let named = Named::parse(&[text.to_owned()], &system(db)).unwrap();
        named.servers[0].to_string()
    }

    #[test]
    fn addresses_may_leave_out_the_port() {
        assert_eq!(one("db.example", "redis"), "db.example:6379");
        assert_eq!(one("db.example:1", "redis"), "db.example:1");
        assert_eq!(one("::1", "postgres"), "[::1]:5432");
        assert_eq!(one("[::1]:77", "postgres"), "[::1]:77");
        assert_eq!(Named::parse(&[], &system("scylla")).unwrap().servers[0].to_string(), "127.0.0.1:9042");
    }

    #[test]
    fn a_socket_has_a_path() {
        assert_eq!(one("unix:/run/redis.sock", "redis"), "unix:/run/redis.sock");
        assert_eq!(one("unix:///run/redis.sock", "redis"), "unix:/run/redis.sock");
        assert_eq!(socket("/s").unwrap(), Address::Unix("/s".into()));
        assert!(socket("/s").unwrap().tcp().is_err());
        assert!(socket("").is_err());
    }

    #[test]
    fn a_url_has_it_all() {
        let url = "postgres://me:p%40ss+word@db.example:5433/things?sslmode=require".to_owned();
        let named = Named::parse(&[url], &system("postgres")).unwrap();
        assert_eq!(named.servers[0].to_string(), "db.example:5433");
        assert_eq!(named.user().as_deref(), Some("me"));
        assert_eq!(named.password().as_deref(), Some("p@ss+word"));
        assert_eq!(named.database().as_deref(), Some("things"));
        assert!(named.tls);
    }

    #[test]
    fn what_is_no_server_is_refused() {
        for text in ["", ":1", "host:0", "host:x", "host:70000", "mysql://host", "redis://"] {
            assert!(Named::parse(&[text.to_owned()], &system("redis")).is_err(), "{text}");
        }
        let two = ["redis://a".to_owned(), "redis://b".to_owned()];
        assert!(Named::parse(&two, &system("redis")).is_err());
    }

    #[test]
    fn passwords_are_not_recorded() {
        assert_eq!(without_password("redis://me:secret@host/0"), "redis://me:***@host/0");
        assert_eq!(without_password("redis://:se@cret@host"), "redis://:***@host");
        assert_eq!(without_password("host:1"), "host:1");
        assert_eq!(without_password("redis://host/a@b"), "redis://host/a@b");
    }
}
