//! Columns and values of the tables, independent of the file format.

pub mod agent;
pub mod connections;
pub mod operations;
pub mod runs;
pub mod statements;

use overhead_model::{Account, Side, SideTotals, enum_with};
use parquet::data_type::ByteArray;
use std::borrow::Cow;
use std::fmt::Write;

/// Description of the column `window`.
const WINDOW: &str =
    "of a capture in windows (--sample): number of the period whose window it is of, from 0; absent without sampling";

enum_with! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ColumnKind, name: &'static str {
        /// Signed, 64 bits.
        Integer = "int64",
        /// UTF-8.
        Text = "string",
        Flag = "boolean",
    }
}

#[derive(Clone, Debug)]
pub struct ExportColumn {
    pub name: String,
    pub kind: ColumnKind,
    pub nullable: bool,
    /// Most rows have different values, so a dictionary would be as long as the column.
    pub varied: bool,
    /// `ns`, `bytes`, or `1` for counts; may be empty.
    pub unit: &'static str,
    pub description: String,
}

#[derive(Clone, Debug)]
pub enum ColumnValues {
    Integers(Vec<Option<i64>>),
    Texts(Vec<Option<ByteArray>>),
    Flags(Vec<Option<bool>>),
}

/// A column, and how to read it from a batch.
pub struct ExportField<B> {
    pub column: ExportColumn,
    values: Box<dyn Fn(&B) -> ColumnValues + Send + Sync>,
    /// Index of the value of each row; `None` if each row has one value.
    index: fn(&B) -> Option<&[u32]>,
}

impl<B> ExportField<B> {
    /// Returns the values of a batch, and the index of each row's value; `None` if each row has one value.
    pub fn values_of<'a>(&self, batch: &'a B) -> (ColumnValues, Option<&'a [u32]>) {
        ((self.values)(batch), (self.index)(batch))
    }

    fn new(
        (name, kind, unit, description): (&str, ColumnKind, &'static str, &str),
        values: impl Fn(&B) -> ColumnValues + Send + Sync + 'static,
    ) -> Self {
        let (name, description) = (name.to_owned(), description.to_owned());
        let column = ExportColumn { name, kind, nullable: false, varied: false, unit, description };
        Self { column, values: Box::new(values), index: |_| None }
    }

    fn integers(
        name: &str,
        unit: &'static str,
        description: &str,
        values: impl Fn(&B) -> Vec<Option<i64>> + Send + Sync + 'static,
    ) -> Self {
        let values = move |batch: &B| ColumnValues::Integers(values(batch));
        Self::new((name, ColumnKind::Integer, unit, description), values)
    }

    fn texts(
        name: &str,
        description: &str,
        values: impl Fn(&B) -> Vec<Option<ByteArray>> + Send + Sync + 'static,
    ) -> Self {
        Self::new((name, ColumnKind::Text, "", description), move |batch| ColumnValues::Texts(values(batch)))
    }

    fn indexed_by(self, index: fn(&B) -> Option<&[u32]>) -> Self {
        Self { index, ..self }
    }

    fn nullable(mut self) -> Self {
        self.column.nullable = true;
        self
    }

    fn varied(mut self) -> Self {
        self.column.varied = true;
        self
    }
}

/// Columns of tables whose batches are lists of rows.
impl<R: 'static> ExportField<Vec<R>> {
    fn number(name: &str, unit: &'static str, description: &str, of: fn(&R) -> u64) -> Self {
        Self::integers(name, unit, description, move |rows| rows.iter().map(|row| integer(of(row))).collect())
    }

    /// Rows may lack this number.
    fn maybe(name: &str, unit: &'static str, description: &str, of: fn(&R) -> Option<u64>) -> Self {
        let values = move |rows: &Vec<R>| rows.iter().map(|row| of(row).and_then(integer)).collect();
        Self::integers(name, unit, description, values).nullable()
    }

    fn signed(name: &str, unit: &'static str, description: &str, of: fn(&R) -> i64) -> Self {
        Self::integers(name, unit, description, move |rows| rows.iter().map(|row| Some(of(row))).collect())
    }

    /// Rows may lack this text.
    fn maybe_text(name: &str, description: &str, of: fn(&R) -> Option<&str>) -> Self {
        Self::texts(name, description, move |rows| rows.iter().map(|row| of(row).and_then(text)).collect()).nullable()
    }

    fn text(name: &str, description: &str, of: fn(&R) -> Cow<'_, str>) -> Self {
        Self::texts(name, description, move |rows| rows.iter().map(|row| text(&of(row))).collect())
    }

    fn flag(name: &str, description: &str, of: fn(&R) -> bool) -> Self {
        let values = move |rows: &Vec<R>| ColumnValues::Flags(rows.iter().map(|row| Some(of(row))).collect());
        Self::new((name, ColumnKind::Flag, "", description), values)
    }
}

