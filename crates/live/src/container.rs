//! The interface to capture on: this host's, or a container's with its processes, network namespace and ports.

use anyhow::{Context, Result};
use overhead_capture::live::{
    InterfaceFlag, LiveInterface, LiveOptions, LiveSource, NetworkNamespace, list_interfaces,
};
use overhead_capture::{KernelFilter, WriterOptions};
use overhead_containers::{HostContainers, HostPaths, RunningContainer};
use overhead_dissect::Selection;
use overhead_host::databases::{self, Database};
use overhead_kernel::{TcpConnection, raised, tcp_connections};
use overhead_model::record::Counters;
use overhead_model::{Measured, Protocol, bail_usage, sorted_distinct};
use overhead_reading::ConnectionChoice;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The interface that engines usually give a container.
const USUAL: &str = "eth0";
/// The loopback interface.
const LOOPBACK: &str = "lo";

/// A container and its network.
#[derive(Clone, Debug)]
pub struct ContainerPlace {
    pub container: RunningContainer,
    pub namespace: NetworkNamespace,
    /// Its processes that serve the captured ports; empty for a container with only clients.
    pub servers: Vec<u32>,
}

impl ContainerPlace {
    /// Finds a container by name. Chooses what `which` and `interface` leave open, except an interface if none is
    /// wanted. Also returns its connections on interfaces other than the chosen one.
    pub fn find(
        name: &str,
        choice: &mut ConnectionChoice,
        interface: Option<&mut Option<String>>,
    ) -> Result<(Self, BTreeMap<String, u64>)> {
        let containers = raised(|| HostContainers::read(&HostPaths::default()))?;
        let (container, namespace) = locate(&containers, name)?;
        let pid = container.pids.first().copied().unwrap_or_default();
        let own = |database: &Database| database.pids.iter().any(|pid| container.pids.contains(pid));
        let mut databases = databases::listening(&containers)?;
        databases.retain(|database| own(database) && !database.addresses.is_empty());
        choose_ports(choice, &databases)?;
        let ports = port_list(&choice.selection()?);
        let serves = |database: &&Database| database.ports().iter().any(|port| ports.contains(port));
        let serving: Vec<&Database> = databases.iter().filter(serves).collect();
        let servers = serving.iter().flat_map(|database| &database.pids).copied();
        let servers = servers.filter(|pid| container.pids.contains(pid)).collect();
        let mut elsewhere = BTreeMap::new();
        if let Some(interface @ None) = interface {
            let connections = raised(|| tcp_connections(pid, &ports)).unwrap_or_default();
            let interfaces = raised(|| list_interfaces(Some(&namespace)))?;
            let is_local = !serving.is_empty() && serving.iter().all(|database| database.is_local());
            let chosen = choose(&interfaces, &connections, is_local || namespace.is_own)?;
            (*interface, elsewhere) = (Some(chosen.name), chosen.elsewhere);
        }
        Ok((Self { container, namespace, servers }, elsewhere))
    }
}

/// Fills in the ports and systems of the container's databases, limited to the named system, if any.
fn choose_ports(choice: &mut ConnectionChoice, databases: &[Database]) -> Result<()> {
    if !choice.selected.ports.is_empty() {
        return Ok(());
    }
    let named = choice.systems()?;
    let is_meant = |database: &&Database| {
        named.is_empty() || named.iter().any(|system| system.protocol == database.system.protocol)
    };
    let meant: Vec<&Database> = databases.iter().filter(is_meant).collect();
    choice.selected.ports = sorted_distinct(meant.iter().flat_map(|database| database.ports()));
    if named.is_empty() && !meant.is_empty() {
        choice.selected.db = sorted_distinct(meant.iter().map(|database| database.system.name.to_owned()));
    }
    Ok(())
}

/// Finds a container by name, with its network namespace.
fn locate(containers: &HostContainers, name: &str) -> Result<(RunningContainer, NetworkNamespace)> {
    let container = containers.find(name)?.clone();
    let pid = container.pids.first().copied().unwrap_or_default();
    let namespace = raised(|| NetworkNamespace::from_process(pid))?;
    Ok((container, namespace))
}

