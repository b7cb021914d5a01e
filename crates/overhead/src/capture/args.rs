//! Arguments of `capture`, and their units. [`CapturePlan`](super::plan::CapturePlan) is their checked form.

use super::plaintext;
use super::rotation::RotationArgs;
use crate::cli::{DecodeArgs, Output};
use crate::project::ProjectArgs;
use crate::sample::{DissectArgs, SampleArgs};
use crate::time::{duration, some_time};
use clap::Args;
use overhead_kernel::TlsProcesses;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `capture`, by purpose, as help lists them.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "What to capture")]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub struct CaptureArgs {
    /// Interface; `any` works [default: lo, or the container's]
    #[arg(short, long, value_name = "IF", overrides_with = "iface")]
    pub iface: Option<String>,
    /// List the interfaces and exit
    #[arg(hide_short_help = true, short = 'D', long)]
    pub list_interfaces: bool,
    #[command(flatten)]
    pub decode: DecodeArgs,
    /// A UNIX socket, instead of an interface or with -i: its path, @NAME or `auto`
    ///
    /// Repeatable. `auto` finds the sockets of the servers of --db. It is the default, together with lo, without -i, --container
    /// and -f.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["filter", "bpf_only"])]
    pub unix: Vec<String>,
    /// Further pcap filter
    #[arg(short, long, value_name = "EXPR")]
    pub filter: Option<String>,
    /// Read plain text from the OpenSSL or BoringSSL calls of these processes; `auto`: the server's, otherwise its clients'
    #[arg(hide_short_help = true, long, value_name = "PID|auto", value_parser = plaintext::parse, conflicts_with_all = ["unix", "bpf_only"])]
    pub tls_plaintext: Option<TlsProcesses>,
    /// A container, by name, id or pod, with its processes
    #[arg(help_heading = "Containers", long, value_name = "NAME|ID", conflicts_with = "unix")]
    pub container: Option<String>,
    #[command(flatten, next_help_heading = "When to stop")]
    pub limits: LimitArgs,
    /// Capture while this command runs, and pass on its exit status
    ///
    /// Its output goes to standard error.
    #[arg(help_heading = "Command", last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
    /// Run the command N times, with medians and spreads
    ///
    /// Each run has a run folder below DIR. The default is 1, and 5 in a sweep.
    #[arg(help_heading = "Command", long, value_name = "N", requires = "command", conflicts_with = "write", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub runs: Option<u32>,
    /// Run the command N times unwatched and N times under the capture, and report the cost of watching [N: 5]
    #[arg(help_heading = "Command", hide_short_help = true, long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "5", requires = "command", conflicts_with_all = ["write", "runs"], value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub measure_cost: Option<u32>,
    /// Run the command as this user [default under sudo: you]
    #[arg(help_heading = "Command", hide_short_help = true, long, value_name = "NAME", requires = "command")]
    pub user: Option<String>,
    /// Under sudo, run the command as root, and write files as root
    #[arg(help_heading = "Command", hide_short_help = true, long, conflicts_with = "user")]
    pub as_root: bool,
    /// Only connections that the command's own processes open
    ///
    /// These are its descendants. What `docker exec` starts in a container is not among them.
    #[arg(help_heading = "Command", long, requires = "command", conflicts_with_all = ["no_bpf", "bpf_only", "unix", "tls_plaintext"])]
    pub only_command: bool,
    /// Run folder, or folder of a sweep [default: runs/TIME-DB]
    #[arg(help_heading = "What to keep", short = 'o', long = "output", value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Overwrite an existing run or files in the run folder
    #[arg(help_heading = "What to keep", hide_short_help = true, long)]
    pub force: bool,
    /// Packets only, to a file or to standard output (-)
    #[arg(help_heading = "What to keep", short, value_name = "FILE", conflicts_with_all = ["folder", "bpf_only"])]
    pub write: Option<PathBuf>,
    #[command(flatten, next_help_heading = "What to keep")]
    pub rotation: RotationArgs,
    #[command(flatten)]
    pub sample: SampleArgs,
    /// Keep no packets, only the figures
    #[arg(hide_short_help = true, long, conflicts_with_all = ["write", "bpf_only", "fields"])]
    pub no_packets: bool,
    #[command(flatten)]
    pub dissect: DissectArgs,
    /// Bytes kept of each frame; 0 for all
    #[arg(hide_short_help = true, short, long, value_name = "N", default_value = "0", value_parser = byte_size)]
    pub snaplen: u32,
    /// Kernel buffer (64k, 128M)
    #[arg(hide_short_help = true, short = 'B', long = "buffer", value_name = "SIZE", default_value = "64M", value_parser = byte_size)]
    pub buffer: u32,
    #[command(flatten, next_help_heading = "Kernel")]
    pub counters: CounterArgs,
    #[command(flatten)]
    pub server: ServerArgs,
    #[command(flatten, next_help_heading = "Result")]
    pub output: Output,
    /// Also sum up the fields of the messages, from the packets, once the capture is over
    #[arg(hide_short_help = true, long, conflicts_with_all = ["write", "bpf_only"])]
    pub fields: bool,
    #[command(flatten)]
    pub project: ProjectArgs,
    /// Also say how many operations took no longer than 1 ms, 2 ms, …
    #[arg(hide_short_help = true, long, conflicts_with_all = ["write", "bpf_only"])]
    pub distribution: bool,
    /// Serve the figures to Prometheus while the capture runs, at http://ADDR:PORT/metrics
    #[arg(hide_short_help = true, long, value_name = "ADDR:PORT")]
    pub metrics: Option<SocketAddr>,
}

