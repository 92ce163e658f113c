//! SGLang, started with `--enable-metrics`. Names as its documentation and collector have them, 0.4 and later.

use crate::kind::{Kind, Means, metric, seconds};
use gpuwhy_model::Signal;

pub(super) const KIND: Kind = Kind {
    name: "sglang",
    is_command: |command| {
        command.runs_module("sglang.launch_server")
            || command.runs_with("sglang", "serve")
            || command.words.first().is_some_and(|title| title.starts_with("sglang::http_server"))
    },
    port_options: &["--port"],
    port: 30000,
    prefix: "sglang:",
    model_labels: &["model_name"],
    metrics: &[
        metric("sglang:num_running_reqs", Means::Running),
        metric("sglang:num_queue_reqs", Means::Waiting),
        metric("sglang:token_usage", Means::KvCache).scaled(100.0),
        // Requests taken out of the batch for want of cache; a gauge of the last batch before 0.5, which is no count.
        metric("sglang:num_retracted_requests_total", Means::Preemptions),
        metric("sglang:num_requests_total", Means::Requests),
        metric("sglang:prompt_tokens_total", Means::PromptTokens),
        metric("sglang:generation_tokens_total", Means::GenerationTokens),
        metric("sglang:gen_throughput", Means::GenerationRate),
        metric("sglang:spec_accept_rate", Means::AcceptRate).scaled(100.0),
        seconds("sglang:time_to_first_token_seconds", Signal::Ttft),
        seconds("sglang:inter_token_latency_seconds", Signal::Itl),
        // Until 0.4.5.
        seconds("sglang:time_per_output_token_seconds", Signal::Itl),
        seconds("sglang:e2e_request_latency_seconds", Signal::E2e),
        seconds("sglang:queue_time_seconds", Signal::Queue),
    ],
};
