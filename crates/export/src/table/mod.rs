//! Tables: what columns they have, and what is in them, whatever form they are written in.

pub mod connections;
pub mod operations;
pub mod runs;
pub mod statements;

use overhead_model::{Account, Side, SideTotals};
use parquet::data_type::ByteArray;
use std::fmt::Write;

/// What there is to say of the column `window`.
const WINDOW: &str = "of a capture in windows (--sample): number of the period whose window it is of, from 0; absent where all of the time was captured";

/// Of what kind the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Signed, of 64 bits.
    Integer,
    /// UTF-8.
    Text,
    /// True or false.
    Flag,
}

impl Kind {
    /// Returns the name that the schema has for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Integer => "int64",
            Self::Text => "string",
            Self::Flag => "boolean",
        }
    }
}

/// What is said of a column.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Of what kind its values are.
    pub kind: Kind,
    /// Values may be absent.
    pub nullable: bool,
    /// Of most rows, the value is another one: a dictionary of them would be as long as the column.
    pub varied: bool,
    /// `ns`, `bytes`, `1` for counts; empty where there is none.
    pub unit: &'static str,
    /// What it is, in a sentence.
    pub description: String,
}

/// Values of a column.
#[derive(Clone, Debug)]
pub enum Values {
    /// Of [`Kind::Integer`].
    Integers(Vec<Option<i64>>),
    /// Of [`Kind::Text`].
    Texts(Vec<Option<ByteArray>>),
    /// Of [`Kind::Flag`].
    Flags(Vec<Option<bool>>),
}

/// A column, and how it is got from a batch of rows.
pub struct Field<B> {
    /// The column.
    pub column: Column,
    values: Box<dyn Fn(&B) -> Values + Send + Sync>,
    /// Of which of the values the rows are; where it says nothing, they are of one each.
    index: fn(&B) -> Option<&[u32]>,
}

impl<B> Field<B> {
    /// Returns the values of a batch, and for each row which of them is its own; `None` where they are of one row each.
    pub fn of<'a>(&self, batch: &'a B) -> (Values, Option<&'a [u32]>) {
        ((self.values)(batch), (self.index)(batch))
    }

    fn new(column: Column, values: impl Fn(&B) -> Values + Send + Sync + 'static) -> Self {
        Self { column, values: Box::new(values), index: |_| None }
    }

    /// Returns the same, of rows that share values.
    fn by(self, index: fn(&B) -> Option<&[u32]>) -> Self {
        Self { index, ..self }
    }

    /// Returns the same with values that may be absent.
    fn nullable(mut self) -> Self {
        self.column.nullable = true;
        self
    }

    /// Returns the same with values that are mostly others.
    fn varied(mut self) -> Self {
        self.column.varied = true;
        self
    }
}

/// Returns the columns of all tables as Markdown.
pub fn schema() -> String {
    let mut text = String::new();
    describe("operations", &operations::fields(), &mut text);
    describe("statements", &statements::fields(), &mut text);
    describe("connections", &connections::fields(), &mut text);
    describe("runs", &runs::fields(), &mut text);
    text
}

fn describe<B>(table: &str, fields: &[Field<B>], text: &mut String) {
    // A text is written into whatever its length.
    let _ = write!(text, "### `{table}`\n\n| column | type | unit | what it is |\n| :-- | :-- | :-- | :-- |\n");
    for Column { name, kind, nullable, unit, description, .. } in fields.iter().map(|field| &field.column) {
        let absent = if *nullable { ", or absent" } else { "" };
        let _ = writeln!(text, "| `{name}` | {}{absent} | {unit} | {description} |", kind.name());
    }
    text.push('\n');
}

fn column(name: impl Into<String>, kind: Kind, unit: &'static str, description: impl Into<String>) -> Column {
    let (name, description) = (name.into(), description.into());
    Column { name, kind, nullable: false, varied: false, unit, description }
}

/// Returns text as a column has it.
#[expect(clippy::unnecessary_wraps, reason = "columns are of values that may be absent")]
fn text(text: &str) -> Option<ByteArray> {
    Some(ByteArray::from(text))
}

/// Returns an amount as a column has it: no capture comes to 2^63.
#[expect(clippy::unnecessary_wraps, reason = "as above")]
fn integer(amount: u64) -> Option<i64> {
    Some(i64::try_from(amount).unwrap_or(i64::MAX))
}

/// Returns the columns of both sides of what `sides` gives for each item of a batch.
fn of_sides<B: 'static, I: 'static>(
    items: fn(&B) -> &[I],
    sides: fn(&I) -> &[SideTotals; 2],
    index: fn(&B) -> Option<&[u32]>,
) -> Vec<Field<B>> {
    let mut fields = Vec::new();
    for side in Side::BOTH {
        let way = match side {
            Side::Request => "client to server",
            Side::Response => "server to client",
        };
        let mut add = |name: &str, unit, what: String, of: Box<dyn Fn(&SideTotals) -> u64 + Send + Sync>| {
            let column = column(format!("{}_{name}", side.name()), Kind::Integer, unit, what);
            let values = move |batch: &B| {
                Values::Integers(items(batch).iter().map(|item| integer(of(&sides(item)[side as usize]))).collect())
            };
            fields.push(Field::new(column, values).by(index));
        };
        add(
            "frames",
            "1",
            format!("frames touched, {way}; a frame shared with other operations counts in each"),
            Box::new(|side| side.frames),
        );
        add(
            "wire_bytes",
            "bytes",
            format!("bytes on the wire, {way}: the sum of all accounts"),
            Box::new(|side| side.amounts.total()),
        );
        add(
            "payload_bytes",
            "bytes",
            format!("TCP payload, {way}, each byte once: the sum of the accounts tls to unknown"),
            Box::new(|side| side.amounts.payload()),
        );
        for account in Account::ALL {
            add(
                &format!("{account}_bytes"),
                "bytes",
                format!("bytes of the account {account}, {way}"),
                Box::new(move |side| side.amounts[account]),
            );
        }
    }
    fields
}
