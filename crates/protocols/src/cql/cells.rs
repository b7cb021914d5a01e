//! Values: cells of rows and bind variables of requests, with the inner structure that their type gives them
//! (section 6).

use super::types::{CqlType, CqlTypeTable};
use overhead_decode::{Cursor, Field, Free, Note, Out, Reader, Short};
use overhead_model::Account;

/// Posts a `[value]` or `[bytes]`: its length, and its contents by the type of column `index` of `types`.
#[inline]
pub(super) fn value<R: Reader>(
    types: &CqlTypeTable,
    index: usize,
    cursor: &mut Cursor<'_, '_, '_, R>,
) -> Result<(), Short> {
    let (length, header) = length(cursor, "value length")?;
    let known = types.column(index).map(|node| (node, types.node(node)));
    if let (Some((_, CqlType::Leaf | CqlType::Fixed(_))), Some(length)) = (known, length) {
        return cursor.skip_and_free(header, (Account::Data, "value", length), Free::Any);
    }
    cursor.skip_all([header])?;
    // -1 is null, -2 is "not set".
    let Some(length) = length else { return Ok(()) };
    match known {
        None | Some((_, CqlType::Unknown)) => {
            let value = cursor.peek();
            if may_be_structured(value, length) {
                cursor.out().note(Note::UntypedValue);
            } else {
                free_untyped(value, length, cursor.out());
            }
            cursor.skip(length, Account::Data, "untyped value")
        }
        // What the structure of a snapped value is cannot be told.
        Some(_) if length > cursor.peek().len() as u64 => Err(Short),
        Some((node, _)) => {
            contents(types, node, length, cursor);
            Ok(())
        }
    }
}

/// Says what of a value of unknown type, which is posted next, may differ without it looking like one with structure.
fn free_untyped<R: Reader>(value: &[u8], length: u64, out: &mut Out<'_, R>) {
    match length {
        // Too short for a length and a byte.
        0..5 => out.free(0, length, Free::Any),
        // Enough for one length that is not 0, which is not there.
        5..9 if value.len() as u64 >= length => out.free(4, length - 4, Free::Any),
        _ => {}
    }
}

/// Returns whether `length` bytes of unknown type, of which some were captured, read as a collection, a tuple or a user-defined
/// type with something in it. Others are data whatever their type.
#[inline(never)]
fn may_be_structured(bytes: &[u8], length: u64) -> bool {
    let captured = usize::try_from(length).ok().and_then(|length| bytes.get(..length)).unwrap_or(bytes);
    let count = captured.first_chunk().map(|count| u64::from(u32::from_be_bytes(*count)));
    let behind = captured.get(4..).unwrap_or_default();
    let is_collection = |parts: u64| parts > 0 && parts_of(behind, length.saturating_sub(4)) == Some(parts);
    count.is_some_and(|count| is_collection(count) || is_collection(2 * count))
        || parts_of(captured, length).is_some_and(|parts| parts > 0)
}

/// Returns how many values with lengths fill `length` bytes exactly; `None` where they do not, where all are null or empty,
/// and where that was not captured.
fn parts_of(bytes: &[u8], length: u64) -> Option<u64> {
    let (mut rest, mut left, mut parts, mut filled) = (bytes, length, 0, false);
    while left > 0 {
        let (len, behind) = rest.split_first_chunk()?;
        let len = u64::try_from(i32::from_be_bytes(*len)).unwrap_or(0);
        left = left.checked_sub(4 + len)?;
        rest = usize::try_from(len).ok().and_then(|len| behind.get(len..)).unwrap_or_default();
        filled |= len > 0;
        parts += 1;
    }
    filled.then_some(parts)
}

/// Posts `length` bytes of a value of type `node`, all of which were captured. Whatever does not fit the type is data.
fn contents<R: Reader>(types: &CqlTypeTable, node: u32, length: u64, cursor: &mut Cursor<'_, '_, '_, R>) {
    let end = cursor.position() + length;
    let fits = walk(types, node, end, cursor);
    let left = end.saturating_sub(cursor.position());
    if fits.is_err() || left > 0 {
        misfit(types, node, left, cursor);
    }
}

/// Posts the rest of a value, `left` bytes, which does not fit its type.
#[cold]
fn misfit<R: Reader>(types: &CqlTypeTable, node: u32, left: u64, cursor: &mut Cursor<'_, '_, '_, R>) {
    let is_known = !matches!(types.node(node), CqlType::Unknown);
    if is_known || may_be_structured(cursor.peek(), left) {
        cursor.out().note(Note::UntypedValue);
    }
    let _ = cursor.skip(left, Account::Data, "untyped value");
}

