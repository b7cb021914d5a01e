//! The agent's settings: a TOML file with a default for every key.

use super::names::ServiceNames;
use super::zones::{ZoneMap, ZonePrices, quoted};
use overhead_dissect::GivenStatements;
use overhead_reading::read_statements;
use overhead_reading::time::duration;
use overhead_report::bounded::read_text;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::env;
use std::fmt::{self, Debug};
use std::fs::File;
use std::io::{self, Read};
use std::mem::{replace, take};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::{Bound, RangeBounds};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use ureq::http::Uri;

/// Characters of a token: fewer can be guessed.
const TOKEN_CHARS: usize = 16;

/// More than any token has: a device must not exhaust memory.
const TOKEN_FILE_BYTES: u64 = 4096;

/// Fix for a key of the whole file below a `[section]`, to which TOML counts it.
const ABOVE: &str = "keys outside sections go above the first [section]";

/// A file with all settings, their meaning and their defaults.
pub const DEFAULTS: &str = include_str!("defaults.toml");

/// The agent's settings. [`DEFAULTS`] describes each.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct AgentConfig {
    /// Address of the metrics.
    #[serde(deserialize_with = "socket_address")]
    pub listen: SocketAddr,
    token_file: Option<PathBuf>,
    /// Absent only if `listen` is a loopback address.
    #[serde(skip)]
    pub token: Option<AgentToken>,
    /// Time between two readings of the totals.
    #[serde(deserialize_with = "time")]
    pub interval: Duration,
    /// Time after which the bytes of statements are added to the counters.
    #[serde(deserialize_with = "time")]
    pub period: Duration,
    /// Statements per server with separate counters.
    pub statements: u32,
    state: Option<PathBuf>,
    /// Whether addresses of clients and servers are shown.
    pub addresses: bool,
    /// Whether windows decrypt TLS.
    pub tls_keys: bool,
    /// Ports of servers, in addition to those of the servers found.
    pub ports: Vec<u16>,
    /// Servers to leave out.
    pub exclude: Vec<ExcludedServer>,
    /// What watching may cost.
    pub budget: AgentBudget,
    /// When frames are captured.
    pub windows: AgentWindows,
    /// Where to send the metrics too.
    pub otlp: Option<AgentOtlp>,
    /// Where to keep rows for SQL.
    pub archive: Option<ArchiveSettings>,
    statements_file: Option<PathBuf>,
    /// Texts of statements that were prepared between windows.
    #[serde(skip)]
    pub given: GivenStatements,
    zones_file: Option<PathBuf>,
    /// Empty after reading.
    #[serde(rename = "zones")]
    zone_table: BTreeMap<String, String>,
    /// Zones of the file and of the table together.
    #[serde(skip)]
    pub zones: ZoneMap,
    /// Empty after reading.
    #[serde(rename = "names")]
    name_table: BTreeMap<String, String>,
    /// Names of clients.
    #[serde(skip)]
    pub names: ServiceNames,
    /// Prices of bytes by pair of zones.
    #[serde(rename = "price")]
    pub prices: ZonePrices,
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9475),
            token_file: None,
            token: None,
            interval: Duration::from_secs(5),
            period: Duration::from_mins(5),
            statements: 50,
            state: None,
            addresses: true,
            tls_keys: false,
            ports: Vec::new(),
            exclude: Vec::new(),
            budget: AgentBudget::default(),
            windows: AgentWindows::default(),
            otlp: None,
            archive: None,
            statements_file: None,
            given: GivenStatements::default(),
            zones_file: None,
            zone_table: BTreeMap::new(),
            zones: ZoneMap::default(),
            name_table: BTreeMap::new(),
            names: ServiceNames::default(),
            prices: ZonePrices::default(),
        }
    }
}

/// Servers with an address, a port, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExcludedServer {
    address: Option<IpAddr>,
    port: Option<u16>,
}

impl ExcludedServer {
    pub fn has(&self, server: SocketAddr) -> bool {
        self.address.is_none_or(|address| address == server.ip().to_canonical())
            && self.port.is_none_or(|port| port == server.port())
    }
}

