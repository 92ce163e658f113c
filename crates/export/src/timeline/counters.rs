//! Counters over time: what each GPU said of itself, and the memory of each process.

use super::Sink;
use super::tracks::Place;
use super::walk::Walk;
use crate::ExportError;
use gpuwhy_store::schema;
use gpuwhy_store::{Filter, Value};

/// Every number of `gpu_samples` is a counter, by its column.
pub(super) fn gpus<S: Sink>(walk: &mut Walk<'_, S>) -> Result<(), ExportError> {
    let source = walk.source;
    let Some(samples) = schema::table("gpu_samples") else { return Ok(()) };
    let counters: Vec<_> = samples
        .columns
        .iter()
        .filter(|column| column.kind != "TEXT")
        .filter(|column| !matches!(column.name, "timestamp_ns" | "gpu" | "session_id"))
        .collect();
    let hosts = source.reader.sessions()?;
    let several = hosts.iter().any(|session| session.info.host != hosts[0].info.host);
    // Of no process.
    let filter = Filter { pid: None, ..source.filter.clone() };
    let (clause, values) = filter.clause("timestamp_ns");
    let columns: String = counters.iter().map(|column| format!(", {}", column.name)).collect();
    let sql = format!(
        "SELECT timestamp_ns, gpu, mig, name, (SELECT s.host FROM sessions s WHERE s.session_id = gpu_samples.session_id)\
         {columns} FROM gpu_samples{clause} ORDER BY timestamp_ns"
    );
    source.reader.stream::<ExportError>(&sql, &values, |record| {
        let text = |at: usize| record.text(at).unwrap_or_default();
        let mut label = format!("GPU {}", record.integer(1).unwrap_or(0));
        for part in [text(2), text(3)].into_iter().filter(|part| !part.is_empty()) {
            label += &format!(" {part}");
        }
        if several {
            label += &format!(" of {}", text(4));
        }
        let place = Place::Gpu(label);
        let time_ns = record.integer(0).unwrap_or(0).max(0) as u64;
        for (at, column) in counters.iter().enumerate() {
            let Some(value) = record.real(5 + at) else { continue };
            let track =
                walk.tracks.counter(&place, column.name.to_string(), column.unit, &walk.names, walk.sink)?;
            walk.sink.counter(track, time_ns, value)?;
        }
        Ok(())
    })
}

/// Live bytes by process, GPU and kind.
pub(super) fn memory<S: Sink>(walk: &mut Walk<'_, S>) -> Result<(), ExportError> {
    let source = walk.source;
    let (clause, values): (String, Vec<Value>) = source.filter.clause("timestamp_ns");
    let sql = format!(
        "SELECT timestamp_ns, pid, gpu, kind, live_bytes FROM memory_stats{clause} ORDER BY timestamp_ns"
    );
    source.reader.stream::<ExportError>(&sql, &values, |record| {
        let kind = record.text(3).unwrap_or_default();
        let label = match record.integer(2) {
            Some(gpu) => format!("live {kind} memory, GPU {gpu}"),
            None => format!("live {kind} memory"),
        };
        let place = Place::Process(record.integer(1).unwrap_or(0) as u32);
        let track = walk.tracks.counter(&place, label, "bytes", &walk.names, walk.sink)?;
        let time_ns = record.integer(0).unwrap_or(0).max(0) as u64;
        walk.sink.counter(track, time_ns, record.real(4).unwrap_or(0.0))
    })
}
