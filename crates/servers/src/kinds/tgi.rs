//! Text Generation Inference, 1.0 to 3: its router's names, counters without `_total`. It publishes no time to first token
//! and no use of its cache. Its time per token is the mean of a request, the time before the first one included.

use crate::kind::{Kind, Means, metric, seconds};
use gpuwhy_model::Signal;

pub(super) const KIND: Kind = Kind {
    name: "tgi",
    is_command: |command| command.runs("text-generation-router") || command.runs("text-generation-launcher"),
    port_options: &["--port", "-p"],
    port: 3000,
    prefix: "tgi_",
    model_labels: &["model_id"],
    metrics: &[
        metric("tgi_batch_current_size", Means::Running),
        metric("tgi_queue_size", Means::Waiting),
        metric("tgi_request_success", Means::Requests),
        // Histograms of tokens a request: their sums are tokens.
        metric("tgi_request_input_length_sum", Means::PromptTokens),
        metric("tgi_request_generated_tokens_sum", Means::GenerationTokens),
        seconds("tgi_request_mean_time_per_token_duration", Signal::Itl),
        seconds("tgi_request_duration", Signal::E2e),
        seconds("tgi_request_queue_duration", Signal::Queue),
    ],
};
