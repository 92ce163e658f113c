//! DuckDB's values as JSON.

use duckdb::types::{TimeUnit, Value as Duck};
use serde_json::{Map, Value};

pub(super) fn json(value: Duck) -> Value {
    match value {
        Duck::Null => Value::Null,
        Duck::Boolean(truth) => truth.into(),
        Duck::TinyInt(number) => number.into(),
        Duck::SmallInt(number) => number.into(),
        Duck::Int(number) => number.into(),
        Duck::BigInt(number) => number.into(),
        Duck::UTinyInt(number) => number.into(),
        Duck::USmallInt(number) => number.into(),
        Duck::UInt(number) => number.into(),
        Duck::UBigInt(number) => number.into(),
        // Sums of whole numbers are huge by type, seldom by value.
        Duck::HugeInt(number) => {
            i64::try_from(number).map_or_else(|_| number.to_string().into(), Value::from)
        }
        Duck::Float(number) => real(number.into()),
        Duck::Double(number) => real(number),
        Duck::Text(text) | Duck::Enum(text) => text.into(),
        Duck::Blob(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into(),
        Duck::Timestamp(unit, number) => (number.saturating_mul(match unit {
            TimeUnit::Second => 1_000_000_000,
            TimeUnit::Millisecond => 1_000_000,
            TimeUnit::Microsecond => 1_000,
            TimeUnit::Nanosecond => 1,
        }))
        .into(),
        Duck::List(list) | Duck::Array(list) => list.into_iter().map(json).collect(),
        Duck::Struct(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), json(value.clone())))
            .collect::<Map<_, _>>()
            .into(),
        other => format!("{other:?}").into(),
    }
}

fn real(number: f64) -> Value {
    serde_json::Number::from_f64(number).map_or(Value::Null, Value::Number)
}

/// About how long it is as text.
pub(super) fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(list) => list.iter().map(size).sum::<usize>() + 2,
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| name.len() + 4 + size(value)).sum::<usize>() + 2
        }
        _ => 8,
    }
}