/// Options that select the server's processes.
#[derive(Args, Clone, Debug)]
pub struct ServerArgs {
    /// Server process for the counters, if not the one that listens on the port; repeatable
    #[arg(hide_short_help = true, short, long, value_name = "PID")]
    pub pid: Vec<u32>,
    /// Server processes for the counters: all in this control group
    #[arg(hide_short_help = true, long, value_name = "PATH", conflicts_with = "pid")]
    pub cgroup: Option<PathBuf>,
    /// Server processes for the counters: all with this command name (its first 15 bytes)
    #[arg(hide_short_help = true, long, value_name = "NAME", conflicts_with_all = ["pid", "cgroup"])]
    pub comm: Option<String>,
}

/// Start and end of the counted part of a capture.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct LimitArgs {
    /// Stop after this many frames
    #[arg(short = 'c', long = "count", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Stop after this time (10s, 500ms, 2m)
    #[arg(long, value_name = "T", value_parser = some_time)]
    pub duration: Option<Duration>,
    /// Ignore frames and counters for this time after the first frame; --duration begins after it
    #[arg(hide_short_help = true, long, value_name = "T", value_parser = duration)]
    pub warmup: Option<Duration>,
    /// Stop after this many workload operations
    #[arg(hide_short_help = true, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub ops: Option<u64>,
}

/// Choice of kernel counters.
#[derive(Args, Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub struct CounterArgs {
    /// Also time the network softirqs of the whole machine; costs four clock readings per request
    #[arg(hide_short_help = true, long, conflicts_with = "no_bpf")]
    pub softirq: bool,
    /// Also sample system calls and CPU time by operation
    #[arg(long, conflicts_with_all = ["no_bpf", "bpf_only", "unix", "tls_plaintext"])]
    pub sample_kernel: bool,
    /// Packets without counters
    #[arg(long, conflicts_with = "bpf_only")]
    pub no_bpf: bool,
    /// Counters without packets
    #[arg(hide_short_help = true, long)]
    pub bpf_only: bool,
}

/// Parses a size in bytes, such as `96`, `64k` or `128M`.
pub fn byte_size(text: &str) -> Result<u32, String> {
    let bytes =
        sized(text, 1).ok_or_else(|| format!("{text} is not a size: give bytes, or a number such as 64k or 128M"))?;
    u32::try_from(bytes)
        .ok()
        .filter(|bytes| *bytes < 1 << 31)
        .ok_or_else(|| format!("{text} is too large: give less than 2G"))
}

/// Parses a number with an optional suffix k, m or g, in either case. Without a suffix, its unit is `unit` bytes.
pub fn sized(text: &str, unit: u64) -> Option<u64> {
    let (digits, factor) = match text.char_indices().next_back()? {
        (at, 'k' | 'K') => (&text[..at], 1 << 10),
        (at, 'm' | 'M') => (&text[..at], 1 << 20),
        (at, 'g' | 'G') => (&text[..at], 1 << 30),
        _ => (text, unit),
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_suffixes() {
        assert_eq!(byte_size("96"), Ok(96));
        assert_eq!(byte_size("64k"), Ok(65_536));
        assert_eq!(byte_size("128M"), Ok(128 << 20));
        assert_eq!(byte_size("1m"), Ok(1 << 20));
        assert_eq!(byte_size("1g"), Ok(1 << 30));
        assert!(byte_size("4G").is_err());
        assert!(byte_size("k").is_err());
    }
}
