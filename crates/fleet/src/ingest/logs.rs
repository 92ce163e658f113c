//! Log records: collectives and findings go to tables of their own, all others are events.

use super::decode::{Around, Decoding, Why, event};
use crate::point::{Collective, Found, Kind, Origin};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use std::sync::Arc;

const COLLECTIVES: &str = "gpuwhy.collectives";
const FINDING: &str = "gpuwhy.finding";

impl Decoding<'_> {
    pub(super) fn logs(&mut self, request: &ExportLogsServiceRequest) {
        for resource in &request.resource_logs {
            let (outer, about) = self.resource(resource.resource.as_ref());
            let first = self.so_far();
            for scope in &resource.scope_logs {
                let mut around = self.scope(&outer, scope.scope.as_ref());
                for record in &scope.log_records {
                    self.log(&mut around, record);
                }
            }
            self.note_nodes(first, &about);
        }
    }

    fn log(&mut self, around: &mut Around, record: &LogRecord) {
        let named = match record.event_name.as_str() {
            "" => text(&record.attributes, "event.name").unwrap_or("log"),
            name => name,
        };
        match named {
            COLLECTIVES => self.collectives(around, record),
            FINDING => self.finding(around, record),
            _ => self.other(around, record, named),
        }
    }

    fn other(&mut self, around: &mut Around, record: &LogRecord, name: &str) {
        let Some(name) = self.name(name, 1) else { return };
        let Some(time) = self.time(time_of(record)) else { return };
        let made = self.inner(around, &record.attributes, |attrs| {
            if !record.severity_text.is_empty() {
                attrs.add_json("severity", &record.severity_text.as_str().into());
            }
            if record.body.is_some() {
                attrs.add("body", record.body.as_ref());
            }
        });
        let Some(inner) = made else { return };
        self.push(event(time, &name, Kind::Log, inner));
    }

    fn finding(&mut self, around: &mut Around, record: &LogRecord) {
        let Some(time) = self.time(time_of(record)) else { return };
        let Some((origin, attrs)) = self.inner(around, &record.attributes, |_| {}) else { return };
        let said = match record.body.as_ref().and_then(|body| body.value.as_ref()) {
            Some(Value::StringValue(said)) => Some(said.as_str()),
            _ => None,
        };
        if said.is_some_and(|said| said.len() > self.limits.attribute_bytes * 4) {
            self.left_out.add(Why::Attributes, 1);
            return;
        }
        let whole = said.filter(|said| said.trim_start().starts_with('{'));
        let get = |keys: [&str; 2]| keys.iter().find_map(|key| text(&record.attributes, key));
        let severity = Some(record.severity_text.as_str()).filter(|severity| !severity.is_empty());
        self.batch.findings.push(Found {
            timestamp_ns: time,
            origin,
            source: "node",
            class: get(["class", "gpuwhy.cause"]).map(Arc::from),
            severity: get(["severity", "severity"]).or(severity).map(Arc::from),
            title: get(["title", "title"]).or(said.filter(|_| whole.is_none())).unwrap_or("a finding").into(),
            pid: ["pid", "process.pid"].iter().find_map(|key| whole_number(&record.attributes, key)),
            finding: whole.map(Arc::from).or(attrs),
        });
    }

    fn collectives(&mut self, around: &mut Around, record: &LogRecord) {
        let Some((origin, _)) = self.inner(around, &record.attributes, |_| {}) else { return };
        let Some(Value::ArrayValue(list)) = record.body.as_ref().and_then(|body| body.value.as_ref()) else {
            self.left_out.add(Why::Malformed, 1);
            return;
        };
        for (index, entry) in list.values.iter().enumerate() {
            if index >= self.limits.collectives {
                self.left_out.add(Why::Malformed, (list.values.len() - index) as u64);
                return;
            }
            let Some(Value::KvlistValue(fields)) = &entry.value else {
                self.left_out.add(Why::Malformed, 1);
                continue;
            };
            let Some(made) = self.collective(&origin, &fields.values) else { continue };
            self.batch.collectives.push(made);
        }
    }

    fn collective(&mut self, origin: &Origin, fields: &[KeyValue]) -> Option<Collective> {
        let number = |key| whole_number(fields, key);
        let (Some(comm), Some(op), Some(start)) =
            (text(fields, "comm_id_hash"), text(fields, "op"), number("start_ns"))
        else {
            self.left_out.add(Why::Malformed, 1);
            return None;
        };
        if [comm, op].into_iter().any(|name| name.len() > self.limits.name_bytes) {
            self.left_out.add(Why::LongName, 1);
            return None;
        }
        let start_ns = self.time(u64::try_from(start).unwrap_or(0))?;
        let small = |key| number(key).and_then(|number| i32::try_from(number).ok());
        let mut origin = origin.clone();
        let (comm_rank, comm_nranks) = (small("rank"), small("nranks"));
        // The communicator's own numbers stand in where nobody told those of the job.
        origin.nranks = origin.nranks.or(comm_nranks.filter(|_| origin.rank.is_none()));
        origin.rank = origin.rank.or(comm_rank);
        let word = |key| text(fields, key).filter(|word| word.len() <= 64).map(Arc::from);
        Some(Collective {
            start_ns,
            duration_ns: number("duration_ns"),
            origin,
            comm_id_hash: self.names.metrics.of(comm).unwrap_or_else(|| comm.into()),
            seq: number("seq"),
            comm_rank,
            comm_nranks,
            peer: small("peer"),
            op: self.names.metrics.of(op).unwrap_or_else(|| op.into()),
            count: number("count"),
            datatype: word("datatype"),
            reduce_op: word("reduce_op"),
            pid: number("pid"),
            tid: number("tid"),
        })
    }
}

fn time_of(record: &LogRecord) -> u64 {
    match record.time_unix_nano {
        0 => record.observed_time_unix_nano,
        time => time,
    }
}

fn value<'a>(pairs: &'a [KeyValue], key: &str) -> Option<&'a Value> {
    pairs.iter().find(|pair| pair.key == key)?.value.as_ref()?.value.as_ref()
}

fn text<'a>(pairs: &'a [KeyValue], key: &str) -> Option<&'a str> {
    match value(pairs, key)? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}

fn whole_number(pairs: &[KeyValue], key: &str) -> Option<i64> {
    match value(pairs, key)? {
        Value::IntValue(number) => Some(*number),
        Value::StringValue(text) => text.parse().ok(),
        _ => None,
    }
}
