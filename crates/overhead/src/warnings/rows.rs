//! Warnings about statements without a text, and about traffic that was captured on both sides of a proxy.

use super::Warnings;
use overhead_dissect::PREPARED_BEFORE;
use overhead_model::record::{Connection, OperationRow};
use overhead_report::text::counted;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

impl Warnings {
    /// Reports statements that were prepared before the capture, and where their texts can be found.
    pub fn of_unseen_statements(&mut self, operations: &[OperationRow]) {
        let mut unseen = BTreeMap::<&str, BTreeSet<&str>>::new();
        for row in operations {
            let texts = row.statements.iter().map(|statement| statement.text.as_str());
            let texts = texts.filter(|text| text.starts_with(PREPARED_BEFORE));
            unseen.entry(&row.protocol).or_default().extend(texts);
        }
        for (protocol, texts) in unseen.iter().filter(|(_, texts)| !texts.is_empty()) {
            let source = match *protocol {
                "cql" => "`overhead bench cassandra --server HOST:PORT --list-statements` prints them",
                "mysql" => {
                    "while the clients are connected, `overhead bench mysql --server HOST:PORT --list-statements` prints them if the server's performance schema is on"
                }
                // Each session sees only its own statements.
                _ => "the server does not tell them, so take them from the application or its driver's log",
            };
            self.remark(format!(
                "{} prepared before the capture, and named by name or id; to see the texts, add --statements FILE, with a line of name or id, a tab and the text for each: {source}",
                if texts.len() == 1 { "1 statement was".to_owned() } else { format!("{} were", counted(texts.len() as u64, "statement")) }
            ));
        }
    }

    /// Says that totals include both legs of a proxy if one server of a protocol looks like the client of others.
    pub fn of_both_legs(&mut self, connections: &[Connection]) {
        let ends: Vec<(&str, [SocketAddr; 2], u64)> = connections
            .iter()
            .filter_map(|of| {
                Some((of.protocol.as_str(), [of.client.parse().ok()?, of.server.parse().ok()?], of.operations))
            })
            .collect();
        let sum = |is_counted: &dyn Fn(&str, [SocketAddr; 2]) -> bool| -> u64 {
            ends.iter()
                .filter(|(protocol, ends, _)| is_counted(protocol, *ends))
                .map(|(_, _, operations)| operations)
                .sum()
        };
        let servers: BTreeSet<(&str, SocketAddr)> =
            ends.iter().map(|(protocol, ends, _)| (*protocol, ends[1])).collect();
        let proxy = servers.iter().find(|(protocol, server)| {
            let before = sum(&|of, ends| of == *protocol && ends[1] == *server);
            let behind = sum(&|of, ends| {
                of == *protocol && ends[1] != *server && ends[0].ip() == server.ip() && ends[0].port() != server.port()
            });
            // A proxy adds or saves only set-up.
            before.min(behind) > 0 && before.abs_diff(behind) <= before.max(behind) / 8
        });
        if let Some((_, server)) = proxy {
            self.remark(format!(
                "{server} may be a proxy or pooler that forwards to other servers of this capture: the totals include the traffic on both sides of it; --by server separates them"
            ));
        }
    }
}
