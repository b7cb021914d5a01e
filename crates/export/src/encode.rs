//! Encodes batches of rows as parts of files.

use crate::arrow;
use crate::shared::{self, ZSTD_LEVEL};
use crate::table::{ColumnKind, ColumnValues, ExportColumn, ExportField};
use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::ValueEnum;
use overhead_model::csv::harmless;
use overhead_model::enum_with;
use overhead_model::outside::json_escaped;
use overhead_model::record::SCHEMA_VERSION;
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::column::writer::{ColumnCloseResult, ColumnWriter, get_column_writer};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::{ColumnPath, SchemaDescPtr, SchemaDescriptor, Type, TypePtr};
use serde_json::{Map, Value, json};
use std::sync::Arc;

enum_with! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
    pub enum DatasetFormat, extension: &'static str {
        /// Apache Parquet, compressed with zstd.
        Parquet = "parquet",
        /// Comma-separated values (RFC 4180), with a line of names.
        Csv = "csv",
        /// A JSON object on each line.
        Ndjson = "ndjson",
    }
}

/// Shared by the files of a table.
pub struct TableLayout<B> {
    pub table: &'static str,
    fields: Vec<ExportField<B>>,
    form: DatasetFormat,
    /// Extra columns with the values of the folder names, for readers that ignore those.
    constants: Vec<(&'static str, String)>,
    /// `None` for text formats.
    parquet: Option<ParquetLayout>,
}

/// Shared by the Parquet files of a table.
#[derive(Clone, Debug)]
pub struct ParquetLayout {
    pub schema: TypePtr,
    /// Writer settings and footer metadata.
    pub properties: WriterPropertiesPtr,
    descriptor: SchemaDescPtr,
}

pub enum EncodedPart {
    /// Bytes and metadata of all columns.
    RowGroup(Vec<u8>, Vec<ColumnCloseResult>),
    Lines(Vec<u8>),
}

impl<B> TableLayout<B> {
    pub fn new(
        table: &'static str,
        fields: Vec<ExportField<B>>,
        form: DatasetFormat,
        host: &str,
        run: &str,
    ) -> Result<Self> {
        let constants = vec![("host", host.to_owned()), ("run", run.to_owned())];
        let parquet = match form {
            DatasetFormat::Parquet => Some(parquet_layout(table, &fields, &constants)?),
            DatasetFormat::Csv | DatasetFormat::Ndjson => None,
        };
        Ok(Self { table, fields, form, constants, parquet })
    }

    pub fn parquet(&self) -> Option<&ParquetLayout> {
        self.parquet.as_ref()
    }

    /// Returns the start of a file.
    pub fn head(&self) -> Vec<u8> {
        if self.form != DatasetFormat::Csv {
            return Vec::new();
        }
        let constants = self.constants.iter().map(|(name, _)| *name);
        let names: Vec<&str> = constants.chain(self.fields.iter().map(|field| field.column.name.as_str())).collect();
        format!("{}\n", names.join(",")).into_bytes()
    }

    pub fn encode(&self, batch: &B, rows: usize) -> Result<EncodedPart> {
        match &self.parquet {
            Some(parquet) => self.row_group(parquet, batch),
            None => Ok(EncodedPart::Lines(self.lines(batch, rows))),
        }
    }

    fn row_group(&self, layout: &ParquetLayout, batch: &B) -> Result<EncodedPart> {
        let mut sink = TrackedWrite::new(Vec::new());
        let mut closed = Vec::with_capacity(self.fields.len());
        for (number, field) in self.fields.iter().enumerate() {
            let (values, index) = field.values_of(batch);
            if let Some(index) = index {
                let pages = SerializedPageWriter::new(&mut sink);
                let shared = shared::write(pages, layout.descriptor.column(number), &values, index);
                let shared = shared.with_context(|| format!("column {} of {}", field.column.name, self.table))?;
                if let Some(shared) = shared {
                    closed.push(shared);
                    continue;
                }
            }
            let pages = Box::new(SerializedPageWriter::new(&mut sink));
            let writer = get_column_writer(layout.descriptor.column(number), Arc::clone(&layout.properties), pages);
            let written = write_column(writer, field.column.nullable, values, index);
            closed.push(written.with_context(|| format!("column {} of {}", field.column.name, self.table))?);
        }
        Ok(EncodedPart::RowGroup(sink.into_inner()?, closed))
    }

