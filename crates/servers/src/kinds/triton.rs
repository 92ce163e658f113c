//! Triton, 2.x, with or without its TensorRT-LLM backend (`nv_trt_llm_`). It counts durations; histograms are its first
//! responses only (`--metrics-config histogram_latencies=true`), which is the first token where a model streams.

use crate::kind::{Kind, Means, metric};
use gpuwhy_model::Signal;

pub(super) const KIND: Kind = Kind {
    name: "triton",
    is_command: |command| command.runs("tritonserver"),
    port_options: &["--metrics-port"],
    port: 8002,
    prefix: "nv_inference_",
    model_labels: &["model"],
    metrics: &[
        metric("nv_trt_llm_request_metrics", Means::Running).only("request_type", "scheduled"),
        metric("nv_trt_llm_request_metrics", Means::Waiting).only("request_type", "waiting"),
        metric("nv_inference_pending_request_count", Means::Waiting),
        metric("nv_trt_llm_kv_cache_block_metrics", Means::KvCache)
            .only("kv_cache_block_type", "fraction")
            .scaled(100.0),
        metric("nv_inference_request_success", Means::Requests),
        metric("nv_llm_input_token_len_sum", Means::PromptTokens),
        metric("nv_llm_output_token_len_sum", Means::GenerationTokens),
        metric("nv_inference_first_response_histogram_ms", Means::Histogram(Signal::Ttft)).scaled(1e3),
        metric("nv_inference_request_duration_us", Means::Sum(Signal::E2e)),
        metric("nv_inference_queue_duration_us", Means::Sum(Signal::Queue)),
    ],
};
