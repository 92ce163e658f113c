//! Attributes: those that say whom something is about are lifted out, all others become JSON.

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use std::fmt::Write;

/// What attributes say of whom something is about. Inner ones go before outer ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Lifted {
    pub(super) cluster: Option<String>,
    pub(super) node: Option<String>,
    pub(super) host: Option<String>,
    pub(super) job: Option<String>,
    pub(super) rank: Option<i32>,
    pub(super) nranks: Option<i32>,
}

impl Lifted {
    /// Whether it was one of these.
    pub(super) fn take(&mut self, pair: &KeyValue) -> bool {
        let value = || pair.value.as_ref().and_then(|any| any.value.as_ref());
        match pair.key.as_str() {
            "cluster_id" => self.cluster = value().and_then(text).or(self.cluster.take()),
            "node_id" => self.node = value().and_then(text).or(self.node.take()),
            "host.name" => self.host = value().and_then(text).or(self.host.take()),
            "job_id" => self.job = value().and_then(text).or(self.job.take()),
            "rank" => self.rank = value().and_then(number).or(self.rank),
            "nranks" => self.nranks = value().and_then(number).or(self.nranks),
            _ => return false,
        }
        true
    }

    pub(super) fn node(&self) -> &str {
        self.node.as_deref().or(self.host.as_deref()).unwrap_or("unknown")
    }

    pub(super) fn cluster(&self) -> &str {
        self.cluster.as_deref().unwrap_or("default")
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::StringValue(text) if !text.is_empty() => Some(text.clone()),
        Value::IntValue(number) => Some(number.to_string()),
        _ => None,
    }
}

fn number(value: &Value) -> Option<i32> {
    let number = match value {
        Value::IntValue(number) => i32::try_from(*number).ok(),
        Value::StringValue(text) => text.parse().ok(),
        Value::DoubleValue(number) if number.fract() == 0.0 && number.abs() < 1e9 => Some(*number as i32),
        _ => None,
    };
    number.filter(|number| *number >= 0)
}

/// An object that is being written: what is outside comes first.
#[derive(Debug, Clone, Default)]
pub(super) struct Object(String);

impl Object {
    pub(super) fn add(&mut self, key: &str, value: Option<&AnyValue>) {
        self.key(key);
        any(&mut self.0, value);
    }

    pub(super) fn add_json(&mut self, key: &str, value: &serde_json::Value) {
        self.key(key);
        // Writing to a String cannot fail.
        let _ = write!(self.0, "{value}");
    }

    fn key(&mut self, key: &str) {
        if !self.0.is_empty() {
            self.0.push(',');
        }
        quoted(&mut self.0, key);
        self.0.push(':');
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// For another one; its room stays.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The fields of these, in their order.
    pub(super) fn put_together<'a>(&'a self, other: &'a Object, out: &'a mut String) -> &'a str {
        out.clear();
        out.push('{');
        out.push_str(&self.0);
        if !self.is_empty() && !other.is_empty() {
            out.push(',');
        }
        out.push_str(&other.0);
        out.push('}');
        out
    }

    pub(super) fn text(&self) -> String {
        format!("{{{}}}", self.0)
    }
}

pub(super) fn any(out: &mut String, value: Option<&AnyValue>) {
    // Writing to a String cannot fail.
    let _ = match value.and_then(|any| any.value.as_ref()) {
        None => out.write_str("null"),
        Some(Value::StringValue(text)) => {
            quoted(out, text);
            Ok(())
        }
        Some(Value::BoolValue(truth)) => write!(out, "{truth}"),
        Some(Value::IntValue(number)) => write!(out, "{number}"),
        Some(Value::DoubleValue(number)) if number.is_finite() => write!(out, "{number}"),
        Some(Value::DoubleValue(_)) => out.write_str("null"),
        Some(Value::BytesValue(bytes)) => {
            out.push('"');
            hex(out, bytes);
            out.write_str("\"")
        }
        Some(Value::ArrayValue(list)) => {
            out.push('[');
            for (index, entry) in list.values.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                any(out, Some(entry));
            }
            out.write_str("]")
        }
        Some(Value::KvlistValue(list)) => {
            let mut inner = Object::default();
            for pair in &list.values {
                inner.add(&pair.key, pair.value.as_ref());
            }
            out.write_str(&inner.text())
        }
        // An index into a table that only profiles have.
        Some(_) => out.write_str("null"),
    };
}

