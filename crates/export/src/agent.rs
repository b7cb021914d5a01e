//! Writes rows that `overhead agent` hands over.

use crate::dataset::Dataset;
use crate::sink::FileSink;
use crate::table::agent::{flow_fields, statement_fields};
use crate::write_table;
use anyhow::{Context, Result};
use overhead_model::agent_rows::AgentRows;
use overhead_model::exit::COMPLETE;
use std::io;

/// Reads the rows from standard input, and writes them to the folder of the day they start on.
pub fn write(dataset: &Dataset, force: bool) -> Result<u8> {
    let rows: AgentRows =
        serde_json::from_reader(io::stdin().lock()).context("standard input: no rows of the agent")?;
    let _lock = dataset.lock()?;
    let before = dataset.existing_files(force)?;
    let mut sink = FileSink::start(1);
    let (span_ns, flows, statements) = ([rows.start_ns, rows.end_ns], rows.flows.len(), rows.statements.len());
    let place = |table| (table, dataset.daily(table, rows.start_ns, 0));
    if flows > 0 {
        write_table(&mut sink, dataset, place("agent_flows"), flow_fields(span_ns), (rows.flows, flows))?;
    }
    if statements > 0 {
        let fields = statement_fields(span_ns);
        write_table(&mut sink, dataset, place("agent_statements"), fields, (rows.statements, statements))?;
    }
    sink.finish()?.publish(&dataset.root, &before)?;
    Ok(COMPLETE)
}
