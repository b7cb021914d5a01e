//! Arguments of `capture`, their units, and their translation into a [`CapturePlan`].

use crate::options::{DissectArgs, Output, ProjectArgs};
use anyhow::Result;
use clap::Args;
use overhead_files::FileOwner;
use overhead_kernel::{ProcessSelection, TlsProcesses};
use overhead_live::{
    CapturePlan, CommandPlan, CounterPlan, InheritedFiles, LimitPlan, LivePlan, OutputPlan, PacketUse, ResultPlan,
    RotationPlan, SocketPlan, SweepParameter, SweepPlan, User, check_parameters,
};
use overhead_model::{bail_usage, say};
use overhead_options::{DecodeArgs, SampleArgs};
use overhead_reading::ConnectionChoice;
use overhead_reading::time::{duration, some_time};
use overhead_report::text::counted;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Default number of runs of each combination in a sweep.
const SWEEP_RUNS: u32 = 5;

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
    /// Decrypt TLS with the secrets that these processes derive from now on; `auto`: all, also those that start later
    ///
    /// For OpenSSL, BoringSSL, Go and others, and what is built on them. The secrets are kept in memory only.
    #[arg(hide_short_help = true, long, alias = "tls-plaintext", value_name = "PID|auto", value_parser = tls_processes, conflicts_with = "bpf_only")]
    pub tls_keys: Option<TlsProcesses>,
    /// With -w: also write the keys of TLS connections into the file, so that others can decrypt it
    #[arg(hide_short_help = true, long, conflicts_with_all = ["seconds", "bytes"])]
    pub with_keys: bool,
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
    #[arg(help_heading = "Command", long, requires = "command", conflicts_with_all = ["no_bpf", "bpf_only", "unix"])]
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
    /// Keep no packets, only the record and its charts
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
    /// Also count the operations that took no longer than 1 ms, 2 ms, …
    #[arg(hide_short_help = true, long, conflicts_with_all = ["write", "bpf_only"])]
    pub distribution: bool,
    /// Serve metrics to Prometheus while the capture runs, at http://ADDR:PORT/metrics
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
    /// Ignore frames and counters for this time after the first frame; --duration starts after it
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
    #[arg(long, conflicts_with_all = ["no_bpf", "bpf_only", "unix"])]
    pub sample_kernel: bool,
    /// Packets without counters
    #[arg(long, conflicts_with = "bpf_only")]
    pub no_bpf: bool,
    /// Counters without packets
    #[arg(hide_short_help = true, long)]
    pub bpf_only: bool,
}

/// Limits of a packet file, and how many files are kept.
#[derive(Args, Clone, Copy, Debug)]
pub struct RotationArgs {
    /// Start a new packet file every so many seconds; the FILE of -w may have a strftime format
    #[arg(hide_short_help = true, short = 'G', value_name = "SECONDS", conflicts_with_all = ["bpf_only", "no_packets"], value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// Start a new packet file after so many million bytes (k, M, G: KiB, MiB, GiB)
    #[arg(hide_short_help = true, short = 'C', value_name = "SIZE", conflicts_with_all = ["bpf_only", "no_packets"], value_parser = file_size)]
    bytes: Option<u64>,
    /// With -C, keep so many files and delete the oldest; with only -G, end after so many
    #[arg(hide_short_help = true, short = 'W', value_name = "COUNT", conflicts_with_all = ["bpf_only", "no_packets"], value_parser = clap::value_parser!(u32).range(1..))]
    files: Option<u32>,
}

impl CaptureArgs {
    /// Checks the arguments before anything is created, as far as possible, and finds the container.
    pub fn plan(self) -> Result<CapturePlan> {
        // This must come before anything is opened.
        InheritedFiles::note();
        self.output.check()?;
        let user = User::choose(self.user.as_deref(), self.as_root)?;
        let RotationArgs { seconds, bytes, files } = self.rotation;
        let rotation = RotationPlan { seconds, bytes, files };
        rotation.check(self.write.as_deref())?;
        self.check_readings(rotation)?;
        let has_interface = self.unix.is_empty() || self.iface.is_some();
        let (connections, live) = self.find_interface(has_interface)?;
        let CounterArgs { softirq, sample_kernel, no_bpf, .. } = self.counters;
        let server = self.server.selection(live.place.as_ref().map_or(&[], |place| &place.servers));
        let LimitArgs { count, duration, warmup, ops } = self.limits;
        let (by, model) = (self.output.rows.by(), self.project.model());
        Ok(CapturePlan {
            has_interface,
            sockets: self.sockets(),
            packets: self.packets(),
            rotation,
            output: OutputPlan {
                folder: self.folder,
                force: self.force,
                owner: if self.as_root { None } else { FileOwner::sudo_caller() },
            },
            connections,
            live,
            keys: self.decode.plan().keys,
            dissect: self.dissect.plan(),
            tls: self.tls_keys,
            with_keys: self.with_keys,
            command: CommandPlan { words: self.command, user, is_alone: self.only_command },
            limits: LimitPlan { frames: count, operations: ops, duration, warmup },
            sample: self.sample.plan(),
            counters: CounterPlan {
                is_on: !no_bpf,
                softirq,
                by_operation: sample_kernel,
                server,
                named_pids: self.server.pid,
            },
            result: ResultPlan {
                by,
                distribution: self.distribution,
                fields: self.fields,
                model,
                round_trip_times: self.project.round_trip_times(),
                work: self.project.work.clone(),
            },
            metrics: self.metrics,
            cost_rounds: self.measure_cost,
            quiet: self.output.quiet,
        })
    }

