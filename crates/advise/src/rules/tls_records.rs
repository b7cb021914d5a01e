//! Messages in more TLS records than needed.

use super::percent;
use crate::finding::{AdviceFinding, Certainty, Example, Remedy};
use crate::rule::Rule;
use crate::seen::{SeenOperation, SeenTraffic};
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
    rows: BTreeMap<(usize, Side), ExtraRecords>,
}

#[derive(Default)]
struct ExtraRecords {
    messages: u64,
    all: u64,
    extra: u64,
    bytes: u64,
    example: Option<Example>,
}

const REMEDIES: [Remedy; 3] = [
    Remedy {
        at: "driver or server",
        setting: "one SSL_write for each message: a buffered writer before the TLS library, not behind it",
    },
    Remedy { at: "nginx", setting: "ssl_buffer_size 16k (the default; 4k makes four times the records)" },
    Remedy { at: "OpenSSL", setting: "no SSL_CTX_set_max_send_fragment or set_split_send_fragment below 16,384" },
];

impl Rule for TlsRecords {
    fn name(&self) -> &'static str {
        "tls-records"
    }

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
            let row = self.rows.entry((closed.row_number, side)).or_default();
            row.messages += 1;
            row.all += records;
            row.extra += records - needed;
            row.bytes += amounts[Account::Tls] / records * (records - needed);
            row.example.get_or_insert(closed.example);
        }
    }

    fn findings(&self, seen: &SeenTraffic) -> Vec<AdviceFinding> {
        self.rows.iter().filter_map(|(&(number, side), records)| self.of_row(seen, (number, side), records)).collect()
    }
}

impl TlsRecords {
    fn of_row(
        &self,
        seen: &SeenTraffic,
        (number, side): (usize, Side),
        records: &ExtraRecords,
    ) -> Option<AdviceFinding> {
        let row = seen.rows.get(number)?;
        if records.extra < RECORDS || percent(records.bytes, row.wire()) < SHARE {
            return None;
        }
        let ExtraRecords { messages, all, extra, bytes, example } = *records;
        let title = format!("{messages} {}s take {all} TLS records, {extra} more than they need", side.name());
        let mut amounts = [Amounts::ZERO; 2];
        amounts[side as usize][Account::Tls] = bytes;
        Some(AdviceFinding {
            operations: messages,
            example,
            evidence: seen.group(row, |of, path| of == side && is_of_records(path)).evidence,
            remedies: REMEDIES.to_vec(),
            certainty: Certainty::Exact,
            computed: "records beyond one for each 16,384 B of a message, times what a record of that message adds (header, nonce, tag, type)".to_owned(),
            unknown: "whether small records were meant to bring the first bytes sooner",
            ..AdviceFinding::new(self.name(), title, row.subject()).without(number, &amounts)
        })
    }
}

fn is_of_records(path: &str) -> bool {
    ["record type", "record version", "record length", "authentication tag", "content type", "nonce"]
        .iter()
        .any(|field| path.ends_with(field))
}
