//! Spans as rows: the duration is the value.

use super::attributes::Pairs;
use super::decode::{Around, Decoding, event};
use super::left_out::Why;
use super::memory::Decoded;
use super::object::{Object, quoted};
use super::wire::{Message, Read};
use crate::point::Kind;
use serde_json::json;
use std::fmt::Write;

/// What is read of one.
#[derive(Debug, Default)]
struct Span<'m> {
    trace_id: &'m [u8],
    span_id: &'m [u8],
    parent: &'m [u8],
    name: &'m str,
    start_ns: u64,
    end_ns: u64,
    status: Option<(u64, &'m str)>,
}

impl<'m> Span<'m> {
    fn read(message: Message<'m>) -> Read<Span<'m>> {
        let mut span = Span::default();
        for field in message.fields() {
            match field? {
                (1, field) => span.trace_id = field.bytes()?,
                (2, field) => span.span_id = field.bytes()?,
                (4, field) => span.parent = field.bytes()?,
                (5, field) => span.name = field.text()?,
                (7, field) => span.start_ns = field.fixed64()?,
                (8, field) => span.end_ns = field.fixed64()?,
                (15, field) => span.status = Some(status(field.message()?)?),
                _ => {}
            }
        }
        Ok(span)
    }

    /// OTLP wants both, of these lengths.
    fn has_ids(&self) -> bool {
        self.trace_id.len() == 16 && self.span_id.len() == 8 && self.parent.len() <= 8
    }
}

fn status(message: Message<'_>) -> Read<(u64, &str)> {
    let (mut code, mut text) = (0, "");
    for field in message.fields() {
        match field? {
            (2, field) => text = field.text()?,
            (3, field) => code = field.varint()?,
            _ => {}
        }
    }
    Ok((code, text))
}

impl Decoding<'_> {
    pub(super) fn spans(&mut self, request: Message<'_>) -> Decoded<()> {
        self.each(request, |this, around, span| this.span(around, span))
    }

    fn span<'m>(&mut self, around: &mut Around<'m>, message: Message<'m>) -> Decoded<()> {
        let span = Span::read(message)?;
        if !span.has_ids() {
            self.left_out.add(Why::Malformed, 1);
            return Ok(());
        }
        let Some(time) = self.time(span.start_ns) else { return Ok(()) };
        let name = match self.name(around, span.name)? {
            Ok(name) => name,
            Err(why) => {
                self.left_out.add(why, 1);
                return Ok(());
            }
        };
        let pairs = Pairs { of: message, number: 9 };
        let made = self.inner(around, pairs, |attrs| describe(attrs, &span, message))?;
        let Some(inner) = made else { return Ok(()) };
        let mut event = event(time, &name, Kind::Span, inner);
        event.int = i64::try_from(span.end_ns.saturating_sub(span.start_ns)).ok();
        self.push(event)
    }
}

fn describe(attrs: &mut Object, span: &Span<'_>, message: Message<'_>) -> Read<()> {
    attrs.add_hex("trace_id", span.trace_id);
    attrs.add_hex("span_id", span.span_id);
    if !span.parent.is_empty() {
        attrs.add_hex("parent_span_id", span.parent);
    }
    if let Some((code, text)) = span.status.filter(|(code, _)| *code != 0) {
        attrs.add_object("status", |attrs| {
            attrs.add_json("code", &json!(code));
            attrs.add_text("message", text);
            Ok(())
        })?;
    }
    let mut events = message.messages(11).peekable();
    if events.peek().is_none() {
        return Ok(());
    }
    let max = attrs.max();
    attrs.add_list("events", events.map(|event| event_of(event?)), |out, (time_ns, name)| {
        // Writing to a String cannot fail.
        let _ = write!(out, "{{\"time_ns\":{time_ns},\"name\":");
        quoted(out, name, max);
        out.push('}');
    })
}

fn event_of(message: Message<'_>) -> Read<(u64, &str)> {
    let (mut time_ns, mut name) = (0, "");
    for field in message.fields() {
        match field? {
            (1, field) => time_ns = field.fixed64()?,
            (2, field) => name = field.text()?,
            _ => {}
        }
    }
    Ok((time_ns, name))
}
