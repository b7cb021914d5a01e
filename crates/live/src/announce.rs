//! The line that announces a capture: its interface, the processes it counts, and how it ends.

use super::plan::CapturePlan;
use super::streams::UnixSockets;
use overhead_model::Measured;
use overhead_model::record::{Container, Counters, Role};
use overhead_report::text::counted;

/// Maximum number of ports or processes listed individually.
const NAMED: usize = 6;

/// Returns the sentence that announces a capture. `counters` are those at its start.
pub fn sentence(plan: &CapturePlan, sockets: Option<&UnixSockets>, counters: &Measured<Counters>) -> String {
    let sockets = sockets.map(|sockets| (sockets.are_beside, in_words(sockets)));
    if let Some((false, sockets)) = sockets {
        return format!("capturing {sockets}; {}; {}", servers(counters), end(plan));
    }
    let sockets = sockets.map_or_else(String::new, |(_, sockets)| format!(", and {sockets}"));
    let (what, place) = if plan.captures() {
        ("capturing", format!(" on {}", plan.live.in_words()))
    } else {
        ("counting", String::new())
    };
    let ports = &plan.live.ports;
    let noun = if ports.len() == 1 { "port" } else { "ports" };
    let ports = some(ports.iter().map(u16::to_string));
    format!("{what}{place}, TCP {noun} {ports}{sockets}; {}; {}", servers(counters), end(plan))
}

/// Formats UNIX sockets, such as `the UNIX socket /run/redis.sock`.
fn in_words(sockets: &UnixSockets) -> String {
    let noun = if sockets.names.len() == 1 { "socket" } else { "sockets" };
    format!("the UNIX {noun} {}", some(sockets.names.iter().cloned()))
}

/// Describes the processes whose work is counted.
fn servers(counters: &Measured<Counters>) -> String {
    let role = match counters {
        Measured::Value(counters) => &counters.server,
        Measured::Unavailable { unavailable } => return format!("nothing is counted ({unavailable})"),
    };
    match role {
        Measured::Value(Role { pids, comms, containers, .. }) if !pids.is_empty() => {
            let names = comms.join(", ");
            let noun = if pids.len() == 1 { "process" } else { "processes" };
            let containers = match some(containers.iter().map(Container::full_name)) {
                none if none.is_empty() => none,
                names => format!(" in {names}"),
            };
            format!("server: {names} ({noun} {}){containers}", some(pids.iter().map(u32::to_string)))
        }
        // The end of the capture reports why. Until then, one may still start to listen.
        _ => "server: no process on this host so far".to_owned(),
    }
}

/// Lists the first items, and counts the others.
pub fn some(items: impl ExactSizeIterator<Item = String>) -> String {
    let more = items.len().saturating_sub(NAMED);
    let named = items.take(NAMED).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{named} and {more} more") } else { named }
}

/// Describes what ends the capture.
fn end(plan: &CapturePlan) -> String {
    let ends = [
        plan.command.words.first().map(|program| format!("{program} ends")),
        plan.limits.duration.map(|duration| format!("{} s are over", duration.as_secs_f64())),
        plan.limits.frames.map(|frames| counted(frames, "frame")),
        plan.limits.operations.map(|operations| counted(operations, "workload operation")),
    ];
    let ends: Vec<String> = ends.into_iter().flatten().collect();
    let until = if ends.is_empty() { String::new() } else { format!("until {}; ", ends.join(" or ")) };
    format!("{until}Ctrl-C finishes and reports")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::LivePlan;
    use crate::plan::{CommandPlan, CounterPlan, LimitPlan, OutputPlan, PacketUse, ResultPlan, SocketPlan};
    use crate::rotation::RotationPlan;
    use overhead_dissect::Selection;
    use overhead_kernel::ProcessSelection;
    use overhead_reading::{ConnectionChoice, DissectPlan, KeyFiles, SamplePlan};
    use std::time::Duration;

    fn said(interface: &str, ports: &[u16], limits: LimitPlan, command: &[&str]) -> String {
        let live = LivePlan {
            interface: interface.to_owned(),
            place: None,
            selection: Selection::default(),
            ports: ports.to_vec(),
            servers: Vec::new(),
            filter: None,
            snaplen: 0,
            buffer: 0,
        };
        let words = command.iter().map(|word| (*word).to_owned()).collect();
        let plan = CapturePlan {
            connections: ConnectionChoice::default(),
            keys: KeyFiles::default(),
            dissect: DissectPlan::default(),
            live,
            has_interface: true,
            sockets: SocketPlan::Nothing,
            tls: None,
            with_keys: false,
            packets: PacketUse::Kept,
            rotation: RotationPlan::default(),
            output: OutputPlan::default(),
            command: CommandPlan { words, ..CommandPlan::default() },
            limits,
            sample: SamplePlan::default(),
            counters: CounterPlan {
                is_on: false,
                softirq: false,
                by_operation: false,
                server: ProcessSelection::Ports,
                named_pids: Vec::new(),
            },
            result: ResultPlan::default(),
            metrics: None,
            cost_rounds: None,
            quiet: true,
        };
        sentence(&plan, None, &Measured::unavailable("not asked for (--no-bpf)"))
    }

    #[test]
    fn a_capture_says_where_whose_and_how_it_ends() {
        assert_eq!(
            said("eth0", &[6379], LimitPlan::default(), &[]),
            "capturing on eth0, TCP port 6379; nothing is counted (not asked for (--no-bpf)); Ctrl-C finishes and reports"
        );
        let limits = LimitPlan { duration: Some(Duration::from_secs(10)), ..LimitPlan::default() };
        let limited = said("lo", &[1, 2, 3, 4, 5, 6, 7, 8], limits, &["redis-benchmark"]);
        assert!(limited.starts_with("capturing on lo, TCP ports 1, 2, 3, 4, 5, 6 and 2 more; "), "{limited}");
        assert!(
            limited.ends_with("; until redis-benchmark ends or 10 s are over; Ctrl-C finishes and reports"),
            "{limited}"
        );
    }
}
