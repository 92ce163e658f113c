//! Log records: collectives and findings go to tables of their own, all others are events.

use super::attributes::{Any, Pairs, whole_number};
use super::decode::{Around, Decoding, event};
use super::left_out::Why;
use super::memory::Decoded;
use super::wire::{Message, Read};
use crate::point::{Collective, Found, Kind, Origin};

const COLLECTIVES: &str = "gpuwhy.collectives";
const FINDING: &str = "gpuwhy.finding";

/// What is read of one.
#[derive(Debug, Clone, Copy)]
struct Record<'m> {
    name: &'m str,
    severity: &'m str,
    body: Any<'m>,
    time_ns: u64,
    attributes: Pairs<'m>,
}

impl<'m> Record<'m> {
    fn read(message: Message<'m>) -> Read<Record<'m>> {
        let attributes = Pairs { of: message, number: 6 };
        let mut record = Record { name: "", severity: "", body: Any::Nothing, time_ns: 0, attributes };
        let mut observed_ns = 0;
        for field in message.fields() {
            match field? {
                (1, field) => record.time_ns = field.fixed64()?,
                (3, field) => record.severity = field.text()?,
                (5, field) => record.body = Any::read(field.message()?)?,
                (11, field) => observed_ns = field.fixed64()?,
                (12, field) => record.name = field.text()?,
                _ => {}
            }
        }
        if record.time_ns == 0 {
            record.time_ns = observed_ns;
        }
        if record.name.is_empty() {
            record.name = attributes.text("event.name")?.unwrap_or("log");
        }
        Ok(record)
    }
}

impl Decoding<'_> {
    pub(super) fn logs(&mut self, request: Message<'_>) -> Decoded<()> {
        self.each(request, |this, around, message| {
            let record = Record::read(message)?;
            match record.name {
                COLLECTIVES => this.collectives(around, &record),
                FINDING => this.finding(around, &record),
                _ => this.other(around, &record),
            }
        })
    }

