//! Encodes an Arrow IPC schema: a `FlatBuffers` message (`Schema.fbs` and `Message.fbs`, Arrow format 1.5). This saves
//! about ten Arrow crates for a few hundred bytes.

use crate::table::{ColumnKind, ExportColumn};
use flatbuffers::{FlatBufferBuilder, TableFinishedWIPOffset, VOffsetT, WIPOffset};

type FlatTable = WIPOffset<TableFinishedWIPOffset>;
type FlatBuilder = FlatBufferBuilder<'static>;

/// Start of a message; its length follows.
const CONTINUATION: [u8; 4] = [0xff; 4];
/// `MetadataVersion.V5`.
const V5: i16 = 4;
/// `MessageHeader.Schema`.
const SCHEMA: u8 = 1;
/// `Type.Int`, `Type.Utf8`, `Type.Bool`.
const INT: u8 = 2;
const UTF8: u8 = 5;
const BOOL: u8 = 6;

/// Returns a schema message with unit and description as field metadata.
pub fn schema(columns: &[&ExportColumn]) -> Vec<u8> {
    let mut builder = FlatBuilder::new();
    let fields: Vec<FlatTable> = columns.iter().map(|column| field(&mut builder, column)).collect();
    let fields = builder.create_vector(&fields);
    let schema = {
        // Slot 0, the endianness, defaults to little.
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

fn field(builder: &mut FlatBuilder, column: &ExportColumn) -> FlatTable {
    let name = builder.create_string(&column.name);
    let (kind, about) = kind(builder, column.kind);
    let metadata = [("unit", column.unit), ("description", &column.description)]
        .map(|(key, value)| key_value(builder, key, value));
    let metadata = builder.create_vector(&metadata);
    let children = builder.create_vector::<FlatTable>(&[]);
    let table = builder.start_table();
    builder.push_slot_always(slot(0), name);
    builder.push_slot(slot(1), column.nullable, false);
    builder.push_slot_always(slot(2), kind);
    builder.push_slot_always(slot(3), about);
    builder.push_slot_always(slot(5), children);
    builder.push_slot_always(slot(6), metadata);
    builder.end_table(table)
}

fn kind(builder: &mut FlatBuilder, kind: ColumnKind) -> (u8, FlatTable) {
    let table = builder.start_table();
    let number = match kind {
        ColumnKind::Integer => {
            builder.push_slot(slot(0), i64::BITS.cast_signed(), 0);
            builder.push_slot(slot(1), true, false);
            INT
        }
        ColumnKind::Text => UTF8,
        ColumnKind::Flag => BOOL,
    };
    (number, builder.end_table(table))
}

fn key_value(builder: &mut FlatBuilder, key: &str, value: &str) -> FlatTable {
    let (key, value) = (builder.create_string(key), builder.create_string(value));
    let table = builder.start_table();
    builder.push_slot_always(slot(0), key);
    builder.push_slot_always(slot(1), value);
    builder.end_table(table)
}

/// Returns the vtable offset of a field.
const fn slot(number: VOffsetT) -> VOffsetT {
    4 + 2 * number
}
