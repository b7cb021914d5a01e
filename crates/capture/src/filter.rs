//! The kernel filter, which keeps the kernel from copying frames of other traffic to us.

use overhead_model::frame::LinkType;
use std::collections::BTreeSet;

/// Words after which libpcap evaluates the rest of an expression at other offsets.
const ENCAPSULATIONS: [&str; 5] = ["vlan", "mpls", "pppoes", "geneve", "vxlan"];

/// The frames that a live capture requests: TCP to or from any of the ports, and the user's expression.
///
/// `tcp port N` alone would lose frames of such connections, so three kinds are added:
///
/// - IP fragments after the first carry no port. All TCP fragments are captured, since a missing one would be a gap.
/// - IPv6 packets above 64 KiB (BIG TCP) have a hop-by-hop header before TCP, behind which `tcp port` does not look.
/// - On Ethernet, a VLAN tag left in the frame moves everything by four bytes. libpcap adjusts the offsets to the
///   right of `vlan`, so the whole condition, including the user's, is repeated after it. Other link types have no
///   `vlan`. If the user's expression mentions an encapsulation, nothing is added.
///
/// Extra frames that belong to no selected connection end up in `other`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelFilter {
    ports: BTreeSet<u16>,
    user: Option<String>,
}

impl KernelFilter {
    /// Returns a filter for these ports (none: any traffic) and the user's expression (blank: none).
    pub fn new(ports: impl IntoIterator<Item = u16>, user: Option<&str>) -> Self {
        let user = user.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
        Self { ports: ports.into_iter().collect(), user }
    }

    /// Returns the user's expression, trimmed.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Returns the expression in the syntax of `man pcap-filter`; `None` lets everything through.
    pub fn expression(&self, link: LinkType) -> Option<String> {
        let user = self.user.as_ref().map(|user| format!("({user})"));
        if self.ports.is_empty() {
            return self.user.clone();
        }
        let terms: Vec<String> = user.into_iter().chain([format!("({})", self.tcp())]).collect();
        let untagged = terms.join(" and ");
        Some(if link == LinkType::ETHERNET && !self.user_speaks_of_encapsulation() {
            format!("({untagged}) or (vlan and {untagged})")
        } else {
            untagged
        })
    }

    fn user_speaks_of_encapsulation(&self) -> bool {
        let mut words = self.user.iter().flat_map(|user| user.split(|c: char| !c.is_ascii_alphanumeric()));
        words.any(|word| ENCAPSULATIONS.contains(&word))
    }

    fn tcp(&self) -> String {
        let ranges = self.ranges();
        let ports: Vec<String> = ranges.iter().map(|&(from, to)| port_term(from, to)).collect();
        let jumbo: Vec<String> = ranges.iter().map(|&(from, to)| jumbo_term(from, to)).collect();
        format!(
            "{} or (ip proto 6 and ip[6:2] & 0x1fff != 0) or ip6 proto 44 or (ip6[6] = 0 and ip6[40] = 6 and ({}))",
            ports.join(" or "),
            jumbo.join(" or ")
        )
    }

    fn ranges(&self) -> Vec<(u16, u16)> {
        let mut ranges: Vec<(u16, u16)> = Vec::new();
        for &port in &self.ports {
            match ranges.last_mut() {
                Some((_, to)) if to.checked_add(1) == Some(port) => *to = port,
                _ => ranges.push((port, port)),
            }
        }
        ranges
    }
}

fn port_term(from: u16, to: u16) -> String {
    if from == to { format!("tcp port {from}") } else { format!("tcp portrange {from}-{to}") }
}

/// Returns the condition for ports behind an 8-byte hop-by-hop header, which a jumbo payload option fills.
fn jumbo_term(from: u16, to: u16) -> String {
    let term = |at| {
        if from == to {
            format!("ip6[{at}:2] = {from}")
        } else {
            format!("(ip6[{at}:2] >= {from} and ip6[{at}:2] <= {to})")
        }
    };
    format!("{} or {}", term(48), term(50))
}

#[cfg(test)]
mod tests {
    use super::KernelFilter;
    use overhead_model::frame::LinkType;

    const TCP_6379: &str = "(tcp port 6379 or (ip proto 6 and ip[6:2] & 0x1fff != 0) or ip6 proto 44 \
                            or (ip6[6] = 0 and ip6[40] = 6 and (ip6[48:2] = 6379 or ip6[50:2] = 6379)))";

    #[test]
    fn without_ports_the_users_expression_stands_alone() {
        assert_eq!(KernelFilter::new([], None).expression(LinkType::ETHERNET), None);
        assert_eq!(KernelFilter::new([], Some("  ")).expression(LinkType::ETHERNET), None);
        assert_eq!(KernelFilter::new([], Some(" host ::1 ")).expression(LinkType::RAW).as_deref(), Some("host ::1"));
    }

    #[test]
    fn ethernet_gets_a_branch_for_tagged_frames() {
        let plain = KernelFilter::new([6379], None);
        assert_eq!(plain.expression(LinkType::ETHERNET).unwrap(), format!("({TCP_6379}) or (vlan and {TCP_6379})"));
        assert_eq!(plain.expression(LinkType::LINUX_SLL2).unwrap(), TCP_6379);
    }

    #[test]
    fn the_users_expression_binds_in_both_branches() {
        let both = KernelFilter::new([6379], Some("host a or host b")).expression(LinkType::ETHERNET).unwrap();
        let half = format!("(host a or host b) and {TCP_6379}");
        assert_eq!(both, format!("({half}) or (vlan and {half})"));
    }

    #[test]
    fn a_user_who_speaks_of_tags_is_left_alone() {
        let own = KernelFilter::new([6379], Some("vlan 7")).expression(LinkType::ETHERNET).unwrap();
        assert_eq!(own, format!("(vlan 7) and {TCP_6379}"));
    }

    #[test]
    fn neighbouring_ports_become_a_range() {
        let text = KernelFilter::new([7001, 7000, 65_535, 7002, 7000], None).expression(LinkType::RAW).unwrap();
        assert!(text.starts_with("(tcp portrange 7000-7002 or tcp port 65535 or "), "{text}");
        assert!(text.contains("(ip6[48:2] >= 7000 and ip6[48:2] <= 7002)"), "{text}");
    }
}
