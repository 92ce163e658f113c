//! Pages of each server, as its documentation and its code write them: two moments, and what lies between.

use super::{KINDS, of_command, of_page};
use crate::kind::Command;
use crate::reading::Reading;
use gpuwhy_model::{Bucket, Latency, ServerSample, Signal};

const SECOND: u64 = 1_000_000_000;

/// What two pages say of the two seconds between them.
fn between(before: &str, after: &str) -> ServerSample {
    let kind = of_page(after).unwrap();
    let sample = Reading::of(kind, after).since(&Reading::of(kind, before), 2 * SECOND).unwrap();
    ServerSample { server: kind.name.into(), ..sample }
}

fn bucket(lower_us: f64, upper_us: f64, count: u64) -> Bucket {
    Bucket { lower_us, upper_us: Some(upper_us).filter(|upper| upper.is_finite()), count }
}

/// The later page is the earlier one with other numbers.
fn changed(page: &str, changes: &[(&str, &str)]) -> String {
    changes.iter().fold(page.to_string(), |page, (old, new)| {
        assert!(page.contains(old), "{old} is not on the page");
        page.replace(old, new)
    })
}

const VLLM: &str = include_str!("pages/vllm.txt");
const VLLM_OLD: &str = include_str!("pages/vllm_v0.txt");
const SGLANG: &str = include_str!("pages/sglang.txt");
const TGI: &str = include_str!("pages/tgi.txt");
const TRITON: &str = include_str!("pages/triton.txt");

#[test]
fn vllm_says_all_there_is() {
    let later = changed(
        VLLM,
        &[
            (
                "num_requests_running{engine=\"0\",model_name=\"meta/llama\"} 3.0",
                "num_requests_running{engine=\"0\",model_name=\"meta/llama\"} 5.0",
            ),
            (
                "num_preemptions_total{engine=\"0\",model_name=\"meta/llama\"} 1.0",
                "num_preemptions_total{engine=\"0\",model_name=\"meta/llama\"} 4.0",
            ),
            (
                "generation_tokens_total{engine=\"0\",model_name=\"meta/llama\"} 1000.0",
                "generation_tokens_total{engine=\"0\",model_name=\"meta/llama\"} 3000.0",
            ),
            (
                "num_draft_tokens_total{engine=\"0\",model_name=\"meta/llama\"} 100.0",
                "num_draft_tokens_total{engine=\"0\",model_name=\"meta/llama\"} 300.0",
            ),
            (
                "num_accepted_tokens_total{engine=\"0\",model_name=\"meta/llama\"} 60.0",
                "num_accepted_tokens_total{engine=\"0\",model_name=\"meta/llama\"} 210.0",
            ),
            (
                "time_to_first_token_seconds_bucket{engine=\"0\",le=\"0.1\",model_name=\"meta/llama\"} 8.0",
                "time_to_first_token_seconds_bucket{engine=\"0\",le=\"0.1\",model_name=\"meta/llama\"} 17.0",
            ),
            (
                "time_to_first_token_seconds_bucket{engine=\"0\",le=\"2.5\",model_name=\"meta/llama\"} 9.0",
                "time_to_first_token_seconds_bucket{engine=\"0\",le=\"2.5\",model_name=\"meta/llama\"} 19.0",
            ),
            (
                "time_to_first_token_seconds_bucket{engine=\"0\",le=\"+Inf\",model_name=\"meta/llama\"} 9.0",
                "time_to_first_token_seconds_bucket{engine=\"0\",le=\"+Inf\",model_name=\"meta/llama\"} 19.0",
            ),
            (
                "time_to_first_token_seconds_count{engine=\"0\",model_name=\"meta/llama\"} 9.0",
                "time_to_first_token_seconds_count{engine=\"0\",model_name=\"meta/llama\"} 19.0",
            ),
            (
                "time_to_first_token_seconds_sum{engine=\"0\",model_name=\"meta/llama\"} 1.5",
                "time_to_first_token_seconds_sum{engine=\"0\",model_name=\"meta/llama\"} 4.0",
            ),
        ],
    );
    let sample = between(VLLM, &later);
    assert_eq!((sample.server.as_str(), sample.model.as_str()), ("vllm", "meta/llama"));
    // Two engines: requests add up, the fuller cache counts.
    assert_eq!((sample.running, sample.waiting, sample.kv_cache_pct), (Some(7.0), Some(1.0), Some(62.5)));
    assert_eq!((sample.preemptions, sample.requests), (Some(3), Some(0)));
    assert_eq!((sample.generation_tokens_per_s, sample.prompt_tokens_per_s), (Some(1000.0), Some(0.0)));
    assert_eq!(sample.spec_accept_pct, Some(75.0));
    let ttft = &sample.latencies[&Signal::Ttft];
    assert_eq!((ttft.count, ttft.sum_us), (10, 2_500_000.0));
    assert_eq!(ttft.buckets, [bucket(1_000.0, 100_000.0, 9), bucket(100_000.0, 2_500_000.0, 1)]);
    let p99 = ttft.quantile(0.99).unwrap();
    assert_eq!((p99.lower_us, p99.upper_us), (100_000.0, Some(2_500_000.0)));
    for signal in [Signal::Itl, Signal::E2e, Signal::Queue] {
        assert_eq!(sample.latencies[&signal], Latency::default(), "{signal:?}: nothing happened");
    }
}

