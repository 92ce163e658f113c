//! Attributes as the text of a JSON object, no longer than may be stored.

use super::attributes::{Any, Pairs};
use super::wire::{Malformed, Read};
use std::fmt::Write;

/// Values within values; OTLP's own library takes no more either.
const MAX_DEPTH: usize = 100;

/// An object that is being written: what is outside comes first. What is longer than its limit is of no use to anybody, so
/// writing stops there.
#[derive(Debug, Clone)]
pub(super) struct Object {
    text: String,
    max: usize,
}

impl Object {
    pub(super) fn new(max: usize) -> Object {
        Object { text: String::new(), max }
    }

    pub(super) fn add(&mut self, key: &str, value: Any<'_>) -> Read<()> {
        self.key(key);
        any(&mut self.text, value, self.max, 0)
    }

    pub(super) fn add_text(&mut self, key: &str, value: &str) {
        self.key(key);
        quoted(&mut self.text, value, self.max);
    }

    pub(super) fn add_hex(&mut self, key: &str, value: &[u8]) {
        self.key(key);
        hex(&mut self.text, value, self.max);
    }

    pub(super) fn add_json(&mut self, key: &str, value: &serde_json::Value) {
        self.key(key);
        // Writing to a String cannot fail.
        let _ = write!(self.text, "{value}");
    }

    /// A list, each entry written by `put`.
    pub(super) fn add_list<T>(
        &mut self,
        key: &str,
        entries: impl Iterator<Item = Read<T>>,
        put: impl Fn(&mut String, T),
    ) -> Read<()> {
        self.key(key);
        self.text.push('[');
        for (index, entry) in entries.enumerate() {
            let entry = entry?;
            if self.text.len() > self.max {
                continue;
            }
            if index > 0 {
                self.text.push(',');
            }
            put(&mut self.text, entry);
        }
        self.text.push(']');
        Ok(())
    }

    /// An object within it.
    pub(super) fn add_object(&mut self, key: &str, add: impl FnOnce(&mut Object) -> Read<()>) -> Read<()> {
        self.key(key);
        let mut inner = Object::new(self.max);
        add(&mut inner)?;
        self.text.push('{');
        self.text.push_str(&inner.text);
        self.text.push('}');
        Ok(())
    }

    fn key(&mut self, key: &str) {
        if !self.text.is_empty() {
            self.text.push(',');
        }
        quoted(&mut self.text, key, self.max);
        self.text.push(':');
    }

    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    pub(super) fn max(&self) -> usize {
        self.max
    }

    pub(super) fn is_too_long(&self) -> bool {
        self.text.len() > self.max
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// For another one; its room stays.
    pub(super) fn clear(&mut self) {
        self.text.clear();
    }

    /// As it was when it was so long.
    pub(super) fn truncate(&mut self, length: usize) {
        self.text.truncate(length);
    }

    /// The fields of these, in their order.
    pub(super) fn put_together<'a>(parts: [&Object; 3], out: &'a mut String) -> &'a str {
        out.clear();
        out.push('{');
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            if out.len() > 1 {
                out.push(',');
            }
            out.push_str(&part.text);
        }
        out.push('}');
        out
    }

    pub(super) fn text(&self) -> String {
        format!("{{{}}}", self.text)
    }
}

