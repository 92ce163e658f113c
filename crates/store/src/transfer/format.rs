//! How rows look on the way: records of a length, a kind and what the kind says. Pure functions between bytes and values.

use rusqlite::types::ValueRef;
use serde::{Deserialize, Serialize};

/// What begins a stream.
pub(super) const FORMAT: u32 = 1;
/// The length, which counts the kind, too.
pub(super) const HEAD: usize = 4;
/// A value has 16 MiB at most; nothing we store comes near.
pub(super) const LARGEST: usize = 64 << 20;

pub(super) const BEGIN: u8 = b'B';
pub(super) const TABLE: u8 = b'T';
pub(super) const ROW: u8 = b'R';
pub(super) const END: u8 = b'E';
/// The sender cannot go on, and says why.
pub(super) const BROKEN: u8 = b'X';

const NULL: u8 = 0;
const INTEGER: u8 = 1;
const REAL: u8 = 2;
const TEXT: u8 = 3;
const BLOB: u8 = 4;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Begin {
    pub(super) format: u32,
    /// The version of the tables.
    pub(super) schema: i64,
}

/// Rows that follow are of this table, their values in this order.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Rows {
    pub(super) table: String,
    pub(super) columns: Vec<String>,
}

/// The number of rows, by which a stream is known to be whole.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct End {
    pub(super) rows: u64,
}

/// Appends a record to `out`.
pub(super) fn record(out: &mut Vec<u8>, kind: u8, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; HEAD]);
    out.push(kind);
    write(out);
    let length = (out.len() - at - HEAD) as u32;
    if let Some(head) = out.get_mut(at..at + HEAD) {
        head.copy_from_slice(&length.to_le_bytes());
    }
}

pub(crate) fn put(out: &mut Vec<u8>, value: ValueRef<'_>) {
    match value {
        ValueRef::Null => out.push(NULL),
        ValueRef::Integer(number) => {
            out.push(INTEGER);
            // Small numbers of either sign take few bytes.
            put_length(out, ((number << 1) ^ (number >> 63)) as u64);
        }
        ValueRef::Real(number) => {
            out.push(REAL);
            out.extend_from_slice(&number.to_le_bytes());
        }
        ValueRef::Text(bytes) => put_bytes(out, TEXT, bytes),
        ValueRef::Blob(bytes) => put_bytes(out, BLOB, bytes),
    }
}

fn put_bytes(out: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    out.push(kind);
    put_length(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_length(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// The next value, which `bytes` then begins behind; nothing where there is none.
pub(crate) fn take<'a>(bytes: &mut &'a [u8]) -> Option<ValueRef<'a>> {
    let (kind, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(match *kind {
        NULL => ValueRef::Null,
        INTEGER => {
            let number = take_length(bytes)?;
            ValueRef::Integer((number >> 1) as i64 ^ -((number & 1) as i64))
        }
        REAL => {
            let (number, rest) = bytes.split_first_chunk()?;
            *bytes = rest;
            ValueRef::Real(f64::from_le_bytes(*number))
        }
        TEXT => ValueRef::Text(take_bytes(bytes)?),
        BLOB => ValueRef::Blob(take_bytes(bytes)?),
        _ => return None,
    })
}

fn take_bytes<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take_length(bytes)?).ok()?;
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

fn take_length(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_out_as_they_went_in() {
        let values = [
            ValueRef::Null,
            ValueRef::Integer(0),
            ValueRef::Integer(-1),
            ValueRef::Integer(i64::MIN),
            ValueRef::Integer(i64::MAX),
            ValueRef::Real(-0.1),
            ValueRef::Text(b"not \xff text"),
            ValueRef::Blob(&[0, 1, 255]),
        ];
        let mut bytes = Vec::new();
        values.iter().for_each(|value| put(&mut bytes, *value));
        let mut rest = bytes.as_slice();
        for value in values {
            assert_eq!(take(&mut rest), Some(value));
        }
        assert_eq!((rest, take(&mut rest)), (&[][..], None));
    }

    #[test]
    fn bytes_that_are_no_value_are_none() {
        for bytes in [&[9][..], &[INTEGER], &[INTEGER, 0x80], &[REAL, 1, 2], &[TEXT, 3, b'a'], &[TEXT]] {
            assert_eq!(take(&mut &*bytes), None, "{bytes:?}");
        }
        let endless = [&[BLOB][..], &[0xff; 20]].concat();
        assert_eq!(take(&mut endless.as_slice()), None);
    }
}