#[test]
fn the_old_names_of_vllm_mean_the_same() {
    let later = changed(
        VLLM_OLD,
        &[
            (
                "time_per_output_token_seconds_bucket{le=\"0.05\",model_name=\"m\"} 10.0",
                "time_per_output_token_seconds_bucket{le=\"0.05\",model_name=\"m\"} 30.0",
            ),
            (
                "time_per_output_token_seconds_bucket{le=\"+Inf\",model_name=\"m\"} 10.0",
                "time_per_output_token_seconds_bucket{le=\"+Inf\",model_name=\"m\"} 30.0",
            ),
            (
                "time_per_output_token_seconds_count{model_name=\"m\"} 10.0",
                "time_per_output_token_seconds_count{model_name=\"m\"} 30.0",
            ),
        ],
    );
    let sample = between(VLLM_OLD, &later);
    assert_eq!((sample.kv_cache_pct, sample.spec_accept_pct), (Some(25.0), Some(81.25)));
    assert_eq!(sample.latencies[&Signal::Itl].buckets, [bucket(25_000.0, 50_000.0, 20)]);
}

#[test]
fn a_page_with_both_names_is_counted_once() {
    let both =
        format!("{VLLM}\n{}", VLLM_OLD.replace("model_name=\"m\"", "engine=\"0\",model_name=\"meta/llama\""));
    let sample = between(&both, &both);
    assert_eq!(sample.kv_cache_pct, Some(62.5), "the newer name goes before the older");
}

#[test]
fn sglang_works_out_rates_itself() {
    let later = changed(
        SGLANG,
        &[
            (
                "sglang:num_requests_total{model_name=\"q\"} 10.0",
                "sglang:num_requests_total{model_name=\"q\"} 14.0",
            ),
            (
                "sglang:queue_time_seconds_bucket{le=\"0.1\",model_name=\"q\"} 2.0",
                "sglang:queue_time_seconds_bucket{le=\"0.1\",model_name=\"q\"} 6.0",
            ),
            (
                "sglang:queue_time_seconds_bucket{le=\"+Inf\",model_name=\"q\"} 3.0",
                "sglang:queue_time_seconds_bucket{le=\"+Inf\",model_name=\"q\"} 8.0",
            ),
            (
                "sglang:queue_time_seconds_count{model_name=\"q\"} 3.0",
                "sglang:queue_time_seconds_count{model_name=\"q\"} 8.0",
            ),
        ],
    );
    let sample = between(SGLANG, &later);
    assert_eq!(sample.server, "sglang");
    assert_eq!((sample.running, sample.waiting, sample.kv_cache_pct), (Some(8.0), Some(2.0), Some(25.0)));
    assert_eq!((sample.requests, sample.preemptions, sample.spec_accept_pct), (Some(4), Some(0), Some(75.0)));
    let queue = &sample.latencies[&Signal::Queue];
    assert_eq!(queue.buckets, [bucket(0.0, 100_000.0, 4), bucket(100_000.0, f64::INFINITY, 1)]);
    assert_eq!(queue.quantile(0.99).unwrap().upper_us, None, "beyond the last bound nothing is known");
    assert!(sample.latencies.contains_key(&Signal::Itl));
}

