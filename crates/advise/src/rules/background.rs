//! Heartbeats, monitoring and topology queries with a notable share of the bytes.

use super::percent;
use crate::finding::{AdviceFinding, ByteEvidence, Certainty, Remedy};
use crate::rule::Rule;
use crate::seen::SeenTraffic;
use overhead_model::{Account, Class, Protocol, Side};

/// Minimum percentage of the bytes on the wire.
const SHARE: f64 = 1.0;
/// Minimum number of operations.
const OPERATIONS: u64 = 3;

pub struct BackgroundTraffic;

const CQL: [Remedy; 3] = [
    Remedy {
        at: "gocql",
        setting: "ClusterConfig.DisableInitialHostLookup, Events.DisableSchemaEvents and DisableTopologyEvents, SocketKeepalive",
    },
    Remedy {
        at: "DataStax Java driver",
        setting: "advanced.metadata.schema.enabled=false, advanced.heartbeat.interval",
    },
    Remedy {
        at: "DataStax Python driver",
        setting: "Cluster(schema_metadata_enabled=False, token_metadata_enabled=False, idle_heartbeat_interval=…)",
    },
];
const MONGO: [Remedy; 2] = [
    Remedy {
        at: "connection string",
        setting: "heartbeatFrequencyMS above 10000; serverMonitoringMode=poll or stream",
    },
    Remedy { at: "clients", setting: "one MongoClient per process: each monitors every server by two connections" },
];
const OTHERS: [Remedy; 3] = [
    Remedy {
        at: "pools",
        setting: "longer keep-alives: HikariCP keepaliveTime, redis-py health_check_interval, pgbouncer server_check_delay",
    },
    Remedy { at: "Redis", setting: "repl-ping-replica-period; sentinels and exporters have separate intervals" },
    Remedy { at: "monitoring", setting: "a longer scrape interval of exporters" },
];

impl Rule for BackgroundTraffic {
    fn name(&self) -> &'static str {
        "background"
    }

    fn findings(&self, seen: &SeenTraffic) -> Vec<AdviceFinding> {
        let rows = seen.rows.iter().enumerate().filter(|(_, row)| row.class == Class::Background);
        let large = rows.filter(|(_, row)| row.count >= OPERATIONS && percent(row.wire(), seen.wire()) >= SHARE);
        large
            .map(|(number, row)| {
                let title = format!("{:.1}% of the bytes are {} that the application did not ask for", percent(row.wire(), seen.wire()), row.name);
                let remedies = match row.protocol {
                    Protocol::Cql => CQL.to_vec(),
                    Protocol::Mongo => MONGO.to_vec(),
                    _ => OTHERS.to_vec(),
                };
                let parts = Side::BOTH.into_iter().flat_map(|side| {
                    Account::ALL.map(|account| ByteEvidence {
                        side,
                        account,
                        field: "all".to_owned(),
                        bytes: row.amounts[side as usize][account],
                    })
                });
                AdviceFinding {
                    operations: row.count,
                    example: row.example,
                    evidence: parts.filter(|part| part.bytes > 0).collect(),
                    remedies,
                    certainty: Certainty::AtMost,
                    computed: "all of these operations; at half the rate it would be half".to_owned(),
                    unknown: "what of it the driver or the people watching need; a short capture has more of it, since drivers ask most at their start",
                    ..AdviceFinding::new(self.name(), title, row.subject()).without(number, &row.amounts)
                }
            })
            .collect()
    }
}
