//! An interface that goes down, comes up again, or is removed while it is captured on.
//!
//! The kernel unhooks a packet socket from an interface that goes down, and hooks it on again by itself when that comes up: a
//! capture need not end. A socket whose interface was removed is bound to none, whatever interfaces of that name come later
//! (`packet_notifier` in `net/packet/af_packet.c`).

use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// Whether the interface is up, as far as the socket was told.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LinkState {
    /// Since when there was no frame.
    down_since: Option<Instant>,
    times_down: u32,
}

impl LinkState {
    /// The socket was told that its interface is down, or removed.
    #[cold]
    pub fn went_down(&mut self) {
        if self.down_since.is_none() {
            self.down_since = Some(Instant::now());
            self.times_down += 1;
        }
    }

    /// There was a frame.
    #[inline]
    pub fn is_up(&mut self) {
        self.down_since = None;
    }

    /// Returns whether no frame came for so long since it went down.
    pub fn is_down_for(self, time: Duration) -> bool {
        self.down_since.is_some_and(|since| since.elapsed() >= time)
    }

    /// Returns how often it went down.
    pub fn times_down(self) -> u32 {
        self.times_down
    }
}

/// Returns the number of the interface that a packet socket is bound to; `None` once that was removed.
pub(super) fn bound_interface(socket: &impl AsRawFd) -> Option<i32> {
    // SAFETY: a `sockaddr_ll` is integers and bytes, of which any value is valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    let mut size = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the descriptor is open, the address is as long as `size` says, and both outlive the call.
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
        assert_eq!(state.times_down(), 2);
    }
}