    /// Checks the options of several runs before anything is created.
    pub fn sweep_plan(self, vary: Vec<SweepParameter>, warmup_runs: u32) -> Result<SweepPlan> {
        if self.command.is_empty() {
            bail_usage!("sweep runs a command: give it after --, with the parameters in braces ({{P}})");
        }
        if self.list_interfaces || self.write.is_some() {
            bail_usage!("-D and -w are for a single capture: each of several runs has a run folder");
        }
        if !self.output.columns.is_empty() || !self.output.rows.is_default() {
            bail_usage!(
                "columns, order and price of rows apply to the table of one run: give them to `overhead analyze` and \
                 one of the run folders; csv and json have all values"
            );
        }
        if !vary.is_empty() {
            check_parameters(&vary, &self.command)?;
        }
        let capture = self.clone().plan()?;
        let settings = self.settings(&capture);
        Ok(SweepPlan { vary, warmup_runs, runs: self.runs.unwrap_or(SWEEP_RUNS), settings, capture })
    }

    /// Returns the options that affect the measurement, as on a command line.
    fn settings(&self, plan: &CapturePlan) -> Vec<String> {
        let path = |path: &PathBuf| path.display().to_string();
        let time = |time: Duration| format!("{}s", time.as_secs_f64());
        let number = |number: u64| number.to_string();
        let valued = [
            ("--iface", Some(plan.live.interface.clone())),
            ("--container", self.container.clone()),
            ("--filter", self.filter.clone()),
            ("--cgroup", self.server.cgroup.as_ref().map(path)),
            ("--comm", self.server.comm.clone()),
            ("--user", self.user.clone()),
            ("--count", self.limits.count.map(number)),
            ("--duration", self.limits.duration.map(time)),
            ("--warmup", self.limits.warmup.map(time)),
            ("--ops", self.limits.ops.map(number)),
            ("--snaplen", (self.snaplen > 0).then(|| self.snaplen.to_string())),
        ];
        let flags = [
            ("--as-root", self.as_root),
            ("--no-bpf", self.counters.no_bpf),
            ("--bpf-only", self.counters.bpf_only),
            ("--softirq", self.counters.softirq),
            ("--fields", self.fields),
            ("--no-statements", self.dissect.plan().no_statements),
        ];
        let selected = &plan.connections.selected;
        let valued = valued.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?)));
        let db = selected.db.iter().map(|db| format!("--db={db}"));
        let ports = selected.ports.iter().map(|port| format!("--port={port}"));
        let flags = flags.into_iter().filter(|(_, on)| *on).map(|(name, _)| name.to_owned());
        valued.chain(db).chain(ports).chain(flags).collect()
    }

    fn packets(&self) -> PacketUse {
        match &self.write {
            Some(path) => PacketUse::Written(path.clone()),
            None if self.counters.bpf_only => PacketUse::NotCaptured,
            None if self.no_packets => PacketUse::Dissected,
            None => PacketUse::Kept,
        }
    }

    /// Chooses the UNIX sockets: the named ones, or those of a named server if no place to capture was named.
    fn sockets(&self) -> SocketPlan {
        let has_place = self.iface.is_some() || self.container.is_some() || self.filter.is_some();
        let needs_packets = self.counters.bpf_only
            || self.counters.sample_kernel
            || self.only_command
            || self.tls_keys.is_some()
            || self.project.model().is_some();
        if !self.unix.is_empty() {
            SocketPlan::Named(self.unix.clone())
        } else if has_place || needs_packets || self.decode.plan().connections.selected.db.is_empty() {
            SocketPlan::Nothing
        } else {
            SocketPlan::OfServers
        }
    }

    /// Finds the interface, the container and the ports, and prints what was chosen for the user.
    fn find_interface(&self, has_interface: bool) -> Result<(ConnectionChoice, LivePlan)> {
        let mut connections = self.decode.plan().connections;
        let wants_interface = !self.counters.bpf_only;
        let (mut live, elsewhere) =
            LivePlan::find(self.iface.clone(), self.container.as_deref(), &mut connections, wants_interface)?;
        if let Some(place) = live.place.as_ref().filter(|_| !self.output.quiet) {
            let name = place.container.argument();
            for (other, count) in elsewhere {
                let connections = counted(count, "connection");
                say!("overhead: container {name} has {connections} on {other} too: `-i {other}` captures these");
            }
        }
        if has_interface {
            live.found().filter(|_| !self.output.quiet).for_each(|found| say!("overhead: {found}"));
        } else {
            live.ports.clear();
        }
        (live.filter, live.snaplen, live.buffer) = (self.filter.clone(), self.snaplen, self.buffer);
        Ok((connections, live))
    }

    /// Rejects results that need another reading of the packets if not all packets are kept.
    fn check_readings(&self, rotation: RotationPlan) -> Result<()> {
        if self.with_keys && self.write.as_ref().is_none_or(|path| path == Path::new("-")) {
            bail_usage!("--with-keys writes into a packet file once the capture is over: name the file with -w FILE");
        }
        let has_model = self.project.model().is_some();
        let is_read_again = self.fields || has_model;
        if self.sample.plan().cycle.is_some()
            && (is_read_again || self.limits.warmup.is_some() || self.counters.bpf_only)
        {
            bail_usage!(
                "--sample captures a part of the time, and --fields, --project, --physical, --warmup and --bpf-only need all of it: leave it or them out"
            );
        }
        if rotation.is_ring() && is_read_again {
            bail_usage!(
                "--fields, --project and --physical read all packets again, and -W deletes some: leave it or them out"
            );
        }
        if has_model && !self.unix.is_empty() {
            bail_usage!(
                "--project and --physical model a link, and UNIX sockets have none: leave them out, or capture TCP"
            );
        }
        if has_model && self.packets() != PacketUse::Kept {
            bail_usage!(
                "--project and --physical read the packets of the run folder: leave -w, --no-packets and --bpf-only out"
            );
        }
        Ok(())
    }
}

