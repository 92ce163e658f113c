//! The page as promtool, the Python client and a real Prometheus 3 read it.

use crate::readers::{done, fed, reader, until};
use crate::sample;
use gpuwhy_metrics::otlp::{self, Resource};
use gpuwhy_metrics::{Format, METRICS, Pusher, Server, Shared, Target};
use gpuwhy_testkit::{skip, unavailable};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[test]
fn promtool_accepts_the_page() {
    let Some(promtool) = reader("promtool", "promtool_accepts_the_page") else { return };
    let (state, _) = sample::state(2);
    let page = Format::Text.page(&state);
    done(fed(Command::new(promtool).args(["check", "metrics"]), &page));
}

/// The reference parser is strict: names, units, exemplars, the end.
#[test]
fn the_openmetrics_page_is_read_by_the_reference_parser() {
    let Some(python) = reader("python", "the_openmetrics_page_is_read_by_the_reference_parser") else {
        return;
    };
    let (state, truth) = sample::state(2);
    let script = "
import sys, json
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
samples = [s for f in parse(sys.stdin.read()) for s in f.samples]
names = lambda name: [s for s in samples if s.name == name]
exemplars = [s.exemplar for s in samples if s.exemplar]
print(json.dumps({
    'calls': sum(s.value for s in names('gpuwhy_calls_total')),
    'count': sum(s.value for s in names('gpuwhy_call_duration_seconds_count')),
    'sum': sum(s.value for s in names('gpuwhy_call_duration_seconds_sum')),
    'processes': sorted({s.labels['process'] for s in names('gpuwhy_calls_total')}),
    'held': [s.value for s in names('gpuwhy_gpu_clocks_held')],
    'exemplars': len(exemplars), 'exemplar': exemplars[0].labels,
}))";
    let output = fed(Command::new(python).args(["-c", script]), &Format::OpenMetrics.page(&state));
    let read: Value = serde_json::from_str(&done(output)).unwrap();
    let calls = Some(truth.calls as f64);
    assert_eq!((read["calls"].as_f64(), read["count"].as_f64()), (calls, calls));
    assert!((read["sum"].as_f64().unwrap() - truth.sum_ns as f64 / 1e9).abs() < 1e-6);
    // The newline of the hostile name was made harmless before it became a label.
    let hostile = "evil\"} 1\u{fffd}x{a=\"\\";
    assert_eq!(read["processes"], serde_json::json!([hostile, "python3"]));
    assert_eq!(read["held"], serde_json::json!([1]), "of the second sample");
    assert!(read["exemplars"].as_u64().unwrap() > 0);
    assert_eq!(read["exemplar"]["stack_id"], "77");
    assert_eq!(read["exemplar"]["trace_id"].as_str().unwrap().len(), 32);
}

/// The rules by which OpenTelemetry names what Prometheus is to scrape, but for shares, which Prometheus calls ratios.
#[test]
fn the_page_has_the_names_that_otlp_gets_in_prometheus() {
    let Some(python) = reader("python", "the_page_has_the_names_that_otlp_gets_in_prometheus") else {
        return;
    };
    let script = "
import sys
from opentelemetry.exporter.prometheus._mapping import map_unit, sanitize_full_name
for line in sys.stdin:
    name, unit, kind = line.split()
    unit = 'ratio' if unit == '1' and kind == 'gauge' else map_unit(unit)
    print('_'.join(filter(None, [sanitize_full_name(name), unit, 'total' if kind == 'counter' else ''])))";
    let rows = METRICS
        .iter()
        .map(|metric| format!("{} {} {}\n", metric.name, metric.unit.code(), metric.kind.name()));
    let named = done(fed(Command::new(python).args(["-c", script]), rows.collect::<String>().as_bytes()));
    let ours: Vec<String> = METRICS.iter().map(gpuwhy_metrics::Metric::prometheus_name).collect();
    assert_eq!(named.lines().collect::<Vec<_>>(), ours);
}

/// Another user's connections, each of which says nothing.
const SILENT: &str =
    "for i in $(seq 100); do exec {fd}<>/dev/tcp/127.0.0.1/$1; done 2>/dev/null; echo ready; exec sleep 600";

