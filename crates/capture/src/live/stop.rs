use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Ends a capture from another thread.
#[derive(Clone, Debug)]
pub struct StopHandle(Arc<StopState>);

#[derive(Debug)]
struct StopState {
    /// Unix nanoseconds of the stop; 0 before it.
    at_ns: AtomicU64,
    wake: OwnedFd,
}

impl StopHandle {
    /// Returns a handle that is not stopped; fails without a free descriptor.
    pub fn new() -> std::io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self(Arc::new(StopState { at_ns: AtomicU64::new(0), wake })))
    }

    /// Ends the capture as of now: earlier frames are still delivered, later ones are not. Further calls have no
    /// effect. Safe in a signal handler: it reads a clock, stores an integer and writes to a file descriptor.
    pub fn stop(&self) {
        if self.0.at_ns.compare_exchange(0, now_ns(), Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            // Fails only if the counter is full, and then the reader has been woken already.
            let _ = rustix::io::write(&self.0.wake, &1_u64.to_ne_bytes());
        }
    }

    /// Returns the time of the stop, Unix nanoseconds.
    pub fn requested_ns(&self) -> Option<u64> {
        Some(self.0.at_ns.load(Ordering::Acquire)).filter(|ns| *ns > 0)
    }

    /// Readable after a stop.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.wake.as_fd()
    }
}

/// Returns the current Unix time in nanoseconds, at least 1.
pub(super) fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64).max(1)
}
