//! What the footer of a Parquet file says of its columns. Parquet itself has no place for it at a column; so each family of readers
//! has a key in the footer where it looks for what belongs to columns, and all of them are written.

use crate::arrow;
use crate::table::{Column, Field, Kind};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parquet::file::metadata::KeyValue;
use serde_json::{Map, Value, json};

/// For people, and readers that look for nothing: by name, the type, the unit, whether values may be absent, and the description.
const COLUMNS: &str = "overhead.columns";
/// Where Spark looks for its schema, in which columns have metadata. `comment` is what its catalogues show.
const SPARK: &str = "org.apache.spark.sql.parquet.row.metadata";
/// Where what is built on Arrow (pyarrow, pandas, Polars) looks for its schema, in which columns have metadata.
const ARROW: &str = "ARROW:schema";

/// Returns what is said of the columns, to each family of readers.
pub fn of_columns<B>(fields: &[Field<B>]) -> [KeyValue; 3] {
    let columns: Vec<&Column> = fields.iter().map(|field| &field.column).collect();
    [
        KeyValue::new(COLUMNS.to_owned(), by_name(&columns).to_string()),
        KeyValue::new(SPARK.to_owned(), for_spark(&columns).to_string()),
        KeyValue::new(ARROW.to_owned(), STANDARD.encode(arrow::schema(&columns))),
    ]
}

fn by_name(columns: &[&Column]) -> Value {
    let about = columns.iter().map(|Column { name, kind, nullable, unit, description, .. }| {
        (name.clone(), json!({"type": kind.name(), "unit": unit, "nullable": nullable, "description": description}))
    });
    Value::Object(about.collect::<Map<_, _>>())
}

/// Returns the schema as Spark's `StructType.json` has it.
fn for_spark(columns: &[&Column]) -> Value {
    let fields: Vec<Value> = columns
        .iter()
        .map(|Column { name, kind, nullable, unit, description, .. }| {
            let kind = match kind {
                Kind::Integer => "long",
                Kind::Text => "string",
                Kind::Flag => "boolean",
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