#[test]
fn tgi_has_tokens_in_the_sums_of_its_histograms() {
    let later = changed(
        TGI,
        &[
            ("tgi_request_generated_tokens_sum 3000", "tgi_request_generated_tokens_sum 3400"),
            ("tgi_request_success{method=\"batch\"} 30", "tgi_request_success{method=\"batch\"} 32"),
            ("tgi_request_duration_bucket{le=\"1.05\"} 20", "tgi_request_duration_bucket{le=\"1.05\"} 22"),
            ("tgi_request_duration_bucket{le=\"+Inf\"} 30", "tgi_request_duration_bucket{le=\"+Inf\"} 32"),
            ("tgi_request_duration_count 30", "tgi_request_duration_count 32"),
        ],
    );
    let sample = between(TGI, &later);
    assert_eq!((sample.server.as_str(), sample.running, sample.waiting), ("tgi", Some(4.0), Some(1.0)));
    assert_eq!((sample.generation_tokens_per_s, sample.requests), (Some(200.0), Some(2)));
    assert_eq!(sample.latencies[&Signal::E2e].buckets, [bucket(0.0, 1_050_000.0, 2)]);
    assert!(!sample.latencies.contains_key(&Signal::Ttft), "it publishes none");
    assert_eq!((sample.kv_cache_pct, sample.preemptions), (None, None));
}

#[test]
fn triton_counts_durations() {
    let later = changed(
        TRITON,
        &[
            (
                "nv_inference_request_success{model=\"ensemble\",version=\"1\"} 100",
                "nv_inference_request_success{model=\"ensemble\",version=\"1\"} 110",
            ),
            (
                "nv_inference_request_duration_us{model=\"ensemble\",version=\"1\"} 5000000",
                "nv_inference_request_duration_us{model=\"ensemble\",version=\"1\"} 5600000",
            ),
            (
                "nv_inference_queue_duration_us{model=\"ensemble\",version=\"1\"} 90000",
                "nv_inference_queue_duration_us{model=\"ensemble\",version=\"1\"} 110000",
            ),
            (
                "first_response_histogram_ms_bucket{model=\"ensemble\",version=\"1\",le=\"500\"} 40",
                "first_response_histogram_ms_bucket{model=\"ensemble\",version=\"1\",le=\"500\"} 49",
            ),
            (
                "first_response_histogram_ms_bucket{model=\"ensemble\",version=\"1\",le=\"+Inf\"} 50",
                "first_response_histogram_ms_bucket{model=\"ensemble\",version=\"1\",le=\"+Inf\"} 60",
            ),
            (
                "first_response_histogram_ms_count{model=\"ensemble\",version=\"1\"} 50",
                "first_response_histogram_ms_count{model=\"ensemble\",version=\"1\"} 60",
            ),
        ],
    );
    let sample = between(TRITON, &later);
    assert_eq!((sample.server.as_str(), sample.model.as_str()), ("triton", "ensemble, tensorrt_llm"));
    assert_eq!((sample.running, sample.waiting, sample.kv_cache_pct), (Some(6.0), Some(2.0), Some(40.0)));
    let e2e = &sample.latencies[&Signal::E2e];
    assert_eq!((e2e.count, e2e.mean_us(), e2e.quantile(0.99)), (10, Some(60_000.0), None));
    assert_eq!(sample.latencies[&Signal::Queue].mean_us(), Some(2_000.0));
    let ttft = &sample.latencies[&Signal::Ttft];
    assert_eq!(ttft.buckets, [bucket(100_000.0, 500_000.0, 9), bucket(500_000.0, f64::INFINITY, 1)]);
}

#[test]
fn a_server_that_began_anew_gives_no_sample() {
    for page in [VLLM, SGLANG, TRITON] {
        let kind = of_page(page).unwrap();
        let fresh = page.lines().map(|line| match line.rsplit_once(' ') {
            Some((name, _)) if !line.starts_with('#') => format!("{name} 0\n"),
            _ => format!("{line}\n"),
        });
        let fresh = Reading::of(kind, &fresh.collect::<String>());
        assert!(fresh.since(&Reading::of(kind, page), SECOND).is_none(), "{}", kind.name);
        assert!(Reading::of(kind, page).since(&fresh, SECOND).is_some());
    }
}

