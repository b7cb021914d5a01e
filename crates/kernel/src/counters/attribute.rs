//! Makes the record of a window from the processes that own the captured connections.

use super::shares::{SocketShares, WITHHELD_ABOVE, percent};
use super::{KernelCounters, text};
use crate::bpf::{SOCKET, SOFTIRQ};
use crate::convert::{CountedProcesses, RecordContext};
use crate::error::{Error, ports_in_words};
use crate::options::{ProcessRole, ProcessSelection};
use crate::ownership::{CapturedConnection, Ownership};
use crate::skeleton::types;
use crate::snapshot::{self, CounterSnapshot, SlotSums};
use crate::sums::CounterSum;
use libbpf_rs::MapCore;
use overhead_model::record::{self, ProtocolCounters};
use overhead_model::{Measured, Protocol};
use std::collections::BTreeSet;

/// Processes named in one sentence.
const MAX_NAMED: usize = 3;

/// The window between two snapshots.
struct MeasuredWindow<'counters> {
    counters: &'counters KernelCounters,
    context: RecordContext<'counters>,
    start: &'counters CounterSnapshot,
    last: &'counters CounterSnapshot,
    /// Several protocols were captured; remarks are made for each.
    several: bool,
    remarks: Vec<String>,
}

impl KernelCounters {
    /// Returns the record of the window, of the processes that own the captured connections. Other users of the same
    /// ports are left out, and [`KernelCounters::warnings`] names them. Call [`KernelCounters::mark_end`] first.
    pub fn attribute(&mut self, captured: &[CapturedConnection]) -> Result<record::Counters, Error> {
        let table = snapshot::connections(&self.programs);
        let most = self.programs.connections.max_entries();
        let ownership = Ownership::new(captured, &table, self.options.network_namespace, most);
        let mut window = self.ended_window()?;
        let protocols = ownership.protocols();
        window.several = protocols.len() > 1;
        let mut record = window.record(|window, role| window.owned_role(role, None, captured, &ownership));
        if window.several {
            let names: Vec<&str> = protocols.iter().map(|protocol| protocol.name()).collect();
            let reason = format!(
                "the captured connections are of {}: the counters of each are given apart",
                names.join(" and ")
            );
            for role in [&mut record.server, &mut record.client] {
                if let Measured::Value(role) = role {
                    role.withheld = Some(reason.clone());
                }
            }
            record.protocols = protocols
                .iter()
                .map(|protocol| ProtocolCounters {
                    protocol: protocol.name().to_owned(),
                    server: window.protocol_role(ProcessRole::Server, *protocol, captured, &ownership).into(),
                    client: window.protocol_role(ProcessRole::Client, *protocol, captured, &ownership).into(),
                })
                .collect();
        }
        self.remarks = window.remarks;
        Ok(record)
    }

    /// Like [`Self::attribute`] for UNIX sockets, to which all processes of both roles wrote `captured` bytes.
    pub fn attribute_streams(&mut self, captured: u64) -> Result<record::Counters, Error> {
        let mut window = self.ended_window()?;
        let record = window.record(|window, role| window.stream_role(role, captured));
        self.remarks = window.remarks;
        Ok(record)
    }

    /// Marks the end and returns the record so far, of all processes of both roles. Cheap enough for once a second.
    pub fn record_so_far(&mut self) -> Result<record::Counters, Error> {
        self.mark_end()?;
        self.record_marked()
    }

    /// Returns the record until the latest [`Self::mark_end`], of all processes of both roles.
    pub fn record_marked(&mut self) -> Result<record::Counters, Error> {
        let mut window = self.ended_window()?;
        let record = window.record(MeasuredWindow::whole_role);
        self.remarks = window.remarks;
        Ok(record)
    }

    fn ended_window(&self) -> Result<MeasuredWindow<'_>, Error> {
        let (start, last) = (self.start.as_ref().ok_or(Error::NotBegun)?, self.last.as_ref().ok_or(Error::NotBegun)?);
        let context = RecordContext {
            programs: &self.programs,
            ticks_per_ns: last.at.ticks_per_ns(&start.at),
            ports_given: !self.options.ports.is_empty(),
        };
        Ok(MeasuredWindow { counters: self, context, start, last, several: false, remarks: Vec::new() })
    }
}

