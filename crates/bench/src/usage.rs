//! CPU time of this process.

use anyhow::{Context, Result};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use overhead_model::load::LoadCpu;

/// Returns the CPU time of all threads since the start. The sum is exact; the kernel samples how it splits.
pub fn cpu() -> Result<LoadCpu> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).context("the CPU time of this process cannot be read")?;
    let nanos = |time: nix::sys::time::TimeVal| time.num_nanoseconds().unsigned_abs();
    Ok(LoadCpu { user: nanos(usage.user_time()), kernel: nanos(usage.system_time()) })
}

/// Returns the CPU time since an earlier reading.
pub fn since(before: LoadCpu) -> Result<LoadCpu> {
    let now = cpu()?;
    Ok(LoadCpu { user: now.user.saturating_sub(before.user), kernel: now.kernel.saturating_sub(before.kernel) })
}