/// Returns the interfaces that can be captured on, of this host or of a container.
pub fn interfaces(container: Option<&str>) -> Result<Vec<LiveInterface>> {
    let place =
        container.map(|name| locate(&raised(|| HostContainers::read(&HostPaths::default()))?, name)).transpose()?;
    let namespace = place.as_ref().map(|(_, namespace)| namespace);
    raised(|| list_interfaces(namespace)).context("the interfaces cannot be listed")
}

/// An interface, and the connections that use others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenInterface {
    pub name: String,
    /// Connections by their interface, except the chosen one.
    pub elsewhere: BTreeMap<String, u64>,
}

/// Chooses the interface that most connections use. Without connections, chooses a container's usual interface, or the
/// only one besides loopback. For servers that listen only on loopback, chooses that.
pub fn choose(interfaces: &[LiveInterface], connections: &[TcpConnection], is_local: bool) -> Result<ChosenInterface> {
    let has = |interface: &&LiveInterface, ip: IpAddr| interface.addresses.contains(&ip);
    let owner =
        |ip: IpAddr| interfaces.iter().find(|interface| has(interface, ip)).map(|interface| interface.name.clone());
    let mut used = BTreeMap::<String, u64>::new();
    // Both ends of a loopback connection may be in the list. It still counts once.
    let mut seen = BTreeSet::new();
    let ends = |connection: &&TcpConnection| {
        let TcpConnection { local, remote } = **connection;
        (local.min(remote), local.max(remote))
    };
    for connection in connections.iter().filter(|connection| seen.insert(ends(connection))) {
        // Traffic to a local address goes through loopback.
        let is_within = connection.remote.ip().is_loopback() || owner(connection.remote.ip()).is_some();
        let interface = if is_within { Some(LOOPBACK.to_owned()) } else { owner(connection.local.ip()) };
        *used.entry(interface.unwrap_or_else(|| USUAL.to_owned())).or_default() += 1;
    }
    if let Some((name, _)) = used.iter().max_by_key(|(_, count)| **count).map(|(name, count)| (name.clone(), *count)) {
        used.remove(&name);
        return Ok(ChosenInterface { name, elsewhere: used });
    }
    let is_loopback = |interface: &&LiveInterface| interface.flags.contains(&InterfaceFlag::Loopback);
    let is_up =
        |interface: &&LiveInterface| interface.flags.contains(&InterfaceFlag::Up) && !interface.addresses.is_empty();
    let others: Vec<&str> =
        interfaces.iter().filter(|it| is_up(it) && !is_loopback(it)).map(|interface| interface.name.as_str()).collect();
    let name = match others.as_slice() {
        _ if is_local => LOOPBACK,
        [] => LOOPBACK,
        [one] => one,
        several if several.contains(&USUAL) => USUAL,
        several => bail_usage!(
            "the container has the interfaces {}, and no connection shows which one to capture: choose it with -i",
            several.join(", ")
        ),
    };
    Ok(ChosenInterface { name: name.to_owned(), elsewhere: BTreeMap::new() })
}

/// Names the containers of the counted processes. Processes come and go, so this covers processes that were in a
/// container at one of these moments, and those in a network namespace that only one container uses.
pub fn name_containers(
    counters: &mut Measured<Counters>,
    moments: &[&HostContainers],
    network_namespaces: &BTreeMap<u32, u32>,
) {
    let Measured::Value(counters) = counters else { return };
    let of_protocols = counters.protocols.iter_mut().flat_map(|of| [&mut of.server, &mut of.client]);
    for role in [&mut counters.server, &mut counters.client].into_iter().chain(of_protocols) {
        let Measured::Value(role) = role else { continue };
        let container = |pid: &u32| {
            let namespace = network_namespaces.get(pid).filter(|number| **number > 0).map(|number| u64::from(*number));
            let by_process = moments.iter().find_map(|containers| containers.by_process(*pid));
            by_process.or_else(|| moments.iter().find_map(|containers| containers.by_network_namespace(namespace?)))
        };
        role.containers = sorted_distinct(role.pids.iter().filter_map(container).map(RunningContainer::record));
    }
}

