//! Pushing to a server that is well, slow, unwilling, dead and back again.

use crate::collector::Collector;
use crate::readers::{reader, until};
use crate::sample;
use gpuwhy_metrics::otlp::{self, Histograms, Request, Resource, Signal};
use gpuwhy_metrics::push::GivenUp;
use gpuwhy_metrics::{Pusher, State, Target};
use gpuwhy_model::{Cause, CauseShare, Culprit, Finding, Impact, Place, Severity, Span};
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant};

fn target(url: &str, protocol: &str) -> Target {
    Target::parse(url, |name| match name {
        "OTEL_EXPORTER_OTLP_PROTOCOL" => {
            Some(if protocol == "grpc" { "grpc" } else { "http/protobuf" }.into())
        }
        "OTEL_EXPORTER_OTLP_HEADERS" => Some("x-tenant=blue%20team".into()),
        "OTEL_EXPORTER_OTLP_TIMEOUT" => Some("2000".into()),
        _ => None,
    })
    .unwrap()
}

fn url(collector: &Collector) -> String {
    format!("http://127.0.0.1:{}", collector.port)
}

fn resource() -> Resource {
    Resource::new("node7", &[("cluster_id".into(), "c1".into())])
}

/// Everything there is to push: metrics, slow calls, findings.
fn requests(state: &mut State, histograms: Histograms) -> Vec<Request> {
    let mut requests = state.spans().unwrap().drain(&resource());
    let finding = finding();
    let findings = [finding];
    let news = state.see_findings(&findings);
    requests.extend(otlp::logs(news, state.now_ns(), &resource()));
    requests.extend(otlp::metrics(state, &resource(), histograms));
    requests
}

fn finding() -> Finding {
    let by = vec![Culprit { pid: Some(4), comm: "stress".into(), ms: 30.0, count: 2, ..Culprit::default() }];
    let cause = CauseShare {
        class: Cause::CpuPreempted,
        share_pct: 100.0,
        ms: 40.0,
        by,
        evidence: vec!["seen".into()],
    };
    Finding {
        id: "f1".into(),
        rule: "preempted".into(),
        severity: Severity::High,
        title: "cuLaunchKernel waits for the CPU".into(),
        op: Some("cuLaunchKernel".into()),
        pid: Some(10),
        process: Some("python3".into()),
        cgroup: None,
        rank: Some(3),
        node: None,
        window: Span { start_ns: sample::START_NS, end_ns: sample::START_NS + 5 },
        impact: Impact { excess_ms: 40.0, ..Impact::default() },
        causes: vec![cause],
        explained_pct: 100.0,
        place: Place { python: vec!["train.py:142 forward".into()], ..Place::default() },
        fixes: vec!["isolate the cores".into()],
        refuted_by: String::new(),
        sql: "SELECT 1".into(),
        steps: Vec::new(),
        phase: None,
        saves_ms_per_step: None,
        saves_ms_interval: None,
        by_design: None,
    }
}

fn items(requests: &[Request], signal: Signal) -> u64 {
    requests.iter().filter(|request| request.signal() == signal).map(Request::items).sum()
}

/// The points of a metric the server has.
fn points(report: &Value, name: &str, kind: &str) -> Vec<Value> {
    let mut points = Vec::new();
    for request in report["requests"]["metrics"].as_array().unwrap() {
        for metric in request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap() {
            if metric["name"] == name {
                points.extend(metric[kind]["dataPoints"].as_array().unwrap().iter().cloned());
            }
        }
    }
    points
}

fn sum(points: &[Value], field: &str) -> f64 {
    let number = |value: &Value| value.as_f64().or_else(|| value.as_str()?.parse().ok()).unwrap();
    points.iter().map(|point| number(&point[field])).sum()
}

