//! Describes the machine and the command, so that a run can be repeated.

use crate::redact;
use overhead_model::record::{Environment, Interface, Workload};
use std::fs;

/// Describes this machine and the command, without its passwords. Facts that the system does not provide are empty.
pub fn describe(interface: Option<Interface>, command: &[String]) -> Environment {
    let read = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    Environment {
        command_line: redact::command_line(std::env::args_os().map(|word| word.to_string_lossy().into_owned())),
        workload: (!command.is_empty())
            .then(|| Workload { command: redact::command_line(command.iter().cloned()), ..Workload::default() }),
        kernel: read("/proc/sys/kernel/osrelease"),
        cpu: model.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, model)| model.to_owned()),
        cpus: std::thread::available_parallelism().map_or(0, |n| n.get() as u32),
        host: read("/proc/sys/kernel/hostname"),
        interface,
        container: None,
    }
}