impl<'de> Deserialize<'de> for ExcludedServer {
    fn deserialize<D: Deserializer<'de>>(text: D) -> Result<Self, D::Error> {
        quoted(text, "10.0.0.1:6379", |text| {
            let port = text.strip_prefix(':').and_then(|port| port.parse().ok());
            let server = text.parse::<SocketAddr>().map(|server| (Some(server.ip()), Some(server.port())));
            let found = server.or_else(|_| text.parse().map(|address| (Some(address), None))).ok();
            let (address, port) = found
                .or(port.map(|port| (None, Some(port))))
                .ok_or_else(|| format!("no server {text}: use 10.0.0.1:6379, 10.0.0.1 or :6379"))?;
            Ok(Self { address: address.map(|address| address.to_canonical()), port })
        })
    }
}

/// What the agent may cost.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a [budget] section")]
pub struct AgentBudget {
    /// CPU time per time, in cores.
    pub cpu: f64,
    /// Share of a server's operations per second.
    pub throughput: f64,
}

impl Default for AgentBudget {
    fn default() -> Self {
        Self { cpu: 0.05, throughput: 0.01 }
    }
}

/// Windows in which frames are captured.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a [windows] section")]
pub struct AgentWindows {
    /// Length of one window.
    #[serde(deserialize_with = "time")]
    pub length: Duration,
    /// Time from one to the next.
    #[serde(deserialize_with = "time")]
    pub every: Duration,
}

impl Default for AgentWindows {
    fn default() -> Self {
        Self { length: Duration::from_millis(100), every: Duration::from_secs(10) }
    }
}

/// A collector of OpenTelemetry.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "an [otlp] section")]
pub struct AgentOtlp {
    /// URL that takes OTLP over HTTP.
    pub endpoint: String,
    /// Whether a collector on another host may be reached without TLS.
    #[serde(default)]
    allow_plain_http: bool,
    /// Time between two exports.
    #[serde(deserialize_with = "time", default = "minute")]
    pub interval: Duration,
}

/// A folder of Parquet files.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an [archive] section")]
pub struct ArchiveSettings {
    /// Root of the data set.
    pub folder: PathBuf,
    /// Time from one file to the next, rounded up to whole periods.
    #[serde(deserialize_with = "time", default = "hour")]
    pub every: Duration,
}

fn hour() -> Duration {
    Duration::from_hours(1)
}

fn minute() -> Duration {
    Duration::from_mins(1)
}

