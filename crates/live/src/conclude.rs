//! Makes the record once the window has ended.

use crate::container::name_containers;
use crate::plan::{CapturePlan, ResultPlan};
use crate::rotation::{KeyRoom, PacketSet};
use crate::session::{CaptureEnd, CaptureSession, FinishedCapture};
use crate::threads::{CaptureOutcome, CaptureThreads};
use crate::{redact, streams};
use anyhow::Result;
use overhead_capture::live::{interface_facts, list_interfaces};
use overhead_dissect::KeyLog;
use overhead_host::databases::{self, Database};
use overhead_kernel::{TcpServer, own_network_namespace, raised, tcp_servers};
use overhead_model::record::{Counters, Environment, Interface, Source, SourceKind, Workload};
use overhead_model::{Measured, Run, Transport, exit};
use overhead_reading::{
    Circumstances, InputPlan, KeyReader, TlsServer, TlsServers, Warnings, add_distances, read_fields, read_projection,
    run_record,
};
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

/// Maximum number of servers on other ports that are named if nothing was captured.
const SERVERS_NAMED: usize = 3;

impl CaptureSession {
    /// Waits for the threads and makes the record.
    pub(super) fn finish(mut self) -> Result<FinishedCapture> {
        let plan = Arc::clone(&self.plan);
        let log = self.threads.as_ref().map(CaptureThreads::key_log).unwrap_or_default();
        let mut captured = self.threads.take().map_or_else(|| Ok(CaptureOutcome::nothing()), CaptureThreads::finish)?;
        if let Some(lost) = self.folder.as_ref().and_then(|folder| folder.lost_packets(&mut captured.packets.inputs)) {
            captured.warnings.partial(lost);
        }
        warn_of_failed_command(&mut captured.warnings, self.end);
        let had_streams = captured.totals.transports.contains(&Transport::Unix);
        let only_streams = self.sockets.as_ref().is_some_and(|sockets| !sockets.are_beside);
        let mut counters = match (plan.captures(), had_streams || only_streams) {
            (false, _) => self.counting.read(),
            (true, false) => self.counting.attribute(&captured.aggregate),
            (true, true) => self.counting.attribute_streams(&captured.aggregate),
        };
        let moments = [&self.containers, &databases::containers_now()];
        name_containers(&mut counters, &moments, &self.counting.network_namespaces());
        if let Some(keys) = captured.packets.keys.take() {
            write_keys(&keys, &log, &mut captured.warnings);
        }
        if let Some(tls_keys) = self.tls_keys.take() {
            tls_keys.finish(captured.totals.is_encrypted(), &mut captured.warnings);
        }
        let facts = self.facts(&captured, counters);
        self.warn(&mut captured, &facts);
        let mut run = run_record(&captured.aggregate, &captured.totals, captured.warnings, facts);
        captured.sampled.iter().for_each(|sampled| sampled.report(&mut run));
        let difference = self.witness.write(&mut run, &captured.totals);
        run.warnings.extend(difference);
        self.write_work(&mut run);
        if let Some(folder) = &self.folder {
            plan.read_packets_again(folder.packets(), log, &mut run)?;
        }
        Ok(FinishedCapture { folder: self.folder, run, end: self.end })
    }

    /// Collects the warnings about a capture.
    fn warn(&self, captured: &mut CaptureOutcome, facts: &Circumstances) {
        let (plan, warnings) = (&self.plan, &mut captured.warnings);
        if plan.captures() {
            if captured.totals.is_encrypted() {
                warnings.tls = plan.tls_servers();
            }
            warnings.warn_of_totals(&captured.totals);
            let interface = facts.environment.as_ref().and_then(|environment| environment.interface.as_ref());
            warnings.warn_of_frame_sizes(&captured.totals, interface);
            if plan.packet_file().is_some() {
                warnings.accept_packets_alone();
            }
        }
        if warnings.is_nothing() && plan.has_interface {
            plan.look_elsewhere(warnings);
        }
        if self.sockets.is_none() {
            streams::look_for_others(plan, &captured.aggregate, warnings);
        } else if captured.totals.frames == 0 {
            streams::look_for_servers(plan.sockets.names(), warnings);
        }
        self.warmup.iter().for_each(|warmup| warmup.report(warnings));
        if let Some(reason) = self.work.reason().filter(|_| plan.counters.by_operation) {
            warnings.remark(format!("no work was sampled by operation: {reason}"));
        }
        self.counting.warnings().into_iter().for_each(|warning| warnings.remark(warning));
    }

    fn facts(&self, captured: &CaptureOutcome, counters: Measured<Counters>) -> Circumstances {
        let plan = &self.plan;
        let interface = (plan.captures() && plan.has_interface)
            .then(|| raised(|| interface_facts(&plan.live.interface, plan.live.namespace())));
        let mut environment = describe(interface, &plan.command.words);
        environment.container = plan.live.place.as_ref().map(|place| place.container.record());
        if let Some(workload) = &mut environment.workload {
            workload.exit_code = self.exit_code;
            workload.was_ended = !matches!(self.end, CaptureEnd::Command { .. });
        }
        let PacketSet { inputs, rotation, .. } = captured.packets.clone();
        Circumstances {
            source: Source {
                kind: SourceKind::Live,
                inputs,
                rotation,
                selection: plan.connections.selected.clone(),
                only_command: captured.only_command,
                kernel_drops: captured.kernel_drops.clone(),
                ..Source::default()
            },
            environment: Some(environment),
            counters,
            bpf_ns: self.counting.bpf_ns(),
            started: self.started,
        }
    }

