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
    "pools": "longer keep-alives, fewer idle connections: HikariCP keepaliveTime and minimumIdle, redis-py health_check_interval, pgbouncer server_check_delay",
    "Redis": "repl-ping-replica-period; sentinels and exporters have separate intervals",
    "monitoring": "a longer scrape interval of exporters",
};

impl Rule for BackgroundTraffic {
    fn row_finding(&self, seen: &SeenTraffic, row: &SeenRow) -> Option<AdviceFinding> {
        let share = percent(row.wire(), seen.wire());
        let idle_seconds = seen.idle_seconds();
        let is_asked = row.class != Class::Background && !(row.is_workload() && idle_seconds.is_some());
        if is_asked || row.count < OPERATIONS || share < SHARE {
            return None;
        }
        let title = match (idle_seconds, row.idle_purpose()) {
            (Some(seconds), Some(purpose)) => {
                let hourly = |amount: u64| amount as f64 * 3_600.0 / seconds;
                let (bytes, count) = (hourly(row.wire()), hourly(row.count));
                format!("an idle application sends {count:.0} {} an hour, {bytes:.0} B: {}", row.name, purpose.name())
            }
            _ => format!("{share:.1}% of the bytes are {} that the application did not ask for", row.name),
        };
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

#[cfg(test)]
mod tests {
    use super::*;
    use overhead_model::{Account, Amounts};
    use std::collections::BTreeMap;

    fn traffic(seconds: u64, rows: &[(Class, &str, &str)]) -> SeenTraffic {
        let row = |(number, (class, name, statement)): (usize, &(Class, &str, &str))| SeenRow {
            number,
            protocol: Protocol::Pgwire,
            class: *class,
            name: (*name).to_owned(),
            via: "simple",
            statement: (*statement).to_owned(),
            count: 10,
            amounts: [Amounts::new(Account::Query, 500), Amounts::new(Account::Data, 500)],
            latency_ns: (0, 0),
            example: None,
            fields: BTreeMap::new(),
        };
        let rows = rows.iter().enumerate().map(row).collect();
        SeenTraffic { rows, span: Some((0, seconds * 1_000_000_000)), connections: 1, ..SeenTraffic::default() }
    }

    fn titles(seen: &SeenTraffic) -> Vec<String> {
        seen.rows.iter().filter_map(|row| BackgroundTraffic.row_finding(seen, row)).map(|found| found.title).collect()
    }

    #[test]
    fn checks_of_an_idle_pool_are_found_by_the_hour() {
        let seen = traffic(60, &[(Class::Workload, "SELECT", "SELECT ?")]);
        let title = "an idle application sends 600 SELECT an hour, 60000 B: checks of pooled connections";
        assert_eq!(titles(&seen), [title]);
    }

    #[test]
    fn they_are_work_next_to_other_work_and_in_short_captures() {
        let work = [(Class::Workload, "SELECT", "SELECT ?"), (Class::Workload, "SELECT", "SELECT a FROM t")];
        assert!(titles(&traffic(60, &work)).is_empty());
        assert!(titles(&traffic(5, &work[..1])).is_empty());
    }
}
