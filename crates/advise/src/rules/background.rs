//! Heartbeats, monitoring and topology queries with a notable share of the bytes.

use super::percent;
use crate::finding::{AdviceFinding, Certainty, Remedy, remedies};
use crate::rule::Rule;
use crate::seen::{SeenRow, SeenTraffic};
use overhead_model::{Class, Protocol};

/// Minimum percentage of the bytes on the wire.
const SHARE: f64 = 1.0;
/// Minimum number of operations.
const OPERATIONS: u64 = 3;

pub struct BackgroundTraffic;

const CQL: &[Remedy] = remedies! {
    "gocql": "ClusterConfig.DisableInitialHostLookup, Events.DisableSchemaEvents and DisableTopologyEvents, SocketKeepalive",
    "DataStax Java driver": "advanced.metadata.schema.enabled=false, advanced.heartbeat.interval",
    "DataStax Python driver": "Cluster(schema_metadata_enabled=False, token_metadata_enabled=False, idle_heartbeat_interval=…)",
};
const MONGO: &[Remedy] = remedies! {
    "connection string": "heartbeatFrequencyMS above 10000; serverMonitoringMode=poll or stream",
    "clients": "one MongoClient per process: each monitors every server by two connections",
};
const OTHERS: &[Remedy] = remedies! {
    "pools": "longer keep-alives: HikariCP keepaliveTime, redis-py health_check_interval, pgbouncer server_check_delay",
    "Redis": "repl-ping-replica-period; sentinels and exporters have separate intervals",
    "monitoring": "a longer scrape interval of exporters",
};

impl Rule for BackgroundTraffic {
    fn row_finding(&self, seen: &SeenTraffic, row: &SeenRow) -> Option<AdviceFinding> {
        let share = percent(row.wire(), seen.wire());
        if row.class != Class::Background || row.count < OPERATIONS || share < SHARE {
            return None;
        }
        let title = format!("{share:.1}% of the bytes are {} that the application did not ask for", row.name);
        let remedies = match row.protocol {
            Protocol::Cql => CQL.to_vec(),
            Protocol::Mongo => MONGO.to_vec(),
            _ => OTHERS.to_vec(),
        };
        Some(AdviceFinding {
            remedies,
            certainty: Certainty::AtMost,
            computed: "all such operations; half the rate would save half".to_owned(),
            unknown: "how much the driver or its users need; a short capture has a larger share, since drivers send most of these at their start",
            ..AdviceFinding::new(title, row, row.count, row.example).saving(row.number, &row.amounts, "all")
        })
    }
}
