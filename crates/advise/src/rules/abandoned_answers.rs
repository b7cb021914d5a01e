//! Large answers cut off because the client closes the connection.

use crate::finding::{AdviceFinding, Certainty, FoundOperations, Remedy, remedies};
use crate::limits;
use crate::rule::Rule;
use crate::seen::{ClosedConnection, SeenFrame, SeenOperation, SeenRow, SeenTraffic};
use overhead_model::{Amounts, Outcome};
use std::collections::{BTreeMap, HashSet};

/// An incomplete answer is large from this size.
const BIG: u64 = 16 << 10;

#[derive(Default)]
pub struct AbandonedAnswers {
    /// Connections, and the end that closed or reset them.
    closed: HashSet<(u64, usize)>,
    rows: BTreeMap<usize, FoundOperations>,
}

const REMEDIES: &[Remedy] = remedies! {
    "queries": "LIMIT, GETRANGE, HSCAN or HTTP Range: ask for what is read",
    "cursors": "a cursor with a fetch size (pgjdbc defaultRowFetchSize, psycopg cursor(name), CQL fetch_size), closed when enough was read",
    "clients": "a time-out long enough for the answer (redis-py socket_timeout, Jedis soTimeout, pgjdbc socketTimeout)",
    "PostgreSQL": "cancel the query (PQcancel) before the connection is closed",
};

impl Rule for AbandonedAnswers {
    fn frame(&mut self, frame: &SeenFrame<'_>) {
        if (frame.facts.flags.fin || frame.facts.flags.rst) && self.closed.len() < limits::REMEMBERED {
            self.closed.insert((frame.facts.connection, frame.end));
        }
    }

    fn operation(&mut self, closed: &SeenOperation<'_>) {
        let payload = closed.operation.sides[1].amounts.payload();
        let ended = [0, 1].iter().any(|end| self.closed.contains(&(closed.connection, *end)));
        if closed.operation.outcome == Outcome::Unanswered && payload >= BIG && ended {
            let row = self.rows.entry(closed.row.number).or_default();
            row.add(1, 0, closed.example);
            row.amounts[1] += closed.operation.sides[1].amounts;
        }
    }

    fn connection(&mut self, connection: &ClosedConnection<'_>) {
        for end in [0, 1] {
            self.closed.remove(&(connection.number, end));
        }
    }

    fn row_finding(&self, _: &SeenTraffic, row: &SeenRow) -> Option<AdviceFinding> {
        let FoundOperations { times, amounts: [_, answers], example, .. } = *self.rows.get(&row.number)?;
        let mean = answers.payload() / times.max(1);
        let title =
            format!("{times} answers of {mean} B on average were cut off: the connection was closed before their end");
        Some(AdviceFinding {
            remedies: REMEDIES.to_vec(),
            certainty: Certainty::AtMost,
            computed: "what was on the wire of answers of 16 KiB and more that were not complete when their connection was closed or reset".to_owned(),
            unknown: "how much the client read; which side gave up first, if both closed",
            ..AdviceFinding::new(title, row, times, example).saving(row.number, &[Amounts::ZERO, answers], "answers cut off")
        })
    }
}
