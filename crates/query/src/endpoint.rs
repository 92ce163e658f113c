//! The table of all questions. A row has all that HTTP, MCP, OpenAPI and the documentation are made from: name, what it is
//! about, the schemas of request and answer, and a handler from JSON to JSON.

use crate::{
    QueryError, annotations, blame, coldstart, collectives, copies, coverage, driver, events, explain,
    gpu_time, gpus, graphs, in_flight, kernels, lines, memory, noise, operations, processes, series, servers,
    sql, stacks, timeline, trace, watch_cost,
};
use gpuwhy_model::Question;
use gpuwhy_store::Reader;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A question of a trace.
pub type Endpoint = Question<fn(&Reader, Value) -> Result<Value, QueryError>>;

/// A row of the table from a typed handler.
macro_rules! endpoint {
    ($name:literal, $handler:path, $about:literal, $next:literal) => {
        endpoint!($name as concat!("get_", $name), $handler, $about, $next)
    };
    ($name:literal as $tool:expr, $handler:path, $about:literal, $next:literal) => {
        Endpoint {
            name: $name,
            tool: $tool,
            about: $about,
            next: $next,
            request: |schemas| request_schema($handler, schemas),
            answer: |schemas| answer_schema($handler, schemas),
            run: |reader, request| run($handler, reader, request),
        }
    };
}

pub static ENDPOINTS: &[Endpoint] = &[
    endpoint!(
        "explain" as "get_causal_chains",
        explain,
        "why the GPU stalled: findings, worst first, each with its causes in shares that sum to 100, who was behind them, \
         the line of code, the cost, fixes, and what would refute it",
        "get_stacks with the `op` and `pid` of a finding; run_sql with the finding's `sql` shows its evidence"
    ),
    endpoint!(
        "operations" as "get_trace_stats",
        operations,
        "every GPU operation of the trace: calls, percentiles, errors, and where the time in them went; exact, over all calls",
        "get_blame with an `op` says who took its time; get_causal_chains says why"
    ),
    endpoint!(
        "trace",
        trace,
        "the trace file itself: from when until when, how many events, which hosts and sessions, and what it does not cover",
        "get_causal_chains says why the GPU stalled; get_trace_stats lists the operations"
    ),
    endpoint!(
        "timeline",
        timeline,
        "what happened when: calls by thread with the parts of their time, work by stream, collectives by rank, long waits, \
         annotations and findings, thinned out to so many slices a track",
        "get_timeline with a narrower `from_ns` and `to_ns` shows single calls; get_stacks says where in the code"
    ),
    endpoint!(
        "stacks",
        stacks,
        "where in the code time goes: the stacks of kept calls merged into one tree, as a flame graph draws it",
        "get_lines for the innermost lines as a list; run_sql on `frames` for single stacks"
    ),
    endpoint!(
        "sql" as "run_sql",
        sql,
        "one SELECT statement (SQLite) over the trace, read-only and limited; `SELECT * FROM schema_doc` describes every table \
         and column, the main ones are cuda_events, nccl_events, call_stats, blame, op_summary, processes, frames",
        "run_sql with SELECT table_name, column_name, unit, about FROM schema_doc WHERE table_name = '...' explains columns"
    ),
    endpoint!(
        "events",
        events,
        "single events of all layers by operation, process and time; the newest where there are too many",
        "run_sql on the layer's own table has more columns"
    ),
    endpoint!(
        "blame",
        blame,
        "time in calls by cause, operation, culprit or process: what it waited for, and because of whom",
        "get_noise says whose the culprits are; get_causal_chains weighs them"
    ),
    endpoint!(
        "processes",
        processes,
        "the traced processes: command line, rank, container, pod, job, user",
        "get_causal_chains with a `pid`"
    ),
    endpoint!(
        "collectives",
        collectives,
        "NCCL by communicator or rank: calls, bytes, how long the host waited for them",
        "get_collectives with `per_rank` true: the rank with the shortest waits is the late one; get_in_flight for hangs"
    ),
    endpoint!(
        "graphs",
        graphs,
        "CUDA graphs: captures, updates, launches, what they are made of",
        "get_kernels lists what runs in them"
    ),
    endpoint!(
        "kernels",
        kernels,
        "the launched GPU kernels by name: launches, and the host's time in launching them",
        "get_stacks with `op` cuLaunchKernel says who launches"
    ),
    endpoint!(
        "memory",
        memory,
        "device memory: live and at most by process, who holds it by call site, which allocations failed",
        "get_stacks with `of` memory shows the call sites; get_series with `of` memory shows it over time"
    ),
    endpoint!(
        "gpus",
        gpus,
        "the GPUs' own counters (use, memory, power, clocks, throttling): last, least, mean and most",
        "get_series with `of` gpus shows them over time"
    ),
    endpoint!(
        "series",
        series,
        "numbers over time, thinned out to so many points: GPU counters, live memory, calls a second, blame by cause",
        "get_timeline with the `from_ns` and `to_ns` where a curve changes"
    ),
    endpoint!(
        "gpu_time",
        gpu_time,
        "how busy each GPU stream was, between two proven bounds, and what launching took",
        "get_causal_chains tells what the launching thread did meanwhile (`idle`)"
    ),
    endpoint!(
        "copies",
        copies,
        "copies by process and direction: bytes, the host's time, the rate",
        "get_lines with an `op` such as cudaMemcpyAsync says where they are made"
    ),
    endpoint!(
        "driver",
        driver,
        "who is in the GPU driver (ioctls of every process of the host): how often, how long, how long blocked",
        "get_processes says whose a process is"
    ),
    endpoint!(
        "coldstart",
        coldstart,
        "what happens once and makes first calls slow (contexts, modules, JIT, first launches), the longest first",
        "get_stacks with the `op` of a row"
    ),
    endpoint!(
        "in_flight",
        in_flight,
        "calls that have not returned, or not for long: look here first at a hang",
        "get_collectives with `per_rank` true says which rank is missing"
    ),
    endpoint!(
        "lines",
        lines,
        "where in the code calls were made: the line of Python, or the native function",
        "get_stacks shows how the program came there"
    ),
    endpoint!(
        "noise",
        noise,
        "who kept the traced processes from the CPU, and whose that is",
        "get_blame with `cause` cpu.preempted says which operations paid for it"
    ),
    endpoint!(
        "annotations",
        annotations,
        "steps, epochs and requests that were marked: when, how long, by whom",
        "get_timeline with the `from_ns` and `to_ns` of one; get_causal_chains names the steps a finding touches"
    ),
    endpoint!(
        "servers",
        servers,
        "inference servers: latencies, queue, cache, tokens, sample by sample",
        "get_causal_chains says which findings were active when latencies were worst"
    ),
    endpoint!(
        "watch_cost",
        watch_cost,
        "what being watched by gpuwhy cost each process, and how often less was seen for it",
        "get_coverage says what was not seen"
    ),
    endpoint!(
        "coverage",
        coverage,
        "what the trace does not cover: lost, sampled, degraded, unattached",
        "run_sql on the tables `loss` and `probes`"
    ),
];