/// An interface to capture on, and its options.
#[derive(Clone, Debug)]
pub struct LivePlan {
    /// Name of the interface, in its network namespace.
    pub interface: String,
    /// The container of the interface, if any.
    pub place: Option<ContainerPlace>,
    /// The connections to decode, and their protocols.
    pub selection: Selection,
    /// The captured ports: the selected ones, or all well-known ones and those of `servers`.
    pub ports: Vec<u16>,
    /// Servers on unusual ports that are captured because the user named no port.
    pub servers: Vec<Database>,
    /// An additional pcap filter.
    pub filter: Option<String>,
    /// Bytes kept of each frame; 0 for all.
    pub snaplen: u32,
    /// Bytes of the kernel's buffer.
    pub buffer: u32,
}

impl LivePlan {
    /// Finds a container by name. Chooses the interface, ports and systems that `interface` and `which` leave open.
    /// Also returns its connections on other interfaces. `wants_interface` says whether packets are captured.
    pub fn find(
        mut interface: Option<String>,
        container: Option<&str>,
        choice: &mut ConnectionChoice,
        wants_interface: bool,
    ) -> Result<(Self, BTreeMap<String, u64>)> {
        let wanted = wants_interface.then_some(&mut interface);
        let found = container.map(|name| ContainerPlace::find(name, choice, wanted)).transpose()?;
        let (place, elsewhere) = found.unzip();
        let interface = interface.unwrap_or_else(|| LOOPBACK.to_owned());
        let mut ports = port_list(&choice.selection()?);
        let (mut servers, systems) = (Vec::new(), choice.systems()?);
        let is_searched = place.is_none() && (choice.selected.ports.is_empty() || !systems.is_empty());
        let here = if is_searched { databases::listening_here() } else { Vec::new() };
        if place.is_none() && choice.selected.ports.is_empty() {
            servers = databases::on_other_ports(&systems, &ports, here.clone());
            ports.extend(servers.iter().flat_map(Database::ports));
            if !servers.is_empty() && !choice.is_default() {
                choice.selected.ports.clone_from(&ports);
            }
        }
        let (selection, filter, snaplen, buffer) = (choice.selection()?, None, 0, 0);
        if !systems.is_empty()
            && let Some(reason) = databases::contradiction(&selection.ports, &here)
        {
            bail_usage!("{reason}");
        }
        Ok((
            Self { interface, place, selection, ports, servers, filter, snaplen, buffer },
            elsewhere.unwrap_or_default(),
        ))
    }

    /// Returns a sentence for each server that was found on an unusual port.
    pub fn found(&self) -> impl Iterator<Item = String> {
        self.servers.iter().map(|server| {
            let ports: Vec<String> = server.ports().iter().map(u16::to_string).collect();
            let (comm, pid, ports) = (&server.comm, server.pid(), ports.join(" and "));
            format!("{comm} (process {pid}) listens on port {ports}, which is captured too: --port chooses others")
        })
    }

    /// Returns the interface in words, with its container.
    pub fn in_words(&self) -> String {
        match &self.place {
            Some(place) => format!("{} of container {}", self.interface, place.container.argument()),
            None => self.interface.clone(),
        }
    }

    /// Returns the interface's network namespace; `None` for that of this process.
    pub fn namespace(&self) -> Option<&NetworkNamespace> {
        self.place.as_ref().map(|place| &place.namespace)
    }

