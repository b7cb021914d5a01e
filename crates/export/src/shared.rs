//! Encodes a Parquet column whose rows share values, as a dictionary and an index per row.
//!
//! The `parquet` crate's writer would look up the value of every row. A batch already has distinct values and an index,
//! so a row only costs a few bits, or none if all rows are equal. Format:
//! <https://parquet.apache.org/docs/file-format/data-pages/encodings/>, `PLAIN_DICTIONARY` and `RLE`.

use crate::table::ColumnValues;
use anyhow::{Context, Result};
use bytes::Bytes;
use foldhash::fast::FixedState;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet::schema::types::ColumnDescPtr;
use std::collections::HashMap;
use std::hash::Hash;

/// As for the other columns.
pub const ZSTD_LEVEL: i32 = 1;
/// Minimum length of a run, and size of a bit-packed group.
const GROUP: usize = 8;

/// Distinct values of a batch.
struct ValueDictionary {
    /// `PLAIN` encoding.
    plain: Vec<u8>,
    len: u32,
    /// Index of each value of the batch; `None` if it is absent.
    places: Vec<Option<u32>>,
    bounds: ValueBounds,
}

enum ValueBounds {
    Integers(Option<(i64, i64)>),
    Texts(Option<(ByteArray, ByteArray)>),
}

/// Writes a column; `index` chooses the value of each row. Returns `None` for kinds that are not shared.
pub fn write(
    mut pages: impl PageWriter,
    descriptor: ColumnDescPtr,
    values: &ColumnValues,
    index: &[u32],
) -> Result<Option<ColumnCloseResult>> {
    let Some(dictionary) = ValueDictionary::new(values) else { return Ok(None) };
    let is_nullable = descriptor.max_def_level() > 0;
    let (data, nulls) = data_page(&dictionary, index, is_nullable);
    let page = Page::DictionaryPage {
        buf: compressed(&dictionary.plain)?,
        num_values: dictionary.len,
        encoding: Encoding::PLAIN_DICTIONARY,
        is_sorted: false,
    };
    let first = pages.write_page(CompressedPage::new(page, dictionary.plain.len()))?;
    let page = Page::DataPage {
        buf: compressed(&data)?,
        num_values: index.len() as u32,
        encoding: Encoding::PLAIN_DICTIONARY,
        def_level_encoding: Encoding::RLE,
        rep_level_encoding: Encoding::RLE,
        statistics: None,
    };
    let second = pages.write_page(CompressedPage::new(page, data.len()))?;
    pages.close()?;
    let both =
        |of: fn(&parquet::column::page::PageWriteSpec) -> usize| ((of(&first) + of(&second)) as u64).cast_signed();
    let metadata = ColumnChunkMetaData::builder(descriptor)
        .set_compression(Compression::ZSTD(parquet::basic::ZstdLevel::try_new(ZSTD_LEVEL)?))
        .set_encodings(vec![Encoding::PLAIN_DICTIONARY, Encoding::RLE])
        .set_total_compressed_size(both(|spec| spec.compressed_size))
        .set_total_uncompressed_size(both(|spec| spec.uncompressed_size))
        .set_num_values((index.len() as u64).cast_signed())
        .set_dictionary_page_offset(Some(first.offset.cast_signed()))
        .set_data_page_offset(second.offset.cast_signed())
        .set_statistics(dictionary.bounds.statistics(nulls))
        .build()?;
    Ok(Some(ColumnCloseResult {
        bytes_written: first.bytes_written + second.bytes_written,
        rows_written: index.len() as u64,
        metadata,
        bloom_filter: None,
        column_index: None,
        offset_index: None,
    }))
}

fn compressed(bytes: &[u8]) -> Result<Bytes> {
    Ok(Bytes::from(zstd::bulk::compress(bytes, ZSTD_LEVEL).context("zstd")?))
}

impl ValueDictionary {
    fn new(values: &ColumnValues) -> Option<Self> {
        match values {
            ColumnValues::Integers(values) => {
                let (distinct, places) = distinct(values);
                let plain = distinct.iter().flat_map(|value| value.to_le_bytes()).collect();
                let bounds = distinct.iter().min().copied().zip(distinct.iter().max().copied());
                Some(Self { plain, len: distinct.len() as u32, places, bounds: ValueBounds::Integers(bounds) })
            }
            ColumnValues::Texts(values) => {
                let values: Vec<Option<&[u8]>> =
                    values.iter().map(|value| value.as_ref().map(ByteArray::data)).collect();
                let (distinct, places) = distinct(&values);
                let mut plain = Vec::new();
                for value in &distinct {
                    plain.extend_from_slice(&(value.len() as u32).to_le_bytes());
                    plain.extend_from_slice(value);
                }
                let text = |value: &[u8]| ByteArray::from(value.to_vec());
                let bounds =
                    distinct.iter().min().map(|value| text(value)).zip(distinct.iter().max().map(|value| text(value)));
                Some(Self { plain, len: distinct.len() as u32, places, bounds: ValueBounds::Texts(bounds) })
            }
            ColumnValues::Flags(_) => None,
        }
    }
}

