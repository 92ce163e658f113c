//! The tracks of an export, made when something is first put on them.

use super::lanes::Lanes;
use super::{Kind, Sink, Track};
use crate::ExportError;
use crate::names::Names;
use crate::text::name;
use std::collections::HashMap;

/// Where something is shown.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    Process(u32),
    Thread(u32, u32),
    /// Process and handle; empty for the default stream.
    Stream(u32, String),
    /// Process, communicator, and rank in it.
    Rank(u32, String, i64),
    /// Calls of a process that were seen not to return.
    InFlight(u32),
    /// Events of no thread.
    Layer(Option<u32>, &'static str),
    Findings,
    /// What the export says of itself.
    About,
    /// As `GPU 0 of node-7`.
    Gpu(String),
}

#[derive(Debug, Default)]
struct Lines {
    lanes: Lanes,
    /// The track of each.
    ids: Vec<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Tracks {
    lines: HashMap<Place, Lines>,
    counters: HashMap<(Place, String), Track>,
    last: u64,
}

impl Tracks {
    /// The track for a slice from `start_ns` to `end_ns`, or for an instant; nothing where a slice finds no room.
    pub(crate) fn lane(
        &mut self,
        place: &Place,
        start_ns: u64,
        end_ns: Option<u64>,
        names: &Names,
        sink: &mut impl Sink,
    ) -> Result<Option<u64>, ExportError> {
        // Looked up by reference: a key is only cloned for a new track.
        if !self.lines.contains_key(place) {
            let first = self.make(place, names, sink)?;
            self.lines.insert(place.clone(), Lines { lanes: Lanes::default(), ids: vec![first] });
        }
        let Some(lines) = self.lines.get_mut(place) else { return Ok(None) };
        let lane = match end_ns {
            None => Some(0),
            Some(end_ns) => lines.lanes.place(start_ns, end_ns),
        };
        let Some(lane) = lane else { return Ok(None) };
        if lane == lines.ids.len() {
            self.last += 1;
            let (_, pid, label) = describe(place, names);
            let track =
                Track { id: self.last, parent: Some(lines.ids[0]), name: label, pid, kind: Kind::Plain };
            sink.track(&track)?;
            lines.ids.push(self.last);
        }
        Ok(lines.ids.get(lane).copied())
    }

    /// The track of a counter below a place.
    pub(crate) fn counter(
        &mut self,
        place: &Place,
        label: String,
        unit: &'static str,
        names: &Names,
        sink: &mut impl Sink,
    ) -> Result<&Track, ExportError> {
        let key = (place.clone(), label);
        if !self.counters.contains_key(&key) {
            let parent = self.lane(place, 0, None, names, sink)?;
            self.last += 1;
            let (_, pid, _) = describe(place, names);
            let track = Track {
                id: self.last,
                parent,
                name: name(&key.1).into_owned(),
                pid,
                kind: Kind::Counter { unit },
            };
            sink.track(&track)?;
            self.counters.insert(key.clone(), track);
        }
        Ok(&self.counters[&key])
    }

    fn make(&mut self, place: &Place, names: &Names, sink: &mut impl Sink) -> Result<u64, ExportError> {
        let (kind, pid, label) = describe(place, names);
        let parent = match (place, pid) {
            (Place::Process(_), _) | (_, None) => None,
            (_, Some(pid)) => self.lane(&Place::Process(pid), 0, None, names, sink)?,
        };
        self.last += 1;
        sink.track(&Track { id: self.last, parent, name: label, pid, kind })?;
        Ok(self.last)
    }
}

fn describe(place: &Place, names: &Names) -> (Kind, Option<u32>, String) {
    match place {
        Place::Process(pid) => {
            let process = names.process(*pid).cloned().unwrap_or_default();
            let label = if process.label.is_empty() { names.title(*pid) } else { process.label };
            (Kind::Process { cmdline: process.cmdline }, Some(*pid), label)
        }
        Place::Thread(pid, tid) => {
            let label = match names.thread(*pid, *tid).unwrap_or_else(|| names.comm(*pid)) {
                "" => format!("thread {tid}"),
                name => name.to_string(),
            };
            (Kind::Thread(*tid), Some(*pid), label)
        }
        Place::Stream(pid, stream) if stream.is_empty() => (Kind::Plain, Some(*pid), "default stream".into()),
        Place::Stream(pid, stream) => (Kind::Plain, Some(*pid), format!("stream {}", name(stream))),
        Place::Rank(pid, comm, rank) => {
            (Kind::Plain, Some(*pid), format!("rank {rank} of communicator {}", name(comm)))
        }
        Place::InFlight(pid) => (Kind::Plain, Some(*pid), "calls that did not return for long".into()),
        Place::Layer(pid, layer) => (Kind::Plain, *pid, format!("{layer} events")),
        Place::Findings => (Kind::Plain, None, "Findings".into()),
        Place::About => (Kind::Plain, None, "gpuwhy".into()),
        Place::Gpu(label) => (Kind::Plain, None, name(label).into_owned()),
    }
}
