//! The walk through a trace in order of time.

use super::flows::Flows;
use super::rows::{Columns, id};
use super::tracks::{Place, Tracks};
use super::{Arg, Sink, Slice, calls, counters, extras};
use crate::about::About;
use crate::names::Names;
use crate::source::Meter;
use crate::{ExportError, Exported, Source};
use gpuwhy_model::Call;
use gpuwhy_store::schema::Table;
use gpuwhy_store::{Event, Record};
use std::borrow::Cow;
use std::collections::HashMap;

/// Shows a trace to whoever writes it down.
pub(crate) fn walk(
    source: &Source<'_>,
    about: &About,
    sink: &mut impl Sink,
) -> Result<Exported, ExportError> {
    let mut walk = Walk {
        source,
        names: Names::of(source)?,
        tracks: Tracks::default(),
        flows: Flows::of(source)?,
        columns: HashMap::new(),
        blame: source.reader.origin().has_blame(),
        meter: source.meter(),
        sink,
    };
    extras::about(&mut walk, about)?;
    extras::findings(&mut walk)?;
    source.reader.timeline(&source.filter, |event| {
        walk.meter.row()?;
        match event {
            Event::Call(call) => walk.call(call),
            Event::Row(table, record) => walk.row(table, &record),
        }
    })?;
    extras::streams(&mut walk)?;
    extras::in_flight(&mut walk)?;
    extras::waiting(&mut walk)?;
    extras::running(&mut walk)?;
    counters::gpus(&mut walk)?;
    counters::memory(&mut walk)?;
    Ok(walk.meter.exported())
}

pub(super) struct Walk<'a, S> {
    pub(super) source: &'a Source<'a>,
    pub(super) names: Names,
    pub(super) tracks: Tracks,
    flows: Flows,
    columns: HashMap<&'static str, Columns>,
    /// Whether calls say where their time went.
    blame: bool,
    meter: Meter<'a>,
    pub(super) sink: &'a mut S,
}

/// A slice that has no track yet.
#[derive(Debug, Default)]
pub(super) struct Piece<'a> {
    pub(super) start_ns: u64,
    pub(super) end_ns: Option<u64>,
    pub(super) name: &'a str,
    pub(super) category: &'a str,
    pub(super) flow_out: Option<u64>,
    pub(super) flow_in: Option<u64>,
    pub(super) stack_id: Option<i64>,
}

