//! Kernel counters of a capture: loaded if possible, absent with the reason if not.

use super::announce;
use super::plan::CapturePlan;
use super::streams::UnixSockets;
use anyhow::Result;
use overhead_kernel::{
    CapturedConnection, CounterOptions, Error, KernelCounters, OwnCost, ProcessRole, ProcessSelection, SocketKinds,
    WorkListener, raised,
};
use overhead_model::{Measured, Side, record};
use overhead_report::Aggregate;
use std::collections::BTreeMap;

/// Counters, or the reason why there are none.
pub struct KernelCounting(Result<Box<KernelCounters>, String>);

impl KernelCounting {
    /// Loads the programs for the servers of the plan's ports. A server that starts to listen later is found then.
    pub fn load(plan: &CapturePlan, sockets: Option<&UnixSockets>) -> Result<Self> {
        if !plan.counters.is_on {
            return Ok(Self(Err("not asked for (--no-bpf)".to_owned())));
        }
        if plan.sample.cycle.is_some() {
            let why = "not counted with --sample: the counters would run all the time, and the packets are captured only in windows";
            return Ok(Self(Err(why.to_owned())));
        }
        let mut options = CounterOptions::for_ports(plan.live.ports.as_slice());
        options.own_cost = OwnCost::Sampled;
        options.softirq = plan.counters.softirq;
        options.adopt_children = true;
        options.server = plan.counters.server.clone();
        options.by_operation = plan.counters.by_operation;
        if plan.command.is_alone {
            // Others may have had the same ports before or after.
            options.client = ProcessSelection::Named("the command's processes did not connect".to_owned());
        }
        if let Some(namespace) = plan.live.namespace() {
            options.network_namespace = namespace.number as u32;
        }
        if let Some(sockets) = sockets {
            options.sockets = if sockets.are_beside { SocketKinds::Both } else { SocketKinds::Unix };
        }
        if let Some(sockets) = sockets.filter(|sockets| !sockets.are_beside) {
            if options.server == ProcessSelection::Ports {
                options.server = sockets.server();
            }
            let why = "no process that had connected, or that the command started, existed when the capture started";
            options.client = ProcessSelection::Named(why.to_owned());
        }
        match raised(|| KernelCounters::load(&options)) {
            Ok(counters) => Ok(Self(Ok(Box::new(counters)))),
            Err(error) if !plan.captures() => Err(error.into()),
            // Without counters, the capture still measures bytes.
            Err(
                error @ (Error::NoBtf(_)
                | Error::Permission(_)
                | Error::PidNamespace
                | Error::NoProc(_)
                | Error::Load(_)
                | Error::Attach { .. }),
            ) => Ok(Self(Err(error.to_string()))),
            Err(error) => Err(error.into()),
        }
    }

    /// Starts to count. Counts before are dropped.
    pub fn start(&mut self) {
        self.or_absent(|counters| counters.begin().map(drop));
    }

    /// Ends the window: later work does not count.
    pub fn stop(&mut self) {
        self.or_absent(|counters| {
            counters.stop_sampling();
            counters.mark_end()
        });
    }

    fn or_absent(&mut self, action: impl FnOnce(&mut KernelCounters) -> Result<(), Error>) {
        if let Ok(counters) = &mut self.0
            && let Err(error) = raised(|| action(counters))
        {
            self.0 = Err(error.to_string());
        }
    }

    /// Returns a note if no server runs yet.
    pub fn awaited(&self, ports: &[u16]) -> Option<String> {
        let awaiting = self.0.as_ref().is_ok_and(|counters| counters.awaiting);
        awaiting.then(|| {
            format!(
                "no process on this host listens on port {} yet: its system calls are counted from when one does (or name \
                 it with --pid, --comm or --cgroup)",
                announce::some(ports.iter().map(u16::to_string))
            )
        })
    }

    /// Also counts these processes.
    pub fn add<'a>(&mut self, role: ProcessRole, pids: impl IntoIterator<Item = &'a u32>) {
        if let Ok(counters) = &mut self.0 {
            for pid in pids {
                // Fails if the process has ended, which leaves nothing to count.
                let _ = raised(|| counters.add_process(role, *pid));
            }
        }
    }

    /// Returns the part that joins sampled work with operations, or the reason why nothing is sampled.
    pub fn sampling(&self) -> Measured<WorkListener> {
        self.0.as_ref().map_or_else(Measured::unavailable, |counters| counters.sampling())
    }

    /// Returns the counts so far.
    pub fn read(&mut self) -> Measured<record::Counters> {
        self.record(KernelCounters::record_so_far)
    }

    /// Returns the counts of the window, by the processes that own the captured connections.
    pub fn attribute(&mut self, aggregate: &Aggregate) -> Measured<record::Counters> {
        let captured = aggregate.peers().map(|(client, server, protocol, payload_bytes)| CapturedConnection {
            client,
            server,
            protocol,
            payload_bytes,
        });
        self.record(|counters| counters.attribute(&captured.collect::<Vec<_>>()))
    }

    /// Returns the counts of the window, by the processes at both ends of UNIX sockets, which are already known.
    pub fn attribute_streams(&mut self, aggregate: &Aggregate) -> Measured<record::Counters> {
        let payload = Side::BOTH.map(|side| aggregate.ledger(side).payload()).iter().sum();
        self.record(|counters| counters.attribute_streams(payload))
    }

    fn record(
        &mut self,
        read: impl FnOnce(&mut KernelCounters) -> Result<record::Counters, Error>,
    ) -> Measured<record::Counters> {
        match &mut self.0 {
            Ok(counters) => raised(|| read(counters)).into(),
            Err(reason) => Measured::unavailable(&*reason),
        }
    }

    /// Returns the network namespace of each followed process.
    pub fn network_namespaces(&self) -> BTreeMap<u32, u32> {
        self.0.as_ref().map(|counters| counters.network_namespaces()).unwrap_or_default()
    }

    /// Returns the time spent in our own programs.
    pub fn bpf_ns(&self) -> Measured<u64> {
        self.0.as_ref().map_or_else(Measured::unavailable, |counters| raised(|| counters.bpf_ns()))
    }

    /// Returns warnings about the counts.
    pub fn warnings(&self) -> Vec<String> {
        self.0.as_ref().map(|counters| counters.warnings()).unwrap_or_default()
    }
}