impl ValueBounds {
    fn statistics(self, nulls: u64) -> Statistics {
        match self {
            Self::Integers(bounds) => {
                let (min, max) = bounds.unzip();
                ValueStatistics::<i64>::new(min, max, None, Some(nulls), false)
                    .with_backwards_compatible_min_max(true)
                    .into()
            }
            Self::Texts(bounds) => {
                let (min, max) = bounds.unzip();
                Statistics::new(min, max, None, Some(nulls), false)
            }
        }
    }
}

/// Returns the distinct values in order of appearance, and the index of each value.
fn distinct<T: Copy + Eq + Hash>(values: &[Option<T>]) -> (Vec<T>, Vec<Option<u32>>) {
    let (mut list, mut known) = (Vec::new(), HashMap::with_hasher(FixedState::default()));
    let mut last: Option<(T, u32)> = None;
    let places = values
        .iter()
        .map(|value| {
            let value = (*value)?;
            if let Some((before, place)) = last.filter(|(before, _)| *before == value) {
                last = Some((before, place));
                return Some(place);
            }
            let place = *known.entry(value).or_insert_with(|| {
                list.push(value);
                list.len() as u32 - 1
            });
            last = Some((value, place));
            Some(place)
        })
        .collect();
    (list, places)
}

/// Returns a data page (version 1) and the number of absent values.
fn data_page(dictionary: &ValueDictionary, index: &[u32], is_nullable: bool) -> (Vec<u8>, u64) {
    let place_of = |row: &u32| dictionary.places.get(*row as usize).copied().flatten();
    let (mut page, mut nulls) = (Vec::new(), 0);
    if is_nullable {
        let mut levels = Vec::new();
        let present: Vec<u32> = index.iter().map(|row| u32::from(place_of(row).is_some())).collect();
        nulls = present.iter().filter(|present| **present == 0).count() as u64;
        hybrid(&present, 1, &mut levels);
        page.extend_from_slice(&(levels.len() as u32).to_le_bytes());
        page.append(&mut levels);
    }
    let width = dictionary.len.saturating_sub(1).checked_ilog2().map_or(0, |log| log + 1);
    page.push(width as u8);
    if width > 0 {
        let places: Vec<u32> = index.iter().filter_map(place_of).collect();
        hybrid(&places, width, &mut page);
    } else if index.len() as u64 > nulls {
        // A single value: a run of indexes of width 0.
        varint((index.len() as u64 - nulls) << 1, &mut page);
    }
    (page, nulls)
}

/// Encodes numbers of `width` bits as runs and bit-packed groups of eight.
fn hybrid(numbers: &[u32], width: u32, out: &mut Vec<u8>) {
    let (mut at, mut packed_from) = (0, 0);
    while let Some(&number) = numbers.get(at) {
        let rest = numbers.get(at..).unwrap_or_default();
        let run = rest.iter().take_while(|next| **next == number).count();
        let odd = (at - packed_from) % GROUP;
        if run >= GROUP && odd == 0 {
            pack(numbers.get(packed_from..at).unwrap_or_default(), width, out);
            varint((run as u64) << 1, out);
            out.extend(number.to_le_bytes().iter().take(width.div_ceil(8) as usize));
            packed_from = at + run;
            at += run;
        } else if run >= GROUP {
            at += GROUP - odd;
        } else {
            at += run;
        }
    }
    pack(numbers.get(packed_from..).unwrap_or_default(), width, out);
}

fn pack(numbers: &[u32], width: u32, out: &mut Vec<u8>) {
    if numbers.is_empty() {
        return;
    }
    let groups = numbers.len().div_ceil(GROUP);
    varint(((groups as u64) << 1) | 1, out);
    let end = out.len() + groups * width as usize;
    let (mut held, mut bits) = (0_u64, 0);
    for number in numbers {
        held |= u64::from(*number) << bits;
        bits += width;
        if bits >= 32 {
            out.extend_from_slice(&(held as u32).to_le_bytes());
            held >>= 32;
            bits -= 32;
        }
    }
    out.extend_from_slice(&held.to_le_bytes());
    // Pad the last group with zeros.
    out.resize(end, 0);
}

fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the format's page on encodings: 0 to 7 in three bits each.
    #[test]
    fn eight_numbers_of_three_bits_are_packed_as_the_format_says() {
        let mut out = Vec::new();
        pack(&[0, 1, 2, 3, 4, 5, 6, 7], 3, &mut out);
        assert_eq!(out, [0b11, 0b1000_1000, 0b1100_0110, 0b1111_1010]);
    }

    #[test]
    fn runs_begin_where_groups_do() {
        let mut out = Vec::new();
        hybrid(&[[1, 2, 3].as_slice(), &[5; 20]].concat(), 3, &mut out);
        // One group of 1 2 3 5 5 5 5 5, then fifteen times 5.
        assert_eq!(out.len(), 1 + 3 + 1 + 1);
        assert_eq!((out[0], out[4], out[5]), (0b11, 15 << 1, 5));
        out.clear();
        hybrid(&[9; 300], 4, &mut out);
        assert_eq!(out, [0xd8, 0x04, 9]);
    }
}