#[test]
fn everything_arrives_by_both_protocols_and_is_what_was_counted() {
    let Some(python) = reader("python", "everything_arrives_by_both_protocols_and_is_what_was_counted")
    else {
        return;
    };
    for protocol in ["grpc", "http"] {
        let mut collector = Collector::start(&python, protocol, 0, &[]);
        let pusher = Pusher::start(&target(&url(&collector), protocol)).unwrap();
        let (mut state, truth) = sample::state(3);
        let sent = requests(&mut state, Histograms::Explicit);
        sent.iter().for_each(|request| pusher.put(request));
        let delivery = pusher.finish(Duration::from_secs(20));
        assert_eq!((delivery.dropped_in_all(), delivery.trouble), (0, None), "{protocol}");
        let report = collector.report();
        assert_eq!(report["broken"], 0, "{protocol}");
        for signal in Signal::ALL {
            assert_eq!(delivery.sent[&signal], items(&sent, signal), "{protocol} {signal:?}");
            assert_eq!(report["items"][signal.name()], items(&sent, signal), "{protocol} {signal:?}");
        }
        assert_eq!(report["headers"]["x-tenant"], "blue team", "{protocol}");
        let durations = points(&report, "gpuwhy.call.duration", "histogram");
        assert_eq!(sum(&durations, "count"), truth.calls as f64);
        assert!((sum(&durations, "sum") - truth.sum_ns as f64 / 1e9).abs() < 1e-6);
        assert_eq!(sum(&points(&report, "gpuwhy.calls", "sum"), "asInt"), truth.calls as f64);
        assert_eq!(report["items"]["traces"], truth.slow);
        let span = &report["requests"]["traces"][0]["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
        let attribute = |key: &str| {
            let pairs = span["attributes"].as_array().unwrap();
            pairs.iter().find(|pair| pair["key"] == key).map(|pair| pair["value"].clone()).unwrap_or_default()
        };
        assert_eq!(attribute("gpuwhy.cause")["stringValue"], "cpu.preempted");
        assert_eq!(attribute("gpuwhy.cause.lock.futex")["doubleValue"], 0.002);
        assert!(
            attribute("code.stacktrace")["stringValue"]
                .as_str()
                .unwrap()
                .contains("forward (/job/train.py:142)")
        );
        let log = &report["requests"]["logs"][0]["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0];
        assert_eq!((&log["severityText"], &log["eventName"]), (&"high".into(), &"gpuwhy.finding".into()));
    }
}

#[test]
fn exponential_histograms_have_the_same_counts() {
    let Some(python) = reader("python", "exponential_histograms_have_the_same_counts") else { return };
    let mut collector = Collector::start(&python, "http", 0, &[]);
    let pusher = Pusher::start(&target(&url(&collector), "http")).unwrap();
    let (mut state, truth) = sample::state(2);
    requests(&mut state, Histograms::Exponential).iter().for_each(|request| pusher.put(request));
    pusher.finish(Duration::from_secs(20));
    let durations = points(&collector.report(), "gpuwhy.call.duration", "exponentialHistogram");
    assert_eq!(sum(&durations, "count"), truth.calls as f64);
    for point in &durations {
        let counts = point["positive"]["bucketCounts"].as_array().unwrap();
        let in_buckets: u64 =
            counts.iter().map(|count| count.as_str().unwrap().parse::<u64>().unwrap()).sum();
        assert_eq!(point["count"], in_buckets.to_string());
        assert_eq!(point["scale"], 3);
    }
}

#[test]
fn what_a_server_cannot_take_now_is_sent_again_when_it_said() {
    let Some(python) = reader("python", "what_a_server_cannot_take_now_is_sent_again_when_it_said") else {
        return;
    };
    for (protocol, status) in
        [("http", "503"), ("http", "429"), ("grpc", "UNAVAILABLE"), ("grpc", "RESOURCE_EXHAUSTED")]
    {
        let mut collector = Collector::start(&python, protocol, 0, &[]);
        collector.emit(&format!("fail {status} 1"));
        let pusher = Pusher::start(&target(&url(&collector), protocol)).unwrap();
        let (mut state, _) = sample::state(1);
        let sent = requests(&mut state, Histograms::Explicit);
        sent.iter().for_each(|request| pusher.put(request));
        until("it was sent again", || (pusher.delivery().now().retries >= 1).then_some(()));
        collector.emit("ok");
        let all: u64 = sent.iter().map(Request::items).sum();
        until("all has arrived", || {
            (pusher.delivery().now().sent.values().sum::<u64>() == all).then_some(())
        });
        let report = collector.report();
        let times: Vec<f64> =
            report["times"].as_array().unwrap().iter().map(|time| time.as_f64().unwrap()).collect();
        assert!(
            times[1] - times[0] >= 0.95,
            "{protocol} {status}: it came back after {}",
            times[1] - times[0]
        );
        let delivery = pusher.finish(Duration::from_secs(5));
        assert_eq!(delivery.dropped_in_all(), 0, "{protocol} {status}");
    }
}

#[test]
fn what_a_server_refuses_is_not_sent_again_and_counted() {
    let Some(python) = reader("python", "what_a_server_refuses_is_not_sent_again_and_counted") else {
        return;
    };
    for (protocol, status) in [("http", "400"), ("grpc", "INVALID_ARGUMENT"), ("grpc", "RESOURCE_EXHAUSTED")]
    {
        let mut collector = Collector::start(&python, protocol, 0, &[]);
        collector.emit(&format!("fail {status}"));
        let pusher = Pusher::start(&target(&url(&collector), protocol)).unwrap();
        let (mut state, _) = sample::state(1);
        let sent = requests(&mut state, Histograms::Explicit);
        sent.iter().for_each(|request| pusher.put(request));
        let delivery = pusher.finish(Duration::from_secs(20));
        for signal in Signal::ALL {
            let refused = delivery.dropped[&(signal, GivenUp::Refused)];
            assert_eq!(refused, items(&sent, signal), "{protocol} {status} {signal:?}");
        }
        assert_eq!((delivery.retries, collector.report()["asked"].as_u64()), (0, Some(sent.len() as u64)));
    }
}

/// As Prometheus, which has an address for metrics alone.
#[test]
fn a_server_that_does_not_know_a_kind_of_data_is_asked_once() {
    let Some(python) = reader("python", "a_server_that_does_not_know_a_kind_of_data_is_asked_once") else {
        return;
    };
    for (protocol, status) in [("http", "404"), ("grpc", "UNIMPLEMENTED")] {
        let mut collector = Collector::start(&python, protocol, 0, &[]);
        collector.emit(&format!("fail {status}"));
        let pusher = Pusher::start(&target(&url(&collector), protocol)).unwrap();
        let (mut state, _) = sample::state(1);
        let metrics: Vec<Request> = requests(&mut state, Histograms::Explicit);
        for request in metrics.iter().chain(&metrics).chain(&metrics) {
            pusher.put(request);
        }
        let delivery = pusher.finish(Duration::from_secs(20));
        assert_eq!(collector.report()["asked"], 3, "{protocol}: once for each kind");
        let all: u64 = metrics.iter().map(Request::items).sum();
        assert_eq!(delivery.dropped_in_all(), 3 * all);
        assert_eq!(delivery.trouble, None, "{protocol}: what others take is no trouble here");
        assert!(delivery.not_taken.keys().eq(&Signal::ALL), "{protocol}: {delivery:?}");
        assert!(delivery.message().contains("; the server takes no metrics and no logs and no traces ("));
    }
}

#[test]
fn a_partial_success_is_counted_as_such() {
    let Some(python) = reader("python", "a_partial_success_is_counted_as_such") else { return };
    let mut collector = Collector::start(&python, "grpc", 0, &[]);
    collector.emit("partial 2");
    let pusher = Pusher::start(&target(&url(&collector), "grpc")).unwrap();
    let (state, _) = sample::state(1);
    let request = otlp::metrics(&state, &resource(), Histograms::Explicit).remove(0);
    pusher.put(&request);
    let delivery = pusher.finish(Duration::from_secs(20));
    assert_eq!(delivery.sent[&Signal::Metrics], request.items() - 2);
    assert_eq!(delivery.dropped[&(Signal::Metrics, GivenUp::Rejected)], 2);
}

/// Nothing up to the queue's size is lost, what is beyond is counted, and what arrives is the newest.
#[test]
fn a_dead_server_that_comes_back_gets_all_that_the_queue_held() {
    let Some(python) = reader("python", "a_dead_server_that_comes_back_gets_all_that_the_queue_held") else {
        return;
    };
    for protocol in ["grpc", "http"] {
        // A port on which nobody is.
        let port = Collector::start(&python, protocol, 0, &[]).port;
        let (state, _) = sample::state(1);
        let request = otlp::metrics(&state, &resource(), Histograms::Explicit).remove(0);
        let size = request.encode().len();
        let pusher =
            Pusher::with_room(&target(&format!("http://127.0.0.1:{port}"), protocol), 3 * size).unwrap();
        pusher.put(&request);
        // It is on its way, not in the queue.
        until("the first has failed", || pusher.delivery().now().trouble);
        for _ in 0..7 {
            pusher.put(&request);
        }
        let now = pusher.delivery().now();
        assert_eq!(now.dropped[&(Signal::Metrics, GivenUp::Queue)], 4 * request.items(), "{protocol}");
        assert_eq!(now.queued_bytes, 3 * size as u64, "{protocol}");
        let mut collector = Collector::start(&python, protocol, port, &[]);
        let arrived = 4 * request.items();
        until("the rest has arrived", || {
            (pusher.delivery().now().sent.get(&Signal::Metrics) == Some(&arrived)).then_some(())
        });
        assert_eq!(collector.report()["items"]["metrics"], arrived, "{protocol}");
        let delivery = pusher.finish(Duration::from_secs(1));
        assert_eq!(delivery.dropped_in_all(), 4 * request.items(), "{protocol}: nothing else was lost");
    }
}

#[test]
fn a_slow_or_dead_server_does_not_hold_up_the_end() {
    let Some(python) = reader("python", "a_slow_or_dead_server_does_not_hold_up_the_end") else { return };
    let (state, _) = sample::state(1);
    let request = otlp::metrics(&state, &resource(), Histograms::Explicit).remove(0);
    for (protocol, behaviour) in [("grpc", "slow 30"), ("http", "slow 30"), ("http", "fail 503 60")] {
        let mut collector = Collector::start(&python, protocol, 0, &[]);
        collector.emit(behaviour);
        let pusher = Pusher::start(&target(&url(&collector), protocol)).unwrap();
        let began = Instant::now();
        for _ in 0..100 {
            pusher.put(&request);
        }
        assert!(began.elapsed() < Duration::from_secs(1), "putting waits for nobody");
        until("it was asked", || (collector.port > 0).then_some(()));
        let began = Instant::now();
        let delivery = pusher.finish(Duration::from_millis(500));
        assert!(began.elapsed() < Duration::from_secs(2), "{protocol} {behaviour}: {:?}", began.elapsed());
        let given_up = delivery.dropped[&(Signal::Metrics, GivenUp::End)];
        assert_eq!(given_up, 100 * request.items(), "{protocol} {behaviour}");
    }
}

#[test]
fn tls_is_for_the_named_certificate_only() {
    let test = "tls_is_for_the_named_certificate_only";
    let Some(python) = reader("python", test) else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (certificate, key) = (file("cert.pem"), file("key.pem"));
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ])
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout", &key, "-out", &certificate])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for protocol in ["grpc", "http"] {
        let collector = Collector::start(&python, protocol, 0, &["--tls", &certificate, &key]);
        let url = format!("https://localhost:{}", collector.port);
        let (state, _) = sample::state(1);
        let request = otlp::metrics(&state, &resource(), Histograms::Explicit).remove(0);
        let trusted = Target { certificate: Some(certificate.clone().into()), ..target(&url, protocol) };
        let pusher = Pusher::start(&trusted).unwrap();
        pusher.put(&request);
        let delivery = pusher.finish(Duration::from_secs(20));
        assert_eq!(delivery.sent.get(&Signal::Metrics), Some(&request.items()), "{protocol}: {delivery:?}");
        // Nobody vouches for it otherwise.
        let pusher = Pusher::start(&target(&url, protocol)).unwrap();
        pusher.put(&request);
        until("it has failed", || pusher.delivery().now().trouble);
        let delivery = pusher.finish(Duration::from_millis(300));
        assert!(delivery.sent.is_empty(), "{protocol}");
        assert!(delivery.trouble.unwrap().contains("certificate"), "{protocol}");
    }
    let wrong = Target { certificate: Some(key.into()), ..target("https://localhost:1", "http") };
    assert!(Pusher::start(&wrong).unwrap_err().contains("no certificate"));
}