impl ServerArgs {
    /// Returns how to find the server's processes. `in_container` are those of the captured container.
    fn selection(&self, in_container: &[u32]) -> ProcessSelection {
        match (&*self.pid, &self.cgroup, &self.comm, in_container) {
            ([_, ..], _, _, _) => ProcessSelection::Pids(self.pid.clone()),
            (_, Some(path), _, _) => ProcessSelection::Cgroup(path.clone()),
            (_, _, Some(name), _) => ProcessSelection::Comm(name.clone()),
            (_, _, _, [_, ..]) => ProcessSelection::Pids(in_container.to_vec()),
            _ => ProcessSelection::Ports,
        }
    }
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
fn sized(text: &str, unit: u64) -> Option<u64> {
    let (digits, factor) = match text.char_indices().next_back()? {
        (at, 'k' | 'K') => (&text[..at], 1 << 10),
        (at, 'm' | 'M') => (&text[..at], 1 << 20),
        (at, 'g' | 'G') => (&text[..at], 1 << 30),
        _ => (text, unit),
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// Parses the size of a file: `100` is a hundred million bytes, as in tcpdump; with a suffix, the unit is a power of 1,024.
fn file_size(text: &str) -> Result<u64, String> {
    let bytes = sized(text, 1_000_000).filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| format!("{text} is not a file size: give 100 (million bytes), 64k or 1G"))
}

/// Parses `auto` or process numbers.
fn tls_processes(text: &str) -> Result<TlsProcesses, String> {
    if text == "auto" {
        return Ok(TlsProcesses::Auto);
    }
    let pids = text.split(',').map(|pid| pid.parse().ok().filter(|pid| *pid > 0)).collect::<Option<Vec<u32>>>();
    let pids = pids.ok_or_else(|| format!("{text} is not a process number or `auto`"))?;
    Ok(TlsProcesses::Pids(pids))
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

    #[test]
    fn sizes_are_in_millions_or_have_a_suffix() {
        assert_eq!(file_size("100"), Ok(100_000_000));
        assert_eq!(file_size("64k"), Ok(65_536));
        assert_eq!(file_size("2G"), Ok(2 << 30));
        assert!(["", "k", "0", "1kk", "-1", "1.5"].into_iter().all(|text| file_size(text).is_err()));
    }

    #[test]
    fn processes_are_named_by_number() {
        assert_eq!(tls_processes("auto"), Ok(TlsProcesses::Auto));
        assert_eq!(tls_processes("17,4"), Ok(TlsProcesses::Pids(vec![17, 4])));
        for text in ["", "0", "redis", "17,"] {
            assert!(tls_processes(text).unwrap_err().contains("is not a process number"), "{text}");
        }
    }
}
