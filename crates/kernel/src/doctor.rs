//! What of all this works on this machine, and what would make the rest work.

use crate::bpf::Programs;
use crate::convert::{RETRANSMISSIONS, SOCKET, SOFTIRQ, WAKEUPS};
use crate::error::Error;
use crate::options::{CycleChoice, Options, Selection};

/// One thing that can be measured, or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    /// What it is, as a phrase.
    pub name: &'static str,
    /// Nothing more to say when it is there.
    pub outcome: Result<(), Absence>,
}

/// Why something cannot be measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absence {
    /// The reason.
    pub reason: String,
    /// What would help.
    pub remedy: String,
}

/// Tries everything, by loading the programs for a moment.
pub fn doctor() -> Vec<Capability> {
    let mut options = Options::for_ports([]);
    options.server = Selection::Named(String::new());
    options.client = Selection::Named(String::new());
    options.cycles = CycleChoice::Best;
    options.softirq = true;
    let programs = match Programs::start(&options) {
        Ok(programs) => programs,
        Err(error) => return vec![Capability { name: "kernel counters", outcome: Err(explain(&error)) }],
    };
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
    list.extend(optional.map(|(name, needed)| Capability { name, outcome: tracepoints(&programs, needed) }));
    list.push(Capability { name: "hardware cycles", outcome: hardware(&programs) });
    list
}

fn tracepoints(programs: &Programs, needed: &[&str]) -> Result<(), Absence> {
    match programs.absence(needed) {
        None => Ok(()),
        Some(reason) => Err(Absence { reason, remedy: "a newer kernel".to_owned() }),
    }
}

fn hardware(programs: &Programs) -> Result<(), Absence> {
    match &programs.cycles {
        Ok(_) => Ok(()),
        Err(reason) => Err(Absence {
            reason: reason.clone(),
            remedy: "run on bare metal or in a VM with a virtual PMU; until then cycles are reference cycles"
                .to_owned(),
        }),
    }
}

/// The errors put their remedy after the last colon.
fn explain(error: &Error) -> Absence {
    let text = error.to_string();
    let (reason, remedy) = text.rsplit_once(": ").unwrap_or((&text, "report it"));
    Absence { reason: reason.to_owned(), remedy: remedy.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_comes_apart_into_reason_and_remedy() {
        let absence = explain(&Error::Permission("EPERM: not permitted".to_owned()));
        assert_eq!(absence.reason, "no permission for BPF (EPERM: not permitted)");
        assert!(absence.remedy.starts_with("run with sudo"), "{}", absence.remedy);
    }
}
