//! Tidy data: one line per row of the record, side and account.

use crate::run::NamedRun;
use crate::summary::per_operation;
use overhead_model::Account;
use overhead_model::record::{OperationRow, SideRow};
use std::fmt::Write;

/// Column names; sizes are bytes.
const HEADER: &str =
    "run,protocol,class,operation,via,count,errors,unanswered,side,account,bytes,bytes_per_operation\n";

/// The ledger of any number of runs as RFC 4180 text with a header line. `bytes_per_operation` is empty without
/// operations.
pub fn csv(runs: &[NamedRun]) -> String {
    let mut out = HEADER.to_owned();
    for NamedRun { name, run } in runs {
        for row in &run.operations {
            side_lines(&mut out, name, row, "request", &row.request);
            side_lines(&mut out, name, row, "response", &row.response);
        }
        // Written for completeness of the sum: these bytes belong to no operation, and so have no count.
        let other = run.ledger.other;
        push_line(&mut out, &[name, "", "other", "", "", "", "", "", "", "", &other.to_string(), ""]);
    }
    out
}

fn side_lines(out: &mut String, run: &str, row: &OperationRow, side: &str, totals: &SideRow) {
    let [count, errors, unanswered] =
        [row.samples(), row.errors, row.missing_answers()].map(|number| number.to_string());
    for account in Account::ALL {
        let bytes = totals.accounts[account];
        let mean = per_operation(bytes, row.samples()).map(|mean| mean.to_string()).unwrap_or_default();
        let (class, bytes) = (row.class.name(), bytes.to_string());
        let key = [run, &row.protocol, class, &row.name, &row.via, &count, &errors, &unanswered];
        let cells: Vec<&str> = key.into_iter().chain([side, account.name(), &bytes, &mean]).collect();
        push_line(out, &cells);
    }
}

fn push_line(out: &mut String, cells: &[&str]) {
    for (position, cell) in cells.iter().enumerate() {
        let comma = if position > 0 { "," } else { "" };
        // Writing to a string does not fail.
        let _ = if cell.contains([',', '"', '\n', '\r']) {
            write!(out, "{comma}\"{}\"", cell.replace('"', "\"\""))
        } else {
            write!(out, "{comma}{cell}")
        };
    }
    out.push('\n');
}