    /// Opens the interface. Also returns its description for a packet file.
    pub fn open(&self) -> Result<(LiveSource, WriterOptions)> {
        let mut options = LiveOptions::new(&self.interface);
        options.namespace = self.namespace().cloned();
        if self.snaplen > 0 {
            options.snaplen = self.snaplen;
        }
        options.buffer_bytes = self.buffer;
        options.filter = KernelFilter::new(self.ports.iter().copied(), self.filter.as_deref());
        let source = raised(|| LiveSource::open(&options))?;
        let mut about = WriterOptions::new(source.link);
        about.interface = self.in_words();
        about.snaplen = options.snaplen;
        source.filter().unwrap_or_default().clone_into(&mut about.filter);
        Ok((source, about))
    }
}

/// Returns the ports to capture: the selected ones, or all well-known ones.
pub fn port_list(selection: &Selection) -> Vec<u16> {
    if selection.ports.is_empty() {
        return Protocol::ALL.iter().flat_map(|protocol| protocol.ports()).copied().collect();
    }
    selection.ports.iter().map(|(port, _)| *port).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str, address: &str) -> LiveInterface {
        let flags =
            if name == LOOPBACK { vec![InterfaceFlag::Up, InterfaceFlag::Loopback] } else { vec![InterfaceFlag::Up] };
        LiveInterface { name: name.into(), addresses: vec![address.parse().unwrap()], flags }
    }

    fn connection(local: &str, remote: &str) -> TcpConnection {
        TcpConnection { local: local.parse().unwrap(), remote: remote.parse().unwrap() }
    }

    fn name(interfaces: &[LiveInterface], connections: &[TcpConnection], is_local: bool) -> String {
        choose(interfaces, connections, is_local).unwrap().name
    }

    #[test]
    fn the_interface_is_where_the_connections_are() {
        let interfaces = [interface("lo", "127.0.0.1"), interface("eth0", "10.88.0.4"), interface("eth1", "10.89.0.4")];
        let far = connection("10.89.0.4:6379", "10.89.0.9:40000");
        let near = connection("10.88.0.4:6379", "10.88.0.4:40000");
        assert_eq!(name(&interfaces, &[far], false), "eth1");
        assert_eq!(name(&interfaces, &[near], false), "lo");
        let farther = connection("10.89.0.4:6379", "10.89.0.9:40001");
        let chosen = choose(&interfaces, &[far, farther, near], false).unwrap();
        assert_eq!(chosen, ChosenInterface { name: "eth1".into(), elsewhere: BTreeMap::from([("lo".into(), 1)]) });
    }

    #[test]
    fn a_connection_of_which_both_ends_are_here_counts_once() {
        let interfaces = [interface("lo", "127.0.0.1"), interface("eth0", "10.88.0.4")];
        let far = |port: u16| connection("10.88.0.4:6379", &format!("10.88.0.9:{port}"));
        let near = |port: u16| format!("127.0.0.1:{port}");
        let (server, first, second) = (near(6379), near(40_000), near(40_001));
        let mut all = vec![far(50_000), far(50_001), far(50_002)];
        for client in [&first, &second] {
            all.extend([connection(&server, client), connection(client, &server)]);
        }
        let chosen = choose(&interfaces, &all, false).unwrap();
        assert_eq!(chosen, ChosenInterface { name: "eth0".into(), elsewhere: BTreeMap::from([("lo".into(), 2)]) });
    }

    #[test]
    fn without_connections_it_is_the_usual_one_or_the_only_one() {
        let (lo, eth0, net1) =
            (interface("lo", "127.0.0.1"), interface("eth0", "10.88.0.4"), interface("net1", "10.1.0.4"));
        assert_eq!(name(&[lo.clone(), eth0.clone(), net1.clone()], &[], false), "eth0");
        assert_eq!(name(&[lo.clone(), net1.clone()], &[], false), "net1");
        assert_eq!(name(&[lo.clone(), net1.clone()], &[], true), "lo");
        assert_eq!(name(std::slice::from_ref(&lo), &[], false), "lo");
        let several = choose(&[lo, net1, interface("net2", "10.2.0.4")], &[], false).unwrap_err();
        assert_eq!(
            several.to_string(),
            "the container has the interfaces net1, net2, and no connection shows which one to capture: choose it with -i"
        );
    }
}