pub(super) fn hex(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
}

fn quoted(out: &mut String, text: &str) {
    out.push('"');
    // What needs no thought, which is nearly all of it, is copied as a whole.
    let plain = |byte: u8| byte.is_ascii() && !byte.is_ascii_control() && byte != b'"' && byte != b'\\';
    let first = text.bytes().position(|byte| !plain(byte)).unwrap_or(text.len());
    out.push_str(&text[..first]);
    for c in text[first..].chars() {
        let _ = match c {
            '"' => out.write_str("\\\""),
            '\\' => out.write_str("\\\\"),
            '\n' => out.write_str("\\n"),
            '\t' => out.write_str("\\t"),
            // DuckDB's JSON takes no raw control characters, and no text of its takes NUL.
            c if c.is_control() => write!(out, "\\u{:04x}", c as u32),
            c => out.write_char(c),
        };
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry_proto::tonic::common::v1::{ArrayValue, KeyValueList};
    use serde_json::json;

    fn of(value: Value) -> AnyValue {
        AnyValue { value: Some(value) }
    }

    fn pair(key: &str, value: Value) -> KeyValue {
        KeyValue { key: key.into(), value: Some(of(value)), ..KeyValue::default() }
    }

    #[test]
    fn values_of_all_kinds_become_the_json_they_are() {
        let nested = Value::KvlistValue(KeyValueList {
            values: vec![
                pair("a \"quoted\"\n\u{1}", Value::IntValue(-7)),
                pair(
                    "list",
                    Value::ArrayValue(ArrayValue {
                        values: vec![of(Value::BoolValue(true)), AnyValue { value: None }],
                    }),
                ),
                pair("bytes", Value::BytesValue(vec![0, 255])),
                pair("real", Value::DoubleValue(0.25)),
                pair("nan", Value::DoubleValue(f64::NAN)),
            ],
        });
        let mut object = Object::default();
        object.add("nested", Some(&of(nested)));
        object.add("größe", Some(&of(Value::StringValue("日本\0".into()))));
        let parsed: serde_json::Value = serde_json::from_str(&object.text()).unwrap();
        let expected = json!({
            "nested": {"a \"quoted\"\n\u{1}": -7, "list": [true, null], "bytes": "00ff", "real": 0.25, "nan": null},
            "größe": "日本\0",
        });
        assert_eq!(parsed, expected);
        assert!(!object.text().contains('\0'));
    }

    #[test]
    fn whom_it_is_about_is_lifted_whatever_type_it_came_as() {
        let mut lifted = Lifted::default();
        for (key, value) in [
            ("host.name", Value::StringValue("host7".into())),
            ("rank", Value::StringValue("5".into())),
            ("nranks", Value::DoubleValue(8.0)),
            ("job_id", Value::IntValue(42)),
        ] {
            assert!(lifted.take(&pair(key, value)), "{key}");
        }
        assert!(!lifted.take(&pair("class", Value::StringValue("io.block".into()))));
        assert_eq!((lifted.rank, lifted.nranks, lifted.job.as_deref()), (Some(5), Some(8), Some("42")));
        assert_eq!((lifted.node(), lifted.cluster()), ("host7", "default"));
        lifted.take(&pair("node_id", Value::StringValue("node7".into())));
        lifted.take(&pair("rank", Value::IntValue(-1)));
        assert_eq!(
            (lifted.node(), lifted.rank),
            ("node7", Some(5)),
            "the host stands in, and nonsense changes nothing"
        );
    }
}
