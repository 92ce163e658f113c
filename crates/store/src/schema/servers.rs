//! Inference servers, as they describe themselves.

use super::{Column, PID, SESSION, TIMESTAMP, Table, columns, int, real, text};

/// The columns of a latency.
macro_rules! latency {
    ($name:literal, $about:literal) => {
        [
            int(concat!($name, "_count"), "", concat!($about, ": how many in this time")),
            real(concat!($name, "_mean_us"), "us", concat!($about, ": mean")),
            real(
                concat!($name, "_p50_us"),
                "us",
                concat!($about, ": median, as if values were spread evenly over their bucket"),
            ),
            real(
                concat!($name, "_p99_us"),
                "us",
                concat!($about, ": 99th percentile, likewise; the lower bound in a bucket without end"),
            ),
            text(
                concat!($name, "_buckets"),
                "us",
                concat!(
                    $about,
                    ": the server's buckets that are not empty, a JSON list of [lower bound, upper bound or null, count]"
                ),
            ),
        ]
    };
}

const FIRST: [Column; 14] = [
    TIMESTAMP,
    int("window_ns", "ns", "since the sample before: counts, rates and latencies are of this time")
        .required(),
    text("server", "", "`vllm`, `sglang`, `tgi` or `triton`").required(),
    text("url", "", "the page it was read from").required(),
    PID,
    text("model", "", "what it serves, as it says"),
    real("running", "requests", "requests being worked on; of all its engines and models together"),
    real("waiting", "requests", "requests that wait"),
    real("kv_cache_pct", "%", "use of the KV cache; of the fullest engine"),
    int("preemptions", "", "requests that lost their place for want of cache"),
    int("requests", "", "requests that were finished"),
    real("prompt_tokens_per_s", "tokens/s", "tokens of prompts"),
    real("generation_tokens_per_s", "tokens/s", "tokens made"),
    real("spec_accept_pct", "%", "drafted tokens that were accepted, with speculative decoding"),
];
const TTFT: [Column; 5] = latency!("ttft", "time to first token");
const ITL: [Column; 5] = latency!("itl", "time from token to token");
const E2E: [Column; 5] = latency!("e2e", "time of a whole request");
const QUEUE: [Column; 5] = latency!("queue", "time in the queue");

pub(crate) const SERVER_SAMPLES: Table = Table {
    name: "server_samples",
    about: "inference servers on this host, read at intervals with `--servers`; NULL is what a server does not tell",
    columns: columns![&FIRST, &TTFT, &ITL, &E2E, &QUEUE, &[SESSION]],
    key: &[],
    clustered: false,
    age: Some("timestamp_ns"),
    layer: None,
};
