//! Capabilities that a program file gives to whoever runs it (capabilities(7)).
//!
//! One such as `cap_dac_read_search` would open any file that a user names. Verbs that do not capture drop them at once. The others
//! keep them permitted, and have them in effect only within [`raised`]. Root is not restricted.

#[cfg(feature = "live")]
pub use overhead_kernel::raised;

/// Takes the capabilities of this process out of effect, before anything is opened. `keeps_permitted` leaves them to be raised.
#[cfg(unix)]
pub fn lower(keeps_permitted: bool) {
    use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
    if rustix::process::geteuid().is_root() {
        return;
    }
    if let Ok(sets) = capabilities(None) {
        let none = CapabilitySet::empty();
        let permitted = if keeps_permitted { sets.permitted } else { none };
        // Fewer are always allowed.
        let _ = set_capabilities(None, CapabilitySets { effective: none, permitted, inheritable: none });
    }
}

/// Files have no capabilities here.
#[cfg(not(unix))]
pub fn lower(_keeps_permitted: bool) {}