impl MeasuredWindow<'_> {
    fn record(&mut self, role: impl Fn(&mut Self, ProcessRole) -> Result<record::Role, String>) -> record::Counters {
        record::Counters {
            window_ns: self.last.at.ns_since(&self.start.at),
            server: role(self, ProcessRole::Server).into(),
            client: role(self, ProcessRole::Client).into(),
            softirq: self.context.measured(&SOFTIRQ, self.last.softirq.since(&self.start.softirq)),
            protocols: Vec::new(),
            by_operation: Measured::unavailable("not asked for (--sample-kernel)"),
        }
    }

    /// Returns all counts of a role.
    fn whole_role(&mut self, role: ProcessRole) -> Result<record::Role, String> {
        let candidates = self.candidates(role)?;
        let (mut record, sums) = self.role(role, &candidates);
        let namespaces: BTreeSet<u32> = self
            .processes()
            .filter(|(_, process)| candidates.contains(&process.slot))
            .map(|(_, process)| process.netns)
            .collect();
        if namespaces.len() > 1 {
            self.remarks.push(format!("{}: processes of {} network namespaces are counted together, because only captured packets could separate them: {}", role.name(), namespaces.len(), self.in_words(&candidates)));
        }
        if let Some(reason) = self.unused_reason(role, &candidates, &sums) {
            self.remarks.push(format!("{}: {reason}", role.name()));
            record.withheld = Some(reason);
        }
        Ok(record)
    }

    /// Returns all counts of a role at one end of UNIX sockets.
    fn stream_role(&mut self, role: ProcessRole, captured: u64) -> Result<record::Role, String> {
        let candidates = self.candidates(role)?;
        let (mut record, sums) = self.role(role, &candidates);
        if let Some(reason) = self.context.programs.absence(&SOCKET) {
            record.coverage = Measured::unavailable(reason);
            return Ok(record);
        }
        let shares = SocketShares { moved: sums.socket_bytes(), owned: captured, captured, layered: false };
        (record.coverage, record.captured_share) = (shares.coverage(), shares.captured_share());
        record.withheld = shares.withheld();
        self.remark_on_shares(role.name(), record.withheld.as_deref(), &shares);
        Ok(record)
    }

    /// Returns the counts of the families that own captured connections.
    fn owned_role(
        &mut self,
        role: ProcessRole,
        protocol: Option<Protocol>,
        captured: &[CapturedConnection],
        ownership: &Ownership,
    ) -> Result<record::Role, String> {
        let candidates = self.candidates(role)?;
        let unseen = self.context.programs.absence(&SOCKET);
        let owned = ownership.owned(role, protocol);
        let chosen = match (&unseen, captured) {
            (_, []) => candidates.clone(),
            (Some(_), _) => self.nearby(&candidates, captured),
            (None, _) => {
                let owning: BTreeSet<u32> = candidates.intersection(&owned.slots).copied().collect();
                // Without other owners, show the processes the user named, even if idle.
                let named = || candidates.intersection(&self.counters.explicit).copied().collect();
                if owning.is_empty() && protocol.is_none() { named() } else { owning }
            }
        };
        let left_out: BTreeSet<u32> = candidates.difference(&chosen).copied().collect();
        if chosen.is_empty() {
            return Err(self.uncaptured_reason(role, &left_out));
        }
        if protocol.is_none() {
            self.remark_on_left_out(role, &left_out);
        }
        let (mut record, sums) = self.role(role, &chosen);
        let withheld = self.unused_reason(role, &chosen, &sums);
        if captured.is_empty() {
            record.withheld = withheld.or_else(|| Some("no connection was captured".to_owned()));
            return Ok(record);
        }
        if let Some(reason) = unseen {
            record.coverage = Measured::unavailable(reason);
            return Ok(record);
        }
        let shares = SocketShares {
            moved: sums.socket_bytes(),
            owned: owned.payload_bytes,
            captured: ownership.captured(protocol),
            layered: ownership.is_layered(&chosen),
        };
        (record.coverage, record.captured_share) = (shares.coverage(), shares.captured_share());
        record.withheld = withheld.or_else(|| shares.withheld());
        if protocol.is_some() || !self.several {
            let who = protocol.map_or_else(|| role.name().to_owned(), |of| format!("{} ({})", role.name(), of.name()));
            self.remark_on_shares(&who, record.withheld.as_deref(), &shares);
            self.remark_on_other_sockets(&who, role, &sums);
        }
        Ok(record)
    }

    fn remark_on_shares(&mut self, who: &str, withheld: Option<&str>, shares: &SocketShares) {
        self.remarks.extend(match (withheld, shares.warning()) {
            (Some(reason), _) => Some(format!("{who}: counters per operation are withheld: {reason}")),
            (None, Some(warning)) => Some(format!("{who}: {warning}")),
            (None, None) => None,
        });
    }

    /// Warns if much of a server's work was for clients on other ports or UNIX sockets.
    fn remark_on_other_sockets(&mut self, who: &str, role: ProcessRole, sums: &SlotSums) {
        let (moved, elsewhere) = (sums.socket_bytes(), sums.elsewhere_bytes);
        let share = elsewhere as f64 / (moved + elsewhere).max(1) as f64;
        if role == ProcessRole::Server && share > WITHHELD_ABOVE {
            self.remarks.push(format!(
                "{who}: the counters per operation include other work: {} of the bytes that the processes sent and received were on UNIX \
                 sockets or ports other than {}",
                percent(share),
                ports_in_words(&self.counters.options.ports)
            ));
        }
    }

    /// Like [`Self::owned_role`] for one of several protocols.
    fn protocol_role(
        &mut self,
        role: ProcessRole,
        protocol: Protocol,
        captured: &[CapturedConnection],
        ownership: &Ownership,
    ) -> Result<record::Role, String> {
        let slots = ownership.owned(role, Some(protocol)).slots;
        let others = ownership.protocols().into_iter().filter(|other| *other != protocol);
        let shared = others.into_iter().find(|other| !ownership.owned(role, Some(*other)).slots.is_disjoint(&slots));
        if let Some(other) = shared {
            return Err(format!(
                "the same processes have connections of {} too, and their work cannot be divided",
                other.name()
            ));
        }
        self.owned_role(role, Some(protocol), captured, ownership)
    }

    /// Returns the counts of some slots and, of clients, of what they did before their first connect.
    fn role(&self, role: ProcessRole, slots: &BTreeSet<u32>) -> (record::Role, SlotSums) {
        let before = self.processes().filter(|(_, process)| slots.contains(&process.slot) && process.slot_before != 0);
        let all = before.map(|(_, process)| process.slot_before).chain(slots.iter().copied()).collect();
        let (mut record, sums) = self.sum(role, &all);
        record.threads -= sums.moved.min(record.threads);
        if role == ProcessRole::Client {
            record.since_connect = Some(self.since_connect(slots).map(|()| Box::new(self.sum(role, slots).0)).into());
        }
        (record, sums)
    }

    /// Returns whether some slots have only what clients did from their first connect on, or why they may have more.
    fn since_connect(&self, slots: &BTreeSet<u32>) -> Result<(), String> {
        let is_apart = |slot: &u32| {
            self.processes().filter(|(_, process)| process.slot == *slot).all(|(_, process)| process.connected != 0)
        };
        if slots.contains(&ProcessRole::Client.shared_slot()) || !slots.iter().all(is_apart) {
            return Err("not every process was seen to connect to the server".to_owned());
        }
        Ok(())
    }

    fn sum(&self, role: ProcessRole, slots: &BTreeSet<u32>) -> (record::Role, SlotSums) {
        let mut counted = slots.clone();
        // Retransmissions without a known process are counted in the shared slot.
        if !self.slots(role).contains(&role.shared_slot()) {
            counted.insert(role.shared_slot());
        }
        let sums = self.last.since(self.start, &counted);
        let mut record = self.context.role(self.family(slots), &sums);
        let before = self.start.thread_cpu_ns(&counted);
        record.threads = sums.threads + before.len() as u64;
        let used = |(tid, cpu_ns): (u32, u64)| cpu_ns.saturating_sub(before.get(&tid).copied().unwrap_or_default());
        let live: Vec<u64> = self.last.thread_cpu_ns(&counted).into_iter().map(used).collect();
        let ended = sums.used.cpu_ns.saturating_sub(live.iter().sum());
        record.busiest_thread_ns = Measured::Value(live.into_iter().fold(ended, u64::max));
        (record, sums)
    }

    /// Returns the slots of a role that had processes in the window, or why there are none.
    fn candidates(&self, role: ProcessRole) -> Result<BTreeSet<u32>, String> {
        let slots = self.slots(role);
        if slots.is_empty() { Err(self.counters.no_process_reason(role)) } else { Ok(slots) }
    }

    fn slots(&self, role: ProcessRole) -> BTreeSet<u32> {
        let slots = self.processes().map(|(_, process)| process.slot);
        slots.filter(|slot| ProcessRole::from_slot(*slot) == Some(role)).collect()
    }

    /// Returns the processes that ended in the window, then the live ones.
    fn processes(&self) -> impl Iterator<Item = &(u32, types::process)> {
        let ended = &self.counters.ended;
        let is_ended = |(pid, process): &(u32, types::process)| {
            ended.iter().any(|(other, ended)| other == pid && ended.since_ns == process.since_ns)
        };
        ended.iter().chain(self.last.processes.iter().filter(move |process| !is_ended(process)))
    }

    /// If only loopback traffic was captured, returns the slots in the captured network namespace; else all.
    fn nearby(&self, candidates: &BTreeSet<u32>, captured: &[CapturedConnection]) -> BTreeSet<u32> {
        let own = self.counters.options.network_namespace;
        let is_far = |slot: &u32| {
            let mut of_slot = self.processes().filter(|(_, process)| process.slot == *slot);
            of_slot.all(|(_, process)| process.netns != own)
        };
        let on_loopback = captured.iter().all(|connection| connection.server.ip().is_loopback());
        candidates.iter().filter(|slot| !on_loopback || !is_far(slot)).copied().collect()
    }

    fn family(&self, slots: &BTreeSet<u32>) -> CountedProcesses {
        let mut family = CountedProcesses { pids: Vec::new(), comms: Vec::new() };
        for (pid, process) in self.processes().filter(|(_, process)| slots.contains(&process.slot)) {
            let now = self.last.threads.iter().find(|reading| reading.tid == *pid && process.alive != 0);
            let comm = text(now.map_or(&process.comm, |reading| &reading.comm));
            family.pids.push(*pid);
            if !family.comms.contains(&comm) {
                family.comms.push(comm);
            }
        }
        family
    }

    /// Returns the reason to withhold counters of named processes that never used the port.
    fn unused_reason(&self, role: ProcessRole, slots: &BTreeSet<u32>, sums: &SlotSums) -> Option<String> {
        let named = matches!(
            self.counters.selection(role),
            ProcessSelection::Pids(_) | ProcessSelection::Cgroup(_) | ProcessSelection::Comm(_)
        );
        let counted = self.context.programs.absence(&SOCKET).is_none() && !self.counters.options.ports.is_empty();
        (named && counted && sums.socket_bytes() == 0).then(|| {
            let ports = ports_in_words(&self.counters.options.ports);
            format!("{}, which was named, sent and received nothing on port {ports}", self.in_words(slots))
        })
    }

    /// Warns about processes that used the ports but no captured connection.
    fn remark_on_left_out(&mut self, role: ProcessRole, left_out: &BTreeSet<u32>) {
        let busy = |slot: &&u32| self.last.since(self.start, &BTreeSet::from([**slot])).socket_bytes() > 0;
        let busy: BTreeSet<u32> = left_out.iter().filter(busy).copied().collect();
        let idle: BTreeSet<u32> = left_out.difference(&busy).copied().collect();
        if matches!(self.counters.selection(role), ProcessSelection::Pids(_)) && !idle.is_empty() {
            let ports = ports_in_words(&self.counters.options.ports);
            let who = self.in_words(&idle);
            self.remarks
                .push(format!("{}: {who}, which was named, sent and received nothing on port {ports}", role.name()));
        }
        if !busy.is_empty() {
            self.remarks.push(format!(
                "{}: {} used port {} too, but none of the captured connections: not counted",
                role.name(),
                self.in_words(&busy),
                ports_in_words(&self.counters.options.ports)
            ));
        }
    }

    fn uncaptured_reason(&self, role: ProcessRole, slots: &BTreeSet<u32>) -> String {
        let ports = ports_in_words(&self.counters.options.ports);
        format!(
            "none of the captured connections belongs to a {} on this host; {} is on port {ports}, but was not captured",
            role.name(),
            self.in_words(slots)
        )
    }

    /// `redis-server (process 12), redis-server (process 13, in another network namespace) and 2 more`.
    fn in_words(&self, slots: &BTreeSet<u32>) -> String {
        let own = self.counters.options.network_namespace;
        let first = |slot: &u32| self.processes().find(|(_, process)| process.slot == *slot);
        let words = |(pid, process): &(u32, types::process)| {
            let place = if process.netns == own || process.netns == 0 { "" } else { ", in another network namespace" };
            format!("{} (process {pid}{place})", text(&process.comm))
        };
        let named: Vec<String> = slots.iter().filter_map(first).take(MAX_NAMED).map(words).collect();
        let more = slots.len().saturating_sub(MAX_NAMED);
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{rest}", named.join(", "))
    }
}

impl KernelCounters {
    /// Stops sampling work until the next window.
    pub fn stop_sampling(&mut self) {
        self.sampler = None;
    }

    /// Marks now as the end of the window. A later call moves the end; counting goes on.
    ///
    /// # Errors
    ///
    /// [`Error::NotBegun`]; [`Error::Tables`] if the maps cannot be read.
    pub fn mark_end(&mut self) -> Result<(), Error> {
        if self.start.is_none() {
            return Err(Error::NotBegun);
        }
        self.last = Some(CounterSnapshot::take(&self.programs, &self.slots())?);
        self.collect_ended();
        Ok(())
    }
}
