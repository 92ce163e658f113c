//! Pages of metrics of inference servers. An input is two pages of one server, or an answer over HTTP.

use super::SEPARATOR;
use crate::Target;
use gpuwhy_servers::fuzz;

pub(crate) const TARGET: Target = Target {
    name: "metric_pages",
    about: "pages of metrics as vLLM, SGLang, TGI and Triton publish them, and what two of them say (servers)",
    run,
    words: &[
        "\u{1e}",
        "vllm:num_requests_running",
        "vllm:time_to_first_token_seconds_bucket{le=\"",
        "sglang:token_usage",
        "tgi_request_duration_bucket{le=\"",
        "nv_inference_request_success",
        "_count",
        "_sum",
        "+Inf",
        "NaN",
        "1e308",
        "-1",
        "\\\"",
        "HTTP/1.1 200 OK\r\n",
        "Transfer-Encoding: chunked\r\n",
        "\r\n\r\n",
    ],
    runs: 10_000,
    most_bytes: 32 << 10,
};

fn run(bytes: &[u8]) {
    let mut pages = bytes.split(|byte| *byte == SEPARATOR).map(String::from_utf8_lossy);
    let before = pages.next().unwrap_or_default();
    let after = pages.next().unwrap_or_default();
    fuzz::pages(&before, &after);
    fuzz::answer(bytes);
}
