//! Work that is done in what time is left on the processors.

use std::sync::{Arc, Mutex, PoisonError};

/// Lets one thread run in what time the others leave (`SCHED_IDLE`, sched(7)), or like the others again.
///
/// A thread that runs in the background never keeps another from running, and may not run at all while there are enough of
/// them: whoever waits for it calls [`IdlePriority::hurry`].
#[derive(Clone, Debug, Default)]
pub struct IdlePriority(Arc<Mutex<IdleState>>);

#[derive(Debug, Default)]
struct IdleState {
    /// The thread's number; `None` while there is none, and where it could not come back from the background.
    thread: Option<libc::pid_t>,
    behind: bool,
}

impl IdlePriority {
    /// The calling thread is the one. Where the system would not let it return from the background it stays what it is.
    pub fn enter(&self) {
        // Tried by a thread of its own, which would have to stay there.
        let probe = std::thread::spawn(|| {
            let thread = this_thread();
            schedule(thread, libc::SCHED_IDLE) && schedule(thread, libc::SCHED_OTHER)
        });
        if probe.join().unwrap_or(false) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).thread = Some(this_thread());
        }
    }

    /// From now on the thread runs in the background.
    pub fn relax(&self) {
        self.set(true, libc::SCHED_IDLE);
    }

    /// From now on the thread runs like any other.
    pub fn hurry(&self) {
        self.set(false, libc::SCHED_OTHER);
    }

    fn set(&self, behind: bool, policy: libc::c_int) {
        // Held until it is done: whoever says so last is to have the last word.
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = state.thread.filter(|_| state.behind != behind) {
            state.behind = behind;
            schedule(thread, policy);
        }
    }
}

fn this_thread() -> libc::pid_t {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Returns whether the thread has this policy now.
fn schedule(thread: libc::pid_t, policy: libc::c_int) -> bool {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: `parameters` is a `struct sched_param` that outlives the call, which only reads it. A number that is no
    // thread's is refused.
    unsafe { libc::sched_setscheduler(thread, policy, &raw const parameters) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> libc::c_int {
        // SAFETY: 0 is the calling thread.
        unsafe { libc::sched_getscheduler(0) }
    }

    #[test]
    fn a_thread_goes_to_the_background_and_comes_back() {
        let background = IdlePriority::default();
        background.relax();
        assert_eq!(policy(), libc::SCHED_OTHER, "nobody has entered");
        background.enter();
        let may = background.0.lock().unwrap().thread.is_some();
        background.relax();
        assert_eq!(policy(), if may { libc::SCHED_IDLE } else { libc::SCHED_OTHER });
        let other = background.clone();
        std::thread::spawn(move || other.hurry()).join().unwrap();
        assert_eq!(policy(), libc::SCHED_OTHER, "and another thread may call it back");
    }
}
