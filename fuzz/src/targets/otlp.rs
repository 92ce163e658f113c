//! Pushes of OTLP. An input is a byte that says which data, how it is written and how it is packed, and the body.

use crate::Target;
use gpuwhy_fleet_core::ingest::{Format, Packing, Signal, fuzz};

pub(crate) const TARGET: Target = Target {
    name: "otlp",
    about: "metrics, logs and traces in OTLP, as protobuf and JSON, packed with gzip and zstd or not, to the journal and back (fleet)",
    run,
    words: &[
        "cluster_id",
        "node_id",
        "job_id",
        "rank",
        "nranks",
        "host.name",
        "gpuwhy.collectives",
        "gpuwhy.finding",
        "comm_id_hash",
        "start_ns",
        "{\"resourceMetrics\":[",
        "{\"resourceLogs\":[",
        "{\"resourceSpans\":[",
        "\"stringValue\":\"",
        "\"intValue\":\"",
        "\"doubleValue\":",
        "\"arrayValue\":{\"values\":[",
        "\"kvlistValue\":{\"values\":[",
        "\"timeUnixNano\":\"",
        "forbidden",
    ],
    runs: 15_000,
    most_bytes: 32 << 10,
};

fn run(bytes: &[u8]) {
    let Some((how, body)) = bytes.split_first() else { return };
    let signal = Signal::ALL[usize::from(how & 3) % 3];
    let format = if how & 4 == 0 { Format::Protobuf } else { Format::Json };
    let packing = match how >> 3 & 3 {
        0 | 3 => Packing::None,
        1 => Packing::Gzip,
        _ => Packing::Zstd,
    };
    let Ok(batch) = fuzz::push(signal, format, packing, body) else { return };
    assert!(batch.events.iter().all(|event| &*event.origin.cluster != "forbidden"));
    let record = fuzz::record(&batch);
    let again = fuzz::batch(&record).expect("what was written is read");
    // As bytes: numbers that are none are not equal to themselves.
    assert!(fuzz::record(&again) == record, "a record is another after it was read");
}
