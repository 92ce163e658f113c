//! A real Prometheus 3 takes what a trace pushes: under the names of the page, with the sums of the file, without a
//! complaint. Where the one at hand is built without its OTLP receiver (Debian's is), `GPUWHY_PROMETHEUS` names another.

use crate::metrics::{assert_near, by_op};
use crate::support::{Ended, Trace, alone, can_trace, gpuwhy, simwork, unavailable, wait_until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};

const OTLP_RECEIVER: &str = "--web.enable-otlp-receiver";

struct Prometheus {
    _child: Ended,
    address: SocketAddr,
    folder: tempfile::TempDir,
}

impl Prometheus {
    /// Nothing, and a skip that is told, where there is none with the receiver.
    fn start(test: &str, flags: &[&str]) -> Option<Prometheus> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/telemetry.sh");
        let fetched = Command::new(script).stderr(Stdio::inherit()).output().unwrap();
        let fetched = String::from_utf8(fetched.stdout).unwrap();
        let Some(program) = fetched.lines().find_map(|line| line.strip_prefix("prometheus ")) else {
            unavailable(test, "scripts/telemetry.sh could not fetch prometheus");
            return None;
        };
        let help = Command::new(program).arg("--help").output().unwrap().stdout;
        if !String::from_utf8_lossy(&help).contains(&OTLP_RECEIVER[2..]) {
            unavailable(
                test,
                "this Prometheus is built without its OTLP receiver; GPUWHY_PROMETHEUS can name another",
            );
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        std::fs::write(file("prometheus.yml"), "scrape_configs: []\n").unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let child = Command::new(program)
            .arg(format!("--config.file={}", file("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", file("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .arg("--enable-feature=native-histograms,exemplar-storage")
            .args(flags)
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(file("log")).unwrap())
            .spawn()
            .unwrap();
        let prometheus = Prometheus { _child: Ended(child), address, folder };
        wait_until("Prometheus is ready", || {
            prometheus.get("/-/ready").is_some_and(|answer| answer.contains(" 200 "))
        });
        Some(prometheus)
    }

    fn url(&self) -> String {
        format!("http://{}/api/v1/otlp", self.address)
    }

    fn get(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.address).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    fn ask(&self, path: &str, field: &str, query: &str) -> Value {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
        let letter = |byte: u8| match plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        };
        let query: String = query.bytes().map(letter).collect();
        let answer = self.get(&format!("/api/v1/{path}{field}={query}")).unwrap();
        let answer: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        assert_eq!(answer["status"], "success", "{answer}");
        answer["data"].clone()
    }

    fn by_op(&self, query: &str) -> BTreeMap<String, f64> {
        let answer = self.ask("query?", "query", query);
        let pair = |row: &Value| {
            let value = row["value"][1].as_str().unwrap().parse().unwrap();
            (row["metric"]["op"].as_str().unwrap().to_string(), value)
        };
        answer["result"].as_array().unwrap().iter().map(pair).collect()
    }

    fn complaints(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap();
        let bad = |line: &&str| line.contains("level=WARN") || line.contains("level=ERROR");
        log.lines().filter(bad).map(ToString::to_string).collect()
    }
}

/// What a trace that pushes said: on stdout, on stderr.
fn pushed(trace: &Trace, url: &str, steps: &str, variables: &[(&str, String)]) -> (String, String) {
    let output = gpuwhy()
        .args(["trace", "--budget", "100%", "--otlp", url, "--out"])
        .arg(trace.file())
        .arg("--")
        .arg(simwork())
        .args(["train", "--steps", steps, "--launches-per-step", "20", "--kernel-us", "500"])
        .env("OTEL_METRIC_EXPORT_INTERVAL", "500")
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .output()
        .unwrap();
    let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}", words(&output.stderr));
    (words(&output.stdout), words(&output.stderr))
}

#[test]
fn prometheus_3_has_the_sums_of_the_file_and_does_not_complain() {
    let test = "prometheus_3_has_the_sums_of_the_file_and_does_not_complain";
    if !can_trace(test) {
        return;
    }
    let _alone = alone();
    let Some(prometheus) = Prometheus::start(test, &[OTLP_RECEIVER]) else { return };
    for kind in ["explicit_bucket_histogram", "base2_exponential_bucket_histogram"] {
        let trace = Trace::new();
        let variables = [
            ("OTEL_RESOURCE_ATTRIBUTES", format!("service.instance.id={kind}")),
            ("OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION", kind.to_string()),
        ];
        let (message, reported) = pushed(&trace, &prometheus.url(), "300", &variables);
        let line = message.lines().find(|line| line.starts_with("OTLP:")).unwrap();
        assert!(!line.contains("points ("), "no point was given up: {line}");
        assert!(line.contains("; the server takes no ") && !line.contains("trouble"), "{line}");
        for signal in ["logs", "traces"] {
            assert!(reported.matches(&format!("it takes no {signal} ")).count() <= 1, "{reported}");
        }
        let last = |name: &str| format!("sum by (op) (last_over_time({name}{{instance=\"{kind}\"}}[1h]))");
        let (counts, seconds) = match kind {
            "explicit_bucket_histogram" => {
                (last("gpuwhy_call_duration_seconds_count"), last("gpuwhy_call_duration_seconds_sum"))
            }
            _ => {
                let native = last("gpuwhy_call_duration_seconds");
                (format!("histogram_count({native})"), format!("histogram_sum({native})"))
            }
        };
        let calls = by_op(&trace, "count");
        assert!(calls["cuLaunchKernel"] >= 6000.0, "{calls:?}");
        assert_near("calls", &prometheus.by_op(&last("gpuwhy_calls_total")), &calls, 1.0);
        assert_near("counts", &prometheus.by_op(&counts), &calls, 1.0);
        assert_near("seconds", &prometheus.by_op(&seconds), &by_op(&trace, "sum_ns"), 1e9);
        let name = if kind.starts_with("explicit") { "_bucket" } else { "" };
        let query = format!("gpuwhy_call_duration_seconds{name}{{instance=\"{kind}\"}}");
        let exemplars = prometheus.ask("query_exemplars?start=0&end=9999999999&", "query", &query);
        let at = exemplars[0]["exemplars"][0]["labels"]["timestamp_ns"].as_str().unwrap();
        assert_eq!(trace.number(&format!("SELECT count(*) > 0 FROM events WHERE timestamp_ns = {at}")), 1);
    }
    assert_eq!(prometheus.complaints(), [""; 0]);
}

#[test]
fn a_prometheus_whose_receiver_is_off_says_which_flag_it_wants() {
    let test = "a_prometheus_whose_receiver_is_off_says_which_flag_it_wants";
    if !can_trace(test) {
        return;
    }
    let _alone = alone();
    let Some(prometheus) = Prometheus::start(test, &[]) else { return };
    let trace = Trace::new();
    let (message, reported) = pushed(&trace, &prometheus.url(), "200", &[]);
    let line = reported.lines().find(|line| line.contains("it takes no metrics")).unwrap();
    assert!(line.contains(OTLP_RECEIVER), "{line}");
    assert!(message.contains("nothing sent") && message.contains("the server takes no metrics"), "{message}");
}
