//! The descendants of this process, all of which belong to the command.

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid};
use std::collections::BTreeSet;
use std::fs;

/// A process as the kernel describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FamilyProcess {
    pid: i32,
    parent: i32,
    /// Whether it is a zombie.
    dead: bool,
}

/// Makes this process the parent of orphaned descendants.
pub fn adopt() {
    // Kernels before 3.4 cannot do this, so orphans are lost there.
    let _ = set_child_subreaper(Some(getpid()));
}

/// Reaps adopted children that have ended, except `child`, which another part of the program waits for.
pub fn reap_orphans(child: Option<u32>) {
    let own = getpid().as_raw_pid();
    let is_ours =
        |process: &FamilyProcess| process.dead && process.parent == own && Some(process.pid.cast_unsigned()) != child;
    for pid in processes().into_iter().filter(is_ours).filter_map(|process| Pid::from_raw(process.pid)) {
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

/// Returns the running descendants.
pub fn running() -> Vec<i32> {
    descendants(getpid().as_raw_pid(), &processes())
}

/// Sends a signal to each process that is not in `signalled`, and adds it there.
pub fn signal_each(pids: &[i32], signalled: &mut Vec<i32>, signal: Signal) {
    for pid in pids {
        if signalled.contains(pid) {
            continue;
        }
        signalled.push(*pid);
        // The process may have ended, which is the goal anyway.
        if let Some(pid) = Pid::from_raw(*pid) {
            let _ = kill_process(pid, signal);
            // A stopped process would not receive the signal.
            let _ = kill_process(pid, Signal::CONT);
        }
    }
}

fn descendants(root: i32, processes: &[FamilyProcess]) -> Vec<i32> {
    let mut family = BTreeSet::from([root]);
    loop {
        let before = family.len();
        family.extend(processes.iter().filter(|it| family.contains(&it.parent)).map(|it| it.pid).collect::<Vec<_>>());
        if family.len() == before {
            break;
        }
    }
    processes.iter().filter(|it| !it.dead && it.pid != root && family.contains(&it.pid)).map(|it| it.pid).collect()
}

fn processes() -> Vec<FamilyProcess> {
    let Ok(list) = fs::read_dir("/proc") else { return Vec::new() };
    list.flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            parse(pid, &fs::read(entry.path().join("stat")).ok()?)
        })
        .collect()
}

/// `pid (name) state parent …`; the name may hold any byte (`proc_pid_stat(5)`).
fn parse(pid: i32, stat: &[u8]) -> Option<FamilyProcess> {
    let name_ends = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(name_ends + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    Some(FamilyProcess { pid, parent: fields.next()?.parse().ok()?, dead: matches!(state, "Z" | "X") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_look_like_anything() {
        let expected = FamilyProcess { pid: 7, parent: 3, dead: true };
        assert_eq!(parse(7, b"7 (a) S 1 (b) Z 3 7 7 0"), Some(expected));
        assert_eq!(parse(7, b"7 (cut"), None);
    }

    #[test]
    fn a_family_has_all_generations_and_no_dead() {
        let process = |pid, parent, dead| FamilyProcess { pid, parent, dead };
        let all = [
            process(5, 4, false),
            process(4, 2, false),
            process(3, 2, true),
            process(9, 1, false),
            process(6, 3, false),
        ];
        assert_eq!(descendants(2, &all), [5, 4, 6]);
    }
}