impl AgentConfig {
    /// Reads a file, and the files that it names. Their paths are relative to its folder.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = read_key("--config", path)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Self::parse(&text, folder).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn parse(text: &str, folder: &Path) -> Result<Self, String> {
        let mut config: Self = toml::from_str(text).map_err(|error| located(text, error))?;
        config.check_values()?;
        config.token = config.token_file.as_ref().map(|file| AgentToken::read(&folder.join(file))).transpose()?;
        config.check_listen()?;
        if let Some(file) = &config.statements_file {
            config.given = read_statements("statements-file", &folder.join(file)).map_err(|error| error.to_string())?;
        }
        let path = config.zones_file.as_ref().map(|file| folder.join(file));
        let lines = path.as_ref().map(|path| read_key("zones-file", path)).transpose()?;
        if let Some(state) = config.state.as_mut().filter(|state| !state.as_os_str().is_empty()) {
            *state = folder.join(&*state);
        }
        if let Some(archive) = &mut config.archive {
            archive.folder = folder.join(&archive.folder);
        }
        config.zones = ZoneMap::new(&take(&mut config.zone_table), path.as_deref().zip(lines.as_deref()))?;
        config.names = ServiceNames::new(&take(&mut config.name_table))?;
        config.prices.check(&config.zones)?;
        Ok(config)
    }

    /// Sets another address for metrics, as `--listen` does.
    pub fn listen_at(&mut self, address: SocketAddr) -> Result<(), String> {
        self.listen = address;
        self.check_listen().map_err(|error| format!("--{error}"))
    }

    /// Returns the folder of what survives a restart: that of the settings, or else systemd's.
    pub fn state_folder(&self) -> Option<PathBuf> {
        let of_unit = || env::split_paths(&env::var_os("STATE_DIRECTORY")?).next();
        self.state.clone().or_else(of_unit).filter(|folder| !folder.as_os_str().is_empty())
    }

    /// Takes new settings over, except those that only a start can set. Returns the names of these that differ.
    pub fn update(&mut self, mut new: Self) -> Vec<&'static str> {
        let kept = [
            kept("listen", &self.listen, &mut new.listen),
            kept("token-file", &self.token, &mut new.token),
            kept("statements", &self.statements, &mut new.statements),
            kept("state", &self.state, &mut new.state),
            kept("tls-keys", &self.tls_keys, &mut new.tls_keys),
            kept("[otlp]", &self.otlp, &mut new.otlp),
            kept("[archive]", &self.archive, &mut new.archive),
        ];
        *self = new;
        kept.into_iter().flatten().collect()
    }

    fn check_listen(&self) -> Result<(), String> {
        let listen = self.listen;
        if listen.ip().to_canonical().is_loopback() || self.token.is_some() {
            return Ok(());
        }
        let fix = format!("add token-file to the settings, or listen on 127.0.0.1:{}", listen.port());
        Err(format!("listen: other hosts could read addresses and statements at {listen}: {fix}"))
    }

    fn check_values(&self) -> Result<(), String> {
        let seconds = Duration::from_secs;
        within("interval", &self.interval, seconds(1)..=seconds(3600), "1s to 1h")?;
        within("period", &self.period, seconds(10)..=seconds(86_400), "10s to 24h")?;
        let least = self.interval * 2;
        within("period", &self.period, least.., &format!("at least {least:?}, two intervals"))?;
        within("windows.length", &self.windows.length, Duration::from_millis(10)..=seconds(10), "10ms to 10s")?;
        let share = |most| (Bound::Excluded(0.0), Bound::Included(most));
        let [twice, hour] = [self.windows.length * 2, seconds(3600)];
        within("windows.every", &self.windows.every, twice..=hour, &format!("{twice:?}, twice the length, to 1h"))?;
        if let Some(otlp) = &self.otlp {
            within("otlp.interval", &otlp.interval, seconds(1)..=seconds(3600), "1s to 1h")?;
            otlp.check_endpoint()?;
        }
        if let Some(ArchiveSettings { every, .. }) = &self.archive {
            within("archive.every", every, seconds(10)..=seconds(86_400), "10s to 24h")?;
        }
        within("budget.cpu", &self.budget.cpu, share(1.0), "more than 0, at most 1")?;
        within("budget.throughput", &self.budget.throughput, share(0.5), "more than 0, at most 0.5")?;
        within("statements", &self.statements, 1..=1000, "1 to 1000")?;
        self.ports.iter().try_for_each(|port| within("ports", port, 1.., "1 to 65535"))?;
        let unknown = self.zone_table.keys().find(|key| !key.contains(['.', ':']));
        unknown.map_or(Ok(()), |key| Err(format!("[zones], {key:?}: not a network: {ABOVE}")))
    }
}

/// Keeps a value that only a start can set. Returns its name if the new settings change it.
fn kept<T: Clone + PartialEq>(name: &'static str, value: &T, new: &mut T) -> Option<&'static str> {
    (replace(new, value.clone()) != *value).then_some(name)
}

impl AgentOtlp {
    fn check_endpoint(&self) -> Result<(), String> {
        let endpoint = &self.endpoint;
        let url = endpoint.parse::<Uri>().ok();
        let scheme = url.as_ref().filter(|url| url.host().is_some()).and_then(Uri::scheme_str);
        let fix = match scheme {
            Some("https") => return Ok(()),
            Some("http") if self.allow_plain_http || is_loopback(endpoint) => return Ok(()),
            Some("http") => {
                "is on another host, which would get statements in plain text: use https, or add \
                             allow-plain-http = true to [otlp]"
            }
            _ => "is no address: use one such as http://127.0.0.1:4318/v1/metrics",
        };
        Err(format!("otlp.endpoint: {endpoint} {fix}"))
    }
}

/// Returns whether a URL leads to this host itself.
pub fn is_loopback(url: &str) -> bool {
    let url = url.parse::<Uri>().unwrap_or_default();
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|host| host.to_canonical().is_loopback())
}

