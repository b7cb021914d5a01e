//! Messages in more TLS records than needed.

use super::percent;
use crate::finding::{AdviceFinding, Certainty, FoundOperations, Remedy, remedies};
use crate::rule::Rule;
use crate::seen::{SeenOperation, SeenRow, SeenTraffic};
use overhead_model::{Account, Amounts, Side};
use std::collections::BTreeMap;

/// Minimum number of extra records.
const RECORDS: u64 = 10;
/// Minimum percentage of the row's bytes.
const SHARE: f64 = 1.0;
/// Maximum payload of a record (RFC 8446 section 5.1).
const RECORD: u64 = 1 << 14;

#[derive(Default)]
pub struct TlsRecords {
    /// With the number of records, and of extra ones.
    rows: BTreeMap<(usize, Side), ([u64; 2], FoundOperations)>,
}

const REMEDIES: &[Remedy] = remedies! {
    "driver or server": "one SSL_write for each message: a buffered writer before the TLS library, not behind it",
    "nginx": "ssl_buffer_size 16k (the default; 4k makes four times the records)",
    "OpenSSL": "no SSL_CTX_set_max_send_fragment or set_split_send_fragment below 16,384",
};

impl Rule for TlsRecords {
    fn operation(&mut self, closed: &SeenOperation<'_>) {
        if !closed.row.is_workload() {
            return;
        }
        for side in Side::BOTH {
            let (tls, _) = closed.group(|of, _| of == side);
            let (_, records) = closed.group(|of, path| of == side && path.ends_with("record length"));
            let amounts = &tls[side as usize];
            let needed = (amounts.payload() - amounts[Account::Tls]).div_ceil(RECORD).max(1);
            if records <= needed {
                continue;
            }
            let ([all, extra], found) = self.rows.entry((closed.row.number, side)).or_default();
            *all += records;
            *extra += records - needed;
            found.add(1, 0, closed.example);
            found.amounts[side as usize][Account::Tls] += amounts[Account::Tls] / records * (records - needed);
        }
    }

    fn side_finding(&self, seen: &SeenTraffic, row: &SeenRow, side: Side) -> Option<AdviceFinding> {
        let ([all, extra], FoundOperations { times, amounts, example, .. }) = self.rows.get(&(row.number, side))?;
        if *extra < RECORDS || percent(amounts.iter().map(Amounts::total).sum(), row.wire()) < SHARE {
            return None;
        }
        let title = format!("{times} {}s take {all} TLS records, {extra} more than they need", side.name());
        Some(AdviceFinding {
            evidence: seen.group(row, |of, path| of == side && is_of_records(path)).evidence,
            remedies: REMEDIES.to_vec(),
            certainty: Certainty::Exact,
            computed: "for each record beyond one per 16,384 B of a message: what a record of that message adds (header, nonce, tag, type)".to_owned(),
            unknown: "whether small records were meant to bring the first bytes sooner",
            ..AdviceFinding::new(title, row, *times, *example).without(row.number, amounts)
        })
    }
}

fn is_of_records(path: &str) -> bool {
    ["record type", "record version", "record length", "authentication tag", "content type", "nonce"]
        .iter()
        .any(|field| path.ends_with(field))
}
