//! Lists the databases that listen on this host, with a command to capture each.

use overhead_capture::SourceError;
use overhead_capture::live::{LiveInterface, NetworkNamespace, list_interfaces};
use overhead_containers::{HostContainers, HostPaths};
use overhead_host::databases::{self, Database, encryption};
use overhead_kernel::tcp_connections;
use overhead_live::choose_interface;
use overhead_report::text::{clean, quoted, wrapped};
use std::fmt::Write;

const WIDTH: usize = 80;
/// Indent of the lines below a database's title.
const INDENT: &str = "     ";
/// Maximum number of UNIX sockets named per database.
const SOCKETS: usize = 3;

/// Where to capture a database's packets, and the command for it up to what is captured.
struct CapturePlace {
    words: String,
    command: Option<String>,
}

/// Returns the listing; `has_counters` is the result of an earlier check.
pub fn listing(has_counters: bool) -> String {
    let mut out = "\nDatabases that listen here, in all network namespaces:\n".to_owned();
    let containers = match HostContainers::read(&HostPaths::default()) {
        Ok(containers) => containers,
        Err(error) => return out + &format!("{INDENT}not known: {error}\n"),
    };
    match databases::listening(&containers) {
        Ok(found) if found.is_empty() => {
            let _ = writeln!(out, "{INDENT}none that this user can see");
        }
        Ok(found) => found.iter().for_each(|database| describe(&mut out, database, has_counters)),
        Err(error) => {
            let _ = writeln!(out, "{INDENT}not known: {error}");
        }
    }
    out
}

/// Writes the entry for one database. Writing to a string cannot fail.
fn describe(out: &mut String, database: &Database, has_counters: bool) {
    let place = place(database).unwrap_or_else(|error| CapturePlace { words: format!("no: {error}"), command: None });
    let _ = writeln!(out, "\n{}", wrapped(&title(database), Some(WIDTH)));
    line(out, "listens", &where_it_listens(database));
    line(out, "packets", &place.words);
    line(out, "TLS", &tls(database));
    line(out, "counters", if has_counters { "yes" } else { "no: see above" });
    for command in commands(database, place.command) {
        let _ = writeln!(out, "{INDENT}{command}");
    }
}

/// Writes a label and a text, wrapped under itself.
fn line(out: &mut String, label: &str, text: &str) {
    let text = wrapped(text, Some(WIDTH - INDENT.len() - 10));
    for (number, part) in text.lines().enumerate() {
        let label = if number == 0 { label } else { "" };
        let _ = writeln!(out, "{INDENT}{label:<9} {part}");
    }
}

/// Returns a title such as `redis-server (process 812) in container cache (docker 3f2a91c0de12)`.
fn title(database: &Database) -> String {
    let Database { comm, system, by_name, container, .. } = database;
    let taken = if *by_name { String::new() } else { format!(", by its port {}", system.name) };
    let of = container.as_ref().map(|container| format!(" in container {}", container.in_words()));
    format!("{comm} (process {}{taken}){}", database.pid(), of.unwrap_or_default())
}

fn where_it_listens(database: &Database) -> String {
    let tcp = database.addresses.iter().map(ToString::to_string);
    let unix = database.unix.iter().take(SOCKETS).map(|socket| format!("unix {socket}"));
    let more = database.unix.len().saturating_sub(SOCKETS);
    let more = (more > 0).then(|| format!("{more} more"));
    tcp.chain(unix).chain(more).collect::<Vec<_>>().join(", ")
}

/// Returns the place of its packets, or the reason why they cannot be captured.
fn place(database: &Database) -> Result<CapturePlace, SourceError> {
    if database.network_namespace.is_none() {
        let words = "none: what goes through a UNIX socket is taken from it".to_owned();
        return Ok(CapturePlace { words, command: None });
    }
    let namespace = NetworkNamespace::from_process(database.pid())?;
    let interfaces = list_interfaces(Some(&namespace))?;
    let interface = interface(database, &interfaces, namespace.is_own);
    let (of, command) = match &database.container {
        Some(container) => {
            let command = typed(&container.argument()).map(|name| format!("overhead capture --container {name}"));
            (" of the container's network namespace", command)
        }
        None if namespace.is_own => ("", Some(format!("overhead capture -i {interface}"))),
        None => {
            let enter = format!("nsenter -t {} -n overhead capture -i {interface}", database.pid());
            (" of a separate network namespace", Some(enter))
        }
    };
    Ok(CapturePlace { words: format!("on {interface}{of}"), command })
}

/// Returns the interface that most of the database's connections use; without connections, the one they would use.
fn interface(database: &Database, interfaces: &[LiveInterface], is_own: bool) -> String {
    let connections = tcp_connections(database.pid(), &database.ports()).unwrap_or_default();
    if is_own && connections.is_empty() && !database.is_local() {
        return "any".to_owned();
    }
    choose_interface(interfaces, &connections, database.is_local())
        .map_or_else(|_| "any".to_owned(), |chosen| chosen.name)
}

fn tls(database: &Database) -> String {
    match encryption(database.pid()) {
        Ok((names, _)) if names.is_empty() => "no library is loaded".to_owned(),
        Ok((names, true)) => format!("{names} may be in use: then add --tls-keys auto"),
        Ok((names, false)) => format!("{names} may be in use: with a key log (--keylog)"),
        Err(error) => format!("not known ({error})"),
    }
}

/// Returns the commands to capture packets and UNIX sockets.
fn commands(database: &Database, of_packets: Option<String>) -> Vec<String> {
    let sudo = if overhead_files::is_root() { "" } else { "sudo " };
    let system = database.system.name;
    let ports: Vec<String> = database.ports().iter().map(|port| format!(" --port {port}")).collect();
    let is_usual = database.ports() == [database.system.port];
    let ports = if is_usual { String::new() } else { ports.concat() };
    let of_packets = of_packets.map(|command| format!("{sudo}{command} --db {system}{ports}"));
    let of_unix = database.unix.iter().find_map(|socket| typed(socket));
    let of_unix = of_unix.map(|socket| format!("{sudo}overhead capture --unix {socket} --db {system}"));
    of_packets.into_iter().chain(of_unix).collect()
}

/// Returns a name quoted for a shell, so that it cannot inject anything. Returns `None` for a name with invisible or invalid
/// characters.
fn typed(name: &str) -> Option<String> {
    (clean(name) == name && !name.contains(char::REPLACEMENT_CHARACTER)).then(|| quoted(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word_to_a_shell_or_is_not_typed() {
        assert_eq!(typed("/run/redis.sock").as_deref(), Some("/run/redis.sock"));
        assert_eq!(typed("shop/basket-0/redis").as_deref(), Some("shop/basket-0/redis"));
        assert_eq!(typed("/run/a b;reboot").as_deref(), Some("'/run/a b;reboot'"));
        assert_eq!(typed("$(reboot)'").as_deref(), Some(r"'$(reboot)'\'''"));
        assert_eq!(typed("a\nb"), None);
        assert_eq!(typed("ca\u{fffd}che"), None);
    }
}
