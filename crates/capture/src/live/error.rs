//! Converts libpcap's errors, which are text.

use crate::SourceError;

/// Returns libpcap's text without the crate's prefix.
pub(super) fn reason(error: &pcap::Error) -> String {
    match error {
        pcap::Error::PcapError(text) => text.trim().to_owned(),
        other => other.to_string(),
    }
}

/// Recognises errors that have a remedy by their wording in libpcap 1.9 and later.
pub(super) fn live(interface: &str, error: &pcap::Error) -> SourceError {
    let (interface, reason) = (interface.to_owned(), reason(error));
    let says = |words: &[&str]| words.iter().any(|word| reason.contains(word));
    if says(&["ermission", "not permitted", "CAP_NET"]) {
        SourceError::NotPermitted(interface)
    } else if says(&["No such device", "does not exist", "doesn't exist", "disappeared"]) {
        SourceError::NoSuchInterface { interface, available: super::interfaces::available() }
    } else if says(&["is not up", "went down", "Network is down", "is down"]) {
        SourceError::InterfaceDown(interface)
    } else {
        SourceError::Live { interface, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::live;

    #[test]
    fn what_libpcap_says_becomes_one_sentence_with_a_remedy() {
        let table = [
            (
                "eth0: You don't have permission to perform this capture on that device",
                "capturing on eth0 is not permitted to this user: run with sudo, or give the program cap_net_raw, \
                 or all it can use (`sudo setcap cap_net_raw,cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search,\
                 cap_sys_admin=ep PROGRAM`)",
            ),
            ("That device is not up", "interface eth0 is down: bring it up with `ip link set eth0 up`"),
            ("The interface went down", "interface eth0 is down: bring it up with `ip link set eth0 up`"),
            (
                "can't mmap rx ring: Cannot allocate memory",
                "capturing on eth0 failed (can't mmap rx ring: Cannot allocate memory): \
                 run `overhead doctor` to see what this machine can capture",
            ),
        ];
        for (text, expected) in table {
            assert_eq!(live("eth0", &pcap::Error::PcapError(text.to_owned())).to_string(), expected);
        }
    }
}
