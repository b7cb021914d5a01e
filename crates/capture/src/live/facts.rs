//! Facts about an interface that affect a capture: with segmentation offload, frames are captured before the NIC
//! splits them or after it joins them, larger than the MTU.

use super::NetworkNamespace;
use libc::__c_anonymous_ifr_ifru as RequestValue;
use overhead_model::record::Interface;
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};

/// `linux/ethtool.h`: one command for the driver, others that return one integer.
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GTSO: u32 = 0x1e;
const ETHTOOL_GGSO: u32 = 0x23;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_GGRO: u32 = 0x2b;
/// Large receive offload in the result of `ETHTOOL_GFLAGS`.
const ETH_FLAG_LRO: u32 = 1 << 15;

/// Returns MTU, driver and offloads of an interface in a namespace (or this process's); empty if unknown, as for
/// `any`. Uses sockets, because `/sys` shows the interfaces of the namespace that mounted it.
pub fn interface_facts(name: &str, namespace: Option<&NetworkNamespace>) -> Interface {
    let facts = super::namespace::inside(namespace, || facts_here(name));
    facts.ok().flatten().unwrap_or_else(|| Interface { name: name.to_owned(), ..Interface::default() })
}

/// Looks in this thread's namespace; `None` without such an interface.
fn facts_here(name: &str) -> Option<Interface> {
    let asked = InterfaceQuery::new(name)?;
    Some(Interface { name: name.to_owned(), mtu: asked.mtu(), driver: asked.driver(), offloads: asked.read_offloads() })
}

pub(super) fn is_network(name: &str) -> bool {
    InterfaceQuery::new(name).is_some_and(|asked| asked.kind().is_some())
}

pub(super) fn is_loopback(name: &str) -> bool {
    InterfaceQuery::new(name).and_then(|asked| asked.kind()) == Some(libc::ARPHRD_LOOPBACK)
}

/// Makes the kernel ignore outgoing frames on loopback, where the same frames come in. libpcap would drop them too,
/// but only after the kernel has filtered and copied them to the ring. Returns false if the kernel refuses.
pub(super) fn ignore_outgoing(socket: &impl AsRawFd) -> bool {
    let on: libc::c_int = 1;
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is open, and the option's value is a C int that outlives the call. Kernels before 4.20
    // refuse it, without effect.
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

/// An interface, and a socket for requests about it (netdevice(7)).
struct InterfaceQuery {
    socket: OwnedFd,
    name: [libc::c_char; libc::IFNAMSIZ],
}

impl InterfaceQuery {
    /// `None` for an invalid name or without a socket.
    fn new(interface: &str) -> Option<Self> {
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
        let answer = self.ask(libc::SIOCGIFMTU, RequestValue { ifru_mtu: 0 })?;
        // SAFETY: the kernel has returned an MTU, and any integer is one.
        u32::try_from(unsafe { answer.ifru_mtu }).ok()
    }

    /// `ARPHRD_*` of `linux/if_arp.h`.
    fn kind(&self) -> Option<libc::c_ushort> {
        let nothing = libc::sockaddr { sa_family: 0, sa_data: [0; 14] };
        let answer = self.ask(libc::SIOCGIFHWADDR, RequestValue { ifru_hwaddr: nothing })?;
        // SAFETY: the kernel has returned an address, whose family is the interface's type.
        Some(unsafe { answer.ifru_hwaddr }.sa_family)
    }

    /// `None` for virtual interfaces such as `lo`.
    fn driver(&self) -> Option<String> {
        let mut about = EthtoolDriver { command: ETHTOOL_GDRVINFO, driver: [0; 32], rest: [0; 160] };
        self.ethtool(&raw mut about)?;
        let name: Vec<u8> = about.driver.into_iter().take_while(|byte| *byte != 0).collect();
        String::from_utf8(name).ok().filter(|name| !name.is_empty())
    }

    fn read_offloads(&self) -> BTreeMap<String, bool> {
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

    /// Sends a request to the driver. `about` must be the structure of its command.
    fn ethtool<T>(&self, about: *mut T) -> Option<()> {
        self.ask(libc::SIOCETHTOOL, RequestValue { ifru_data: about.cast() }).map(|_| ())
    }

    fn ask(&self, question: libc::c_ulong, ifr_ifru: RequestValue) -> Option<RequestValue> {
        let mut request = libc::ifreq { ifr_name: self.name, ifr_ifru };
        // SAFETY: the descriptor is open; `request` is a `struct ifreq` with a terminated name. Ethtool requests
        // access the structure that the data points to, whose type fits the command in it; others access only the
        // request. All outlive the call.
        let result = unsafe { libc::ioctl(self.socket.as_raw_fd(), question as libc::Ioctl, &raw mut request) };
        (result == 0).then_some(request.ifr_ifru)
    }
}