/// Checks that a value is in a range, which messages call `name`.
fn within<T: PartialOrd + Debug, R: RangeBounds<T>>(key: &str, value: &T, range: R, name: &str) -> Result<(), String> {
    if range.contains(value) { Ok(()) } else { Err(format!("{key}: {value:?} is out of range: use {name}")) }
}

/// The secret that clients send for metrics, as `Authorization: Bearer TOKEN`.
#[derive(Clone, PartialEq, Eq)]
pub struct AgentToken(String);

impl AgentToken {
    pub fn read(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let read = || -> io::Result<_> {
            let (file, mut text) = (File::open(path)?, String::new());
            let mode = file.metadata()?.permissions().mode();
            file.take(TOKEN_FILE_BYTES).read_to_string(&mut text)?;
            Ok((mode, text))
        };
        let (mode, text) = read().map_err(|error| format!("token-file: {shown} cannot be read: {error}"))?;
        if mode & 0o007 != 0 {
            return Err(format!("token-file: {shown} is open to every user: run chmod o= {shown}"));
        }
        let token = text.trim();
        if token.len() < TOKEN_CHARS || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            let fix = format!("run openssl rand -hex 32 > {shown}");
            return Err(format!("token-file: {shown} must have {TOKEN_CHARS} or more letters and digits: {fix}"));
        }
        Ok(Self(token.to_owned()))
    }

    /// Returns the value of the header that shows it.
    pub fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// Returns whether a client sent this token. The time taken does not tell how much of it was right.
    pub fn matches(&self, sent: &[u8]) -> bool {
        let differences = self.0.bytes().zip(sent).fold(0, |differences, (own, sent)| differences | (own ^ sent));
        self.0.len() == sent.len() && differences == 0
    }
}

/// Hides the secret.
impl Debug for AgentToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AgentToken")
    }
}

fn read_key(key: &str, path: &Path) -> Result<String, String> {
    let shown = path.display();
    let bytes = read_text(path).map_err(|error| format!("{key}: {shown} cannot be read: {error}"))?;
    String::from_utf8(bytes).map_err(|_| format!("{key}: {shown} is not text: save it as UTF-8"))
}

fn time<'de, D: Deserializer<'de>>(text: D) -> Result<Duration, D::Error> {
    quoted(text, "5s", duration)
}

fn socket_address<'de, D: Deserializer<'de>>(text: D) -> Result<SocketAddr, D::Error> {
    quoted(text, "127.0.0.1:9475", |text| {
        text.parse()
            .map_err(|_| format!("invalid address {text}: use an IP address and a port, such as 127.0.0.1:9475"))
    })
}

