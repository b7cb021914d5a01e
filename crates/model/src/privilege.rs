//! What the kernel asks of a process that measures: names of capabilities, and the line that grants them (capabilities(7)).
//!
//! Every message that asks for a privilege takes its words from here, so that they agree.

/// Packet sockets: captures.
pub const NET_RAW: Privilege = Privilege { name: "cap_net_raw", number: 13 };
/// Maps and programs of BPF: all counters.
pub const BPF: Privilege = Privilege { name: "cap_bpf", number: 39 };
/// Programs of BPF at tracepoints, and perf events: all counters.
pub const PERFMON: Privilege = Privilege { name: "cap_perfmon", number: 38 };
/// The open files of other users' processes, by which the server behind a port is found.
pub const SYS_PTRACE: Privilege = Privilege { name: "cap_sys_ptrace", number: 19 };
/// The folders in which these files are listed.
pub const DAC_READ_SEARCH: Privilege = Privilege { name: "cap_dac_read_search", number: 2 };
/// The kernel's own account of what BPF programs cost.
pub const SYS_ADMIN: Privilege = Privilege { name: "cap_sys_admin", number: 21 };

/// What grants everything to a program, for users who may run it.
pub const SETCAP: &str =
    "sudo setcap cap_net_raw,cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search,cap_sys_admin=ep";

/// A capability of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Privilege {
    /// As setcap(8) spells it.
    pub name: &'static str,
    /// Its bit in a set.
    number: u32,
}

impl Privilege {
    /// Returns whether a set, as `CapEff` in `/proc/self/status` has it, holds this capability.
    pub fn is_in(self, set: u64) -> bool {
        set >> self.number & 1 == 1
    }
}

/// Returns the remedy for want of capabilities, in words: `run with sudo, or give the program cap_bpf (…)`.
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
