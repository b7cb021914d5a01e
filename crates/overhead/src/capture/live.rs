//! The interface to capture on, on this host or in a container.

use super::container::ContainerPlace;
use crate::cli::Which;
use crate::privileges::raised;
use anyhow::Result;
use overhead_capture::live::{LiveOptions, LiveSource, NetworkNamespace};
use overhead_capture::{KernelFilter, WriterOptions};
use overhead_dissect::Selection;
use overhead_model::Protocol;
use std::collections::BTreeMap;

/// Default interface.
const LOOPBACK: &str = "lo";

/// An interface to capture on, and its options.
#[derive(Clone, Debug)]
pub struct LivePlan {
    pub interface: String,
    /// The container of the interface, if any.
    pub place: Option<ContainerPlace>,
    pub selection: Selection,
    /// The captured ports: the selected ones, or all well-known ones.
    pub ports: Vec<u16>,
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
        which: &mut Which,
        wants_interface: bool,
    ) -> Result<(Self, BTreeMap<String, u64>)> {
        let wanted = wants_interface.then_some(&mut interface);
        let found = container.map(|name| ContainerPlace::of(name, which, wanted)).transpose()?;
        let (place, elsewhere) = found.unzip();
        let (interface, selection) = (interface.unwrap_or_else(|| LOOPBACK.to_owned()), which.selection()?);
        let (filter, snaplen, buffer) = (None, 0, 0);
        let ports = port_list(&selection);
        Ok((Self { interface, place, selection, ports, filter, snaplen, buffer }, elsewhere.unwrap_or_default()))
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