#[test]
fn connections_of_another_user_leave_room_for_scrapers() {
    let test = "connections_of_another_user_leave_room_for_scrapers";
    let shared: Shared = Arc::new(Mutex::new(Some(sample::state(2).0)));
    let server = Server::start("127.0.0.1:0", shared).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "bash", "-c", SILENT, "bash"]);
    command.arg(server.address().port().to_string()).stdout(Stdio::piped()).stderr(Stdio::null());
    let Ok(mut attack) = command.spawn() else { return skip(test, "there is no setpriv") };
    let mut ready = [0; 5];
    let is_ready = attack.stdout.take().unwrap().read_exact(&mut ready).is_ok();
    let mut reply = String::new();
    let asked = TcpStream::connect(server.address()).and_then(|mut stream| {
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
        stream.read_to_string(&mut reply)
    });
    attack.kill().unwrap();
    attack.wait().unwrap();
    if !is_ready {
        return skip(test, "only root can become another user");
    }
    asked.unwrap();
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
}

const OTLP_RECEIVER: &str = "--web.enable-otlp-receiver";

/// A real Prometheus 3 beside us.
struct Prometheus {
    child: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Prometheus {
    fn start(program: &Path, scraped: SocketAddr, more: &[&str]) -> Prometheus {
        let folder = tempfile::tempdir().unwrap();
        let job = |name: &str, protocol: &str, more: &str| {
            format!(
                "- job_name: {name}\n  scrape_interval: 500ms\n  scrape_timeout: 500ms\n  \
                 scrape_protocols: [{protocol}]\n{more}  static_configs: [{{targets: ['{scraped}']}}]\n"
            )
        };
        let config = format!(
            "scrape_configs:\n{}{}{}",
            job("native", "PrometheusProto", "  always_scrape_classic_histograms: true\n"),
            job("openmetrics", "OpenMetricsText1.0.0", ""),
            job("text", "PrometheusText0.0.4", ""),
        );
        std::fs::write(folder.path().join("prometheus.yml"), config).unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let child = Command::new(program)
            .arg(format!("--config.file={}", folder.path().join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={free}"))
            .args(["--enable-feature=native-histograms,exemplar-storage", "--log.level=error"])
            .args(more)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let prometheus = Prometheus { child, address: free, _folder: folder };
        until("Prometheus is ready", || {
            get(free, "/-/ready", "*/*").filter(|answer| answer.contains(" 200 "))
        });
        prometheus
    }

    fn ask(&self, path: &str) -> Option<Value> {
        let answer = get(self.address, path, "application/json")?;
        serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
    }

    /// The value of a query that gives one.
    fn value(&self, query: &str) -> Option<f64> {
        let answer = self.ask(&format!("/api/v1/query?query={}", escaped(query)))?;
        answer["data"]["result"][0]["value"][1].as_str()?.parse().ok()
    }

    fn until(&self, query: &str, expected: f64) {
        let near = |value: f64| (value - expected).abs() <= expected.abs() * 1e-9 + 1e-6;
        until(&format!("{query} is {expected}, not {:?}", self.value(query)), || {
            self.value(query).filter(|value| near(*value))
        });
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn escaped(query: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    query
        .bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// The whole answer, head and body.
fn get(address: SocketAddr, path: &str, accept: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\nAccept: {accept}\r\n\r\n").ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    Some(String::from_utf8_lossy(&answer).into_owned())
}

fn served(seconds: u64) -> (Server, Shared, sample::Truth) {
    let (state, truth) = sample::state(seconds);
    let shared: Shared = Arc::new(Mutex::new(Some(state)));
    let server = Server::start("127.0.0.1:0", Arc::clone(&shared)).unwrap();
    (server, shared, truth)
}

#[test]
fn prometheus_3_scrapes_native_histograms_and_exemplars() {
    let test = "prometheus_3_scrapes_native_histograms_and_exemplars";
    let Some(program) = reader("prometheus", test) else { return };
    let (server, _, truth) = served(2);
    let prometheus = Prometheus::start(&program, server.address(), &[]);
    let (calls, seconds) = (truth.calls as f64, truth.sum_ns as f64 / 1e9);
    for job in ["native", "openmetrics", "text"] {
        prometheus.until(&format!("sum(gpuwhy_calls_total{{job=\"{job}\"}})"), calls);
        prometheus.until(&format!("sum(gpuwhy_call_duration_seconds_sum{{job=\"{job}\"}})"), seconds);
        let inf = format!("sum(gpuwhy_call_duration_seconds_bucket{{job=\"{job}\",le=\"+Inf\"}})");
        prometheus.until(&inf, calls);
    }
    // A native histogram is a value by itself, without `_count`.
    prometheus.until("histogram_count(sum(gpuwhy_call_duration_seconds{job=\"native\"}))", calls);
    prometheus.until("histogram_sum(sum(gpuwhy_call_duration_seconds{job=\"native\"}))", seconds);
    // The two kinds agree on the share below a bound, to within the rounding of native buckets.
    let share = "histogram_fraction(0, 0.001, sum(gpuwhy_call_duration_seconds{job=\"native\"}))";
    prometheus.until(share, 0.98);
    let path = "/api/v1/query_exemplars?query=gpuwhy_call_duration_seconds_bucket&start=0&end=4000000000";
    let exemplar = until("Prometheus has exemplars", || {
        let answer = prometheus.ask(path)?;
        Some(answer["data"][0]["exemplars"][0].clone()).filter(|exemplar| !exemplar.is_null())
    });
    assert_eq!(exemplar["labels"]["stack_id"], "77");
    assert!(exemplar["labels"]["timestamp_ns"].as_str().unwrap().starts_with("18000000"));
}

/// Debian builds its Prometheus without the receiver: then the names are checked by OpenTelemetry's own rules below.
#[test]
fn prometheus_3_takes_otlp_under_the_names_of_the_page() {
    let test = "prometheus_3_takes_otlp_under_the_names_of_the_page";
    let Some(program) = reader("prometheus", test) else { return };
    let help = Command::new(&program).arg("--help").output().unwrap().stdout;
    if !String::from_utf8_lossy(&help).contains(OTLP_RECEIVER) {
        return unavailable(
            test,
            "Debian's Prometheus is built without its OTLP receiver; GPUWHY_PROMETHEUS can name another",
        );
    }
    let (server, shared, truth) = served(2);
    let prometheus = Prometheus::start(&program, server.address(), &[OTLP_RECEIVER]);
    let calls = truth.calls as f64;
    prometheus.until("sum(gpuwhy_calls_total{job=\"text\"})", calls);
    let target = |aggregation: Option<&'static str>| {
        Target::parse(&format!("http://{}/api/v1/otlp", prometheus.address), move |name| {
            aggregation.filter(|_| name.ends_with("HISTOGRAM_AGGREGATION")).map(Into::into)
        })
        .unwrap()
    };
    for (job, target) in
        [("explicit", target(None)), ("exponential", target(Some("base2_exponential_bucket_histogram")))]
    {
        let pusher = Pusher::start(&target).unwrap();
        let resource = Resource::new("node7", &[("service.name".into(), job.into())]);
        // Prometheus takes no points of the future or of long ago.
        let now =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
        let mut requests =
            otlp::metrics(shared.lock().unwrap().as_ref().unwrap(), &resource, target.histograms);
        requests.iter_mut().for_each(|request| date(request, now));
        requests.iter().for_each(|request| pusher.put(request));
        let delivery = pusher.finish(Duration::from_secs(20));
        assert_eq!(delivery.dropped_in_all(), 0, "{job}: {delivery:?}");
    }
    prometheus.until("sum(gpuwhy_calls_total{job=\"explicit\"})", calls);
    prometheus.until("sum(gpuwhy_call_duration_seconds_count{job=\"explicit\"})", calls);
    prometheus.until("histogram_count(sum(gpuwhy_call_duration_seconds{job=\"exponential\"}))", calls);
    let query = escaped("{__name__=~\"gpuwhy_call_duration_seconds(_bucket)?\",job=~\"ex.*\"}");
    let path = format!("/api/v1/query_exemplars?query={query}&start=0&end=4000000000");
    let exemplars = prometheus.ask(&path).unwrap();
    assert_eq!(exemplars["data"][0]["exemplars"][0]["labels"]["stack_id"], "77", "{exemplars}");
    // Each name that came by OTLP is one of the page, and the other way round.
    let names = |job: &str| {
        let matcher = escaped(&format!("{{job=\"{job}\",__name__=~\"gpuwhy_.*\"}}"));
        let answer = prometheus.ask(&format!("/api/v1/label/__name__/values?match[]={matcher}")).unwrap();
        let names: Vec<String> = serde_json::from_value(answer["data"].clone()).unwrap();
        names
    };
    assert_eq!(names("text"), names("explicit"));
    let known: Vec<String> = METRICS.iter().map(gpuwhy_metrics::Metric::prometheus_name).collect();
    let base = |name: &str| {
        let ends = ["_bucket", "_sum", "_count"];
        ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name).to_string()
    };
    assert!(names("text").iter().all(|name| known.contains(&base(name)) || known.contains(name)));
}

/// Every point as if it were of now.
fn date(request: &mut otlp::Request, now: u64) {
    use opentelemetry_proto::tonic::metrics::v1::Exemplar;
    use opentelemetry_proto::tonic::metrics::v1::metric::Data;
    let otlp::Request::Metrics(request) = request else { return };
    let earlier = |exemplar: &mut Exemplar| {
        exemplar.time_unix_nano = exemplar.time_unix_nano - sample::START_NS + now - 10_000_000_000;
    };
    let scopes = request.resource_metrics.iter_mut().flat_map(|resource| &mut resource.scope_metrics);
    for metric in scopes.flat_map(|scope| &mut scope.metrics) {
        match metric.data.as_mut().unwrap() {
            Data::Gauge(data) => data.data_points.iter_mut().for_each(|point| point.time_unix_nano = now),
            Data::Sum(data) => data.data_points.iter_mut().for_each(|point| {
                (point.start_time_unix_nano, point.time_unix_nano) = (now - 1_000_000_000, now);
            }),
            Data::Histogram(data) => data.data_points.iter_mut().for_each(|point| {
                (point.start_time_unix_nano, point.time_unix_nano) = (now - 1_000_000_000, now);
                point.exemplars.iter_mut().for_each(earlier);
            }),
            Data::ExponentialHistogram(data) => data.data_points.iter_mut().for_each(|point| {
                (point.start_time_unix_nano, point.time_unix_nano) = (now - 1_000_000_000, now);
                point.exemplars.iter_mut().for_each(earlier);
            }),
            Data::Summary(_) => {}
        }
    }
}

#[test]
fn there_is_a_page_and_nothing_else() {
    let (server, shared, _) = served(1);
    let head = |path: &str| get(server.address(), path, "*/*").unwrap().lines().next().unwrap().to_string();
    assert!(head("/metrics").ends_with("200 OK"));
    assert!(head("/-/healthy").ends_with("200 OK"));
    for path in ["/", "/metrics/", "/metrics/../etc/passwd", "/debug", "//metrics"] {
        assert!(head(path).contains("404"), "{path}");
    }
    let mut stream = TcpStream::connect(server.address()).unwrap();
    write!(stream, "POST /metrics HTTP/1.0\r\nContent-Length: 0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("405"), "{answer}");
    // What Prometheus names in its Accept is what it gets.
    let proto = Format::Protobuf.content_type().replace("; ", ";");
    assert!(get(server.address(), "/metrics", &proto).unwrap().contains(Format::Protobuf.content_type()));
    // Before the trace has begun there is nothing to show.
    *shared.lock().unwrap() = None;
    assert!(head("/metrics").contains("503"));
}

#[test]
fn a_crowd_does_not_keep_others_out_for_ever() {
    let (server, _, _) = served(1);
    let crowd: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
    // Those beyond the limit are closed at once: their end of the file comes.
    let closed = until("some are turned away", || {
        let closed = crowd.iter().filter(|stream| {
            stream.set_nonblocking(true).unwrap();
            matches!((&**stream).read(&mut [0; 1]), Ok(0))
        });
        Some(closed.count()).filter(|count| *count >= 80)
    });
    assert!(closed < 100);
    drop(crowd);
    until("there is room again", || {
        get(server.address(), "/metrics", "*/*").filter(|answer| answer.contains("200 OK"))
    });
}

#[test]
fn an_address_that_cannot_be_used_is_named() {
    let (server, shared, _) = served(1);
    let taken = server.address().to_string();
    for (address, message) in
        [(taken.as_str(), "nothing can listen on"), ("9464", "no address"), ("nonsense", "no address")]
    {
        let error = Server::start(address, Arc::clone(&shared)).unwrap_err().to_string();
        assert!(error.contains(message) && !error.contains('\n'), "{address}: {error}");
    }
    assert!(!server.is_open());
    assert!(Server::start("0.0.0.0:0", shared).unwrap().is_open());
}
