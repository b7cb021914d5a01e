//! Measures what the BPF programs cost, by the kernel's own timing of their runs.
//!
//! While that is on, every BPF program on the machine reads two clocks per run, which costs about as much as our
//! programs. So it is on for short moments, and the rest is extrapolated.

use crate::background::BackgroundThread;
use crate::options::OwnCost;
use crate::privilege::{self, raised};
use crate::sums::{CounterSum, counter_sums};
use libbpf_rs::libbpf_sys::{self, bpf_prog_info};
use overhead_model::privilege::{SYS_ADMIN, remedy};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Timing is on for one part in forty.
const MOMENT: Duration = Duration::from_millis(5);
const PAUSE: Duration = Duration::from_millis(195);

/// Stops on drop.
#[derive(Debug)]
pub(crate) struct OwnCostTimer {
    programs: Arc<TimedPrograms>,
    timed: Arc<Mutex<TimedRuns>>,
    how: OwnCostMethod,
}

#[derive(Debug)]
enum OwnCostMethod {
    Never,
    Always {
        _statistics: OwnedFd,
        since: Instant,
    },
    Sampled {
        _thread: BackgroundThread,
    },
    /// The reason why the kernel does not time them.
    Refused(String),
}

/// Runs of the empty program that measure the meter. Interrupts can prolong a run, so the median round counts.
const EMPTY_RUNS: u32 = 8;
const EMPTY_ROUNDS: usize = 9;

/// Kernel-timed runs of our programs and of the empty one, and how long timing was on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimedRuns {
    pub(crate) programs: ProgramRuns,
    pub(crate) empty: ProgramRuns,
    pub(crate) looked_ns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProgramRuns {
    pub(crate) count: u64,
    pub(crate) ns: u64,
}

counter_sums! {
    ProgramRuns { count, ns }
    TimedRuns { programs, empty, looked_ns }
}

impl TimedRuns {
    /// Subtracts the meter's two clock readings, as measured on the empty program.
    pub(crate) fn net_ns(&self) -> u64 {
        let meter = u128::from(self.empty.ns) * u128::from(self.programs.count);
        let meter_ns = meter.checked_div(u128::from(self.empty.count)).unwrap_or(0);
        u128::from(self.programs.ns).saturating_sub(meter_ns) as u64
    }
}

impl OwnCostTimer {
    /// Starts timing if the kernel permits. Counting does not depend on it.
    pub(crate) fn start(counting: Vec<OwnedFd>, empty: Option<OwnedFd>, how: OwnCost) -> Self {
        let (programs, timed) = (Arc::new(TimedPrograms { counting, empty }), Arc::<Mutex<TimedRuns>>::default());
        // Tests now whether it is permitted.
        let allowed = if how == OwnCost::Untimed { None } else { Some(enable_statistics()) };
        let how = match (how, allowed) {
            (_, Some(Err(error))) => OwnCostMethod::Refused(refusal(&error)),
            (OwnCost::Timed, Some(Ok(statistics))) => {
                OwnCostMethod::Always { _statistics: statistics, since: Instant::now() }
            }
            (OwnCost::Untimed, _) | (_, None) => OwnCostMethod::Never,
            (OwnCost::Sampled, Some(Ok(statistics))) => {
                drop(statistics);
                let (programs, timed) = (Arc::clone(&programs), Arc::clone(&timed));
                let meter = BackgroundThread::start(
                    "meter",
                    move |wait| {
                        while sample(&programs, &timed, wait) && wait(PAUSE) {}
                    },
                );
                match meter {
                    Ok(thread) => OwnCostMethod::Sampled { _thread: thread },
                    Err(error) => OwnCostMethod::Refused(error.to_string()),
                }
            }
        };
        Self { programs, timed, how }
    }

    /// Returns why the kernel does not time them; `None` if it does or was not asked to.
    pub(crate) fn refused(&self) -> Option<&str> {
        if let OwnCostMethod::Refused(reason) = &self.how { Some(reason) } else { None }
    }

    pub(crate) fn timed(&self) -> io::Result<TimedRuns> {
        match &self.how {
            OwnCostMethod::Never | OwnCostMethod::Refused(_) | OwnCostMethod::Sampled { .. } => {
                Ok(*self.timed.lock().unwrap_or_else(PoisonError::into_inner))
            }
            OwnCostMethod::Always { since, .. } => {
                let empty = self.programs.run_empty()?;
                let mut timed = self.timed.lock().unwrap_or_else(PoisonError::into_inner);
                timed.empty.add(&empty);
                let looked_ns = since.elapsed().as_nanos() as u64;
                Ok(TimedRuns { programs: self.programs.runs()?, empty: timed.empty, looked_ns })
            }
        }
    }

