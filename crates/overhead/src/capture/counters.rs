//! Counters beside the packets: loaded if they can be, absent with the reason if not.

use super::args::CaptureArgs;
use super::streams::Sockets;
use crate::privileges::raised;
use anyhow::Result;
use overhead_kernel::{
    CapturedConnection, CounterOptions, Error, KernelCounters, OwnCost, ProcessRole, ProcessSelection, SocketKinds,
    WorkSampling,
};
use overhead_model::{Measured, Side, record};
use overhead_report::Aggregate;
use std::collections::{BTreeMap, BTreeSet};

/// Counters, or the reason why there are none.
pub enum Counting {
    /// They count.
    On(Box<KernelCounters>),
    /// They cannot, or were not asked for.
    Off(String),
}

impl Counting {
    /// Loads the programs for the servers of `ports`. One that does not listen yet is found when it does.
    pub fn load(args: &CaptureArgs, ports: &[u16], sockets: Option<&Sockets>) -> Result<Self> {
        if args.no_bpf {
            return Ok(Self::Off("not asked for (--no-bpf)".to_owned()));
        }
        if args.sample.cycle.is_some() {
            return Ok(Self::Off(
                "not counted with --sample: the counters would run all the time, and the packets are of windows"
                    .to_owned(),
            ));
        }
        let mut options = CounterOptions::for_ports(ports);
        options.own_cost = OwnCost::Sampled;
        options.softirq = args.softirq;
        options.adopt_children = true;
        options.server = args.server();
        options.by_operation = args.sample_kernel;
        if let Some(namespace) = args.namespace() {
            options.network_namespace = namespace.number() as u32;
        }
        if let Some(sockets) = sockets {
            options.sockets = if sockets.are_beside { SocketKinds::Both } else { SocketKinds::Unix };
        }
        if let Some(sockets) = sockets.filter(|sockets| !sockets.are_beside) {
            if options.server == ProcessSelection::Ports {
                options.server = sockets.server();
            }
            let why = "no process that had connected, or that the command started, was there as the capture began";
            options.client = ProcessSelection::Named(why.to_owned());
        }
        Self::or_absent(raised(|| KernelCounters::load(&options)), args)
    }

    fn or_absent(loaded: Result<KernelCounters, Error>, args: &CaptureArgs) -> Result<Self> {
        match loaded {
            Ok(counters) => Ok(Self::On(Box::new(counters))),
            Err(error) if args.bpf_only => Err(error.into()),
            // The machine cannot count: the bytes are worth having without.
            Err(
                error @ (Error::NoBtf(_)
                | Error::Permission(_)
                | Error::PidNamespace
                | Error::NoProc(_)
                | Error::Load(_)
                | Error::Attach { .. }),
            ) => Ok(Self::Off(error.to_string())),
            Err(error) => Err(error.into()),
        }
    }

    /// Begins the window.
    pub fn begin(&mut self) {
        if let Self::On(counters) = self
            && let Err(error) = raised(|| counters.begin())
        {
            *self = Self::Off(error.to_string());
        }
    }

    /// Returns what to say where no server is there yet.
    pub fn awaited(&self, ports: &[u16]) -> Option<String> {
        let awaiting = matches!(self, Self::On(counters) if counters.is_awaiting());
        let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
        awaiting.then(|| {
            format!(
                "no process on this host listens on port {} yet: its system calls are counted from when one does (or name \
                 it with --pid, --comm or --cgroup)",
                ports.join(" or ")
            )
        })
    }

    /// Counts these processes as clients, too. One that has ended meanwhile has nothing to count.
    pub fn add_clients(&mut self, pids: &BTreeSet<u32>) {
        self.add(ProcessRole::Client, pids);
    }

    /// Counts these processes as servers, too.
    pub fn add_servers<'a>(&mut self, pids: impl IntoIterator<Item = &'a u32>) {
        self.add(ProcessRole::Server, pids);
    }

    fn add<'a>(&mut self, role: ProcessRole, pids: impl IntoIterator<Item = &'a u32>) {
        if let Self::On(counters) = self {
            for pid in pids {
                let _ = raised(|| counters.add_process(role, *pid));
            }
        }
    }

    /// Returns what was counted in the window, by the processes at both ends of UNIX sockets, which were known before.
    pub fn attribute_streams(&mut self, aggregate: &Aggregate) -> Measured<record::Counters> {
        let Self::On(counters) = self else { return self.read() };
        let payload = Side::BOTH.map(|side| aggregate.ledger(side).payload()).iter().sum();
        match raised(|| counters.attribute_streams(payload)) {
            Ok(record) => Measured::Value(record),
            Err(error) => Measured::unavailable(error.to_string()),
        }
    }

    /// Ends the window.
    pub fn stop(&mut self) {
        let Self::On(counters) = self else { return };
        counters.stop_sampling();
        if let Err(error) = raised(|| counters.mark_end()) {
            *self = Self::Off(error.to_string());
        }
    }

    /// Returns where sampled work is joined with operations, or why none is.
    pub fn sampling(&self) -> Measured<WorkSampling> {
        match self {
            Self::On(counters) => counters.sampling(),
            Self::Off(reason) => Measured::unavailable(reason.clone()),
        }
    }

    /// Returns what was counted in the window, by the processes that the captured connections belong to.
    pub fn attribute(&mut self, aggregate: &Aggregate) -> Measured<record::Counters> {
        let Self::On(counters) = self else { return self.read() };
        let captured = aggregate.peers().map(|(client, server, protocol, payload_bytes)| CapturedConnection {
            client,
            server,
            protocol,
            payload_bytes,
        });
        let captured: Vec<CapturedConnection> = captured.collect();
        match raised(|| counters.attribute(&captured)) {
            Ok(record) => Measured::Value(record),
            Err(error) => Measured::unavailable(error.to_string()),
        }
    }

    /// Returns the network namespaces of the processes that were followed.
    pub fn network_namespaces(&self) -> BTreeMap<u32, u32> {
        match self {
            Self::On(counters) => counters.network_namespaces(),
            Self::Off(_) => BTreeMap::new(),
        }
    }

    /// Returns what was counted so far.
    pub fn read(&mut self) -> Measured<record::Counters> {
        match self {
            Self::On(counters) => match raised(|| counters.record_so_far()) {
                Ok(read) => Measured::Value(read),
                Err(error) => Measured::unavailable(error.to_string()),
            },
            Self::Off(reason) => Measured::unavailable(reason.clone()),
        }
    }

    /// Time in our own programs.
    pub fn bpf_ns(&self) -> Measured<u64> {
        match self {
            Self::On(counters) => raised(|| counters.bpf_ns()),
            Self::Off(reason) => Measured::unavailable(reason.clone()),
        }
    }

    /// Warnings about the counts.
    pub fn warnings(&self) -> Vec<String> {
        match self {
            Self::On(counters) => counters.warnings(),
            Self::Off(_) => Vec::new(),
        }
    }
}