    fn lines(&self, batch: &B, rows: usize) -> Vec<u8> {
        let is_csv = self.form == DatasetFormat::Csv;
        let zeros = vec![0; rows];
        let constants = self.constants.iter().map(|(name, value)| (*name, vec![cell(is_csv, value)], Some(&*zeros)));
        let fields = self.fields.iter().map(|field| {
            let (values, index) = field.values_of(batch);
            (field.column.name.as_str(), cells(is_csv, &values), index)
        });
        // Before each value: a comma, and the name in JSON.
        let prefixed = |(at, (name, cells, index)): (usize, (&str, _, _))| {
            let first = if at == 0 { "" } else { "," };
            let prefix = if is_csv { first.to_owned() } else { format!("{first}{}:", json!(name)) };
            (prefix, cells, index)
        };
        let columns: Vec<PrefixedCells<'_>> = constants.chain(fields).enumerate().map(prefixed).collect();
        let mut lines = Vec::with_capacity(rows * 256);
        for row in 0..rows {
            if !is_csv {
                lines.push(b'{');
            }
            for (prefix, cells, index) in &columns {
                let place = index.map_or(Some(row), |index| index.get(row).map(|place| *place as usize));
                lines.extend_from_slice(prefix.as_bytes());
                lines.extend_from_slice(place.and_then(|place| cells.get(place)).map_or(&[][..], String::as_bytes));
            }
            lines.extend_from_slice(if is_csv { b"\n" } else { b"}\n" });
        }
        lines
    }
}

/// A column: the text before each value, its values, and the index of the value of each row; without an index, each row has
/// one value.
type PrefixedCells<'a> = (String, Vec<String>, Option<&'a [u32]>);

/// Writes a column. `index` chooses the value of each row; without it, each row has one value.
fn write_column(
    writer: ColumnWriter<'_>,
    nullable: bool,
    values: ColumnValues,
    index: Option<&[u32]>,
) -> Result<ColumnCloseResult> {
    macro_rules! write {
        ($writer:expr, $values:expr) => {{
            let (mut writer, values) = ($writer, gathered($values, index));
            let levels: Option<Vec<i16>> =
                nullable.then(|| values.iter().map(|value| i16::from(value.is_some())).collect());
            let present: Vec<_> = values.into_iter().flatten().collect();
            writer.write_batch(&present, levels.as_deref(), None)?;
            Ok(writer.close()?)
        }};
    }
    match (writer, values) {
        (ColumnWriter::Int64ColumnWriter(writer), ColumnValues::Integers(values)) => write!(writer, values),
        (ColumnWriter::ByteArrayColumnWriter(writer), ColumnValues::Texts(values)) => write!(writer, values),
        (ColumnWriter::BoolColumnWriter(writer), ColumnValues::Flags(values)) => write!(writer, values),
        _ => anyhow::bail!("its values do not have the type in the schema: this is a bug, please report it"),
    }
}

fn gathered<T: Clone>(values: Vec<Option<T>>, index: Option<&[u32]>) -> Vec<Option<T>> {
    match index {
        None => values,
        Some(index) => index.iter().map(|place| values.get(*place as usize).cloned().flatten()).collect(),
    }
}

fn cells(is_csv: bool, values: &ColumnValues) -> Vec<String> {
    let absent = || if is_csv { String::new() } else { "null".to_owned() };
    match values {
        ColumnValues::Integers(values) => {
            values.iter().map(|value| value.map_or_else(absent, |value| value.to_string())).collect()
        }
        ColumnValues::Flags(values) => {
            values.iter().map(|value| value.map_or_else(absent, |value| value.to_string())).collect()
        }
        ColumnValues::Texts(values) => {
            let text = |value: &Option<parquet::data_type::ByteArray>| {
                value.as_ref().map_or_else(absent, |value| cell(is_csv, &String::from_utf8_lossy(value.data())))
            };
            values.iter().map(text).collect()
        }
    }
}

fn cell(is_csv: bool, text: &str) -> String {
    if !is_csv {
        return json_escaped(&Value::from(text).to_string());
    }
    let text = harmless(text);
    // Quotes distinguish an empty text from an absent value.
    if text.is_empty() || text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text
}

fn parquet_layout<B>(
    table: &str,
    fields: &[ExportField<B>],
    constants: &[(&'static str, String)],
) -> Result<ParquetLayout> {
    let types = fields.iter().map(|field| parquet_type(&field.column).map(Arc::new)).collect::<Result<_>>()?;
    let schema = Arc::new(Type::group_type_builder(table).with_fields(types).build()?);
    let mut about = vec![
        KeyValue::new("overhead.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        KeyValue::new("overhead.schema_version".to_owned(), SCHEMA_VERSION.to_string()),
        KeyValue::new("overhead.table".to_owned(), table.to_owned()),
    ];
    about.extend(metadata(fields));
    about.extend(constants.iter().map(|(name, value)| KeyValue::new(format!("overhead.{name}"), value.clone())));
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("overhead ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        // A column of a row group only has a few pages.
        .set_offset_index_disabled(true)
        .set_key_value_metadata(Some(about));
    for ExportColumn { name, .. } in fields.iter().map(|field| &field.column).filter(|column| column.varied) {
        let path = ColumnPath::from(name.as_str());
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    let descriptor = Arc::new(SchemaDescriptor::new(Arc::clone(&schema)));
    Ok(ParquetLayout { schema, properties: Arc::new(properties.build()), descriptor })
}

fn parquet_type(column: &ExportColumn) -> Result<Type> {
    let (physical, logical) = match column.kind {
        ColumnKind::Integer => (Physical::INT64, None),
        ColumnKind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        ColumnKind::Flag => (Physical::BOOLEAN, None),
    };
    let repetition = if column.nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    let built = Type::primitive_type_builder(&column.name, physical);
    Ok(built.with_logical_type(logical).with_repetition(repetition).build()?)
}

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