/// Posts the structure of one value that ends at `end`.
fn walk<R: Reader>(types: &CqlTypeTable, node: u32, end: u64, cursor: &mut Cursor<'_, '_, '_, R>) -> Result<(), Short> {
    let left = end - cursor.position();
    match types.node(node) {
        CqlType::Leaf | CqlType::Fixed(_) => cursor.skip_free(left, Account::Data, "value", Free::Any),
        CqlType::Unknown => Err(Short),
        // An empty value of a type that has structure: legal for most types (section 6).
        _ if left == 0 => Ok(()),
        CqlType::List(of) => {
            for _ in 0..count(end, cursor)? {
                element(types, of, end, cursor)?;
            }
            Ok(())
        }
        CqlType::Map(key, value) => {
            for _ in 0..count(end, cursor)? {
                element(types, key, end, cursor)?;
                element(types, value, end, cursor)?;
            }
            Ok(())
        }
        CqlType::Tuple { first, count } => {
            // A value may have fewer fields than its type (section 7).
            for member in first..first + count {
                if cursor.position() == end {
                    break;
                }
                element(types, types.link(member), end, cursor)?;
            }
            Ok(())
        }
        CqlType::Vector { element, count } => vector(types, element, count, end, cursor),
    }
}

/// Elements without lengths where they are of one size, else each behind a variable-length integer.
fn vector<R: Reader>(
    types: &CqlTypeTable,
    element: u32,
    count: u32,
    end: u64,
    cursor: &mut Cursor<'_, '_, '_, R>,
) -> Result<(), Short> {
    let left = end - cursor.position();
    if let Some(size) = types.fixed(element) {
        let fits = size.saturating_mul(u64::from(count)) == left;
        return if fits { cursor.skip_free(left, Account::Data, "vector elements", Free::Any) } else { Err(Short) };
    }
    for _ in 0..count {
        let (length, size) = vint(cursor.peek())?;
        let left = end - cursor.position();
        if length.checked_add(size).is_none_or(|whole| whole > left) {
            return Err(Short);
        }
        cursor.skip(size, Account::Framing, "element length")?;
        contents(types, element, length, cursor);
    }
    Ok(())
}

/// An element with its length. No element is longer than what is left of the value around it.
fn element<R: Reader>(
    types: &CqlTypeTable,
    node: u32,
    end: u64,
    cursor: &mut Cursor<'_, '_, '_, R>,
) -> Result<(), Short> {
    if end - cursor.position() < 4 {
        return Err(Short);
    }
    let (length, header) = length(cursor, "element length")?;
    let fits = length.filter(|&length| length <= end - cursor.position() - 4);
    if let (CqlType::Leaf | CqlType::Fixed(_), Some(length)) = (types.node(node), fits) {
        return cursor.skip_and_free(header, (Account::Data, "element", length), Free::Any);
    }
    cursor.skip_all([header])?;
    match (length, fits) {
        (None, _) => Ok(()),
        (Some(_), None) => Err(Short),
        (_, Some(length)) => {
            contents(types, node, length, cursor);
            Ok(())
        }
    }
}

/// Returns the length that comes next, where it is not negative, and how it is posted.
#[inline]
fn length<R: Reader>(cursor: &Cursor<'_, '_, '_, R>, name: &'static str) -> Result<(Option<u64>, Field), Short> {
    let length = cursor.peek().first_chunk().ok_or(Short)?;
    Ok((u64::try_from(i32::from_be_bytes(*length)).ok(), (Account::Framing, name, 4)))
}

fn count<R: Reader>(end: u64, cursor: &mut Cursor<'_, '_, '_, R>) -> Result<u32, Short> {
    if end - cursor.position() < 4 {
        return Err(Short);
    }
    let count = cursor.i32_be(Account::Framing, "element count")?;
    Ok(u32::try_from(count).unwrap_or(0))
}

/// `[unsigned vint]` (section 3): as many bytes follow the first as it has leading ones. Gives value and size.
fn vint(bytes: &[u8]) -> Result<(u64, u64), Short> {
    let &[first, ref rest @ ..] = bytes else {
        return Err(Short);
    };
    let extra = first.leading_ones();
    let rest = rest.get(..extra as usize).ok_or(Short)?;
    let high = u64::from(first) & (0xFF >> extra);
    let value = rest.iter().fold(high, |value, &byte| value << 8 | u64::from(byte));
    Ok((value, u64::from(extra) + 1))
}
