//! The table of all questions: name, what it is about, and a handler from JSON to JSON.

use crate::{
    QueryError, annotations, blame, coldstart, collectives, copies, coverage, driver, events, explain,
    gpu_time, gpus, graphs, in_flight, kernels, lines, memory, noise, operations, processes, servers, sql,
    trace, watch_cost,
};
use gpuwhy_store::Reader;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

#[derive(Debug, Clone, Copy)]
pub struct Endpoint {
    pub name: &'static str,
    pub about: &'static str,
    pub run: fn(&Reader, Value) -> Result<Value, QueryError>,
}

/// A row of the table from a typed handler.
macro_rules! endpoint {
    ($name:literal, $handler:path, $about:literal) => {
        Endpoint { name: $name, about: $about, run: |reader, request| run($handler, reader, request) }
    };
}

pub static ENDPOINTS: &[Endpoint] = &[
    endpoint!(
        "explain",
        explain,
        "findings: what was slow, why, by whom, where in the code, what it cost, how to fix it"
    ),
    endpoint!("sql", sql, "one SELECT statement over the trace; `schema_doc` describes its tables"),
    endpoint!("events", events, "events by operation, process and time; the newest where there are too many"),
    endpoint!(
        "operations",
        operations,
        "every operation: calls, percentiles, errors, where its time went; exact"
    ),
    endpoint!("blame", blame, "time in calls by cause, operation, culprit or process"),
    endpoint!("processes", processes, "the traced processes"),
    endpoint!(
        "collectives",
        collectives,
        "NCCL by communicator or rank: calls, bytes, how long the host waited for them"
    ),
    endpoint!("graphs", graphs, "graphs: captures, updates, launches, what they are made of"),
    endpoint!("kernels", kernels, "the launched kernels by name: launches, the host's time in them"),
    endpoint!("memory", memory, "device memory: live and at most by process, who holds it, what failed"),
    endpoint!("gpus", gpus, "the GPUs' counters: last, least, mean and most"),
    endpoint!("gpu_time", gpu_time, "how busy each stream was, between two bounds, and what launching took"),
    endpoint!("copies", copies, "copies by process and direction: bytes, the host's time, the rate"),
    endpoint!("driver", driver, "who is in the GPU driver: how often, how long, how long blocked"),
    endpoint!("coldstart", coldstart, "what happens once and makes first calls slow, the longest first"),
    endpoint!("in_flight", in_flight, "calls that have not returned, or not for long"),
    endpoint!(
        "lines",
        lines,
        "where in the code calls were made: the line of Python, or the native function"
    ),
    endpoint!(
        "annotations",
        annotations,
        "steps, epochs and requests that were marked: when, how long, by whom"
    ),
    endpoint!("servers", servers, "inference servers: latencies, queue, cache, tokens, sample by sample"),
    endpoint!("noise", noise, "who kept the traced processes from the CPU, and whose that is"),
    endpoint!(
        "watch_cost",
        watch_cost,
        "what being watched cost each process, and how often less was seen for it"
    ),
    endpoint!("coverage", coverage, "what the trace does not cover: lost, sampled, degraded, unattached"),
    endpoint!("trace", trace, "the file: from when until when, how many events, by which sessions"),
];

/// The endpoint of that name.
pub fn find(name: &str) -> Option<&'static Endpoint> {
    ENDPOINTS.iter().find(|endpoint| endpoint.name == name)
}

fn run<Q: DeserializeOwned, A: Serialize>(
    handler: fn(&Reader, &Q) -> Result<A, QueryError>,
    reader: &Reader,
    request: Value,
) -> Result<Value, QueryError> {
    let request = if request.is_null() { Value::Object(serde_json::Map::new()) } else { request };
    let request: Q = serde_json::from_value(request)
        .map_err(|error| QueryError::Usage(format!("wrong request: {error}")))?;
    let answer = handler(reader, &request)?;
    serde_json::to_value(answer).map_err(|error| QueryError::Usage(format!("the answer is no JSON: {error}")))
}
