//! vLLM. Names as its documentation has them for 0.5 to 0.11 and later; those with `V0` went with the old engine. The
//! Python client adds `_total` to counters.

use crate::kind::{Kind, Means, metric, seconds};
use gpuwhy_model::Signal;

pub(super) const KIND: Kind = Kind {
    name: "vllm",
    is_command: |command| {
        command.runs_with("vllm", "serve")
            || command.runs_module("vllm.entrypoints.openai.api_server")
            || command.runs_module("vllm.entrypoints.api_server")
            || command.words.first().is_some_and(|title| title.starts_with("VLLM::APIServer"))
    },
    port_options: &["--port"],
    port: 8000,
    prefix: "vllm:",
    model_labels: &["model_name"],
    metrics: &[
        metric("vllm:num_requests_running", Means::Running),
        metric("vllm:num_requests_waiting", Means::Waiting),
        metric("vllm:kv_cache_usage_perc", Means::KvCache).scaled(100.0),
        // Until 0.9.
        metric("vllm:gpu_cache_usage_perc", Means::KvCache).scaled(100.0),
        metric("vllm:num_preemptions_total", Means::Preemptions),
        metric("vllm:request_success_total", Means::Requests),
        metric("vllm:prompt_tokens_total", Means::PromptTokens),
        metric("vllm:generation_tokens_total", Means::GenerationTokens),
        metric("vllm:spec_decode_num_draft_tokens_total", Means::Drafted),
        metric("vllm:spec_decode_num_accepted_tokens_total", Means::Accepted),
        // V0.
        metric("vllm:spec_decode_draft_acceptance_rate", Means::AcceptRate).scaled(100.0),
        seconds("vllm:time_to_first_token_seconds", Signal::Ttft),
        seconds("vllm:inter_token_latency_seconds", Signal::Itl),
        // The same until 0.10.
        seconds("vllm:time_per_output_token_seconds", Signal::Itl),
        seconds("vllm:e2e_request_latency_seconds", Signal::E2e),
        seconds("vllm:request_queue_time_seconds", Signal::Queue),
    ],
};