/// The endpoint of that name.
pub fn find(name: &str) -> Option<&'static Endpoint> {
    ENDPOINTS.iter().find(|endpoint| endpoint.name == name)
}

type Handler<Q, A> = fn(&Reader, &Q) -> Result<A, QueryError>;

fn request_schema<Q: JsonSchema, A>(_handler: Handler<Q, A>, schemas: &mut SchemaGenerator) -> Schema {
    schemas.root_schema_for::<Q>()
}

fn answer_schema<Q, A: JsonSchema>(_handler: Handler<Q, A>, schemas: &mut SchemaGenerator) -> Schema {
    schemas.root_schema_for::<A>()
}

fn run<Q: DeserializeOwned, A: Serialize>(
    handler: Handler<Q, A>,
    reader: &Reader,
    request: Value,
) -> Result<Value, QueryError> {
    let request: Q = parse(request)?;
    let answer = handler(reader, &request)?;
    serde_json::to_value(answer)
        .map_err(|error| QueryError::Failed(format!("the answer is no JSON: {error}")))
}

/// A request from JSON; nothing at all asks for everything.
pub fn parse<Q: DeserializeOwned>(request: Value) -> Result<Q, QueryError> {
    let request = if request.is_null() { Value::Object(serde_json::Map::new()) } else { request };
    serde_json::from_value(request).map_err(|error| QueryError::Usage(format!("wrong request: {error}")))
}
