//! A schema as Arrow writes it between processes: a message of `FlatBuffers`, by `Schema.fbs` and `Message.fbs` of Arrow's format 1.5.
//! The crates of Arrow would be some ten more, for a few hundred bytes.

use crate::table::{Column, Kind};
use flatbuffers::{FlatBufferBuilder, TableFinishedWIPOffset, VOffsetT, WIPOffset};

type Table = WIPOffset<TableFinishedWIPOffset>;
type Builder = FlatBufferBuilder<'static>;

/// Begins a message; its length follows.
const CONTINUATION: [u8; 4] = [0xff; 4];
/// `MetadataVersion.V5`.
const V5: i16 = 4;
/// `MessageHeader.Schema`.
const SCHEMA: u8 = 1;
/// `Type.Int`, `Type.Utf8`, `Type.Bool`.
const INT: u8 = 2;
const UTF8: u8 = 5;
const BOOL: u8 = 6;

/// Returns the message of a schema whose fields have their unit and description as metadata.
pub fn schema(columns: &[&Column]) -> Vec<u8> {
    let mut builder = Builder::new();
    let fields: Vec<Table> = columns.iter().map(|column| field(&mut builder, column)).collect();
    let fields = builder.create_vector(&fields);
    let schema = {
        // The endianness is little, which is what it is where nothing is said.
        let table = builder.start_table();
        builder.push_slot_always(slot(1), fields);
        builder.end_table(table)
    };
    let message = {
        let table = builder.start_table();
        builder.push_slot_always(slot(0), V5);
        builder.push_slot_always(slot(1), SCHEMA);
        builder.push_slot_always(slot(2), schema);
        builder.push_slot_always(slot(3), 0_i64);
        builder.end_table(table)
    };
    builder.finish(message, None);
    let mut body = builder.finished_data().to_vec();
    body.resize(body.len().next_multiple_of(8), 0);
    [&CONTINUATION[..], &(body.len() as u32).to_le_bytes(), &body].concat()
}

fn field(builder: &mut Builder, column: &Column) -> Table {
    let name = builder.create_string(&column.name);
    let (kind, about) = kind(builder, column.kind);
    let metadata = [("unit", column.unit), ("description", &column.description)]
        .map(|(key, value)| key_value(builder, key, value));
    let metadata = builder.create_vector(&metadata);
    let children = builder.create_vector::<Table>(&[]);
    let table = builder.start_table();
    builder.push_slot_always(slot(0), name);
    builder.push_slot(slot(1), column.nullable, false);
    builder.push_slot_always(slot(2), kind);
    builder.push_slot_always(slot(3), about);
    builder.push_slot_always(slot(5), children);
    builder.push_slot_always(slot(6), metadata);
    builder.end_table(table)
}

fn kind(builder: &mut Builder, kind: Kind) -> (u8, Table) {
    let table = builder.start_table();
    let number = match kind {
        Kind::Integer => {
            builder.push_slot(slot(0), i64::BITS.cast_signed(), 0);
            builder.push_slot(slot(1), true, false);
            INT
        }
        Kind::Text => UTF8,
        Kind::Flag => BOOL,
    };
    (number, builder.end_table(table))
}

fn key_value(builder: &mut Builder, key: &str, value: &str) -> Table {
    let (key, value) = (builder.create_string(key), builder.create_string(value));
    let table = builder.start_table();
    builder.push_slot_always(slot(0), key);
    builder.push_slot_always(slot(1), value);
    builder.end_table(table)
}

/// Returns where a table has the field of that number.
const fn slot(number: VOffsetT) -> VOffsetT {
    4 + 2 * number
}
