//! TCP's own counters of the captured connections, beside the ledger's sums.

use super::container::LivePlan;
use super::plan::{CapturePlan, LimitPlan};
use overhead_dissect::Totals;
use overhead_kernel::{Error, FollowedTraffic, SocketGroup, SocketTotals, TcpFollower, own_network_namespace, raised};
use overhead_model::record::{Connection, KernelTcp};
use overhead_model::{LinkType, Measured, Run};
use overhead_report::text::{counted, grouped};
use std::collections::HashMap;
use std::net::SocketAddr;

/// Differences below these shares are not reported: of connections captured as a whole, and of others, whose traffic at both ends of
/// the window may count on one side only.
const WHOLE: f64 = 0.001;
const PART: f64 = 0.01;

/// Counters of the connections to the captured ports, or the reason why there are none.
pub struct TcpWitness {
    following: Result<TcpFollower, String>,
    network_namespace: u32,
    totals: Option<FollowedTraffic>,
}

impl TcpWitness {
    /// Loads the programs. They follow no connection yet.
    pub fn load(plan: &CapturePlan) -> Self {
        let following = match plan.without_witness() {
            Some(reason) => Err(reason.to_owned()),
            None => raised(|| TcpFollower::start(&[], true)).map_err(|error| error.to_string()),
        };
        let network_namespace =
            plan.live.namespace().map_or_else(own_network_namespace, |namespace| namespace.number as u32);
        Self { following, network_namespace, totals: None }
    }

    /// Starts to follow the connections, also those that are open already, once frames are captured.
    pub fn start(&mut self, live: &LivePlan) {
        if let Ok(follower) = &self.following
            && let Err(reason) = raised(|| follow(follower, live))
        {
            self.following = Err(reason);
        }
    }

    /// Reads the counters at the end of the window.
    pub fn stop(&mut self) {
        match self.following.as_mut().map(|follower| raised(|| follower.read())) {
            Ok(Ok(totals)) => self.totals = Some(totals),
            Ok(Err(error)) => self.following = Err(error.to_string()),
            Err(_) => {}
        }
    }

    /// Writes the counters into the record, and returns a sentence if they differ from the ledger.
    pub fn write(&self, run: &mut Run, totals: &Totals) -> Option<String> {
        let reason = match (&self.following, totals.link_types.iter().all(|link| *link == LinkType::ETHERNET)) {
            (Err(reason), _) => Some(reason.clone()),
            (Ok(_), false) => Some("the link is not Ethernet".to_owned()),
            (Ok(_), true) => None,
        };
        let nothing = FollowedTraffic::default();
        let table = SocketTable::new(self.totals.as_ref().unwrap_or(&nothing), self.network_namespace);
        let mut rows = HashMap::<_, u32>::new();
        for row in &run.connections {
            *rows.entry((row.client.clone(), row.server.clone())).or_default() += 1;
        }
        let [mut whole, mut part] = [WHOLE, PART].map(|least| Difference { least, ..Difference::default() });
        for row in &mut run.connections {
            let is_reused = rows.get(&(row.client.clone(), row.server.clone())).is_some_and(|rows| *rows > 1);
            row.kernel = match &reason {
                Some(reason) => Measured::unavailable(reason),
                None if is_reused => Measured::unavailable("another connection had the same ends"),
                None => {
                    let found = table.find(row);
                    if let Some((counters, is_whole)) = found.value() {
                        if *is_whole { &mut whole } else { &mut part }.add(row, counters);
                    }
                    found.map(|(counters, _)| counters)
                }
            };
        }
        whole.sentence(run, totals).or_else(|| part.sentence(run, totals))
    }
}

fn follow(follower: &TcpFollower, live: &LivePlan) -> Result<(), String> {
    let text = |error: Error| error.to_string();
    follower.follow_ports(&live.ports).map_err(text)?;
    match live.namespace() {
        Some(namespace) => namespace.run(|| follower.adopt_open()).map_err(|error| error.to_string())?.map_err(text),
        None => follower.adopt_open().map_err(text),
    }
}

