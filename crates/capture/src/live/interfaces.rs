use super::NetworkNamespace;
use crate::SourceError;
use overhead_model::enum_with;
use pcap::{Device, IfFlags};
use std::net::IpAddr;

/// A network interface as `--list-interfaces` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveInterface {
    /// As `-i` takes it.
    pub name: String,
    /// In the system's order; may be empty.
    pub addresses: Vec<IpAddr>,
    /// In the order of [`InterfaceFlag`].
    pub flags: Vec<InterfaceFlag>,
}

enum_with! {
    /// States and kinds that libpcap reports.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum InterfaceFlag, name: &'static str {
        /// It is enabled (`IFF_UP`).
        Up = "up",
        /// It has a carrier.
        Running = "running",
        Loopback = "loopback",
        Wireless = "wireless",
    }
}

impl InterfaceFlag {
    const BITS: [(Self, IfFlags); 4] = [
        (Self::Up, IfFlags::UP),
        (Self::Running, IfFlags::RUNNING),
        (Self::Loopback, IfFlags::LOOPBACK),
        (Self::Wireless, IfFlags::WIRELESS),
    ];
}

/// Lists the interfaces that libpcap can open in a namespace (or this process's), likely ones first.
pub fn list_interfaces(namespace: Option<&NetworkNamespace>) -> Result<Vec<LiveInterface>, SourceError> {
    let devices = super::namespace::inside(namespace, Device::list)?;
    let devices = devices.map_err(|error| super::error::live("any interface", &error))?;
    Ok(devices.into_iter().map(LiveInterface::from).collect())
}

impl From<Device> for LiveInterface {
    fn from(device: Device) -> Self {
        let holds = InterfaceFlag::BITS.into_iter().filter(|(_, flag)| device.flags.contains(*flag));
        Self {
            flags: holds.map(|(flag, _)| flag).collect(),
            addresses: device.addresses.iter().map(|address| address.addr).collect(),
            name: device.name,
        }
    }
}

/// Returns the names of network interfaces for an error, without libpcap's other sources (USB, Bluetooth, netlink).
pub(super) fn available() -> String {
    let names: Vec<String> = Device::list().unwrap_or_default().into_iter().map(|device| device.name).collect();
    let network = |name: &&str| *name == super::ANY || super::facts::is_network(name);
    names.iter().map(String::as_str).filter(network).collect::<Vec<_>>().join(", ")
}

/// Reports a missing interface before libpcap complains about a missing privilege.
pub(super) fn check_exists(name: &str) -> Result<(), SourceError> {
    let known = name == super::ANY || super::facts::is_network(name);
    if known || Device::list().is_ok_and(|list| list.iter().any(|device| device.name == name)) {
        Ok(())
    } else {
        Err(SourceError::NoSuchInterface { interface: name.to_owned(), available: available() })
    }
}
