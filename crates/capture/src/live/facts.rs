//! What the kernel says about an interface, as far as it matters to what a capture shows: with segmentation offload
//! on, frames are captured before the NIC cuts them and after it joins them, larger than the MTU.

use super::NetworkNamespace;
use overhead_model::record::Interface;
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};

/// `ethtool` commands of `linux/ethtool.h`: who drives it, and those that answer with one integer.
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GTSO: u32 = 0x1e;
const ETHTOOL_GGSO: u32 = 0x23;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_GGRO: u32 = 0x2b;
/// Large receive offload in the answer to `ETHTOOL_GFLAGS`.
const ETH_FLAG_LRO: u32 = 1 << 15;

/// MTU, driver and offloads of an interface, in a network namespace or in that of this process. What the system does not say stays empty,
/// as it does for `any`. Sockets are asked, not `/sys`, which shows the interfaces of whoever mounted it.
pub fn interface_facts(name: &str, namespace: Option<&NetworkNamespace>) -> Interface {
    let facts = super::namespace::inside(namespace, || facts_here(name));
    facts.ok().flatten().unwrap_or_else(|| Interface { name: name.to_owned(), ..Interface::default() })
}

/// The same in the namespace that this thread is in; `None` without such an interface.
fn facts_here(name: &str) -> Option<Interface> {
    let asked = InterfaceQuery::of(name)?;
    Some(Interface { name: name.to_owned(), mtu: asked.mtu(), driver: asked.driver(), offloads: asked.offloads() })
}

/// Returns whether the kernel has a network interface of this name.
pub(super) fn is_network(name: &str) -> bool {
    InterfaceQuery::of(name).is_some_and(|asked| asked.kind().is_some())
}

/// Returns whether all that an interface sends comes back in by it.
pub(super) fn is_loopback(name: &str) -> bool {
    InterfaceQuery::of(name).and_then(|asked| asked.kind()) == Some(libc::ARPHRD_LOOPBACK)
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

/// `struct ethtool_value` of `linux/ethtool.h`.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    value: u32,
}

/// `struct ethtool_drvinfo` of `linux/ethtool.h`.
#[repr(C)]
struct EthtoolDriver {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

/// An interface, and the socket by which the kernel is asked about it (netdevice(7)).
struct InterfaceQuery {
    socket: OwnedFd,
    name: [libc::c_char; libc::IFNAMSIZ],
}

impl InterfaceQuery {
    /// `None` for what cannot be a name, and without a socket.
    fn of(interface: &str) -> Option<Self> {
        let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0)).ok()?.into();
        let mut name = [0; libc::IFNAMSIZ];
        if interface.is_empty() || interface.len() >= name.len() {
            return None;
        }
        for (place, byte) in name.iter_mut().zip(interface.bytes()) {
            *place = libc::c_char::from_ne_bytes([byte]);
        }
        Some(Self { socket, name })
    }

    fn mtu(&self) -> Option<u32> {
        let answer = self.ask(libc::SIOCGIFMTU, libc::__c_anonymous_ifr_ifru { ifru_mtu: 0 })?;
        // SAFETY: the kernel has answered with an MTU, and any integer is one.
        u32::try_from(unsafe { answer.ifru_mtu }).ok()
    }

    /// Its type, as `linux/if_arp.h` numbers them.
    fn kind(&self) -> Option<libc::c_ushort> {
        let nothing = libc::sockaddr { sa_family: 0, sa_data: [0; 14] };
        let answer = self.ask(libc::SIOCGIFHWADDR, libc::__c_anonymous_ifr_ifru { ifru_hwaddr: nothing })?;
        // SAFETY: the kernel has answered with an address, whose family is the type of the interface.
        Some(unsafe { answer.ifru_hwaddr }.sa_family)
    }

    /// Interfaces without a device, such as `lo`, have no driver.
    fn driver(&self) -> Option<String> {
        let mut about = EthtoolDriver { command: ETHTOOL_GDRVINFO, driver: [0; 32], rest: [0; 160] };
        self.ethtool(&raw mut about)?;
        let name: Vec<u8> = about.driver.into_iter().take_while(|byte| *byte != 0).collect();
        String::from_utf8(name).ok().filter(|name| !name.is_empty())
    }

    fn offloads(&self) -> BTreeMap<String, bool> {
        let queries = [
            ("tso", ETHTOOL_GTSO, 1),
            ("gso", ETHTOOL_GGSO, 1),
            ("gro", ETHTOOL_GGRO, 1),
            ("lro", ETHTOOL_GFLAGS, ETH_FLAG_LRO),
        ];
        let answer = |(offload, command, mask): (&str, u32, u32)| {
            let mut about = EthtoolValue { command, value: 0 };
            self.ethtool(&raw mut about)?;
            Some((offload.to_owned(), about.value & mask != 0))
        };
        queries.into_iter().filter_map(answer).collect()
    }

    /// Asks a driver; what `about` points to is as long as its command wants it.
    fn ethtool<T>(&self, about: *mut T) -> Option<()> {
        self.ask(libc::SIOCETHTOOL, libc::__c_anonymous_ifr_ifru { ifru_data: about.cast() }).map(|_| ())
    }

    /// `None` where the kernel does not answer.
    fn ask(
        &self,
        question: libc::c_ulong,
        ifr_ifru: libc::__c_anonymous_ifr_ifru,
    ) -> Option<libc::__c_anonymous_ifr_ifru> {
        let mut request = libc::ifreq { ifr_name: self.name, ifr_ifru };
        // SAFETY: the descriptor is open; `request` is a `struct ifreq` with a terminated name. Of the questions asked here, those of
        // ethtool read and write the structure that the data points to, whose kind is that of the command in it, and the others the
        // request itself. All outlive the call.
        let result = unsafe { libc::ioctl(self.socket.as_raw_fd(), question as libc::Ioctl, &raw mut request) };
        (result == 0).then_some(request.ifr_ifru)
    }
}
