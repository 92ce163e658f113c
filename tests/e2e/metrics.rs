//! The numbers of a real trace: the page and what is pushed have the sums of the file.

use crate::support::{
    Gated, Trace, alone, can_trace, done, gpuwhy, signal, simwork, unavailable, wait_until,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// OpenTelemetry's classes as a server, see `collector.py`.
struct Collector {
    child: Child,
    words: ChildStdin,
    lines: BufReader<ChildStdout>,
    port: String,
}

impl Collector {
    fn start(protocol: &str, test: &str) -> Option<Collector> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let fetched =
            Command::new(root.join("scripts/telemetry.sh")).stderr(Stdio::inherit()).output().unwrap();
        let fetched = String::from_utf8(fetched.stdout).unwrap();
        let Some(python) = fetched.lines().find_map(|line| line.strip_prefix("python ")) else {
            unavailable(test, "scripts/telemetry.sh could not fetch python");
            return None;
        };
        let mut child = Command::new(python)
            .arg(root.join("crates/metrics/tests/outside/collector.py"))
            .args([protocol, "0"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let words = child.stdin.take().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut port = String::new();
        lines.read_line(&mut port).unwrap();
        Some(Collector { child, words, lines, port: port.trim().into() })
    }

    fn report(&mut self) -> Value {
        writeln!(self.words, "report").unwrap();
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A trace that tells others, in the background.
struct MetricsTrace {
    child: Child,
    page: String,
}

impl MetricsTrace {
    fn start(file: &Path, pid: u32, otlp: &str, protocol: &str) -> MetricsTrace {
        let mut child = gpuwhy()
            .args([
                "trace",
                "--prometheus",
                "127.0.0.1:0",
                "--otlp",
                otlp,
                "--pid",
                &pid.to_string(),
                "--out",
            ])
            .arg(file)
            .env("OTEL_METRIC_EXPORT_INTERVAL", "500")
            // The port says nothing of the protocol here.
            .env("OTEL_EXPORTER_OTLP_PROTOCOL", if protocol == "grpc" { "grpc" } else { "http/protobuf" })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let page = lines.find_map(|line| {
            Some(line.unwrap().split_once("http://")?.1.strip_suffix("/metrics")?.to_string())
        });
        // Until it traces.
        lines.find(|line| line.as_ref().unwrap().contains("tracing into")).unwrap().unwrap();
        std::thread::spawn(move || lines.for_each(drop));
        MetricsTrace { child, page: page.unwrap() }
    }

    /// The samples of a metric, by operation.
    fn samples(&self, name: &str) -> BTreeMap<String, f64> {
        let mut stream = TcpStream::connect(&self.page).unwrap();
        write!(stream, "GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let mut sums = BTreeMap::new();
        for line in text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{')) {
            let (labels, value) = line.rsplit_once("} ").unwrap();
            let op = labels.split("op=\"").nth(1).map_or("", |rest| rest.split('"').next().unwrap());
            *sums.entry(op.to_string()).or_insert(0.0) += value.parse::<f64>().unwrap();
        }
        sums
    }

    fn stop(mut self) -> String {
        signal(self.child.id(), "INT");
        let mut message = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut message).unwrap();
        assert!(self.child.wait().unwrap().success(), "{message}");
        message
    }
}

pub(crate) fn by_op(trace: &Trace, column: &str) -> BTreeMap<String, f64> {
    let db = trace.db();
    let mut statement = db.prepare(&format!("SELECT op, sum({column}) FROM call_stats GROUP BY op")).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as f64))).unwrap();
    rows.map(Result::unwrap).collect()
}

/// The last point of each operation that a server has.
fn pushed(report: &Value, name: &str, kind: &str, field: &str) -> BTreeMap<String, f64> {
    let mut last = BTreeMap::new();
    for request in report["requests"]["metrics"].as_array().unwrap() {
        for metric in request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap() {
            for point in
                metric[kind]["dataPoints"].as_array().into_iter().flatten().filter(|_| metric["name"] == name)
            {
                let pairs = point["attributes"].as_array().unwrap();
                let op = pairs.iter().find(|pair| pair["key"] == "op").unwrap();
                let value = &point[field];
                let value = value.as_f64().or_else(|| value.as_str()?.parse().ok()).unwrap();
                last.insert(op["value"]["stringValue"].as_str().unwrap().to_string(), value);
            }
        }
    }
    last
}

pub(crate) fn assert_near(
    what: &str,
    left: &BTreeMap<String, f64>,
    right: &BTreeMap<String, f64>,
    scale: f64,
) {
    assert!(left.keys().eq(right.keys()), "{what}: {left:?} {right:?}");
    for (op, value) in left {
        assert!((value - right[op] / scale).abs() < 1e-6, "{what} of {op}: {value} {}", right[op]);
    }
}

#[test]
fn the_page_and_what_is_pushed_have_the_sums_of_the_file() {
    let test = "the_page_and_what_is_pushed_have_the_sums_of_the_file";
    if !can_trace(test) {
        return;
    }
    let _alone = alone();
    for protocol in ["grpc", "http"] {
        let Some(mut collector) = Collector::start(protocol, test) else { return };
        let otlp = format!("http://127.0.0.1:{}", collector.port);
        let words = ["train", "--steps", "200", "--launches-per-step", "20", "--kernel-us", "500"];
        let workload = Gated::start(&simwork(), &words);
        let trace = Trace::new();
        let metrics_trace = MetricsTrace::start(&trace.file(), workload.pid(), &otlp, protocol);
        let truth = workload.finish();
        let launches = truth["ops"]["cuLaunchKernel"].as_f64().unwrap_or(4000.0);
        wait_until("the page has all launches", || {
            metrics_trace.samples("gpuwhy_calls_total").values().sum::<f64>() >= launches
        });
        // The last windows come within a second or so: nothing changes any more then.
        wait_until("the page has come to rest", || {
            let before = metrics_trace.samples("gpuwhy_calls_total");
            std::thread::sleep(std::time::Duration::from_millis(1500));
            before == metrics_trace.samples("gpuwhy_calls_total")
        });
        let (calls, sums) = (
            metrics_trace.samples("gpuwhy_calls_total"),
            metrics_trace.samples("gpuwhy_call_duration_seconds_sum"),
        );
        let message = metrics_trace.stop();
        assert!(message.contains("points sent") || message.contains("points,"), "{message}");
        let line = message.lines().find(|line| line.starts_with("OTLP:")).unwrap();
        assert!(line.contains("nothing dropped"), "{line}");
        assert_near("calls on the page", &calls, &by_op(&trace, "count"), 1.0);
        assert_near("seconds on the page", &sums, &by_op(&trace, "sum_ns"), 1e9);
        let report = collector.report();
        assert_eq!(report["broken"], 0);
        assert_near(
            "calls pushed",
            &pushed(&report, "gpuwhy.calls", "sum", "asInt"),
            &by_op(&trace, "count"),
            1.0,
        );
        let seconds = pushed(&report, "gpuwhy.call.duration", "histogram", "sum");
        assert_near("seconds pushed", &seconds, &by_op(&trace, "sum_ns"), 1e9);
    }
}

#[test]
fn a_server_that_is_not_there_is_told_and_costs_nothing_but_a_line() {
    if !can_trace("a_server_that_is_not_there_is_told_and_costs_nothing_but_a_line") {
        return;
    }
    let _alone = alone();
    let trace = Trace::new();
    let output = gpuwhy()
        .args(["trace", "--otlp", "http://127.0.0.1:9", "--out"])
        .arg(trace.file())
        .arg("--")
        .arg(simwork())
        .args(["launch", "--launches", "1000", "--via", "driver"])
        .env("OTEL_METRIC_EXPORT_INTERVAL", "100")
        .output()
        .unwrap();
    let message = done(output);
    let line = message.lines().find(|line| line.starts_with("OTLP:")).unwrap();
    assert!(line.contains("nothing sent") && line.contains("(end)") && line.contains("refused"), "{line}");
    assert_eq!(trace.count_of("cuLaunchKernel"), 1000);
}

/// Recordings of real runs, through the same conversion as live ones.
#[test]
fn a_trace_file_as_otlp_has_its_sums_findings_and_slow_calls() {
    for scenario in ["cpu-hog", "h200-item"] {
        let trace = Trace::new();
        done(gpuwhy().args(["demo", scenario, "--replay", "--out"]).arg(trace.file()).output().unwrap());
        let reader = gpuwhy_store::Reader::open(&trace.file()).unwrap();
        let mut out = Vec::new();
        gpuwhy_metrics::otlp_of(&reader, None, &mut out, &|_| true).unwrap();
        let lines = String::from_utf8(out).unwrap();
        let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let of =
            |kind: &str| lines.iter().filter(|line| !line[kind].is_null()).cloned().collect::<Vec<Value>>();
        let report = serde_json::json!({"requests": {"metrics": of("resourceMetrics")}});
        let calls = pushed(&report, "gpuwhy.calls", "sum", "asInt");
        assert_near(scenario, &calls, &by_op(&trace, "count"), 1.0);
        let findings = of("resourceLogs")[0]["resourceLogs"][0]["scopeLogs"][0]["logRecords"].clone();
        let explained = done(gpuwhy().args(["explain", "--json"]).arg(trace.file()).output().unwrap());
        let explained: Value = serde_json::from_str(&explained).unwrap();
        let titles = |list: &Value, field: fn(&Value) -> &Value| {
            list.as_array().unwrap().iter().map(|one| field(one).clone()).collect::<Vec<Value>>()
        };
        assert_eq!(
            titles(&findings, |finding| &finding["body"]["stringValue"]),
            titles(&explained["findings"], |finding| &finding["title"]),
            "{scenario}"
        );
        let spans: usize = of("resourceSpans")
            .iter()
            .map(|line| line["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().len())
            .sum();
        let slow = "SELECT (SELECT count(*) FROM calls WHERE kept IN (1, 2)) \
                    + (SELECT count(*) FROM nccl_events WHERE kept IN ('slow', 'error'))";
        assert_eq!(spans as i64, trace.number(slow), "{scenario}");
    }
}