impl CapturePlan {
    /// Returns why TCP's counters cannot be compared with this capture.
    fn without_witness(&self) -> Option<&'static str> {
        let LimitPlan { frames, operations, warmup, .. } = self.limits;
        if !self.counters.is_on {
            Some("not asked for (--no-bpf)")
        } else if !self.has_interface || !self.captures() {
            Some("no packets were captured")
        } else if self.sample.cycle.is_some() {
            Some("packets are captured only in windows (--sample)")
        } else if warmup.is_some() {
            Some("the warm-up is left out of the packets (--warmup)")
        } else if self.live.filter.is_some() {
            Some("a filter left out packets (-f)")
        } else if frames.is_some() || operations.is_some() {
            Some("the capture ended at a number of frames or operations, and not at a moment (-c, --ops)")
        } else {
            None
        }
    }
}

/// The sockets at either end of each connection.
struct SocketTable {
    by_ends: HashMap<(SocketAddr, SocketAddr), Vec<SocketTotals>>,
    had_no_room: bool,
}

impl SocketTable {
    fn new(totals: &FollowedTraffic, here: u32) -> Self {
        let mut by_ends = HashMap::<_, Vec<SocketTotals>>::new();
        for (group, sum) in &totals.groups {
            let SocketGroup { local, remote, network_namespace, .. } = *group;
            // Another namespace's loopback cannot be captured here.
            let is_loopback = local.ip().is_loopback() || remote.ip().is_loopback();
            if network_namespace == here || !is_loopback {
                by_ends.entry((local, remote)).or_default().push(*sum);
            }
        }
        let had_no_room = totals.lost > 0 || totals.remaining != <[SocketTotals; 4]>::default();
        Self { by_ends, had_no_room }
    }

    /// Returns the counters of a connection, and whether they cover all of it.
    fn find(&self, row: &Connection) -> Measured<(KernelTcp, bool)> {
        let (Ok(client), Ok(server)) = (row.client.parse(), row.server.parse()) else {
            return Measured::unavailable("TCP did not carry it");
        };
        let at = |local, remote| self.by_ends.get(&(local, remote)).map(Vec::as_slice).unwrap_or_default();
        let (sender, receiver) = match (at(client, server), at(server, client)) {
            ([], []) if self.had_no_room => return Measured::unavailable("more connections than fit into the table"),
            ([], []) => return Measured::unavailable("no socket of this host has these ends"),
            ([client], [server]) => (client.sent, server.sent),
            ([one], []) | ([], [one]) => (one.sent, one.received),
            _ => return Measured::unavailable("several sockets of this host have these ends"),
        };
        let ends = || at(client, server).iter().chain(at(server, client));
        let counters = KernelTcp {
            wire_bytes: sender.wire_bytes() + receiver.wire_bytes(),
            segments: sender.segments + receiver.segments,
            retransmitted: ends().map(|end| end.retransmitted_segments).sum(),
        };
        Measured::Value((counters, ends().all(|end| end.opened == 1 && end.closed == 1)))
    }
}

/// The difference between TCP's counters and the ledger, over some connections.
#[derive(Default)]
struct Difference {
    /// The share below which it is not reported.
    least: f64,
    connections: u64,
    differing: u64,
    ledger_bytes: u64,
    kernel_bytes: u64,
}

impl Difference {
    fn add(&mut self, row: &Connection, counters: &KernelTcp) {
        self.connections += 1;
        self.differing += u64::from(row.wire_bytes != counters.wire_bytes);
        self.ledger_bytes += row.wire_bytes;
        self.kernel_bytes += counters.wire_bytes;
    }

    /// Returns the difference and its likely cause; `None` if it is small.
    fn sentence(&self, run: &Run, totals: &Totals) -> Option<String> {
        let bytes = self.kernel_bytes.abs_diff(self.ledger_bytes);
        let share = bytes as f64 / self.ledger_bytes.max(1) as f64;
        if share <= self.least {
            return None;
        }
        let is_more = self.kernel_bytes > self.ledger_bytes;
        let why = if run.source.kernel_drops.value().is_some_and(|drops| *drops > 0) && is_more {
            "frames were dropped"
        } else if totals.tcp.oversize_frames > 0 && is_more {
            "the capture has segments joined to larger frames, which have fewer headers"
        } else if self.least > WHOLE {
            "these connections were open when the capture started or ended, and traffic of that moment counts on one side only"
        } else if is_more {
            "frames passed outside the captured interface, or were lost"
        } else {
            "the frames have options, tags or padding that TCP does not count"
        };
        let more = if is_more { "more" } else { "less" };
        Some(format!(
            "on {} of {}, TCP itself counted {} bytes ({:.1}%) {more} than the frames have: {why}",
            grouped(self.differing),
            counted(self.connections, "connection"),
            grouped(bytes),
            share * 100.0,
        ))
    }
}
