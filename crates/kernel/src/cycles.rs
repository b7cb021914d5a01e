//! Hardware cycle counters: two perf events per CPU (user, kernel), read by BPF programs at context switches.

use crate::options::CycleChoice;
use crate::skeleton::types;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use perf_event_open_sys::bindings::{
    PERF_COUNT_HW_CPU_CYCLES, PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING, PERF_TYPE_HARDWARE,
    perf_event_attr,
};
use perf_event_open_sys::perf_event_open;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd};

#[derive(Debug)]
struct CpuEvents {
    cpu: u32,
    user: File,
    kernel: File,
}

#[derive(Debug)]
pub(crate) struct CycleEvents(Vec<CpuEvents>);

impl CycleEvents {
    /// Opens the events. The error is the reason for the record.
    pub(crate) fn open(choice: CycleChoice) -> Result<Self, String> {
        let open: fn(u32, bool) -> io::Result<File> = match choice {
            CycleChoice::Reference => return Err("hardware cycles were not asked for".to_owned()),
            CycleChoice::Best => |cpu, user| open_event(hardware(user), cpu),
            CycleChoice::TscAsHardware => |cpu, _| open_event(time_stamp_counter()?, cpu),
        };
        let cpus = libbpf_rs::num_possible_cpus().map_err(|error| error.to_string())?;
        let mut events = Vec::new();
        for cpu in 0..cpus as u32 {
            match open(cpu, true).and_then(|user| Ok(CpuEvents { cpu, user, kernel: open(cpu, false)? })) {
                Ok(pair) => events.push(pair),
                // The CPU is offline.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
                Err(error) => return Err(in_words(&error)),
            }
        }
        Ok(Self(events))
    }

    /// Hands the events to the BPF programs: user mode in the first half of the table, kernel mode in the second.
    pub(crate) fn install(&self, table: &MapHandle) -> Result<(), libbpf_rs::Error> {
        let half = table.max_entries() / 2;
        for events in self.0.iter().filter(|events| events.cpu < half) {
            for (index, event) in [(events.cpu, &events.user), (half + events.cpu, &events.kernel)] {
                table.update(&index.to_ne_bytes(), &event.as_raw_fd().to_ne_bytes(), MapFlags::ANY)?;
            }
        }
        Ok(())
    }

    pub(crate) fn read(&self, cpu: u32) -> io::Result<types::cycle_use> {
        let Some(events) = self.0.iter().find(|events| events.cpu == cpu) else {
            return Ok(types::cycle_use::default());
        };
        let [user, user_enabled, user_running] = read_event(&events.user)?;
        let [kernel, kernel_enabled, kernel_running] = read_event(&events.kernel)?;
        Ok(types::cycle_use {
            user,
            kernel,
            enabled_ns: user_enabled + kernel_enabled,
            running_ns: user_running + kernel_running,
            missed: 0,
        })
    }
}

fn hardware(user: bool) -> perf_event_attr {
    let mut attributes =
        perf_event_attr { type_: PERF_TYPE_HARDWARE, config: PERF_COUNT_HW_CPU_CYCLES.into(), ..Default::default() };
    attributes.set_exclude_kernel(user.into());
    attributes.set_exclude_user((!user).into());
    attributes.set_exclude_hv(1);
    attributes
}

fn time_stamp_counter() -> io::Result<perf_event_attr> {
    let number = fs::read_to_string("/sys/bus/event_source/devices/msr/type")?;
    let type_ = number.trim().parse().map_err(io::Error::other)?;
    Ok(perf_event_attr { type_, config: 0, ..Default::default() })
}

fn open_event(mut attributes: perf_event_attr, cpu: u32) -> io::Result<File> {
    attributes.size = size_of::<perf_event_attr>() as u32;
    attributes.read_format = u64::from(PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING);
    let flags = perf_event_open_sys::bindings::PERF_FLAG_FD_CLOEXEC;
    // SAFETY: `attributes` is initialised and holds its own size; a counting event writes to none of our memory.
    let fd = unsafe { perf_event_open(&raw mut attributes, -1, cpu.cast_signed(), -1, flags.into()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has returned a new descriptor, which has no other owner.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Returns value, time enabled and time running (`perf_event_open(2)`, "Reading results").
fn read_event(mut event: &File) -> io::Result<[u64; 3]> {
    let mut bytes = [0; 24];
    event.read_exact(&mut bytes)?;
    let (words, _) = bytes.as_chunks::<8>();
    Ok(std::array::from_fn(|index| u64::from_ne_bytes(words[index])))
}

fn in_words(error: &io::Error) -> String {
    let meaning = match error.raw_os_error() {
        Some(libc::ENOENT) => "ENOENT, no PMU in this VM".to_owned(),
        Some(libc::EOPNOTSUPP) => "EOPNOTSUPP, the PMU has no cycle counter".to_owned(),
        Some(libc::EACCES | libc::EPERM) => {
            "no permission; run with sudo or cap_perfmon, or lower kernel.perf_event_paranoid".to_owned()
        }
        Some(libc::ENOSYS) => "ENOSYS, the kernel has no perf events".to_owned(),
        _ => error.to_string(),
    };
    format!("perf_event_open: {meaning}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_pmu_is_named() {
        let error = io::Error::from_raw_os_error(libc::ENOENT);
        assert_eq!(in_words(&error), "perf_event_open: ENOENT, no PMU in this VM");
    }
}
