//! Tests which features work on this machine, and how to enable the others.

use crate::bpf::{CounterPrograms, RETRANSMISSIONS, SOCKET, SOFTIRQ, WAKEUPS};
use crate::discover::{self, INSPECT_PRIVILEGES};
use crate::options::{CounterOptions, ProcessSelection};
use crate::{privilege, timing};
use overhead_model::privilege::remedy;

/// A feature, and whether it works on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    /// In words, as `overhead doctor` lists it.
    pub name: &'static str,
    /// `Err` if it does not work here.
    pub outcome: Result<(), Absence>,
}

impl Capability {
    /// Returns whether this stands for all counters, which are unavailable.
    pub fn is_all_counters(&self) -> bool {
        self.name == KERNEL_COUNTERS
    }
}

/// Why something cannot be measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absence {
    /// The missing part, without the remedy.
    pub reason: String,
    /// A step that enables it.
    pub remedy: String,
}

/// Tests everything by loading the programs for a moment.
pub fn doctor() -> Vec<Capability> {
    let mut options = CounterOptions::for_ports([]);
    options.server = ProcessSelection::Named(String::new());
    options.client = ProcessSelection::Named(String::new());

    options.softirq = true;
    let mut list = match CounterPrograms::start(&options) {
        Ok(programs) => counters(&programs),
        Err(error) => vec![Capability { name: KERNEL_COUNTERS, outcome: Err(split_remedy(&error.to_string())) }],
    };
    list.push(Capability { name: "processes of other users (who serves a port)", outcome: other_users() });
    let own_cost = timing::try_statistics().map_err(|text| split_remedy(&text));
    list.push(Capability { name: "what the BPF programs cost themselves", outcome: own_cost });
    list
}

/// Stands for all counters if there are none.
const KERNEL_COUNTERS: &str = "kernel counters";

fn other_users() -> Result<(), Absence> {
    discover::try_inspect_others().map_err(|error| Absence {
        reason: format!("their open files cannot be seen ({error})"),
        remedy: remedy(&privilege::missing(&INSPECT_PRIVILEGES)),
    })
}

/// Returns why not all processes can be inspected, and the fix; `None` if all can.
pub fn unseen_processes() -> Option<String> {
    let (missing, seen) = (privilege::missing(&INSPECT_PRIVILEGES), privilege::raised(discover::try_inspect_others));
    let fault = seen.err().map_or_else(String::new, |error| format!(" ({error})"));
    let is_seen = missing.is_empty() && fault.is_empty();
    (!is_seen).then(|| format!("processes of other users cannot be inspected{fault}: {}", remedy(&missing)))
}

fn counters(programs: &CounterPrograms) -> Vec<Capability> {
    let optional: [(&'static str, &[&str]); 5] = [
        ("wake-ups", &WAKEUPS),
        ("calls and bytes at the socket layer", &SOCKET),
        ("retransmissions", &RETRANSMISSIONS),
        ("network softirq time", &SOFTIRQ),
        ("clients that connect during the run", &["inet_sock_set_state"]),
    ];
    let mut list = vec![
        Capability { name: "system calls by name", outcome: Ok(()) },
        Capability { name: "time on a CPU, context switches, migrations", outcome: Ok(()) },
    ];
    list.extend(optional.map(|(name, needed)| Capability { name, outcome: tracepoints(programs, needed) }));
    list.push(Capability { name: "hardware cycles", outcome: hardware(programs) });
    list
}

fn tracepoints(programs: &CounterPrograms, needed: &[&str]) -> Result<(), Absence> {
    let missing = |reason| Err(Absence { reason, remedy: "a newer kernel".to_owned() });
    programs.absence(needed).map_or(Ok(()), missing)
}

fn hardware(programs: &CounterPrograms) -> Result<(), Absence> {
    let remedy = "run on bare metal or in a VM with a virtual PMU; until then cycles are reference cycles";
    let missing = |reason: &String| Absence { reason: reason.clone(), remedy: remedy.to_owned() };
    programs.cycles.as_ref().map(drop).map_err(missing)
}

/// Errors end with a colon and their remedy.
fn split_remedy(text: &str) -> Absence {
    let (reason, remedy) = text.rsplit_once(": ").unwrap_or((text, "report it"));
    Absence { reason: reason.to_owned(), remedy: remedy.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_comes_apart_into_reason_and_remedy() {
        let error = crate::Error::Permission("EPERM: not permitted".to_owned());
        let absence = split_remedy(&error.to_string());
        assert_eq!(absence.reason, "no permission for BPF (EPERM: not permitted)");
        assert!(absence.remedy.starts_with("run with sudo"), "{}", absence.remedy);
    }
}
