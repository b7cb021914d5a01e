//! Full TLS handshakes that resumption or a kept connection would avoid.

use super::percent;
use crate::finding::{AdviceFinding, Certainty, Example, Remedy, remedies};
use crate::limits;
use crate::rule::Rule;
use crate::seen::{ClosedConnection, SeenOperation, SeenRow, SeenTraffic};
use overhead_model::{Account, Amounts};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

/// Minimum number of full handshakes.
const HANDSHAKES: u64 = 3;
/// Minimum percentage of the bytes on the wire.
const SHARE: f64 = 5.0;
/// More operations per handshake than this justify it.
const OPERATIONS: u64 = 50;
/// Maximum payload of the server in a resumed handshake, which has no certificates (RFC 8446 section 2.2).
const RESUMED: u64 = 700;

#[derive(Default)]
pub struct TlsHandshakes {
    connections: HashMap<u64, Vec<(usize, [Amounts; 2], Example)>>,
    clients: BTreeMap<(IpAddr, usize), ClientHandshakes>,
}

#[derive(Default)]
struct ClientHandshakes {
    full: u64,
    resumed: u64,
    operations: u64,
    /// By row, except the first full handshake.
    saved: BTreeMap<usize, [Amounts; 2]>,
    /// Payload of resumed handshakes, by side.
    small: [u64; 2],
    waited_ns: u64,
    example: Option<Example>,
}

const REMEDIES: &[Remedy] = remedies! {
    "clients": "keep connections: a pool (HikariCP, pgbouncer, redis ConnectionPool, HTTP keep-alive)",
    "nginx": "ssl_session_cache shared:SSL:10m; ssl_session_tickets on",
    "Redis": "tls-session-caching yes, tls-session-cache-size, and a client that resumes",
    "Python ssl": "wrap_socket(…, session=earlier.session)",
    "Go crypto/tls": "Config.ClientSessionCache = tls.NewLRUClientSessionCache(n)",
};

impl Rule for TlsHandshakes {
    fn operation(&mut self, closed: &SeenOperation<'_>) {
        if closed.row.name == "TLS" && self.connections.len() < limits::REMEMBERED {
            let seen = (closed.row.number, closed.operation.amounts(), closed.example);
            self.connections.entry(closed.connection).or_default().push(seen);
        }
    }

    fn connection(&mut self, connection: &ClosedConnection<'_>) {
        let Some(handshakes) = self.connections.remove(&connection.number) else { return };
        let Some(&(row, _, example)) = handshakes.first() else { return };
        let answered: u64 = handshakes.iter().map(|(_, amounts, _)| amounts[1].payload()).sum();
        let asked: u64 = handshakes.iter().map(|(_, amounts, _)| amounts[0].payload()).sum();
        if self.clients.len() >= limits::CLIENTS {
            return;
        }
        let client = self.clients.entry((connection.client.ip(), row)).or_default();
        client.operations += connection.rows.values().map(|on| on.count).sum::<u64>();
        if answered <= RESUMED {
            client.resumed += 1;
            client.small.iter_mut().zip([asked, answered]).for_each(|(sum, bytes)| *sum += bytes);
            return;
        }
        client.full += 1;
        client.waited_ns += connection.ready_ns.unwrap_or(0);
        // A client needs its first one.
        if client.full > 1 {
            client.example.get_or_insert(example);
            for (row, amounts, _) in &handshakes {
                let saved = client.saved.entry(*row).or_default();
                saved.iter_mut().zip(amounts).for_each(|(sum, side)| sum[Account::Tls] += side[Account::Tls]);
            }
        }
    }

    fn findings(&self, seen: &SeenTraffic) -> Vec<AdviceFinding> {
        self.clients
            .iter()
            .filter_map(|(&(_, row), client)| Self::client_finding(seen, seen.rows.get(row)?, client))
            .collect()
    }
}

impl TlsHandshakes {
    fn client_finding(seen: &SeenTraffic, row: &SeenRow, client: &ClientHandshakes) -> Option<AdviceFinding> {
        let ClientHandshakes { full, resumed, operations, .. } = *client;
        let mut saved = client.saved.clone();
        let without_first = full.saturating_sub(1);
        for (side, sum) in saved.entry(row.number).or_default().iter_mut().zip(client.small) {
            // The bytes of a resumed handshake remain, if the capture has one.
            let remains = sum.checked_div(resumed).unwrap_or(0) * without_first;
            side[Account::Tls] = side[Account::Tls].saturating_sub(remains);
        }
        let bytes: u64 = saved.values().flatten().map(Amounts::total).sum();
        let all = full + resumed;
        if full < HANDSHAKES || percent(bytes, seen.wire()) < SHARE || operations > all * OPERATIONS {
            return None;
        }
        let title =
            format!("{full} of {all} handshakes of one client are full ones, for {operations} operations of any kind");
        let mut finding = AdviceFinding {
            evidence: seen.group(row, |_, _| true).evidence,
            remedies: REMEDIES.to_vec(),
            certainty: Certainty::AtMost,
            is_extra_time: true,
            computed: format!(
                "bytes of TLS of all full handshakes but the client's first{}; the time is what these connections took to their first request",
                if resumed > 0 { ", less what resumed ones in the capture take" } else { "" }
            ),
            unknown: "what a resumed handshake takes, if the capture has none (some 500 B); whether the client's processes could share connections",
            ..AdviceFinding::new(title, row, without_first, client.example).waiting(client.waited_ns)
        };
        for (row, amounts) in &saved {
            finding = finding.without(*row, amounts);
        }
        Some(finding)
    }
}
