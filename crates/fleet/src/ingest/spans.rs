//! Spans as rows: the duration is the value.

use super::attributes::{Object, hex};
use super::decode::{Decoding, event};
use crate::point::Kind;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::{Value, json};

impl Decoding<'_> {
    pub(super) fn spans(&mut self, request: &ExportTraceServiceRequest) {
        for resource in &request.resource_spans {
            let (outer, about) = self.resource(resource.resource.as_ref());
            let first = self.so_far();
            for scope in &resource.scope_spans {
                let mut around = self.scope(&outer, scope.scope.as_ref());
                for span in &scope.spans {
                    let Some(name) = self.name(&span.name, 1) else { continue };
                    let Some(time) = self.time(span.start_time_unix_nano) else { continue };
                    let made = self.inner(&mut around, &span.attributes, |attrs| describe(attrs, span));
                    let Some(inner) = made else { continue };
                    let mut event = event(time, &name, Kind::Span, inner);
                    let duration = span.end_time_unix_nano.saturating_sub(span.start_time_unix_nano);
                    event.int = i64::try_from(duration).ok();
                    self.push(event);
                }
            }
            self.note_nodes(first, &about);
        }
    }
}

fn describe(attrs: &mut Object, span: &Span) {
    let id = |bytes: &[u8]| {
        let mut text = String::new();
        hex(&mut text, bytes);
        Value::from(text)
    };
    attrs.add_json("trace_id", &id(&span.trace_id));
    attrs.add_json("span_id", &id(&span.span_id));
    if !span.parent_span_id.is_empty() {
        attrs.add_json("parent_span_id", &id(&span.parent_span_id));
    }
    if let Some(status) = span.status.as_ref().filter(|status| status.code != 0) {
        attrs.add_json("status", &json!({"code": status.code, "message": status.message}));
    }
    if !span.events.is_empty() {
        let events =
            span.events.iter().map(|event| json!({"time_ns": event.time_unix_nano, "name": event.name}));
        attrs.add_json("events", &events.collect());
    }
}
