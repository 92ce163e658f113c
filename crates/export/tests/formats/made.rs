//! Traces made up for the tests, and what the formats make of them.

use gpuwhy_export::{ExportError, Exported, Shape, Source, find};
use gpuwhy_model::{Family, Layer, OpId, OpInfo, Role};
use gpuwhy_store::{Options, Reader, SessionInfo, Writer};
use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;

pub(crate) const START: u64 = 1_790_000_000_000_000_000;

fn op(id: u16, name: &str, family: Family) -> OpInfo {
    OpInfo {
        id: OpId(id),
        name: name.into(),
        layer: if family == Family::Collective { Layer::Nccl } else { Layer::Cuda },
        family,
        waits_for_gpu: family == Family::Sync,
        role: Role::None,
    }
}

/// A trace with rows that these statements put in; `T` in them is its start.
pub(crate) fn trace(sql: &str) -> (TempDir, Reader) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let session = SessionInfo { start_ns: START, host: "node-7".into(), ..SessionInfo::default() };
    let ops = [
        op(1, "cuLaunchKernel", Family::Launch),
        op(2, "cudaStreamSynchronize", Family::Sync),
        op(3, "ncclAllReduce", Family::Collective),
    ];
    let writer = Writer::create_or_append(&path, &session, &ops, &Options::default()).unwrap();
    writer.finish(START + 1_000_000).unwrap();
    let sql = sql.replace("T +", &format!("{START} +"));
    Connection::open(&path).unwrap().execute_batch(&sql).unwrap();
    let reader = Reader::open(&path).unwrap();
    (folder, reader)
}

pub(crate) fn bytes(source: &Source<'_>, format: &str) -> Result<(Vec<u8>, Exported), ExportError> {
    let Shape::Stream { write, .. } = find(format).unwrap().shape else { panic!("{format} is no stream") };
    let mut out = Vec::new();
    let exported = write(source, &mut out)?;
    Ok((out, exported))
}

pub(crate) fn chrome(reader: &Reader) -> Vec<Value> {
    let (out, _) = bytes(&Source::whole(reader), "chrome").unwrap();
    let json: Value = serde_json::from_slice(&out).unwrap_or_else(|error| panic!("{error}"));
    json["traceEvents"].as_array().unwrap().clone()
}

/// The events of a phase as `name @ pid/tid from+duration`, in nanoseconds since the start.
pub(crate) fn shown(events: &[Value], phase: &str) -> Vec<String> {
    let ns = |value: &Value| (value.as_f64().unwrap_or(0.0) * 1e3).round() as i64;
    events
        .iter()
        .filter(|event| event["ph"] == phase && event["cat"] != "about")
        .map(|event| {
            let name = event["name"].as_str().unwrap();
            format!("{name} @ {}/{} {}+{}", event["pid"], event["tid"], ns(&event["ts"]), ns(&event["dur"]))
        })
        .collect()
}
