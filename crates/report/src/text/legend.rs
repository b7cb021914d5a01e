//! Explains the columns present in an operations table.

use super::columns::OperationColumn;
use super::rows::TableRows;
use crate::summary::distinct;
use overhead_model::record::Price;

/// Explains these columns, one line for each that needs it.
pub(crate) fn legend(table: &TableRows<'_>, columns: &[OperationColumn]) -> Vec<String> {
    let has = |wanted: &[&str]| columns.iter().any(|column| wanted.contains(&column.name()));
    let meanings = columns.iter().map(|column| column.meaning()).filter(|meaning| !meaning.is_empty());
    let mut said = distinct(meanings.map(str::to_owned));
    let common = table.common_server.as_ref().filter(|_| has(&["operation"]));
    said.extend(common.map(|server| format!("connection: the client's end; the server's end is always {server}")));
    said.extend(table.price.filter(|_| has(&["cost-million", "cost-day", "cost-month"])).map(cost));
    said
}

fn cost(price: &Price) -> String {
    format!(
        "cost: of all bytes on the wire at {}, per million operations and per {} at the rate of this run",
        price.text,
        price.per.name()
    )
}