    /// Returns the number of events lost because a program was already running on the CPU.
    pub(crate) fn missed(&self) -> io::Result<u64> {
        self.programs.counting.iter().map(|program| Ok(information(program)?.recursion_misses)).sum()
    }
}

/// Times one moment. Returns false if timing is to end or fails.
fn sample(programs: &TimedPrograms, timed: &Mutex<TimedRuns>, wait: &dyn Fn(Duration) -> bool) -> bool {
    let moment = || -> io::Result<(TimedRuns, bool)> {
        let statistics = enable_statistics()?;
        let (since, before) = (Instant::now(), programs.runs()?);
        let goes_on = wait(MOMENT);
        let (looked_ns, runs) = (since.elapsed().as_nanos() as u64, programs.runs()?.since(&before));
        let empty = programs.run_empty()?;
        drop(statistics);
        Ok((TimedRuns { programs: runs, empty, looked_ns }, goes_on))
    };
    let Ok((moment, goes_on)) = moment() else { return false };
    timed.lock().unwrap_or_else(PoisonError::into_inner).add(&moment);
    goes_on
}

#[derive(Debug)]
struct TimedPrograms {
    counting: Vec<OwnedFd>,
    empty: Option<OwnedFd>,
}

impl TimedPrograms {
    fn runs(&self) -> io::Result<ProgramRuns> {
        let mut sum = ProgramRuns::default();
        for program in &self.counting {
            sum.add(&runs(program)?);
        }
        Ok(sum)
    }

    /// Runs the empty program and returns the median round's timing.
    fn run_empty(&self) -> io::Result<ProgramRuns> {
        let Some(program) = &self.empty else { return Ok(ProgramRuns::default()) };
        let mut rounds = [ProgramRuns::default(); EMPTY_ROUNDS];
        for round in &mut rounds {
            let before = runs(program)?;
            for _ in 0..EMPTY_RUNS {
                run(program)?;
            }
            *round = runs(program)?.since(&before);
        }
        rounds.sort_unstable_by_key(|round| round.ns);
        Ok(rounds[EMPTY_ROUNDS / 2])
    }
}

fn runs(program: &OwnedFd) -> io::Result<ProgramRuns> {
    let info = information(program)?;
    Ok(ProgramRuns { count: info.run_cnt, ns: info.run_time_ns })
}

/// Runs a program that needs no context.
fn run(program: &OwnedFd) -> io::Result<()> {
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    // SAFETY: the options hold their own size and point to none of our memory.
    let failed = raised(|| unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) });
    if failed != 0 { Err(io::Error::from_raw_os_error(failed.abs())) } else { Ok(()) }
}

/// Lets the kernel time all BPF programs until the descriptor is closed.
fn enable_statistics() -> io::Result<OwnedFd> {
    // SAFETY: the call takes a plain number and returns a descriptor or a negative error.
    raised(|| descriptor(unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) }))
}

/// Converts a result of libbpf: a new descriptor, or a negative error.
pub(crate) fn descriptor(returned: i32) -> io::Result<OwnedFd> {
    if returned < 0 {
        return Err(io::Error::from_raw_os_error(-returned));
    }
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(returned) })
}

/// Tests whether the kernel can time BPF programs.
pub(crate) fn try_statistics() -> Result<(), String> {
    enable_statistics().map(drop).map_err(|error| refusal(&error))
}

fn refusal(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM) => {
            let missing = privilege::missing(&[SYS_ADMIN]);
            format!("BPF_ENABLE_STATS: {error}: {}", remedy(&missing))
        }
        _ => format!("BPF_ENABLE_STATS: {error}: a kernel from 5.8 on can"),
    }
}

fn information(program: &OwnedFd) -> io::Result<bpf_prog_info> {
    let mut info = bpf_prog_info::default();
    let mut length = size_of::<bpf_prog_info>() as u32;
    // SAFETY: the kernel writes at most `length` bytes to `info`, which is plain numbers.
    let failed =
        unsafe { libbpf_sys::bpf_obj_get_info_by_fd(program.as_raw_fd(), (&raw mut info).cast(), &raw mut length) };
    if failed != 0 { Err(io::Error::from_raw_os_error(failed.abs())) } else { Ok(info) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_meters_own_time_is_taken_off() {
        let (programs, empty) = (ProgramRuns { count: 1_000, ns: 90_000 }, ProgramRuns { count: 64, ns: 64 * 50 });
        assert_eq!(TimedRuns { programs, empty, looked_ns: 1 }.net_ns(), 40_000);
        assert_eq!(TimedRuns { programs, empty: ProgramRuns::default(), looked_ns: 1 }.net_ns(), 90_000);
    }
}
