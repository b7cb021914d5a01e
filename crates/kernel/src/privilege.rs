//! Which capabilities this process lacks.

use overhead_model::privilege::Privilege;
use std::fs;

/// Those of `wanted` that this process does not have in effect; none where the system does not say.
pub(crate) fn missing(wanted: &[Privilege]) -> Vec<Privilege> {
    let Some(set) = effective() else { return Vec::new() };
    wanted.iter().copied().filter(|privilege| !privilege.is_in(set)).collect()
}

/// The effective set, as `/proc/self/status` has it.
fn effective() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(set.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_says_what_is_in_effect() {
        assert!(effective().is_some());
    }
}
