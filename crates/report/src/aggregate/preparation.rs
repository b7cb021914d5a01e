//! Joins each statement with the operations that prepare it.

use overhead_model::record::{OperationRow, Preparation};
use overhead_model::{Class, Measured, OTHER};
use std::collections::HashMap;

/// Gives each statement of the workload the operations of class setup with the same protocol and text. If several rows have the
/// text, the row that was sent prepared gets them, otherwise the first.
pub(super) fn join(rows: &mut [OperationRow]) {
    let mut prepared: HashMap<(String, String), Preparation> = HashMap::new();
    for row in rows.iter().filter(|row| row.class == Class::Setup) {
        for statement in &row.statements {
            prepared.entry((row.protocol.clone(), statement.text.clone())).or_default().add(&(&**statement).into());
        }
    }
    let mut order: Vec<&mut OperationRow> = rows.iter_mut().filter(|row| row.class == Class::Workload).collect();
    order.sort_by_key(|row| row.via != PREPARED);
    for row in order {
        let merged = prepared.contains_key(&(row.protocol.clone(), OTHER.to_owned()));
        for statement in row.statements.iter_mut().filter(|statement| !statement.text.starts_with('(')) {
            let found = prepared.remove(&(row.protocol.clone(), statement.text.clone())).map(Measured::Value);
            let unknown = || Measured::unavailable("operations of class setup are added up in `(other)`");
            statement.prepare = if merged { Some(unknown()) } else { found };
        }
    }
}

const PREPARED: &str = "prepared";
