//! Large answers cut off because the client closes the connection.

use crate::finding::{AdviceFinding, ByteEvidence, Certainty, Example, Remedy};
use crate::limits;
use crate::rule::Rule;
use crate::seen::{SeenFrame, SeenOperation, SeenTraffic};
use overhead_model::{Account, Outcome, Side};
use std::collections::{BTreeMap, HashSet};

/// An incomplete answer is large from this size.
const BIG: u64 = 16 << 10;

#[derive(Default)]
pub struct AbandonedAnswers {
    /// Connections, and the end that closed or reset them.
    closed: HashSet<(u64, usize)>,
    rows: BTreeMap<usize, (u64, overhead_model::Amounts, Option<Example>)>,
}

const REMEDIES: [Remedy; 4] = [
    Remedy { at: "queries", setting: "LIMIT, GETRANGE, HSCAN or HTTP Range: ask for what is read" },
    Remedy {
        at: "cursors",
        setting: "a cursor with a fetch size (pgjdbc defaultRowFetchSize, psycopg cursor(name), CQL fetch_size), closed when enough was read",
    },
    Remedy {
        at: "clients",
        setting: "a time-out long enough for the answer (redis-py socket_timeout, Jedis soTimeout, pgjdbc socketTimeout)",
    },
    Remedy { at: "PostgreSQL", setting: "cancel the query (PQcancel) before the connection is closed" },
];

impl Rule for AbandonedAnswers {
    fn name(&self) -> &'static str {
        "abandoned-answers"
    }

    fn frame(&mut self, frame: &SeenFrame) {
        if frame.closes && self.closed.len() < limits::REMEMBERED {
            self.closed.insert((frame.connection, frame.end));
        }
    }

    fn operation(&mut self, closed: &SeenOperation<'_>) {
        let payload = closed.operation.sides[1].amounts.payload();
        let ended = [0, 1].iter().any(|end| self.closed.contains(&(closed.connection, *end)));
        if closed.operation.outcome == Outcome::Unanswered && payload >= BIG && ended {
            let row = self.rows.entry(closed.row_number).or_default();
            row.0 += 1;
            row.1 += closed.operation.sides[1].amounts;
            row.2.get_or_insert(closed.example);
        }
    }

    fn connection(&mut self, connection: &crate::seen::ClosedConnection<'_>) {
        for end in [0, 1] {
            self.closed.remove(&(connection.number, end));
        }
    }

    fn findings(&self, seen: &SeenTraffic) -> Vec<AdviceFinding> {
        self.rows
            .iter()
            .filter_map(|(&number, &(times, amounts, example))| {
                let row = seen.rows.get(number)?;
                let title = format!("{times} answers of {} B on average were cut off: the connection was closed before their end", amounts.payload() / times.max(1));
                let parts = Account::ALL.into_iter().filter(|account| amounts[*account] > 0);
                let side = Side::Response;
                let parts = parts.map(|account| ByteEvidence { side, account, field: "answers cut off".to_owned(), bytes: amounts[account] });
                Some(AdviceFinding {
                    operations: times,
                    example,
                    evidence: parts.collect(),
                    remedies: REMEDIES.to_vec(),
                    certainty: Certainty::AtMost,
                    computed: "what was on the wire of answers of 16 KiB and more that were not complete when their connection was closed or reset".to_owned(),
                    unknown: "how much of it the client read; which side gave up first, if both closed",
                    ..AdviceFinding::new(self.name(), title, row.subject()).without(number, &[overhead_model::Amounts::ZERO, amounts])
                })
            })
            .collect()
    }
}
