//! This process's capabilities.

use overhead_model::privilege::Privilege;
use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use std::fs;

/// Returns the `wanted` capabilities that this process lacks; none if the system does not say.
pub(crate) fn missing(wanted: &[Privilege]) -> Vec<Privilege> {
    let Some(set) = permitted() else { return Vec::new() };
    wanted.iter().copied().filter(|privilege| !privilege.is_in(set)).collect()
}

/// Runs `work` with the program file's capabilities in effect, in this thread only (capabilities(7)). Don't open
/// user-named files in it. Changes nothing for root.
pub fn raised<T>(work: impl FnOnce() -> T) -> T {
    /// Restores the sets, even on a panic.
    struct Before(CapabilitySets);

    impl Drop for Before {
        fn drop(&mut self) {
            apply(self.0);
        }
    }

    let _before = unprivileged_sets().filter(|sets| sets.effective != sets.permitted).map(|sets| {
        apply(CapabilitySets { effective: sets.permitted, ..sets });
        Before(sets)
    });
    work()
}

/// Clears the capabilities in effect in this thread, which inherited them when it was started.
pub(crate) fn drop_capabilities() {
    if let Some(sets) = unprivileged_sets() {
        apply(CapabilitySets { effective: CapabilitySet::empty(), ..sets });
    }
}

/// Returns this thread's sets; `None` for root.
fn unprivileged_sets() -> Option<CapabilitySets> {
    (!geteuid().is_root()).then(|| capabilities(None).ok()).flatten()
}

/// Cannot fail: permitted capabilities may always be in effect.
fn apply(sets: CapabilitySets) {
    let _ = set_capabilities(None, sets);
}

/// The permitted set from `/proc/self/status`: all that can be put into effect.
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
