//! The line that announces a capture: its interface, the processes it counts, and how it ends.

use super::plan::CapturePlan;
use super::streams::UnixSockets;
use overhead_model::Measured;
use overhead_model::record::{Container, Counters, Role};
use overhead_report::text::counted;

/// Maximum number of ports or processes listed individually.
const NAMED: usize = 6;

pub fn sentence(plan: &CapturePlan, sockets: Option<&UnixSockets>, counters: &Measured<Counters>) -> String {
    let sockets = sockets.map(|sockets| (sockets.are_beside, in_words(sockets)));
    if let Some((false, sockets)) = sockets {
        return format!("capturing {sockets}; {}; {}", servers(counters), end(plan));
    }
    let sockets = sockets.map_or_else(String::new, |(_, sockets)| format!(", and {sockets}"));
    let (what, place) = if plan.args.counters.bpf_only {
        ("counting", String::new())
    } else {
        ("capturing", format!(" on {}", plan.live.in_words()))
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
        plan.args.command.first().map(|program| format!("{program} ends")),
        plan.args.limits.duration.map(|duration| format!("{} s are over", duration.as_secs_f64())),
        plan.args.limits.count.map(|frames| counted(frames, "frame")),
        plan.args.limits.ops.map(|operations| counted(operations, "workload operation")),
    ];
    let ends: Vec<String> = ends.into_iter().flatten().collect();
    let until = if ends.is_empty() { String::new() } else { format!("until {}; ", ends.join(" or ")) };
    format!("{until}Ctrl-C finishes and reports")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::CaptureArgs;
    use clap::Parser;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        capture: CaptureArgs,
    }

    fn said(arguments: &[&str], ports: &[u16]) -> String {
        let line = CommandLine::try_parse_from(std::iter::once("overhead").chain(arguments.iter().copied())).unwrap();
        let mut plan = line.capture.plan().unwrap();
        plan.live.ports = ports.to_vec();
        sentence(&plan, None, &Measured::unavailable("not asked for (--no-bpf)"))
    }

    #[test]
    fn a_capture_says_where_whose_and_how_it_ends() {
        assert_eq!(
            said(&["-i", "eth0"], &[6379]),
            "capturing on eth0, TCP port 6379; nothing is counted (not asked for (--no-bpf)); Ctrl-C finishes and reports"
        );
        let limited = said(&["--duration", "10", "--", "redis-benchmark"], &[1, 2, 3, 4, 5, 6, 7, 8]);
        assert!(limited.starts_with("capturing on lo, TCP ports 1, 2, 3, 4, 5, 6 and 2 more; "), "{limited}");
        assert!(
            limited.ends_with("; until redis-benchmark ends or 10 s are over; Ctrl-C finishes and reports"),
            "{limited}"
        );
    }
}