/// Declares columns: their kind, name and unit, what they are, and the value in a row.
macro_rules! columns {
    ($field:ident |$row:ident| $($kind:ident $name:literal $([$unit:literal])?, $about:expr => $value:expr;)+) => {
        vec![$($field::$kind($name, $($unit,)? $about, |$row| $value)),+]
    };
}
use columns;

/// Returns the columns of all tables as Markdown.
pub fn schema() -> String {
    let mut text = String::new();
    describe("operations", &operations::fields(), &mut text);
    describe("statements", &statements::fields(), &mut text);
    describe("connections", &connections::fields(), &mut text);
    describe("runs", &runs::fields(), &mut text);
    describe("agent_flows", &agent::flow_fields([0; 2]), &mut text);
    describe("agent_statements", &agent::statement_fields([0; 2]), &mut text);
    text
}

fn describe<B>(table: &str, fields: &[ExportField<B>], text: &mut String) {
    let _ = write!(text, "### `{table}`\n\n| column | type | unit | what it is |\n| :-- | :-- | :-- | :-- |\n");
    for ExportColumn { name, kind, nullable, unit, description, .. } in fields.iter().map(|field| &field.column) {
        let absent = if *nullable { ", or absent" } else { "" };
        let _ = writeln!(text, "| `{name}` | {}{absent} | {unit} | {description} |", kind.name());
    }
    text.push('\n');
}

/// Returns a text value.
#[expect(clippy::unnecessary_wraps, reason = "columns are of values that may be absent")]
fn text(text: &str) -> Option<ByteArray> {
    Some(ByteArray::from(text))
}

/// Returns an integer value. No real amount reaches 2^63.
#[expect(clippy::unnecessary_wraps, reason = "as above")]
fn integer(amount: u64) -> Option<i64> {
    Some(i64::try_from(amount).unwrap_or(i64::MAX))
}

/// Returns the columns of both directions for the items of a batch.
fn side_fields<B: 'static, I: 'static>(
    items: fn(&B) -> &[I],
    sides: fn(&I) -> &[SideTotals; 2],
    index: fn(&B) -> Option<&[u32]>,
) -> Vec<ExportField<B>> {
    let mut fields = Vec::new();
    for side in Side::BOTH {
        let way = match side {
            Side::Request => "client to server",
            Side::Response => "server to client",
        };
        let mut add = |name: &str, unit, what: String, of: Box<dyn Fn(&SideTotals) -> u64 + Send + Sync>| {
            let values =
                move |batch: &B| items(batch).iter().map(|item| integer(of(&sides(item)[side as usize]))).collect();
            let name = format!("{}_{name}", side.name());
            fields.push(ExportField::integers(&name, unit, &what, values).indexed_by(index));
        };
        let shared = format!("frames touched, {way}; a frame shared with other operations counts in each");
        let wire = format!("bytes on the wire, {way}: the sum of all accounts");
        let payload = format!("TCP payload, {way}, each byte once: the sum of the accounts tls to unknown");
        add("frames", "1", shared, Box::new(|side| side.frames));
        add("wire_bytes", "bytes", wire, Box::new(|side| side.amounts.total()));
        add("payload_bytes", "bytes", payload, Box::new(|side| side.amounts.payload()));
        for account in Account::ALL {
            let of_account = format!("bytes of the account {account}, {way}");
            add(&format!("{account}_bytes"), "bytes", of_account, Box::new(move |side| side.amounts[account]));
        }
    }
    fields
}
