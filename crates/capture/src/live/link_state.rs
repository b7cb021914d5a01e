//! Detects whether an interface goes down, comes up, or is removed during a capture.
//!
//! The kernel unhooks a packet socket from an interface that goes down, and rehooks it when the interface comes up,
//! so the capture need not end. After a removal, the socket stays unbound even if the interface is recreated
//! (`packet_notifier` in `net/packet/af_packet.c`).

use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// The interface's state, as reported to the socket.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LinkState {
    /// The interface was reported down, and no frame came since.
    down_since: Option<Instant>,
    pub times_down: u32,
}

impl LinkState {
    /// Records that the interface went down or was removed.
    #[cold]
    pub fn went_down(&mut self) {
        if self.down_since.is_none() {
            self.down_since = Some(Instant::now());
            self.times_down += 1;
        }
    }

    /// Records a frame.
    #[inline]
    pub fn is_up(&mut self) {
        self.down_since = None;
    }

    /// Returns whether it has been down without a frame for this long.
    pub fn is_down_for(self, time: Duration) -> bool {
        self.down_since.is_some_and(|since| since.elapsed() >= time)
    }
}

/// Returns the index of the interface that a packet socket is bound to; `None` once it was removed.
pub(super) fn bound_interface(socket: &impl AsRawFd) -> Option<i32> {
    // SAFETY: a `sockaddr_ll` is integers and bytes, so any value is valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    let mut size = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the descriptor is open, the address has `size` bytes, and both outlive the call.
    let result = unsafe { libc::getsockname(socket.as_raw_fd(), (&raw mut address).cast(), &raw mut size) };
    (result == 0 && address.sll_ifindex > 0).then_some(address.sll_ifindex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_reported_down_twice_went_down_once() {
        let mut state = LinkState::default();
        assert!(!state.is_down_for(Duration::ZERO));
        state.went_down();
        state.went_down();
        assert!(state.is_down_for(Duration::ZERO) && !state.is_down_for(Duration::from_mins(1)));
        state.is_up();
        assert!(!state.is_down_for(Duration::ZERO));
        state.went_down();
        assert_eq!(state.times_down, 2);
    }
}
