//! What the programs themselves cost: the kernel times their runs while it is asked to.
//!
//! Asking costs two clock readings a run, of every BPF program on the machine, which is about as much as the programs cost.
//! So it is asked for a moment, again and again, and what was timed stands for the whole.

use crate::options::OwnCost;
use libbpf_rs::libbpf_sys::{self, bpf_prog_info};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long runs are timed, and how long they are not: one part in forty.
const MOMENT: Duration = Duration::from_millis(5);
const PAUSE: Duration = Duration::from_millis(195);

/// The programs' own costs, timed as long as this lives.
#[derive(Debug)]
pub(crate) struct Timing {
    programs: Arc<[OwnedFd]>,
    timed: Arc<Mutex<Timed>>,
    how: How,
}

#[derive(Debug)]
enum How {
    Never,
    Always { _statistics: OwnedFd, since: Instant },
    Sampled { end: Option<Sender<()>>, thread: Option<JoinHandle<()>> },
}

/// Time in the programs, and how long that was looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timed {
    pub(crate) run_ns: u64,
    pub(crate) looked_ns: u64,
}

impl Timing {
    /// Times these programs.
    pub(crate) fn start(programs: Vec<OwnedFd>, how: OwnCost) -> io::Result<Self> {
        let (programs, timed) = (Arc::<[OwnedFd]>::from(programs), Arc::<Mutex<Timed>>::default());
        let how = match how {
            OwnCost::Untimed => How::Never,
            OwnCost::Timed => How::Always { _statistics: enable_statistics()?, since: Instant::now() },
            OwnCost::Sampled => {
                // Says now whether it is allowed.
                drop(enable_statistics()?);
                let (end, ended) = channel();
                let (programs, timed) = (Arc::clone(&programs), Arc::clone(&timed));
                let passes = move |time| ended.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
                let thread = std::thread::spawn(move || while sample(&programs, &timed, &passes) && passes(PAUSE) {});
                How::Sampled { end: Some(end), thread: Some(thread) }
            }
        };
        Ok(Self { programs, timed, how })
    }

    /// What was timed so far.
    pub(crate) fn timed(&self) -> io::Result<Timed> {
        match &self.how {
            How::Never | How::Sampled { .. } => Ok(*self.timed.lock().unwrap_or_else(PoisonError::into_inner)),
            How::Always { since, .. } => {
                Ok(Timed { run_ns: run_ns(&self.programs)?, looked_ns: since.elapsed().as_nanos() as u64 })
            }
        }
    }

    /// Events lost because a program was already running on the CPU.
    pub(crate) fn missed(&self) -> io::Result<u64> {
        self.programs.iter().map(|program| Ok(information(program)?.recursion_misses)).sum()
    }
}

impl Drop for Timing {
    fn drop(&mut self) {
        if let How::Sampled { end, thread } = &mut self.how {
            drop(end.take());
            if let Some(thread) = thread.take() {
                // It has nothing to say at its end.
                let _ = thread.join();
            }
        }
    }
}

/// Times one moment; false when it is over with timing, or the kernel does not tell.
fn sample(programs: &[OwnedFd], timed: &Mutex<Timed>, passes: &impl Fn(Duration) -> bool) -> bool {
    let moment = || -> io::Result<(Timed, bool)> {
        let statistics = enable_statistics()?;
        let (since, before) = (Instant::now(), run_ns(programs)?);
        let goes_on = passes(MOMENT);
        let looked_ns = since.elapsed().as_nanos() as u64;
        let run_ns = run_ns(programs)?.saturating_sub(before);
        drop(statistics);
        Ok((Timed { run_ns, looked_ns }, goes_on))
    };
    let Ok((moment, goes_on)) = moment() else { return false };
    let mut timed = timed.lock().unwrap_or_else(PoisonError::into_inner);
    timed.run_ns += moment.run_ns;
    timed.looked_ns += moment.looked_ns;
    goes_on
}

fn run_ns(programs: &[OwnedFd]) -> io::Result<u64> {
    programs.iter().map(|program| Ok(information(program)?.run_time_ns)).sum()
}

/// Makes the kernel time every run of every BPF program, until the descriptor is closed.
fn enable_statistics() -> io::Result<OwnedFd> {
    // SAFETY: the call takes a plain number and returns a descriptor or a negative error.
    let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the call has just returned this descriptor, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn information(program: &OwnedFd) -> io::Result<bpf_prog_info> {
    let mut info = bpf_prog_info::default();
    let mut length = size_of::<bpf_prog_info>() as u32;
    // SAFETY: the kernel writes at most `length` bytes to `info`, whose type is plain numbers.
    let failed =
        unsafe { libbpf_sys::bpf_obj_get_info_by_fd(program.as_raw_fd(), (&raw mut info).cast(), &raw mut length) };
    if failed != 0 { Err(io::Error::from_raw_os_error(failed.abs())) } else { Ok(info) }
}
