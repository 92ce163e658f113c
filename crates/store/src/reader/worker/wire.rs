//! What is said between a reader and its worker. The worker runs foreign SQL, so what it says is checked like foreign data.

use crate::StoreError;
use crate::reader::sql::{Answer, Limits, owned};
use crate::transfer::format::{put, take};
use rusqlite::types::ValueRef;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::time::Duration;

const ANSWER: u8 = b'A';
const REFUSAL: u8 = b'E';

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Question {
    pub(super) sql: String,
    rows: usize,
    milliseconds: u64,
    bytes: usize,
    spill: u64,
}

impl Question {
    pub(super) fn new(sql: &str, limits: &Limits) -> Question {
        Question {
            sql: sql.into(),
            rows: limits.rows,
            milliseconds: limits.time.as_millis().min(u64::MAX.into()) as u64,
            bytes: limits.bytes,
            spill: limits.spill,
        }
    }

    pub(super) fn limits(&self) -> Limits {
        let time = Duration::from_millis(self.milliseconds);
        Limits { rows: self.rows, time, bytes: self.bytes, spill: self.spill }
    }
}

/// Why there is no answer.
#[derive(Debug, Serialize, Deserialize)]
enum Refusal {
    Sql(String),
    ReadOnly,
    Function(String),
    TooSlow(Duration),
    TooLarge(u64),
    TooMuchMemory(u64),
    Other(String),
}

pub(super) fn question(question: &Question) -> Vec<u8> {
    // A question is text and numbers, so it is JSON.
    serde_json::to_vec(question).unwrap_or_default()
}

pub(super) fn write_refusal(error: &StoreError, out: &mut impl Write) -> std::io::Result<()> {
    let refusal = match error {
        StoreError::Sql(why) => Refusal::Sql(why.clone()),
        StoreError::ReadOnly => Refusal::ReadOnly,
        StoreError::Function(name) => Refusal::Function(name.clone()),
        StoreError::TooSlow(time) => Refusal::TooSlow(*time),
        StoreError::TooLarge(bytes) => Refusal::TooLarge(*bytes),
        StoreError::TooMuchMemory(_) => Refusal::TooMuchMemory(super::HEAP),
        other => Refusal::Other(other.to_string()),
    };
    out.write_all(&[REFUSAL])?;
    serde_json::to_writer(&mut *out, &refusal)?;
    out.flush()
}

/// The columns, then a number that says that a row follows, and at the end whether there were more.
pub(super) fn write_answer(answer: &Answer, out: &mut impl Write) -> std::io::Result<()> {
    let mut bytes = vec![ANSWER];
    put(&mut bytes, ValueRef::Integer(answer.columns.len() as i64));
    for column in &answer.columns {
        put(&mut bytes, ValueRef::Text(column.as_bytes()));
    }
    for row in &answer.rows {
        put(&mut bytes, ValueRef::Integer(1));
        row.iter().for_each(|value| put(&mut bytes, value.into()));
        out.write_all(&bytes)?;
        bytes.clear();
    }
    put(&mut bytes, ValueRef::Integer(0));
    put(&mut bytes, ValueRef::Integer(answer.truncated.into()));
    out.write_all(&bytes)?;
    out.flush()
}

/// Nothing where it is not whole.
pub(super) fn read(bytes: &[u8]) -> Option<Result<Answer, StoreError>> {
    let (kind, mut rest) = bytes.split_first()?;
    match *kind {
        ANSWER => answer(&mut rest).map(Ok),
        REFUSAL => Some(Err(match serde_json::from_slice(rest).ok()? {
            Refusal::Sql(why) => StoreError::Sql(why),
            Refusal::ReadOnly => StoreError::ReadOnly,
            Refusal::Function(name) => StoreError::Function(name),
            Refusal::TooSlow(time) => StoreError::TooSlow(time),
            Refusal::TooLarge(bytes) => StoreError::TooLarge(bytes),
            Refusal::TooMuchMemory(bytes) => StoreError::TooMuchMemory(bytes),
            Refusal::Other(why) => StoreError::Worker(why),
        })),
        _ => None,
    }
}

fn answer(bytes: &mut &[u8]) -> Option<Answer> {
    let mut answer = Answer::default();
    let width = integer(bytes)?;
    for _ in 0..width {
        let ValueRef::Text(name) = take(bytes)? else { return None };
        answer.columns.push(String::from_utf8_lossy(name).into_owned());
    }
    while integer(bytes)? == 1 {
        let row = (0..width).map(|_| take(bytes).map(owned)).collect::<Option<Vec<_>>>()?;
        answer.rows.push(row);
    }
    answer.truncated = integer(bytes)? == 1;
    bytes.is_empty().then_some(answer)
}

fn integer(bytes: &mut &[u8]) -> Option<i64> {
    match take(bytes)? {
        ValueRef::Integer(number) => Some(number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;

    fn written(answer: &Answer) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_answer(answer, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn an_answer_comes_out_as_it_went_in_and_a_part_of_it_is_none() {
        let answer = Answer {
            columns: vec!["a".into(), "ü\0".into()],
            rows: vec![
                vec![Value::Integer(i64::MIN), Value::Real(f64::NEG_INFINITY)],
                vec![Value::Text("x\n".into()), Value::Blob(vec![0, 255])],
                vec![Value::Null, Value::Text(String::new())],
            ],
            truncated: true,
        };
        let bytes = written(&answer);
        assert_eq!(read(&bytes).unwrap().unwrap(), answer);
        for end in 0..bytes.len() {
            assert!(read(&bytes[..end]).is_none(), "{end}");
        }
        assert!(read(&[bytes, vec![0]].concat()).is_none());
    }

    #[test]
    fn what_is_wrong_is_said_in_the_same_words() {
        let errors = [
            StoreError::Sql("near \"x\"".into()),
            StoreError::ReadOnly,
            StoreError::Function("f".into()),
            StoreError::TooSlow(Duration::from_millis(1500)),
            StoreError::TooLarge(2 << 30),
            StoreError::Empty { path: "x.db".into() },
        ];
        for error in errors {
            let mut bytes = Vec::new();
            write_refusal(&error, &mut bytes).unwrap();
            assert_eq!(read(&bytes).unwrap().unwrap_err().to_string(), error.to_string());
        }
    }
}
