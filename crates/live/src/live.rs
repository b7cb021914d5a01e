//! The interface to capture on, on this host or in a container.

use super::container::ContainerPlace;
use anyhow::Result;
use overhead_capture::live::{LiveOptions, LiveSource, NetworkNamespace};
use overhead_capture::{KernelFilter, WriterOptions};
use overhead_dissect::Selection;
use overhead_host::databases::{self, Database};
use overhead_kernel::raised;
use overhead_model::Protocol;
use overhead_reading::ConnectionChoice;
use std::collections::BTreeMap;

/// Default interface.
const LOOPBACK: &str = "lo";

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
        let mut servers = Vec::new();
        if place.is_none() && choice.selected.ports.is_empty() {
            servers = databases::on_other_ports(&choice.systems()?, &ports);
            ports.extend(servers.iter().flat_map(Database::ports));
            if !servers.is_empty() && !choice.is_default() {
                choice.selected.ports.clone_from(&ports);
            }
        }
        let (selection, filter, snaplen, buffer) = (choice.selection()?, None, 0, 0);
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
        let mut about = WriterOptions::new(source.link_type());
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