impl<S: Sink> Walk<'_, S> {
    /// Puts something on the track it belongs on. Where a slice finds no room it is shown as an instant.
    pub(super) fn put(
        &mut self,
        place: &Place,
        piece: &Piece<'_>,
        args: &[(&str, Arg<'_>)],
    ) -> Result<(), ExportError> {
        let Piece { start_ns, mut end_ns, name, category, flow_out, flow_in, stack_id } = *piece;
        let mut lane = self.tracks.lane(place, start_ns, end_ns, &self.names, self.sink)?;
        if lane.is_none() {
            end_ns = None;
            lane = self.tracks.lane(place, start_ns, None, &self.names, self.sink)?;
        }
        let Some(track) = lane else { return Ok(()) };
        self.sink.slice(&Slice { track, start_ns, end_ns, name, category, args, flow_out, flow_in, stack_id })
    }

    fn call(&mut self, call: &Call) -> Result<(), ExportError> {
        let place = Place::Thread(call.pid, call.tid);
        let end_ns = Some(call.start_ns.saturating_add(call.duration_ns));
        let lane = self.tracks.lane(&place, call.start_ns, end_ns, &self.names, self.sink)?;
        let crowded = lane.is_none();
        let lane = match lane {
            Some(lane) => Some(lane),
            None => self.tracks.lane(&place, call.start_ns, None, &self.names, self.sink)?,
        };
        let Some(track) = lane else { return Ok(()) };
        let op = self.names.op(call.op);
        let (flow_out, flow_in) = self.flows.call(call, op);
        let mut args = Vec::with_capacity(16);
        calls::args(call, op, &self.names, self.blame, &mut args);
        self.sink.slice(&Slice {
            track,
            start_ns: call.start_ns,
            end_ns: end_ns.filter(|_| !crowded),
            name: self.names.op_name(call.op),
            category: op.map_or("cuda", |op| op.layer.name()),
            args: &args,
            flow_out,
            flow_in,
            stack_id: call.stack_id,
        })
    }

    fn row(&mut self, table: &'static Table, record: &Record<'_>) -> Result<(), ExportError> {
        let columns = match self.columns.remove(table.name) {
            Some(columns) => columns,
            None => Columns::of(table),
        };
        let shown = self.show(&columns, table, record);
        self.columns.insert(table.name, columns);
        shown
    }

    fn show(
        &mut self,
        columns: &Columns,
        table: &'static Table,
        record: &Record<'_>,
    ) -> Result<(), ExportError> {
        let start_ns = record.integer(0).unwrap_or(0).max(0) as u64;
        let duration = columns.duration.and_then(|at| record.integer(at)).map(|ns| ns.max(0) as u64);
        let (pid, tid) = (id(record, columns.pid), id(record, columns.tid));
        let place = match (pid, tid) {
            (Some(pid), Some(tid)) => Place::Thread(pid, tid),
            (pid, _) => Place::Layer(pid, columns.layer),
        };
        let name = columns.name(record);
        let mut args = Vec::new();
        columns.args(record, &mut args);
        let mut piece = Piece {
            start_ns,
            end_ns: duration.map(|ns| start_ns.saturating_add(ns)),
            name: &name,
            category: columns.layer,
            stack_id: columns.stack.and_then(|at| record.integer(at)),
            ..Piece::default()
        };
        if table.name == "nccl_events" {
            return self.collective(table, record, piece, &args);
        }
        piece.flow_in = self.culprit(columns, record, &piece, &place)?;
        self.put(&place, &piece, &args)
    }

    /// A slice on the track of the thread that was behind a wait, and the arrow from there.
    fn culprit(
        &mut self,
        columns: &Columns,
        record: &Record<'_>,
        wait: &Piece<'_>,
        victim: &Place,
    ) -> Result<Option<u64>, ExportError> {
        let behind = (id(record, columns.by_pid), id(record, columns.by_tid), victim);
        let (Some(by_pid), Some(by_tid), Place::Thread(pid, tid)) = behind else { return Ok(None) };
        if by_pid == 0 || wait.end_ns.is_none() || (by_pid, by_tid) == (*pid, *tid) {
            return Ok(None);
        }
        let flow = self.flows.next();
        let whom = self.names.thread(*pid, *tid).unwrap_or_else(|| self.names.comm(*pid));
        let name = format!("behind {} of {whom} {tid}", wait.name);
        let piece = Piece { name: &name, category: "cause", flow_out: Some(flow), stack_id: None, ..*wait };
        self.put(&Place::Thread(by_pid, by_tid), &piece, &[])?;
        Ok(Some(flow))
    }

    /// On the thread that called it, and on the rank's own track from the call until it was known to be done.
    fn collective(
        &mut self,
        table: &'static Table,
        record: &Record<'_>,
        mut piece: Piece<'_>,
        args: &[(&str, Arg<'_>)],
    ) -> Result<(), ExportError> {
        let at =
            |name: &str| table.columns.iter().position(|column| column.name == name).unwrap_or(usize::MAX);
        let pid = id(record, Some(at("pid"))).unwrap_or(0);
        let tid = id(record, Some(at("tid"))).unwrap_or(pid);
        let comm = record.text(at("comm_id_hash")).unwrap_or_default();
        let seq = record.integer(at("seq"));
        let late = seq.and_then(|seq| self.flows.late(&comm, seq));
        let is_late = late.is_some_and(|late| late.pid == pid && late.start_ns == piece.start_ns as i64);
        if is_late {
            piece.flow_out = late.map(|late| late.flow);
        }
        self.put(&Place::Thread(pid, tid), &piece, args)?;
        let Some(rank) = record.integer(at("rank")) else { return Ok(()) };
        let completed = record.integer(at("completed_ns")).map(|ns| ns.max(0) as u64);
        let place = Place::Rank(pid, comm.into_owned(), rank);
        let number = seq.map(|seq| ("seq", Arg::Integer(seq)));
        let end_ns = completed.or(piece.end_ns).map(|end| end.max(piece.start_ns));
        let mine = Piece { end_ns, category: "rank", flow_out: None, flow_in: None, stack_id: None, ..piece };
        self.put(&place, &mine, number.as_slice())?;
        // The arrow goes forward in time: to when those who waited were told.
        let (Some(done), Some(late)) = (completed, late) else { return Ok(()) };
        if is_late || (done as i64) < late.start_ns {
            return Ok(());
        }
        let name: Cow<'_, str> = format!("{} done", piece.name).into();
        let reported = Piece {
            start_ns: done,
            name: &name,
            category: "rank",
            flow_in: Some(late.flow),
            ..Piece::default()
        };
        self.put(&place, &reported, number.as_slice())
    }
}
