//! Answers that are rows: what every such answer looks like, whichever question it belongs to.

use gpuwhy_model::Coverage;
use gpuwhy_store::{Answer, Value};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::{SerializeMap, SerializeSeq, SerializeStruct};
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// As JSON: `{"rows": [{column: value}], "truncated": false, "coverage": {}}`.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows {
    /// No two of the same name.
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Value>>,
    /// There was more than was asked for or is allowed.
    pub truncated: bool,
    pub coverage: Coverage,
}

impl Rows {
    pub fn new(answer: Answer, coverage: Coverage) -> Rows {
        Rows { columns: distinct(answer.columns), rows: answer.rows, truncated: answer.truncated, coverage }
    }
}

/// A row as JSON has it.
pub(crate) type Row = BTreeMap<String, Cell>;

/// What a cell of a row may be.
pub(crate) struct Cell;

impl JsonSchema for Cell {
    fn schema_name() -> Cow<'static, str> {
        "Cell".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_schemas: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["number", "string", "null"]})
    }
}

/// What [`Rows`] are as JSON.
#[derive(JsonSchema)]
#[schemars(rename = "Rows")]
#[allow(dead_code, reason = "its schema is all there is to it")]
struct RowsAsJson {
    /// A column each; times end in `_ns` (unix time in nanoseconds), durations in `_us` or `_ms`, shares in `_pct`.
    rows: Vec<Row>,
    /// There are more rows than were asked for or are allowed.
    truncated: bool,
    coverage: Coverage,
}

impl JsonSchema for Rows {
    fn schema_name() -> Cow<'static, str> {
        RowsAsJson::schema_name()
    }

    fn json_schema(schemas: &mut SchemaGenerator) -> Schema {
        RowsAsJson::json_schema(schemas)
    }
}

/// `a, b, a` becomes `a, b, a:1`, as SQLite itself does in subqueries: an object has each name once.
fn distinct(columns: Vec<String>) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(columns.len());
    for column in columns {
        let mut name = column.clone();
        let mut number = 0;
        while names.contains(&name) {
            number += 1;
            name = format!("{column}:{number}");
        }
        names.push(name);
    }
    names
}

impl Serialize for Rows {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut answer = serializer.serialize_struct("Rows", 3)?;
        answer.serialize_field("rows", &Objects(self))?;
        answer.serialize_field("truncated", &self.truncated)?;
        answer.serialize_field("coverage", &self.coverage)?;
        answer.end()
    }
}

/// Rows as a part of a larger answer: only the list of objects.
pub(crate) fn objects<S: Serializer>(rows: &Rows, serializer: S) -> Result<S::Ok, S::Error> {
    Objects(rows).serialize(serializer)
}

struct Objects<'a>(&'a Rows);

impl Serialize for Objects<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.0.rows.len()))?;
        for row in &self.0.rows {
            list.serialize_element(&Object { columns: &self.0.columns, row })?;
        }
        list.end()
    }
}

struct Object<'a> {
    columns: &'a [String],
    row: &'a [Value],
}

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(Some(self.row.len()))?;
        for (column, value) in self.columns.iter().zip(self.row) {
            object.serialize_entry(column, &json(value))?;
        }
        object.end()
    }
}

/// JSON has no infinity, which becomes null, and no bytes, which become hex digits.
fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Integer(number) => (*number).into(),
        Value::Real(number) => (*number).into(),
        Value::Text(text) => text.as_str().into(),
        Value::Blob(bytes) => hex(bytes).into(),
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("0x");
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)]);
        text.push(DIGITS[usize::from(byte & 15)]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_objects_in_the_order_of_their_columns() {
        let answer = Answer {
            columns: vec!["z".into(), "a".into(), "z".into()],
            rows: vec![vec![Value::Integer(i64::MAX), Value::Real(f64::INFINITY), Value::Blob(vec![0, 255])]],
            truncated: true,
        };
        let rows = Rows::new(answer, Coverage { lost: 3, ..Coverage::default() });
        assert_eq!(
            serde_json::to_string(&rows).unwrap(),
            r#"{"rows":[{"z":9223372036854775807,"a":null,"z:1":"0x00ff"}],"truncated":true,"coverage":{"lost":3,"sampled":0,"degraded":[],"unattached":[]}}"#
        );
    }
}
