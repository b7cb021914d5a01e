//! The measured payload beside a reference measurement, and beside what the published comparison says in words.
//!
//! The published comparison has its numbers in pictures. So nothing here is called published but its sentences: the table
//! of `reference.csv` is an earlier measurement of the same workload by a harness of its own.

use super::bytes::amount;
use super::page::{MarkdownPage, bytes, signed_bytes};
use super::study::{OPERATIONS, Study, StudyCell, title};
use super::topics::Topic;
use super::writeup::{list, row, total};
use crate::summary::{Families, both_sides, per_operation};
use crate::text::number::DASH;
use overhead_model::record::{OperationRow, SideRow};
use overhead_model::{Account, Side};

/// Writes the measured payload beside the reference measurement.
pub(super) fn reference(page: &mut MarkdownPage, study: &Study) {
    let mut rows = Vec::new();
    let mut equal = 0;
    for db in study.systems() {
        for operation in OPERATIONS {
            let Some(row) = study.cell(db, operation, 1).and_then(StudyCell::row) else { continue };
            let found = [&row.request, &row.response].map(|side| side.payload_bytes.p50);
            let line = study.reference(db, operation);
            let verdict = match line.map(|line| [line.request, line.response]) {
                None => "not in the reference".to_owned(),
                Some(known) if known == found => {
                    equal += 1;
                    "equal".to_owned()
                }
                Some(known) => format!("differs by {}", apart(known, found)),
            };
            let known = line.map_or_else(|| DASH.to_owned(), |line| format!("{}/{}", line.request, line.response));
            let driver = line.map_or_else(|| DASH.to_owned(), |line| line.driver.clone());
            let payload = format!("{}/{}", found[0], found[1]);
            let cells = [title(db), operation, &payload, &study.driver(db), &known, &driver, &verdict];
            rows.push(cells.map(str::to_owned).to_vec());
        }
    }
    page.heading(2, "Payload beside the reference measurement");
    page.paragraph(&format!(
        "TCP payload per operation in bytes, request/response, the median of a run of one client. {equal} of {} are equal to the \
         reference measurement (`reference.csv`): the same workload by a harness of its own with the same drivers, measured \
         earlier on machines of our own. It is no published figure.",
        rows.len()
    ));
    page.table(&["system", "operation", "payload", "driver", "reference", "its driver", ""], 2, &rows);
}

fn apart(known: [u64; 2], found: [u64; 2]) -> String {
    let by = |at: usize| signed_bytes(found[at] as f64 - known[at] as f64);
    format!("{} / {}", by(0), by(1))
}

/// Sets what the published comparison says in words beside what was measured.
pub(super) fn words(page: &mut MarkdownPage, study: &Study) {
    page.heading(2, "Beside what was published");
    page.paragraph(
        "The comparison whose workload this is was published with its numbers as pictures; they are not used here. What it says \
         in words, beside what was measured:",
    );
    let said: [(&str, Option<String>); 7] = [
        ("66 bytes of frame, IP and TCP were subtracted from each packet by hand.", headers(study)),
        ("Redis sends nothing superfluous, and no column names.", redis(study)),
        (
            "Cassandra and ScyllaDB speak one protocol to one driver and one benchmark, and their messages differ in size in \
             places; why was not found out.",
            None,
        ),
        ("MongoDB sends very much in a request, because it has no prepared statements.", requests(study)),
        ("The protocol of Cassandra is fat, so that even PostgreSQL is better in places.", fat(study)),
        ("Everywhere but in Redis the answer holds column names.", column_names(study)),
        ("Open: why ScyllaDB is slower than PostgreSQL, and why Cassandra is so far behind ScyllaDB.", None),
    ];
    let rows: Vec<Vec<String>> = said
        .into_iter()
        .map(|(said, found)| vec![said.to_owned(), found.unwrap_or_else(|| "Not measured here.".to_owned())])
        .collect();
    page.table(&["published, in words", "measured here"], 2, &rows);
}

/// `Redis 25, PostgreSQL 46`: a figure of one operation, system by system; `None` where no system has it.
fn by_system(study: &Study, operation: &str, figure: impl Fn(&OperationRow) -> f64) -> Option<String> {
    let systems = study.systems();
    let figures = systems.iter().filter_map(|db| {
        let row = row(study, db, operation)?;
        Some(format!("{} {}", title(db), bytes(figure(row))))
    });
    let figures: Vec<String> = figures.collect();
    (!figures.is_empty()).then(|| list(&figures))
}

fn headers(study: &Study) -> Option<String> {
    let per_message = |row: &OperationRow| per(Families::of(&both_sides(row)).frame, row) / 2.0;
    let acks = |row: &OperationRow| per(Families::of(&both_sides(row)).waste, row);
    let headers = by_system(study, "read", per_message)?;
    Some(format!(
        "Link, IP and TCP headers for each message of a read, in B: {headers}. Frames of acknowledgments alone, in B/op on top: {}.",
        by_system(study, "read", acks)?
    ))
}

fn redis(study: &Study) -> Option<String> {
    let read = row(study, "redis", "read")?;
    let all = both_sides(read);
    Some(format!(
        "Of {} B of payload of a read, {} are the user's data, {} lengths and line ends, {} the command, {} names or types of \
         columns.",
        bytes(per(all.payload(), read)),
        bytes(per(all[Account::Data], read)),
        bytes(per(all[Account::Framing], read)),
        bytes(per(all[Account::Query], read)),
        bytes(per(all[Account::Schema], read)),
    ))
}

fn requests(study: &Study) -> Option<String> {
    let mongo = ["mongodb", "ferretdb"].into_iter().find_map(|db| row(study, db, "read"))?;
    let of = |topic| amount(mongo, Side::Request, topic);
    Some(format!(
        "Payload of the request of a read, in B: {}. In MongoDB's protocol {} of it are names and values of the envelope, {} \
         command and collection, {} the session id.",
        by_system(study, "read", |row| payload(&row.request, row))?,
        bytes(of(Topic::Envelope)),
        bytes(of(Topic::Statement)),
        bytes(of(Topic::Session)),
    ))
}

fn fat(study: &Study) -> Option<String> {
    let both =
        |operation: &str| Some([total(row(study, "cassandra", operation)?), total(row(study, "postgres", operation)?)]);
    let measured: Vec<String> = OPERATIONS
        .into_iter()
        .filter_map(|operation| {
            let [cassandra, postgres] = both(operation)?;
            Some(format!("{operation} {} and {}", bytes(cassandra), bytes(postgres)))
        })
        .collect();
    let less = |operation: &&str| both(operation).is_some_and(|[cassandra, postgres]| postgres < cassandra);
    let better: Vec<String> = OPERATIONS.into_iter().filter(less).map(str::to_owned).collect();
    let verdict = if better.is_empty() { "in none".to_owned() } else { format!("in {}", list(&better)) };
    (!measured.is_empty()).then(|| {
        format!("Wire B/op of Cassandra and PostgreSQL: {}. PostgreSQL's are fewer {verdict}.", measured.join(", "))
    })
}

fn column_names(study: &Study) -> Option<String> {
    let described = |row: &OperationRow| {
        amount(row, Side::Response, Topic::Columns) + amount(row, Side::Response, Topic::Namespace)
    };
    Some(format!(
        "Names and types of columns in the answer to a read with the drivers' defaults, in B: {}.",
        by_system(study, "read", described)?
    ))
}

fn per(total: u64, row: &OperationRow) -> f64 {
    per_operation(total, row.samples()).unwrap_or(0.0)
}

fn payload(side: &SideRow, row: &OperationRow) -> f64 {
    per(side.accounts.payload(), row)
}