    /// Writes the sampled work by operation into the record, or the reason why it is missing.
    fn write_work(&self, run: &mut Run) {
        match (&self.work, &mut run.counters) {
            (Measured::Value(work), _) => work.lock().unwrap_or_else(PoisonError::into_inner).finish().write(run),
            (Measured::Unavailable { unavailable }, Measured::Value(counters)) => {
                counters.by_operation = Measured::unavailable(unavailable);
            }
            (Measured::Unavailable { .. }, Measured::Unavailable { .. }) => {}
        }
    }
}

/// Writes the keys of the connections into the packet file.
fn write_keys(room: &KeyRoom, log: &KeyLog, warnings: &mut Warnings) {
    match room.fill(&log.text()) {
        Ok(true) => {}
        Ok(false) => warnings.partial("the packet file has no room for all TLS keys: capture for a shorter time"),
        Err(error) => warnings.partial(format!("the TLS keys could not be written into the packet file: {error}")),
    }
}

impl CapturePlan {
    /// Adds the values for which the packets are read again.
    fn read_packets_again(&self, packets: Vec<PathBuf>, log: Arc<KeyLog>, run: &mut Run) -> Result<()> {
        add_distances(run, &self.result.round_trip_times);
        run.whole.work.clone_from(&self.result.work);
        let ResultPlan { fields, model, .. } = self.result;
        if !fields && model.is_none() {
            return Ok(());
        }
        let keys = KeyReader::read_again(&self.keys, log);
        let input = InputPlan::whole(packets, self.connections.clone(), self.keys.clone())?;
        if fields && let Err(error) = read_fields(run, &input, &keys) {
            run.warnings.push(format!("the fields could not be read from the packets: {error:#}"));
        }
        if let Some(model) = model
            && let Err(error) = read_projection(run, model, &input, &keys)
        {
            run.warnings.push(format!("nothing was modelled, because the packets could not be read: {error:#}"));
            run.exit = run.exit.max(exit::PARTIAL);
        }
        Ok(())
    }

    /// Returns the servers in the captured network namespace, to say how their TLS can be read.
    fn tls_servers(&self) -> TlsServers {
        let namespace = self.live.namespace();
        let number = namespace.map_or_else(own_network_namespace, |namespace| namespace.number as u32);
        let local = list_interfaces(namespace).unwrap_or_default().into_iter().flat_map(|it| it.addresses).collect();
        let listening = raised(tcp_servers).unwrap_or_default().into_iter();
        // What listens for a container is not its server.
        let servers = listening.filter(|it| it.network_namespace == number && it.comm != "docker-proxy");
        let servers = servers.filter_map(|TcpServer { pids, comm, addresses, .. }| {
            let (pid, ports) = (*pids.first()?, addresses.iter().map(SocketAddr::port).collect::<Vec<_>>());
            if !ports.iter().any(|port| self.live.ports.contains(port)) {
                return None;
            }
            let (libraries, is_readable) = databases::encryption(pid).ok()?;
            Some(TlsServer { ports, pid, comm, libraries, is_readable })
        });
        TlsServers { local, servers: servers.collect(), has_secrets: self.tls.is_some() }
    }

    /// Names servers that listen on other ports, if nothing was captured.
    fn look_elsewhere(&self, warnings: &mut Warnings) {
        if self.connections.is_default() {
            warnings
                .remark("without --port, a capture looks only at the usual ports, and at those of the servers that it finds when it starts: name another with --port");
        }
        let (here, is_any) = (own_network_namespace(), self.connections.selected.db.is_empty());
        let wanted = |database: &&Database| {
            let mut protocols = self.live.selection.ports.iter().flat_map(|(_, protocols)| protocols);
            (is_any || protocols.any(|of| *of == database.system.protocol))
                && database.network_namespace == Some(here)
                && !database.ports().iter().any(|port| self.live.ports.contains(port))
        };
        let listening = databases::listening(&databases::containers_now()).unwrap_or_default();
        for database in listening.iter().filter(wanted).take(SERVERS_NAMED) {
            let Some(port) = database.ports().first().copied() else { continue };
            let (comm, pid, name) = (&database.comm, database.pid(), database.system.name);
            warnings.remark(format!(
                "{comm} (process {pid}) listens on port {port}: capture it with --db {name} --port {port}"
            ));
        }
    }
}

/// Warns of a command that failed: it may have done only part of its work.
fn warn_of_failed_command(warnings: &mut Warnings, end: CaptureEnd) {
    let Some(code) = end.failure() else { return };
    let status = u8::try_from(code).unwrap_or(u8::MAX);
    let number = i32::from(status) - 128;
    let signal = rustix::process::Signal::from_named_raw(number).map(|named| format!("{named:?}"));
    let signal = signal.map_or_else(String::new, |named| {
        format!(" (signal {number}, SIG{})", named.trim_matches('"').trim_start_matches("Signal::"))
    });
    warnings.remark(format!("the command ended with status {status}{signal}: the run covers what it did until then"));
}

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