    fn other<'m>(&mut self, around: &mut Around<'m>, record: &Record<'m>) -> Decoded<()> {
        let Some(time) = self.time(record.time_ns) else { return Ok(()) };
        let name = match self.name(around, record.name)? {
            Ok(name) => name,
            Err(why) => {
                self.left_out.add(why, 1);
                return Ok(());
            }
        };
        let made = self.inner(around, record.attributes, |attrs| {
            if !record.severity.is_empty() {
                attrs.add_text("severity", record.severity);
            }
            match record.body {
                Any::Nothing => Ok(()),
                body => attrs.add("body", body),
            }
        })?;
        let Some(inner) = made else { return Ok(()) };
        self.push(event(time, &name, Kind::Log, inner))
    }

    fn finding<'m>(&mut self, around: &mut Around<'m>, record: &Record<'m>) -> Decoded<()> {
        let Some(time) = self.time(record.time_ns) else { return Ok(()) };
        let Some((origin, attrs)) = self.inner(around, record.attributes, |_| Ok(()))? else { return Ok(()) };
        let message = match record.body {
            Any::Text(message) => Some(message),
            _ => None,
        };
        if message.is_some_and(|message| message.len() > self.limits.attribute_bytes * 4) {
            self.left_out.add(Why::Attributes, 1);
            return Ok(());
        }
        let whole = message.filter(|message| message.trim_start().starts_with('{'));
        let get = |keys: [&str; 2]| -> Read<Option<&'m str>> {
            Ok(record.attributes.text(keys[0])?.or(record.attributes.text(keys[1])?))
        };
        let class = get(["class", "gpuwhy.cause"])?;
        let severity =
            get(["severity", "severity"])?.or(Some(record.severity).filter(|severity| !severity.is_empty()));
        let title = get(["title", "title"])?.or(message.filter(|_| whole.is_none())).unwrap_or("a finding");
        let pid = match record.attributes.whole_number("pid")? {
            None => record.attributes.whole_number("process.pid")?,
            pid => pid,
        };
        let found = Found {
            timestamp_ns: time,
            origin,
            source: "node",
            class: class.map(|text| self.memory.text(text)).transpose()?,
            severity: severity.map(|text| self.memory.text(text)).transpose()?,
            title: self.memory.text(title)?,
            pid,
            finding: whole.map(|text| self.memory.text(text)).transpose()?.or(attrs),
        };
        self.push_finding(found)
    }

    fn collectives<'m>(&mut self, around: &mut Around<'m>, record: &Record<'m>) -> Decoded<()> {
        let Some((origin, _)) = self.inner(around, record.attributes, |_| Ok(()))? else { return Ok(()) };
        let Any::List(list) = record.body else {
            self.left_out.add(Why::Malformed, 1);
            return Ok(());
        };
        for (index, entry) in list.messages(1).enumerate() {
            let entry = Any::read(entry?)?;
            match entry {
                Any::Map(fields) if index < self.limits.collectives => {
                    if let Some(made) = self.collective(&origin, Pairs::of_map(fields))? {
                        self.push_collective(made)?;
                    }
                }
                _ => self.left_out.add(Why::Malformed, 1),
            }
        }
        Ok(())
    }

    fn collective(&mut self, origin: &Origin, pairs: Pairs<'_>) -> Decoded<Option<Collective>> {
        let fields = Fields::read(pairs)?;
        let (Some(comm), Some(op), Some(start)) = (fields.comm, fields.op, fields.number[START]) else {
            return Ok(self.leave_out(Why::Malformed));
        };
        if [comm, op].into_iter().any(|name| name.len() > self.limits.name_bytes) {
            return Ok(self.leave_out(Why::LongName));
        }
        let Some(start_ns) = self.time(u64::try_from(start).unwrap_or(0)) else { return Ok(None) };
        let small = |at: usize| fields.number[at].and_then(|number| i32::try_from(number).ok());
        let mut origin = origin.clone();
        let (comm_rank, comm_nranks) = (small(RANK), small(NRANKS));
        // The communicator's own numbers stand in where nobody told those of the job.
        origin.nranks = origin.nranks.or(comm_nranks.filter(|_| origin.rank.is_none()));
        origin.rank = origin.rank.or(comm_rank);
        let memory = &mut self.memory;
        let mut word = |text: Option<&str>| {
            text.filter(|text| text.len() <= 64).map(|text| memory.text(text)).transpose()
        };
        Ok(Some(Collective {
            start_ns,
            duration_ns: fields.number[DURATION],
            origin,
            datatype: word(fields.datatype)?,
            reduce_op: word(fields.reduce_op)?,
            comm_id_hash: self.memory.text(comm)?,
            op: self.memory.text(op)?,
            seq: fields.number[SEQ],
            comm_rank,
            comm_nranks,
            peer: small(PEER),
            count: fields.number[COUNT],
            pid: fields.number[PID],
            tid: fields.number[TID],
        }))
    }
}

/// Whole numbers of a collective.
const NUMBERS: [&str; 9] =
    ["start_ns", "duration_ns", "seq", "rank", "nranks", "peer", "count", "pid", "tid"];
const START: usize = 0;
const DURATION: usize = 1;
const SEQ: usize = 2;
const RANK: usize = 3;
const NRANKS: usize = 4;
const PEER: usize = 5;
const COUNT: usize = 6;
const PID: usize = 7;
const TID: usize = 8;

#[derive(Debug, Default)]
struct Fields<'m> {
    comm: Option<&'m str>,
    op: Option<&'m str>,
    datatype: Option<&'m str>,
    reduce_op: Option<&'m str>,
    number: [Option<i64>; 9],
}

impl<'m> Fields<'m> {
    /// In one go, as there are many of them.
    fn read(pairs: Pairs<'m>) -> Read<Fields<'m>> {
        let mut fields = Fields::default();
        for pair in pairs.iter() {
            let pair = pair?;
            let text = match pair.value {
                Any::Text(text) => Some(text),
                _ => None,
            };
            match pair.key {
                "comm_id_hash" => fields.comm = text,
                "op" => fields.op = text,
                "datatype" => fields.datatype = text,
                "reduce_op" => fields.reduce_op = text,
                key => {
                    if let Some(at) = NUMBERS.iter().position(|name| *name == key) {
                        fields.number[at] = whole_number(pair.value);
                    }
                }
            }
        }
        Ok(fields)
    }
}
