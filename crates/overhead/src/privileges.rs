//! Handles capabilities that a program file grants to its users (capabilities(7)).
//!
//! A capability such as `cap_dac_read_search` would open any file that a user names. Verbs that do not capture drop them at
//! once. The others keep them permitted, but in effect only within `raised` of `overhead-kernel`. Root is not restricted.

/// Takes this process's capabilities out of effect before it opens anything. `keeps_permitted` allows raising them later.
#[cfg(unix)]
pub fn lower(keeps_permitted: bool) {
    use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
    if overhead_files::is_root() {
        return;
    }
    if let Ok(sets) = capabilities(None) {
        let none = CapabilitySet::empty();
        let permitted = if keeps_permitted { sets.permitted } else { none };
        // Reducing capabilities is always allowed.
        let _ = set_capabilities(None, CapabilitySets { effective: none, permitted, inheritable: none });
    }
}

/// Does nothing, since files have no capabilities on this system.
#[cfg(not(unix))]
pub fn lower(_keeps_permitted: bool) {}
