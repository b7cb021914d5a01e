//! Which capabilities this process lacks.

use overhead_model::privilege::Privilege;
use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use std::fs;

/// Those of `wanted` that this process does not have; none where the system does not say.
pub(crate) fn missing(wanted: &[Privilege]) -> Vec<Privilege> {
    let Some(set) = permitted() else { return Vec::new() };
    wanted.iter().copied().filter(|privilege| !privilege.is_in(set)).collect()
}

/// Does the work with what a program file gave in effect, in this thread alone (capabilities(7)). Work that opens what a user has
/// named does not belong here. Nothing changes for root.
pub fn raised<T>(work: impl FnOnce() -> T) -> T {
    /// Puts the sets back, whatever becomes of the work.
    struct Before(CapabilitySets);

    impl Drop for Before {
        fn drop(&mut self) {
            put(self.0);
        }
    }

    let _before = of_a_user().filter(|sets| sets.effective != sets.permitted).map(|sets| {
        put(CapabilitySets { effective: sets.permitted, ..sets });
        Before(sets)
    });
    work()
}

/// Takes what a program file gave out of effect in this thread, which was started while it was in effect.
pub(crate) fn lower() {
    if let Some(sets) = of_a_user() {
        put(CapabilitySets { effective: CapabilitySet::empty(), ..sets });
    }
}

/// Returns the sets of this thread if it is not root's.
fn of_a_user() -> Option<CapabilitySets> {
    (!geteuid().is_root()).then(|| capabilities(None).ok()).flatten()
}

/// Sets them: what is permitted may always be in effect.
fn put(sets: CapabilitySets) {
    let _ = set_capabilities(None, sets);
}

/// The permitted set, as `/proc/self/status` has it: what is not in effect may be raised.
fn permitted() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let set = status.lines().find_map(|line| line.strip_prefix("CapPrm:"))?;
    u64::from_str_radix(set.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_says_what_is_permitted() {
        assert!(permitted().is_some());
    }
}
