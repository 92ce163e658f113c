//! Spans as a line of OTLP's JSON, written as they come. What has no value is left out, as the format allows.

use super::attributes::{Resource, scope};
use super::spans::{Pairs, StackText};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use serde_json::to_vec;

#[derive(Debug)]
pub(super) struct JsonSpans {
    line: Vec<u8>,
}

impl JsonSpans {
    pub(super) fn begin(resource: &Resource) -> Result<JsonSpans, serde_json::Error> {
        let mut json = JsonSpans { line: Vec::with_capacity(1 << 20) };
        json.put("{\"resourceSpans\":[{\"resource\":");
        json.line.extend(to_vec(&resource.get())?);
        json.put(",\"scopeSpans\":[{\"scope\":");
        json.line.extend(to_vec(&scope())?);
        json.put(",\"spans\":[");
        Ok(json)
    }

    /// Its pairs follow, and then its end.
    pub(super) fn span(
        &mut self,
        (trace, span): ([u8; 16], [u8; 8]),
        name: &str,
        (start_ns, end_ns): (u64, u64),
    ) {
        self.put("{\"traceId\":\"");
        self.hex(&trace);
        self.put("\",\"spanId\":\"");
        self.hex(&span);
        self.put("\",\"name\":");
        self.text_value(name);
        self.put(",\"kind\":");
        self.number(SpanKind::Internal as i64);
        self.put(",\"startTimeUnixNano\":\"");
        self.number(start_ns);
        self.put("\",\"endTimeUnixNano\":\"");
        self.number(end_ns);
        self.put("\",\"attributes\":[");
    }

    pub(super) fn end_span(&mut self, failure: Option<&str>) {
        self.close_list();
        if let Some(message) = failure {
            self.put(",\"status\":{\"message\":");
            self.text_value(message);
            self.put(",\"code\":");
            self.number(StatusCode::Error as i64);
            self.put("}");
        }
        self.put("},");
    }

    pub(super) fn end(mut self) -> Vec<u8> {
        self.close_list();
        self.put("}]}]}\n");
        self.line
    }

    /// Every entry ends with a comma; the last one has none.
    fn close_list(&mut self) {
        self.line.pop_if(|last| *last == b',');
        self.put("]");
    }

    fn put(&mut self, text: &str) {
        self.line.extend_from_slice(text.as_bytes());
    }

    fn hex(&mut self, bytes: &[u8]) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        self.line.extend(digits.map(|digit| DIGITS[usize::from(digit)]));
    }

    fn number(&mut self, number: impl itoa::Integer) {
        self.put(itoa::Buffer::new().format(number));
    }

    fn text_value(&mut self, text: &str) {
        // Writing to memory does not fail, and neither does a text.
        let _ = serde_json::to_writer(&mut self.line, text);
    }

    fn key(&mut self, key: &str, kind: &str) {
        self.put("{\"key\":\"");
        // Keys are ours.
        self.put(key);
        self.put("\",\"value\":{\"");
        self.put(kind);
        self.put("\":");
    }
}

impl Pairs for JsonSpans {
    fn text(&mut self, key: &str, value: &str) {
        self.key(key, "stringValue");
        self.text_value(value);
        self.put("}},");
    }

    fn whole(&mut self, key: &str, value: i64) {
        self.key(key, "intValue");
        self.put("\"");
        self.number(value);
        self.put("\"}},");
    }

    fn real(&mut self, key: &str, value: f64) {
        self.key(key, "doubleValue");
        let _ = serde_json::to_writer(&mut self.line, &value);
        self.put("}},");
    }

    fn stack(&mut self, key: &str, value: &StackText) {
        self.key(key, "stringValue");
        self.put(value.json());
        self.put("}},");
    }
}