/// Bytes that need not be written any more are still read: whether they are what they say is known at their end.
fn any(out: &mut String, value: Any<'_>, max: usize, depth: usize) -> Read<()> {
    if depth > MAX_DEPTH {
        return Err(Malformed("values are nested too deeply"));
    }
    match value {
        Any::Nothing => out.push_str("null"),
        Any::Text(text) => quoted(out, text, max),
        Any::Bool(truth) => out.push_str(if truth { "true" } else { "false" }),
        Any::Int(number) => {
            // Writing to a String cannot fail.
            let _ = write!(out, "{number}");
        }
        Any::Double(number) if number.is_finite() => {
            let _ = write!(out, "{number}");
        }
        Any::Double(_) => out.push_str("null"),
        Any::Bytes(bytes) => hex(out, bytes, max),
        Any::List(list) => {
            out.push('[');
            for (index, entry) in list.messages(1).enumerate() {
                let entry = Any::read(entry?)?;
                if out.len() > max {
                    continue;
                }
                if index > 0 {
                    out.push(',');
                }
                any(out, entry, max, depth + 1)?;
            }
            out.push(']');
        }
        Any::Map(map) => {
            out.push('{');
            for (index, pair) in Pairs::of_map(map).iter().enumerate() {
                let pair = pair?;
                if out.len() > max {
                    continue;
                }
                if index > 0 {
                    out.push(',');
                }
                quoted(out, pair.key, max);
                out.push(':');
                any(out, pair.value, max, depth + 1)?;
            }
            out.push('}');
        }
    }
    Ok(())
}

/// As JSON has it; what is no number there is null.
pub(super) fn real(out: &mut String, number: f64) {
    let _ = write!(out, "{}", serde_json::Value::from(number));
}

fn hex(out: &mut String, bytes: &[u8], max: usize) {
    out.push('"');
    for byte in bytes.iter().take(max) {
        let _ = write!(out, "{byte:02x}");
    }
    out.push('"');
}

pub(super) fn quoted(out: &mut String, text: &str, max: usize) {
    out.push('"');
    // What needs no thought, which is nearly all of it, is copied as a whole.
    let plain = |byte: u8| byte.is_ascii() && !byte.is_ascii_control() && byte != b'"' && byte != b'\\';
    let first = text.bytes().position(|byte| !plain(byte)).unwrap_or(text.len());
    // It is cut where it is too long anyway.
    out.push_str(&text[..first.min(max.saturating_add(1))]);
    for c in text[first..].chars() {
        if out.len() > max {
            break;
        }
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
    use super::super::json::of_json;
    use super::super::otlp::ANY;
    use super::super::wire::Message;
    use super::*;
    use serde_json::json;

    fn with<T>(value: &serde_json::Value, work: impl FnOnce(Any<'_>) -> T) -> T {
        let bytes = of_json(&ANY, value.to_string().as_bytes(), &mut |_| Ok(())).unwrap();
        work(Any::read(Message(&bytes)).unwrap())
    }

    #[test]
    fn values_of_all_kinds_become_the_json_they_are() {
        let pair = |key: &str, value: serde_json::Value| json!({"key": key, "value": value});
        let nested = json!({"kvlistValue": {"values": [
            pair("a \"quoted\"\n\u{1}", json!({"intValue": "-7"})),
            pair("list", json!({"arrayValue": {"values": [{"boolValue": true}, {}]}})),
            pair("bytes", json!({"bytesValue": "AP8="})),
            pair("real", json!({"doubleValue": 0.25})),
            pair("nan", json!({"doubleValue": "NaN"})),
        ]}});
        let mut object = Object::new(10_000);
        with(&nested, |value| object.add("nested", value)).unwrap();
        with(&json!({"stringValue": "日本\0"}), |value| object.add("größe", value)).unwrap();
        let parsed: serde_json::Value = serde_json::from_str(&object.text()).unwrap();
        let expected = json!({
            "nested": {"a \"quoted\"\n\u{1}": -7, "list": [true, null], "bytes": "00ff", "real": 0.25, "nan": null},
            "größe": "日本\0",
        });
        assert_eq!(parsed, expected);
        assert!(!object.text().contains('\0'));
    }

    #[test]
    fn no_more_is_written_than_may_be_stored() {
        let many: Vec<serde_json::Value> =
            (0..10_000).map(|_| json!({"stringValue": "\u{1}\u{1}"})).collect();
        let mut object = Object::new(100);
        with(&json!({"arrayValue": {"values": many}}), |value| object.add("many", value)).unwrap();
        with(&json!({"stringValue": "\u{1}".repeat(10_000)}), |value| object.add("long", value)).unwrap();
        assert!(object.is_too_long() && object.len() < 200, "{}", object.len());
    }
}
