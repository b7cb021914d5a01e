//! Kernel work of servers: system calls and CPU time of a few windows, next to the operations of the same windows.

use super::flows::{FlowBook, wire_bytes};
use super::servers::{ServerEnd, WatchedServers};
use overhead_kernel::{CounterOptions, Error, KernelCounters, ProcessSelection, raised};
use overhead_model::add_fields;
use overhead_model::record::Role;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One window in this many has counters, because loading them takes longer than a window.
pub const WINDOWS: u64 = 6;

/// Most servers with counters of their own.
const SERVERS: usize = 500;

/// A server whose work a window counts.
#[derive(Clone, Debug)]
pub struct WorkPlan {
    pub server: ServerEnd,
    pids: Vec<u32>,
    network_namespace: u32,
}

/// A server's work in windows.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerWork {
    pub windows: u64,
    pub operations: u64,
    pub syscalls: u64,
    pub cpu_ns: u64,
}

impl ServerWork {
    pub fn add(&mut self, more: &Self) {
        add_fields!(self, more => windows, operations, syscalls, cpu_ns);
    }
}

/// Counters for a window; absent if its plan has none.
pub struct WorkCounting(Option<Result<KernelCounters, Error>>);

impl WorkCounting {
    pub fn load(plan: Option<&WorkPlan>) -> Self {
        Self(plan.map(|plan| {
            let mut options = CounterOptions::for_ports(vec![plan.server.address.port()]);
            options.server = ProcessSelection::Pids(plan.pids.clone());
            options.client = ProcessSelection::Named("the agent counts servers".to_owned());
            options.network_namespace = plan.network_namespace;
            raised(|| KernelCounters::load(&options))
        }))
    }

    pub fn start(self) -> Self {
        let start = |mut counters: KernelCounters| raised(|| counters.begin()).map(|()| counters);
        Self(self.0.map(|loaded| loaded.and_then(start)))
    }

    /// Ends the counting.
    pub fn stop(self) -> Self {
        let stop = |mut counters: KernelCounters| raised(|| counters.mark_end()).map(|()| counters);
        Self(self.0.map(|started| started.and_then(stop)))
    }

    /// Returns the server's work between start and stop, without operations; `None` if its processes have ended.
    pub fn end(self) -> Result<Option<ServerWork>, Error> {
        let mut counters = match self.0 {
            None | Some(Err(Error::NoSuchProcess(_))) => return Ok(None),
            Some(counters) => counters?,
        };
        let record = counters.record_marked()?;
        let Some(Role { syscalls, on_cpu_ns, .. }) = record.server.value() else { return Ok(None) };
        let Some(on_cpu) = on_cpu_ns.value() else { return Ok(None) };
        let syscalls = syscalls.values().map(|call| call.count).sum();
        Ok(Some(ServerWork { windows: 1, operations: 0, syscalls, cpu_ns: on_cpu.user + on_cpu.kernel }))
    }
}

/// The work of all servers.
#[derive(Default, Serialize, Deserialize)]
pub struct WorkBook {
    #[serde(with = "overhead_model::pairs")]
    pub by_server: BTreeMap<ServerEnd, ServerWork>,
    /// Bytes of each server at its last window.
    #[serde(skip)]
    seen: BTreeMap<ServerEnd, u64>,
}

impl WorkBook {
    /// Keeps the servers apart from those of this start of the host.
    pub fn leave_boot(&mut self) {
        for (server, work) in std::mem::take(&mut self.by_server) {
            self.by_server.entry(server.before_boot()).or_default().add(&work);
        }
    }

    /// Returns the server of a network namespace with the most bytes since its last window; `None` without any.
    pub fn next(&mut self, flows: &FlowBook, servers: &WatchedServers, network_namespace: u32) -> Option<WorkPlan> {
        let mut bytes = BTreeMap::<ServerEnd, u64>::new();
        for (flow, sums) in flows.flows.iter().filter(|(flow, _)| flow.at_server) {
            *bytes.entry(flow.server).or_default() += wire_bytes(&sums.totals).iter().sum::<u64>();
        }
        self.seen.retain(|server, _| bytes.contains_key(server));
        let mut due: Vec<_> = bytes
            .into_iter()
            .filter_map(|(server, bytes)| {
                let database = servers.database(&server)?;
                let is_here = database.network_namespace == Some(network_namespace);
                let new = bytes.saturating_sub(self.seen.get(&server).copied().unwrap_or_default());
                (is_here && new > 0).then(|| (new, bytes, server, database.pids.clone()))
            })
            .collect();
        due.sort_unstable_by_key(|(new, ..)| *new);
        let (_, bytes, server, pids) = due.pop()?;
        self.seen.insert(server, bytes);
        Some(WorkPlan { server, pids, network_namespace })
    }

    /// Adds a server's work in a window. Beyond the limit, the least measured server moves to [`ServerEnd::OTHER`].
    pub fn add(&mut self, server: ServerEnd, work: &ServerWork) {
        self.by_server.entry(server).or_default().add(work);
        let others = self.by_server.iter().filter(|(known, _)| **known != ServerEnd::OTHER && **known != server);
        let least = others.min_by_key(|(_, work)| work.operations).map(|(server, _)| *server);
        if self.by_server.len() > SERVERS
            && let Some(work) = least.and_then(|server| self.by_server.remove(&server))
        {
            self.by_server.entry(ServerEnd::OTHER).or_default().add(&work);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_ends_before_its_window_is_not_a_fault() {
        let ended = WorkCounting(Some(Err(Error::NoSuchProcess(23_003))));
        assert!(matches!(ended.start().stop().end(), Ok(None)));
        let refused = WorkCounting(Some(Err(Error::Load("-EINVAL".to_owned()))));
        assert!(refused.start().stop().end().is_err());
    }
}
