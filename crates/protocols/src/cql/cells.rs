//! Cells of rows and bind variables of requests, with the inner structure of their types (section 6).

use super::types::CqlType;
use overhead_decode::{Cursor, Field, FieldRead, Free, Note, Out, Reader, Short};
use overhead_model::Account;

/// Posts a `[value]` or `[bytes]`: its length and its contents; `known` is its type, if stated.
#[inline]
pub fn value<R: Reader>(known: Option<&CqlType>, cursor: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
    let (length, header) = length(cursor, "value length")?;
    if let (Some(CqlType::Leaf | CqlType::Fixed(_)), Some(length)) = (known, length) {
        return cursor.skip_and_free(header, (Account::Data, "value", length), Free::Any);
    }
    cursor.skip_all([header])?;
    // -1 is null, -2 is "not set".
    let Some(length) = length else { return Ok(()) };
    match known {
        None | Some(CqlType::Unknown) => {
            let value = cursor.peek();
            if may_be_structured(value, length) {
                cursor.out().note(Note::UntypedValue);
            } else if length <= cursor.remaining() {
                free_untyped(value, length, cursor.out());
            }
            cursor.skip(length, Account::Data, "untyped value")
        }
        // The structure of a snapped value is unknown.
        Some(_) if length > cursor.peek().len() as u64 => Err(Short),
        Some(known) => {
            contents(known, length, cursor);
            Ok(())
        }
    }
}

/// Marks the bytes of a value of unknown type, posted next, that cannot make it look structured.
fn free_untyped<R: Reader>(value: &[u8], length: u64, out: &mut Out<'_, R>) {
    match length {
        0..5 => out.free(0, length, Free::Any),
        // Has room for one non-zero length, but the first four bytes are not one.
        5..9 if value.len() as u64 >= length => out.free(4, length - 4, Free::Any),
        _ => {}
    }
}

/// Returns whether a value of `length` bytes and unknown type may be a collection, a tuple or a user-defined type that
/// is not empty.
#[inline(never)]
fn may_be_structured(bytes: &[u8], length: u64) -> bool {
    let captured = usize::try_from(length).ok().and_then(|length| bytes.get(..length)).unwrap_or(bytes);
    let count = captured.first_chunk().map(|count| u64::from(u32::from_be_bytes(*count)));
    let behind = captured.get(4..).unwrap_or_default();
    let is_collection = |parts: u64| parts > 0 && parts_of(behind, length.saturating_sub(4)) == Some(parts);
    count.is_some_and(|count| is_collection(count) || is_collection(2 * count))
        || parts_of(captured, length).is_some_and(|parts| parts > 0)
}

/// Returns how many length-prefixed values fill `length` bytes exactly; `None` if they do not, if all are null or
/// empty, or if their lengths were not captured.
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

/// Posts the contents of a fully captured value. Bytes that do not fit the type count as data.
fn contents<R: Reader>(known: &CqlType, length: u64, cursor: &mut Cursor<'_, '_, '_, R>) {
    let end = cursor.position() + length;
    let fits = walk(known, end, cursor);
    let left = end.saturating_sub(cursor.position());
    if fits.is_err() || left > 0 {
        misfit(known, left, cursor);
    }
}

#[cold]
fn misfit<R: Reader>(known: &CqlType, left: u64, cursor: &mut Cursor<'_, '_, '_, R>) {
    if *known != CqlType::Unknown || may_be_structured(cursor.peek(), left) {
        cursor.out().note(Note::UntypedValue);
    }
    let _ = cursor.skip(left, Account::Data, "untyped value");
}

fn walk<R: Reader>(known: &CqlType, end: u64, cursor: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
    let left = end - cursor.position();
    match known {
        CqlType::Leaf | CqlType::Fixed(_) => cursor.skip_free(left, Account::Data, "value", Free::Any),
        CqlType::Unknown => Err(Short),
        // An empty value is legal for most types (section 6).
        _ if left == 0 => Ok(()),
        CqlType::List(of) => (0..count(end, cursor)?).try_for_each(|_| element(of, end, cursor)),
        CqlType::Map(pair) => {
            (0..count(end, cursor)?).try_for_each(|_| pair.iter().try_for_each(|of| element(of, end, cursor)))
        }
        CqlType::Tuple(members) => {
            // A value may have fewer fields than its type (section 7).
            for member in members {
                if cursor.position() == end {
                    break;
                }
                element(member, end, cursor)?;
            }
            Ok(())
        }
        CqlType::Vector(element, count) => vector(element, *count, end, cursor),
    }
}

/// Elements of fixed size have no lengths; others have a variable-length integer each.
fn vector<R: Reader>(element: &CqlType, count: u32, end: u64, cursor: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
    let left = end - cursor.position();
    if let Some(size) = element.fixed() {
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
        contents(element, length, cursor);
    }
    Ok(())
}

fn element<R: Reader>(known: &CqlType, end: u64, cursor: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
    if end - cursor.position() < 4 {
        return Err(Short);
    }
    let (length, header) = length(cursor, "element length")?;
    let fits = length.filter(|&length| length <= end - cursor.position() - 4);
    if let (CqlType::Leaf | CqlType::Fixed(_), Some(length)) = (known, fits) {
        return cursor.skip_and_free(header, (Account::Data, "element", length), Free::Any);
    }
    cursor.skip_all([header])?;
    match (length, fits) {
        (None, _) => Ok(()),
        (Some(_), None) => Err(Short),
        (_, Some(length)) => {
            contents(known, length, cursor);
            Ok(())
        }
    }
}

/// Returns the next length, if not negative, and the field to post for it.
#[inline]
fn length<R: Reader>(cursor: &Cursor<'_, '_, '_, R>, name: &'static str) -> FieldRead<(Option<u64>, Field)> {
    let length = cursor.peek().first_chunk().ok_or(Short)?;
    Ok((u64::try_from(i32::from_be_bytes(*length)).ok(), (Account::Framing, name, 4)))
}

fn count<R: Reader>(end: u64, cursor: &mut Cursor<'_, '_, '_, R>) -> FieldRead<u32> {
    if end - cursor.position() < 4 {
        return Err(Short);
    }
    let count = cursor.i32_be(Account::Framing, "element count")?;
    Ok(u32::try_from(count).unwrap_or(0))
}

/// Reads an `[unsigned vint]` (section 3): the leading ones of the first byte count the bytes after it. Returns value
/// and size.
fn vint(bytes: &[u8]) -> FieldRead<(u64, u64)> {
    let &[first, ref rest @ ..] = bytes else { return Err(Short) };
    let extra = first.leading_ones();
    let rest = rest.get(..extra as usize).ok_or(Short)?;
    let high = u64::from(first) & (0xFF >> extra);
    let value = rest.iter().fold(high, |value, &byte| value << 8 | u64::from(byte));
    Ok((value, u64::from(extra) + 1))
}
