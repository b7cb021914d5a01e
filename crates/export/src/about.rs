//! Column descriptions in the footer of a Parquet file. Parquet has no standard field for them, so each family of
//! readers looks under its own footer key. All keys are written.

use crate::arrow;
use crate::table::{ColumnKind, ExportColumn, ExportField};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parquet::file::metadata::KeyValue;
use serde_json::{Map, Value, json};

/// For people and other readers: type, unit, nullability and description by name.
const COLUMNS: &str = "overhead.columns";
/// Spark's schema, with metadata per column. Its catalogues show `comment`.
const SPARK: &str = "org.apache.spark.sql.parquet.row.metadata";
/// Arrow's schema (pyarrow, pandas, Polars), with metadata per field.
const ARROW: &str = "ARROW:schema";

pub fn metadata<B>(fields: &[ExportField<B>]) -> [KeyValue; 3] {
    let columns: Vec<&ExportColumn> = fields.iter().map(|field| &field.column).collect();
    [
        KeyValue::new(COLUMNS.to_owned(), by_name(&columns).to_string()),
        KeyValue::new(SPARK.to_owned(), for_spark(&columns).to_string()),
        KeyValue::new(ARROW.to_owned(), STANDARD.encode(arrow::schema(&columns))),
    ]
}

fn by_name(columns: &[&ExportColumn]) -> Value {
    let about = columns.iter().map(|ExportColumn { name, kind, nullable, unit, description, .. }| {
        (name.clone(), json!({"type": kind.name(), "unit": unit, "nullable": nullable, "description": description}))
    });
    Value::Object(about.collect::<Map<_, _>>())
}

/// Returns the schema in the format of Spark's `StructType.json`.
fn for_spark(columns: &[&ExportColumn]) -> Value {
    let fields: Vec<Value> = columns
        .iter()
        .map(|ExportColumn { name, kind, nullable, unit, description, .. }| {
            let kind = match kind {
                ColumnKind::Integer => "long",
                ColumnKind::Text => "string",
                ColumnKind::Flag => "boolean",
            };
            let metadata = json!({"comment": comment(unit, description), "unit": unit, "description": description});
            json!({"name": name, "type": kind, "nullable": nullable, "metadata": metadata})
        })
        .collect();
    json!({"type": "struct", "fields": fields})
}

fn comment(unit: &str, description: &str) -> String {
    if unit.is_empty() { description.to_owned() } else { format!("[{unit}] {description}") }
}
