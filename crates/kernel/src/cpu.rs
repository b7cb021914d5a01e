//! CPU time of processes from `/proc`, without BPF programs.

use crate::discover;
use crate::error::Error;
use crate::options::ProcessSelection;
use procfs::process::{Process, Stat};
use std::collections::BTreeSet;

/// Returns the current servers of `ports`, selected as in [`crate::CounterOptions`]; none if invisible.
pub fn servers(selection: &ProcessSelection, ports: &[u16]) -> Result<BTreeSet<u32>, Error> {
    match selection {
        ProcessSelection::Ports => Ok(discover::owners(ports)?.servers),
        selection => selection.resolve(),
    }
}

/// Returns the CPU time, user and kernel, of processes and all their descendants. Ended descendants count once their
/// parent has waited for them, so the difference of two readings covers what ran between (`proc_pid_stat(5)`). The
/// resolution is a tick, usually 10 ms.
///
/// # Errors
///
/// [`Error::NoSuchProcess`] if one of `roots` has ended; [`Error::Proc`].
pub fn family_cpu_ns(roots: &BTreeSet<u32>) -> Result<u64, Error> {
    let mut ticks = 0;
    for (root, family) in discover::families(roots)? {
        ticks += stat(root).map(|stat| own(&stat) + waited_for(&stat)).ok_or(Error::NoSuchProcess(root))?;
        let others = family.into_iter().filter(|pid| *pid != root).filter_map(stat);
        ticks += others.map(|stat| own(&stat) + waited_for(&stat)).sum::<u64>();
    }
    Ok(in_ns(ticks))
}

/// Returns the CPU time of this process's children, and theirs, that have been waited for.
pub fn children_cpu_ns() -> u64 {
    in_ns(stat(std::process::id()).map_or(0, |stat| waited_for(&stat)))
}

fn stat(pid: u32) -> Option<Stat> {
    Process::new(i32::try_from(pid).ok()?).ok()?.stat().ok()
}

fn own(stat: &Stat) -> u64 {
    stat.utime + stat.stime
}

fn waited_for(stat: &Stat) -> u64 {
    u64::try_from(stat.cutime + stat.cstime).unwrap_or(0)
}

fn in_ns(ticks: u64) -> u64 {
    ticks * (1_000_000_000 / procfs::ticks_per_second().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Takes CPU time in a grandchild: counts, so that it takes as much on a busy machine.
    const BURN: &str = "sh -c 'n=0; while [ $n -lt 400000 ]; do n=$((n + 1)); done'; :";

    #[test]
    fn what_a_child_of_a_child_took_is_known_once_it_was_waited_for() {
        let (own, before) = (BTreeSet::from([std::process::id()]), children_cpu_ns());
        let family = family_cpu_ns(&own).unwrap();
        let started = std::time::Instant::now();
        assert!(Command::new("sh").args(["-c", BURN]).status().unwrap().success());
        let (took, most) = (children_cpu_ns() - before, started.elapsed() + std::time::Duration::from_millis(50));
        // One process at a time: more CPU than wall time means double counting.
        assert!(took >= 50_000_000 && u128::from(took) <= most.as_nanos(), "{took} of {most:?}");
        assert!(family_cpu_ns(&own).unwrap() - family >= took);
    }

    #[test]
    fn who_has_ended_is_named() {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        assert!(matches!(family_cpu_ns(&BTreeSet::from([pid])), Err(Error::NoSuchProcess(gone)) if gone == pid));
    }
}