#[test]
fn pages_of_others_are_nobodys() {
    for text in ["", "# HELP vllm:x\n", "go_goroutines 5\n", "<html>vllm:</html>", "\u{0}\u{0}"] {
        assert!(of_page(text).is_none(), "{text}");
    }
    // Numbers that are none spoil nothing.
    let odd = "vllm:num_requests_running NaN\nvllm:num_requests_waiting -1\nvllm:kv_cache_usage_perc +Inf\n\
               vllm:time_to_first_token_seconds_bucket{le=\"x\"} 1\nvllm:time_to_first_token_seconds_bucket{le=\"-1\"} 1\n\
               vllm:num_preemptions_total 1e308\n";
    let sample = between(odd, odd);
    assert_eq!((sample.running, sample.waiting, sample.kv_cache_pct), (None, None, None));
    assert!(sample.latencies.is_empty());
}

#[test]
fn every_kind_is_told_by_its_command() {
    let kind = |line: &str| {
        let words: Vec<String> = line.split(' ').map(ToString::to_string).collect();
        of_command(&Command { words: &words }).map(|kind| kind.name)
    };
    assert_eq!(kind("/usr/bin/python3 /usr/local/bin/vllm serve m"), Some("vllm"));
    assert_eq!(kind("python3 -m vllm.entrypoints.openai.api_server --model m"), Some("vllm"));
    assert_eq!(kind("VLLM::APIServer_0"), Some("vllm"));
    assert_eq!(kind("VLLM::EngineCore"), None);
    assert_eq!(kind("python -m sglang.launch_server --model-path m"), Some("sglang"));
    assert_eq!(kind("text-generation-launcher --model-id m"), Some("tgi"));
    assert_eq!(kind("/opt/tritonserver/bin/tritonserver --model-store=m"), Some("triton"));
    assert_eq!(kind("vim vllm"), None);
    assert_eq!(kind("grep -r vllm serve"), Some("vllm"), "its page decides, and it has none");
    let mut prefixes: Vec<_> = KINDS.iter().map(|kind| kind.prefix).collect();
    prefixes.dedup();
    assert_eq!(prefixes.len(), KINDS.len());
}

/// A server's own code made these, told of known requests: four to each engine before, six more after.
#[test]
fn what_the_code_of_vllm_0_32_writes_is_read_to_the_last_request() {
    let before = include_str!("pages/vllm-0.32-before.txt");
    let sample = between(before, include_str!("pages/vllm-0.32-after.txt"));
    assert_eq!((sample.server.as_str(), sample.model.as_str()), ("vllm", "q"));
    assert_eq!((sample.running, sample.waiting, sample.kv_cache_pct), (Some(9.0), Some(2.0), Some(75.0)));
    assert_eq!((sample.requests, sample.preemptions), (Some(12), Some(2)));
    assert_eq!((sample.prompt_tokens_per_s, sample.generation_tokens_per_s), (Some(600.0), Some(300.0)));
    assert_eq!(sample.spec_accept_pct, Some(70.0));
    is_reported(
        &sample,
        [
            (Signal::Ttft, 12, 2.1),
            (Signal::Itl, 588, 11.76),
            (Signal::E2e, 12, 54.0),
            (Signal::Queue, 12, 4.2),
        ],
    );
}

/// The same of SGLang: four requests before, six after; some of its counts come by whether a request streams.
#[test]
fn what_the_code_of_sglang_0_5_23_writes_is_read_to_the_last_request() {
    let before = include_str!("pages/sglang-0.5.23-before.txt");
    let sample = between(before, include_str!("pages/sglang-0.5.23-after.txt"));
    assert_eq!((sample.server.as_str(), sample.model.as_str()), ("sglang", "q"));
    assert_eq!((sample.running, sample.waiting, sample.kv_cache_pct), (Some(6.0), Some(3.0), Some(37.5)));
    assert_eq!(sample.requests, Some(6));
    assert_eq!((sample.prompt_tokens_per_s, sample.generation_tokens_per_s), (Some(300.0), Some(150.0)));
    assert_eq!(sample.spec_accept_pct, Some(80.0));
    is_reported(
        &sample,
        [(Signal::Ttft, 6, 2.4), (Signal::Itl, 150, 3.0), (Signal::E2e, 6, 27.0), (Signal::Queue, 6, 0.12)],
    );
}

fn is_reported(sample: &ServerSample, expected: [(Signal, u64, f64); 4]) {
    for (signal, count, seconds) in expected {
        let reported = &sample.latencies[&signal];
        assert_eq!(reported.count, count, "{signal:?}");
        assert!((reported.sum_us / 1e6 - seconds).abs() < 1e-6, "{signal:?}: {}", reported.sum_us);
        assert_eq!(reported.buckets.iter().map(|bucket| bucket.count).sum::<u64>(), count, "{signal:?}");
    }
}
