use std::sync::{Arc, Mutex, PoisonError};

/// Lets one thread run only on otherwise idle CPUs (`SCHED_IDLE`, sched(7)), or normally again.
///
/// At idle priority it never delays other threads, but may not run at all while other threads keep all CPUs busy. Call
/// [`IdlePriority::hurry`] before waiting for it.
#[derive(Clone, Debug, Default)]
pub struct IdlePriority(Arc<Mutex<IdleState>>);

#[derive(Debug, Default)]
struct IdleState {
    /// `None` before [`IdlePriority::enter`], or if it could not return to normal priority.
    thread: Option<libc::pid_t>,
    behind: bool,
}

impl IdlePriority {
    /// Makes this the calling thread, if the system allows it to return from idle priority.
    pub fn enter(&self) {
        // Tested on another thread, which might have to stay there.
        let probe = std::thread::Builder::new().spawn(|| {
            let thread = this_thread();
            schedule(thread, libc::SCHED_IDLE) && schedule(thread, libc::SCHED_OTHER)
        });
        if probe.is_ok_and(|probe| probe.join().unwrap_or(false)) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).thread = Some(this_thread());
        }
    }

    /// Moves the thread to idle priority.
    pub fn relax(&self) {
        self.set(true, libc::SCHED_IDLE);
    }

    /// Moves the thread back to normal priority.
    pub fn hurry(&self) {
        self.set(false, libc::SCHED_OTHER);
    }

    fn set(&self, behind: bool, policy: libc::c_int) {
        // Locked until done, so that the last caller wins.
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

/// Sets the policy. Returns whether that succeeded.
fn schedule(thread: libc::pid_t, policy: libc::c_int) -> bool {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: `parameters` is a `struct sched_param` that outlives the call, which only reads it. Unknown threads are
    // refused.
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