/// Returns the parser's error on one line, after its place and its key.
fn located(text: &str, mut error: toml::de::Error) -> String {
    let before = text.get(..error.span().map_or(0, |span| span.start)).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|char| *char != '\n').count() + 1;
    // Only an error without its input prints the path of its key, on a second line. Text that cannot be parsed has no path.
    error.set_input(None);
    let (message, printed) = (error.message(), error.to_string());
    let path = printed.strip_prefix(message).and_then(|path| path.trim().strip_prefix("in "));
    let path = path.map(|path| path.trim_matches('`'));
    let fix = match path {
        Some("price") => ": write [[price]], with from, to and price".to_owned(),
        Some(path) if path.starts_with("zones.") || path.starts_with("names.") => {
            ": write \"10.1.0.0/16\" = \"a\", both in quotes".to_owned()
        }
        Some(_) if message.starts_with("unknown field") => format!(": {ABOVE}"),
        _ => String::new(),
    };
    let written = text.lines().nth(line - 1);
    let key = path.or(written.and_then(|line| line.split('=').next())).unwrap_or_default().trim();
    format!("line {line}, column {column}: {key}: {message}{fix}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};

    /// Configurations and their messages.
    const MISTAKES: &str = r#"interval = 5 => line 1, column 12: interval: write it in quotes, as "5s"
interval = 5s => line 1, column 12: interval: string values must be quoted, expected literal string
interval =\n\n => line 1, column 11: interval: string values must be quoted, expected literal string
ports = [\n\n => line 1, column 10: ports: unclosed array, expected `]`
\ninterval = "5x" => line 2, column 12: interval: invalid unit of time x: use us, ms, s, m or h
interval = "0s" => interval: 0ns is out of range: use 1s to 1h
interval = "61m" => interval: 3660s is out of range: use 1s to 1h
interval = "3m" => period: 300s is out of range: use at least 360s, two intervals
period = "9s" => period: 9s is out of range: use 10s to 24h
[windows]\nlength = "11s" => windows.length: 11s is out of range: use 10ms to 10s
[windows]\nevery = "150ms" => windows.every: 150ms is out of range: use 200ms, twice the length, to 1h
otlp.endpoint = "127.0.0.1:4318" => otlp.endpoint: 127.0.0.1:4318 is no address: use one such as http://127.0.0.1:4318/v1/metrics
otlp.endpoint = "http://10.0.0.1:4318" => otlp.endpoint: http://10.0.0.1:4318 is on another host, which would get statements in plain text: use https, or add allow-plain-http = true to [otlp]
otlp.endpoint = "http://127.0.0.1:4318@host" => otlp.endpoint: http://127.0.0.1:4318@host is on another host, which would get statements in plain text: use https, or add allow-plain-http = true to [otlp]
archive.every = "1h" => line 1, column 1: archive: missing field `folder`
archive = { folder = "x", every = "1s" } => archive.every: 1s is out of range: use 10s to 24h
budget.cpu = 0 => budget.cpu: 0.0 is out of range: use more than 0, at most 1
budget.cpu = nan => budget.cpu: NaN is out of range: use more than 0, at most 1
budget.throughput = 0.6 => budget.throughput: 0.6 is out of range: use more than 0, at most 0.5
[budget]\ncpu = "x" => line 2, column 7: budget.cpu: invalid type: string "x", expected f64
budget = 5 => line 1, column 10: budget: invalid type: integer `5`, expected a [budget] section
# ü\n[budget]\nport = 5 => line 3, column 1: budget: unknown field `port`, expected `cpu` or `throughput`: keys outside sections go above the first [section]
statements = 1001 => statements: 1001 is out of range: use 1 to 1000
tls-keys = "auto" => line 1, column 12: tls-keys: invalid type: string "auto", expected a boolean
statements = -1 => line 1, column 14: statements: invalid value: integer `-1`, expected u32
addresses = 1 => line 1, column 13: addresses: invalid type: integer `1`, expected a boolean
ports = [0] => ports: 0 is out of range: use 1 to 65535
ports = [70000] => line 1, column 10: ports: invalid value: integer `70000`, expected u16
ports = 7379 => line 1, column 9: ports: invalid type: integer `7379`, expected a sequence
zones-file = 1 => line 1, column 14: zones-file: invalid type: integer `1`, expected path string
listen = "db:80" => line 1, column 10: listen: invalid address db:80: use an IP address and a port, such as 127.0.0.1:9475
listen = "0.0.0.0:80" => listen: other hosts could read addresses and statements at 0.0.0.0:80: add token-file to the settings, or listen on 127.0.0.1:80
[zones]\nzones-file = "z" => [zones], "zones-file": not a network: keys outside sections go above the first [section]
[zones]\n10.1.0.0 = "a" => line 2, column 1: zones.10: invalid type: map, expected a string: write "10.1.0.0/16" = "a", both in quotes
[zones]\n10.1.0.0/16 = "a" => line 2, column 9: 10.1.0.0/16: invalid unquoted key, expected letters, numbers, `-`, `_`
[zones]\n"::1" = "a"\n"::1" = "b" => line 3, column 1: "::1": duplicate key
[zones]\n"10.0.0.1/8" = "a" => [zones], "10.0.0.1/8": 10.0.0.1/8 has host bits set: write 10.0.0.0/8
[zones]\n"0::1" = "b"\n"::1/128" = "a" => [zones], "::1/128": zone a, but [zones], "0::1", gives it zone b: remove one
[names]\n10.1.0.0 = "a" => line 2, column 1: names.10: invalid type: map, expected a string: write "10.1.0.0/16" = "a", both in quotes
[names]\n"10.0.0.1/8" = "a" => [names], "10.0.0.1/8": 10.0.0.1/8 has host bits set: write 10.0.0.0/8
[price]\nfrom = "a" => line 1, column 1: price: invalid type: map, expected a sequence: write [[price]], with from, to and price
[[price]]\nfrom = "a" => line 1, column 1: price: missing field `to`: write [[price]], with from, to and price
[[price]]\nfrom = "a"\nto = "*"\nprice = 5 => line 4, column 9: price.price: write it in quotes, as "0.01/GB"
[[price]]\nfrom = "a"\nto = "*"\nprice = "5" => line 4, column 9: price.price: 5 is not a price: write an amount and a unit, such as 0.02/GB or 0.02/GiB
[[price]]\nfrom = "*"\nto = "b"\nprice = "1/GB" => [[price]] 1, to: no network is in zone b: add one to [zones], or write "*" for any zone"#;

    fn parse(text: &str) -> Result<AgentConfig, String> {
        AgentConfig::parse(text, Path::new("/nowhere"))
    }

    #[test]
    fn the_example_has_the_defaults() {
        let defaults = format!("{:?}", AgentConfig::default());
        assert_eq!(format!("{:?}", parse("").unwrap()), defaults);
        assert_eq!(format!("{:?}", parse(DEFAULTS).unwrap()), defaults);
        assert!(defaults.contains("listen: 127.0.0.1:9475") && defaults.contains("interval: 5s, period: 300s"));
        let (_, zones) = DEFAULTS.split_once("\n[zones]\n").unwrap();
        let is_setting = |line: &&str| line.contains(" = ") || line.starts_with("[[");
        let zones: Vec<&str> = zones.lines().filter_map(|line| line.strip_prefix("# ").filter(is_setting)).collect();
        let config = parse(&format!("[zones]\n{}", zones.join("\n"))).unwrap();
        assert_eq!(config.zones.zone("10.2.3.4".parse().unwrap()), Some("b"));
        assert_eq!(config.prices.price_between(Some("a"), Some("b")).unwrap().text, "0.01/GB");
    }

    #[test]
    fn values_at_their_limits_are_accepted() {
        let least = "interval = \"1s\"\nperiod = \"10s\"\nstatements = 1\nports = [1]\nwindows = { length = \"10ms\" }";
        let most = "interval = \"1h\"\nperiod = \"24h\"\nstatements = 1000\nports = [65535]\n\
                    budget = { cpu = 1, throughput = 0.5 }\nwindows = { length = \"10s\", every = \"1h\" }\nlisten = \"[::1]:1\"";
        assert_eq!(parse(least).unwrap().windows.length, Duration::from_millis(10));
        let most = parse(most).unwrap();
        assert_eq!((most.period, most.windows.length), (Duration::from_hours(24), Duration::from_secs(10)));
        assert!(parse("listen = \"[::ffff:127.0.0.9]:1\"").is_ok());
    }

    #[test]
    fn mistakes_are_one_line_with_the_key_and_the_fix() {
        for case in MISTAKES.lines() {
            let (text, message) = case.split_once(" => ").unwrap();
            assert_eq!(parse(&text.replace("\\n", "\n")).unwrap_err(), message, "{text}");
        }
        let unknown = parse("intervall = 4").unwrap_err();
        assert!(
            unknown.starts_with("line 1, column 1: intervall: unknown field `intervall`, expected one of `listen`")
        );
    }

    #[test]
    fn servers_are_excluded_by_address_or_port() {
        let exclude = parse("exclude = [\"10.0.0.1:6379\", \"::1\", \":7000\"]").unwrap().exclude;
        let is_out = |server: &str| exclude.iter().any(|excluded| excluded.has(server.parse().unwrap()));
        let servers =
            ["10.0.0.1:6379", "[::ffff:10.0.0.1]:6379", "[::1]:5432", "10.9.9.9:7000", "10.0.0.1:6380", "[::2]:5432"];
        assert_eq!(servers.map(is_out), [true, true, true, true, false, false]);
        let mistake = parse("exclude = [\"redis\"]").unwrap_err();
        assert_eq!(mistake, "line 1, column 11: exclude: no server redis: use 10.0.0.1:6379, 10.0.0.1 or :6379");
    }

    #[test]
    fn a_collector_elsewhere_takes_tls_or_permission() {
        let otlp = |text: &str| parse(&format!("[otlp]\n{text}"));
        for local in ["http://127.0.0.1:4318", "http://[::1]/v1/metrics", "http://localhost:4318", "https://host/x"] {
            assert!(otlp(&format!("endpoint = \"{local}\"")).is_ok(), "{local}");
        }
        assert!(otlp("endpoint = \"http://10.0.0.1:4318\"\nallow-plain-http = true").is_ok());
    }

    #[test]
    fn the_state_is_in_the_folder_of_the_settings() {
        let folder = |text: &str| parse(text).unwrap().state_folder();
        assert_eq!(folder("state = \"x\""), Some("/nowhere/x".into()));
        assert_eq!(folder("state = \"/x\""), Some("/x".into()));
        assert_eq!(folder("state = \"\""), None);
    }

    #[test]
    fn new_settings_replace_all_that_a_start_need_not_set() {
        let mut config = parse("interval = \"1s\"\nports = [1]").unwrap();
        let new = "interval = \"2s\"\nports = [2]\nlisten = \"127.0.0.1:1\"\nstatements = 7\nstate = \"x\"\n\
                   tls-keys = true\notlp.endpoint = \"https://x\"\narchive.folder = \"x\"\nbudget.cpu = 0.5";
        let kept = ["listen", "statements", "state", "tls-keys", "[otlp]", "[archive]"];
        assert_eq!(config.update(parse(new).unwrap()), kept);
        assert_eq!((config.interval, &config.ports[..], config.budget.cpu), (Duration::from_secs(2), &[2][..], 0.5));
        assert_eq!((config.listen.port(), config.statements, config.otlp.is_none()), (9475, 50, true));
        let same = config.clone();
        assert!(config.update(same).is_empty());
    }

    #[test]
    fn files_are_found_beside_the_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let write = |name: &str, text: &str, mode| {
            fs::write(path(name), text).unwrap();
            fs::set_permissions(path(name), Permissions::from_mode(mode)).unwrap();
        };
        let read = || AgentConfig::read(&path("agent.toml"));
        let failure = || read().unwrap_err().replace(&format!("{}/", folder.path().display()), "");
        assert_eq!(failure(), "--config: agent.toml cannot be read: No such file or directory (os error 2)");
        let config =
            "listen = \"0.0.0.0:80\"\ntoken-file = \"token\"\nzones-file = \"zones\"\nzones.\"10.1.0.0/16\" = \"a\"";
        write("agent.toml", config, 0o644);
        let token = "agent.toml: token-file: token";
        assert_eq!(failure(), format!("{token} cannot be read: No such file or directory (os error 2)"));
        write("token", "0123456789abcdef\n", 0o644);
        assert_eq!(failure(), "agent.toml: token-file: token is open to every user: run chmod o= token");
        for wrong in ["0123456789abcde\n", "01234567 9abcdef", "0123456789abcde\u{fc}"] {
            write("token", wrong, 0o640);
            assert_eq!(
                failure(),
                format!("{token} must have 16 or more letters and digits: run openssl rand -hex 32 > token")
            );
        }
        write("token", "0123456789abcdef\n", 0o640);
        assert_eq!(failure(), "agent.toml: zones-file: zones cannot be read: No such file or directory (os error 2)");
        write("zones", "10.2.0.0/16 b\n10.1.0.0/16 b", 0o644);
        let twice = "agent.toml: zones, line 2: zone b, but [zones], \"10.1.0.0/16\", gives it zone a: remove one";
        assert_eq!(failure(), twice);
        write("zones", "10.2.0.0/16 b\n10.1.0.0/16 a", 0o644);
        let config = read().unwrap();
        assert_eq!(config.zones.zone("10.2.0.1".parse().unwrap()), Some("b"));
        assert!(config.clone().listen_at("192.0.2.1:80".parse().unwrap()).is_ok());
        let refused = AgentConfig::default().listen_at("192.0.2.1:80".parse().unwrap()).unwrap_err();
        assert!(refused.starts_with("--listen: other hosts"));
        let matches = |shown: &str| config.token.as_ref().unwrap().matches(shown.as_bytes());
        assert_eq!(
            ["0123456789abcdef", "0123456789abcde", "0123456789abcdeg", ""].map(matches),
            [true, false, false, false]
        );
        assert!(!format!("{config:?}").contains("0123456789abcdef"));
    }
}
