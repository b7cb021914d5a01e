//! Capabilities that measuring needs (capabilities(7)), and how to grant them. All messages take their wording from here.

/// Packet sockets: captures.
pub const NET_RAW: Privilege = Privilege { name: "cap_net_raw", number: 13 };
/// BPF maps and programs: all counters.
pub const BPF: Privilege = Privilege { name: "cap_bpf", number: 39 };
/// BPF programs at tracepoints, and perf events: all counters.
pub const PERFMON: Privilege = Privilege { name: "cap_perfmon", number: 38 };
/// Open files of other users' processes, to find the server behind a port.
pub const SYS_PTRACE: Privilege = Privilege { name: "cap_sys_ptrace", number: 19 };
/// The folders that list these files.
pub const DAC_READ_SEARCH: Privilege = Privilege { name: "cap_dac_read_search", number: 2 };
/// The kernel's account of the cost of BPF programs.
pub const SYS_ADMIN: Privilege = Privilege { name: "cap_sys_admin", number: 21 };

/// Grants a program everything, for the users who may run it.
pub const SETCAP: &str =
    "sudo setcap cap_net_raw,cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search,cap_sys_admin=ep";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Privilege {
    /// The spelling of setcap(8).
    pub name: &'static str,
    number: u32,
}

impl Privilege {
    /// Returns whether a set, such as `CapEff` in `/proc/self/status`, contains this capability.
    pub fn is_in(self, set: u64) -> bool {
        set >> self.number & 1 == 1
    }
}

/// Returns what to do about missing capabilities: `run with sudo, or give the program cap_bpf (…)`.
pub fn remedy(missing: &[Privilege]) -> String {
    let names: Vec<&str> = missing.iter().map(|privilege| privilege.name).collect();
    match names.as_slice() {
        [] => "run with sudo on the host (root of a container or of a user namespace has these rights in it alone)"
            .to_owned(),
        names => {
            format!(
                "run with sudo, or give the program {}, or all it can use (`{SETCAP} PROGRAM`)",
                names.join(" and ")
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_grants_everything_names_every_privilege() {
        for privilege in [NET_RAW, BPF, PERFMON, SYS_PTRACE, DAC_READ_SEARCH, SYS_ADMIN] {
            assert!(SETCAP.contains(privilege.name), "{}", privilege.name);
        }
    }

    #[test]
    fn a_remedy_names_what_is_missing() {
        assert!(remedy(&[BPF, PERFMON]).contains("give the program cap_bpf and cap_perfmon, or all"));
        assert!(remedy(&[]).contains("on the host"));
    }

    #[test]
    fn sets_are_as_the_kernel_prints_them() {
        let set = u64::from_str_radix("000000c000002000", 16).unwrap();
        assert!([NET_RAW, BPF, PERFMON].iter().all(|privilege| privilege.is_in(set)));
        assert!(!SYS_ADMIN.is_in(set));
    }
}
