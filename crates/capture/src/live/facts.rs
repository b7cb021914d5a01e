//! What the kernel says about an interface, as far as it matters to what a capture shows: with segmentation offload
//! on, frames are captured before the NIC cuts them and after it joins them, larger than the MTU.

use overhead_model::record::Interface;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// `ethtool` commands of `linux/ethtool.h` that answer with one integer.
const ETHTOOL_GTSO: u32 = 0x1e;
const ETHTOOL_GGSO: u32 = 0x23;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_GGRO: u32 = 0x2b;
/// Large receive offload in the answer to `ETHTOOL_GFLAGS`.
const ETH_FLAG_LRO: u32 = 1 << 15;

/// MTU, driver and offloads of an interface. What the system does not say stays empty, as it does for `any`.
pub fn interface_facts(name: &str) -> Interface {
    let mut facts = Interface { name: name.to_owned(), ..Interface::default() };
    let Some(folder) = folder(name) else { return facts };
    facts.mtu = fs::read_to_string(folder.join("mtu")).ok().and_then(|text| text.trim().parse().ok());
    facts.driver = driver(&folder);
    facts.offloads = offloads(name).unwrap_or_default();
    facts
}

/// Returns whether the kernel has a network interface of this name.
pub(super) fn is_network(name: &str) -> bool {
    folder(name).is_some_and(|folder| folder.is_dir())
}

/// `ARPHRD_LOOPBACK` of `linux/if_arp.h`.
const LOOPBACK: &str = "772";

/// Returns whether all that an interface sends comes back in by it.
pub(super) fn is_loopback(name: &str) -> bool {
    let kind = folder(name).and_then(|folder| fs::read_to_string(folder.join("type")).ok());
    kind.is_some_and(|kind| kind.trim() == LOOPBACK)
}

/// Leaves what goes out to the kernel: on loopback the same comes in, which is the copy that libpcap hands on. It drops the
/// other one itself, but not before the kernel has filtered it and copied it to the ring.
///
/// Returns whether the kernel does so.
pub(super) fn ignore_outgoing(socket: &impl AsRawFd) -> bool {
    let on: libc::c_int = 1;
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is open, and the option's value is a C int that outlives the call. Kernels before 4.20 refuse
    // it, which leaves everything as it was.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, (&raw const on).cast(), size)
    };
    result == 0
}

/// `linux/if_packet.h`.
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

/// Returns the kernel's folder of an interface; `None` for what cannot be a name.
fn folder(name: &str) -> Option<PathBuf> {
    let valid = !name.is_empty() && !name.contains('/') && name != "." && name != "..";
    valid.then(|| Path::new("/sys/class/net").join(name))
}

/// Interfaces without a device, such as `lo`, have no driver.
fn driver(folder: &Path) -> Option<String> {
    let link = fs::read_link(folder.join("device/driver")).ok()?;
    Some(link.file_name()?.to_string_lossy().into_owned())
}

fn offloads(name: &str) -> io::Result<BTreeMap<String, bool>> {
    let socket: OwnedFd = std::net::UdpSocket::bind(("127.0.0.1", 0))?.into();
    let queries = [
        ("tso", ETHTOOL_GTSO, 1),
        ("gso", ETHTOOL_GGSO, 1),
        ("gro", ETHTOOL_GGRO, 1),
        ("lro", ETHTOOL_GFLAGS, ETH_FLAG_LRO),
    ];
    let answers = queries.into_iter().filter_map(|(offload, command, mask)| {
        let value = ethtool(&socket, name, command).ok()?;
        Some((offload.to_owned(), value & mask != 0))
    });
    Ok(answers.collect())
}

/// `struct ethtool_value` of `linux/ethtool.h`.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    value: u32,
}

fn ethtool(socket: &OwnedFd, name: &str, command: u32) -> io::Result<u32> {
    let mut answer = EthtoolValue { command, value: 0 };
    let mut ifr_name = [0; libc::IFNAMSIZ];
    if name.len() >= ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (place, byte) in ifr_name.iter_mut().zip(name.bytes()) {
        *place = libc::c_char::from_ne_bytes([byte]);
    }
    let ifr_ifru = libc::__c_anonymous_ifr_ifru { ifru_data: (&raw mut answer).cast() };
    let mut request = libc::ifreq { ifr_name, ifr_ifru };
    // SAFETY: the descriptor is open; `request` is a `struct ifreq` with a terminated name, and its data points to a
    // `struct ethtool_value`, which is all that the four commands above read and write. Both outlive the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
    if result == 0 { Ok(answer.value) } else { Err(io::Error::last_os_error()) }
}
