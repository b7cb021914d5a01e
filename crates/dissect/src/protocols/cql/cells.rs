//! Values: cells of rows and bind variables of requests, with the inner structure that their type gives them
//! (section 6).

use super::types::{Type, Types};
use crate::decode::{Cursor, Note, Reader, Short};
use overhead_model::Account;

/// Posts a `[value]` or `[bytes]`: its length, and its contents by the type of column `index` of `types`.
#[inline]
pub(super) fn value<R: Reader>(types: &Types, index: usize, cursor: &mut Cursor<'_, '_, '_, R>) -> Result<(), Short> {
    let length = cursor.i32_be(Account::Framing, "value length")?;
    // -1 is null, -2 is "not set".
    let Ok(length) = u64::try_from(length) else {
        return Ok(());
    };
    match types.column(index).map(|node| (node, types.node(node))) {
        Some((_, Type::Leaf | Type::Fixed(_))) => cursor.skip(length, Account::Data, "value"),
        None | Some((_, Type::Unknown)) => {
            cursor.skip(length, Account::Data, "untyped value")?;
            if length > 0 {
                cursor.out().note(Note::UntypedValue);
            }
            Ok(())
        }
        // What the structure of a snapped value is cannot be told.
        Some(_) if length > cursor.peek().len() as u64 => Err(Short),
        Some((node, _)) => {
            contents(types, node, length, cursor);
            Ok(())
        }
    }
}

/// Posts `length` bytes of a value of type `node`, all of which were captured. Whatever does not fit the type is data.
fn contents<R: Reader>(types: &Types, node: u32, length: u64, cursor: &mut Cursor<'_, '_, '_, R>) {
    let end = cursor.position() + length;
    let fits = walk(types, node, end, cursor);
    let left = end.saturating_sub(cursor.position());
    if fits.is_err() || left > 0 {
        cursor.out().note(Note::UntypedValue);
        let _ = cursor.skip(left, Account::Data, "untyped value");
    }
}

/// Posts the structure of one value that ends at `end`.
fn walk<R: Reader>(types: &Types, node: u32, end: u64, cursor: &mut Cursor<'_, '_, '_, R>) -> Result<(), Short> {
    let left = end - cursor.position();
    match types.node(node) {
        Type::Leaf | Type::Fixed(_) => cursor.skip(left, Account::Data, "value"),
        Type::Unknown => Err(Short),
        // An empty value of a type that has structure: legal for most types (section 6).
        _ if left == 0 => Ok(()),
        Type::List(of) => {
            for _ in 0..count(end, cursor)? {
                element(types, of, end, cursor)?;
            }
            Ok(())
        }
        Type::Map(key, value) => {
            for _ in 0..count(end, cursor)? {
                element(types, key, end, cursor)?;
                element(types, value, end, cursor)?;
            }
            Ok(())
        }
        Type::Tuple { first, count } => {
            // A value may have fewer fields than its type (section 7).
            for member in first..first + count {
                if cursor.position() == end {
                    break;
                }
                element(types, types.link(member), end, cursor)?;
            }
            Ok(())
        }
        Type::Vector { element, count } => vector(types, element, count, end, cursor),
    }
}

/// Elements without lengths where they are of one size, else each behind a variable-length integer.
fn vector<R: Reader>(
    types: &Types,
    element: u32,
    count: u32,
    end: u64,
    cursor: &mut Cursor<'_, '_, '_, R>,
) -> Result<(), Short> {
    let left = end - cursor.position();
    if let Some(size) = types.fixed(element) {
        let fits = size.saturating_mul(u64::from(count)) == left;
        return if fits { cursor.skip(left, Account::Data, "vector elements") } else { Err(Short) };
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
fn element<R: Reader>(types: &Types, node: u32, end: u64, cursor: &mut Cursor<'_, '_, '_, R>) -> Result<(), Short> {
    if end - cursor.position() < 4 {
        return Err(Short);
    }
    let length = cursor.i32_be(Account::Framing, "element length")?;
    let Ok(length) = u64::try_from(length) else {
        return Ok(());
    };
    if length > end - cursor.position() {
        return Err(Short);
    }
    match types.node(node) {
        Type::Leaf | Type::Fixed(_) => cursor.skip(length, Account::Data, "element"),
        _ => {
            contents(types, node, length, cursor);
            Ok(())
        }
    }
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
