//! How fast points come in: from OTLP's bytes to rows on disk, against DuckDB's own appends of the same rows in the same run.
//! `cargo bench -p gpuwhy-fleet-core`; `POINTS=N` for another number of points.

// A benchmark that cannot go on has nothing to tell.
#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use gpuwhy_cohort::shares::Sharing;
use gpuwhy_fleet_core::ingest::{Format, Ingest, Signal};
use gpuwhy_fleet_core::peers::Peers;
use gpuwhy_fleet_core::store::{Filter, Stop, Store};
use gpuwhy_fleet_core::tally::Tally;
use gpuwhy_fleet_core::{DuckOptions, DuckStore, Event, Kind, Limits, Origin, Retention};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::{
    Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const RANKS: i64 = 8;
const CLASSES: [&str; 11] = [
    "cpu.preempted",
    "lock.futex",
    "python.gil",
    "io.block",
    "io.file",
    "net.wait",
    "gpu.wait",
    "mem.fault",
    "gpu.alloc",
    "copy.pcie",
    "unknown",
];
const METRICS: [&str; 9] = [
    "health",
    "step_seconds",
    "own_seconds",
    "launch_rate",
    "idle_ratio",
    "late_seconds",
    "clock_hertz",
    "errors",
    "lost_records",
];
/// Shares are counted as where there are several tenants.
const SHARING: Sharing = Sharing { tokens: true, clusters: true };
/// Of one push, as an agent with eight ranks sends it.
const POINTS: usize = RANKS as usize * (METRICS.len() + CLASSES.len());
/// Pushes on their way at a time.
const AT_ONCE: usize = 64;

fn main() {
    let wanted: usize = std::env::var("POINTS").ok().and_then(|text| text.parse().ok()).unwrap_or(3_000_000);
    let pushes = wanted / POINTS;
    let start_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let messages: Vec<Bytes> =
        (0..pushes).map(|push| request(push, start_ns, RANKS).encode_to_vec().into()).collect();
    let rows: Vec<Event> = (0..pushes).flat_map(|push| events(push, start_ns)).collect();
    println!("{pushes} pushes of {POINTS} points, {} bytes each", messages[0].len());

    // In turns, so that both meet the same machine.
    let rounds: Vec<(Rate, Rate)> = (0..3).map(|_| (bare(&rows), whole(&messages))).collect();
    for (bare, whole) in &rounds {
        println!(
            "bare appends {:>9.0} rows/s ({:>9.0} a core)   ingest {:>9.0} points/s ({:>9.0} a core)   ratio {:.2}",
            bare.wall,
            bare.core,
            whole.wall,
            whole.core,
            whole.wall / bare.wall
        );
    }
    let mut ratios: Vec<f64> = rounds.iter().map(|(bare, whole)| whole.wall / bare.wall).collect();
    let mut cores: Vec<f64> = rounds.iter().map(|(_, whole)| whole.core).collect();
    paced(&messages_of_agents(2_000, start_ns));
    asked();
    ratios.sort_by(f64::total_cmp);
    cores.sort_by(f64::total_cmp);
    println!(
        "median ratio {:.2} (at least 0.25), points a core {:.0} (at least 250000)",
        ratios[1], cores[1]
    );
}

struct Rate {
    /// By the clock.
    wall: f64,
    /// By the time CPUs spent on it, all of the process's threads.
    core: f64,
}

fn timed(count: usize, work: impl FnOnce()) -> Rate {
    let (began, spent) = (Instant::now(), cpu());
    work();
    let (wall, core) = (began.elapsed().as_secs_f64(), (cpu() - spent).as_secs_f64());
    Rate { wall: count as f64 / wall, core: count as f64 / core }
}

/// Of all threads, as the kernel counts it.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

fn opened(folder: &tempfile::TempDir) -> DuckStore {
    DuckStore::open(folder.path(), DuckOptions::default()).unwrap()
}

fn bare(rows: &[Event]) -> Rate {
    let folder = tempfile::tempdir_in(".").unwrap();
    let store = opened(&folder);
    timed(rows.len(), || rows.chunks(AT_ONCE * POINTS).for_each(|group| store.append_bare(group).unwrap()))
}

fn whole(messages: &[Bytes]) -> Rate {
    let folder = tempfile::tempdir_in(".").unwrap();
    let store: Arc<dyn Store> = Arc::new(opened(&folder));
    let (peers, tally) = (Arc::new(Peers::new(SHARING)), Arc::new(Tally::default()));
    let (limits, keep) = (Limits { sharing: SHARING, ..Limits::default() }, Retention::default());
    let ingest = Ingest::new(folder.path(), store, peers, tally.clone(), limits, keep).unwrap();
    let ingest = Arc::new(ingest);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
    let rate = timed(messages.len() * POINTS, || {
        runtime.block_on(async {
            let senders: Vec<_> = (0..AT_ONCE)
                .map(|sender| {
                    let ingest = ingest.clone();
                    let mine: Vec<Bytes> = messages.iter().skip(sender).step_by(AT_ONCE).cloned().collect();
                    tokio::spawn(async move {
                        for message in mine {
                            push(&ingest, message).await;
                        }
                    })
                })
                .collect();
            for sender in senders {
                sender.await.unwrap();
            }
        });
        // It ends when all that is in the journal is in the store.
        drop(ingest);
    });
    assert_eq!(tally.json()["rows"], messages.len() * POINTS);
    rate
}

/// As agents do: whoever is told to come again does.
async fn push(ingest: &Arc<Ingest>, message: Bytes) {
    while let Err(error) = ingest.push(Signal::Metrics, Format::Protobuf, message.clone(), |_| true).await {
        assert!(error.is_for_later(), "{error}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A push a second of each agent, for ten seconds: how long an answer takes.
fn paced(messages: &[Bytes]) {
    let folder = tempfile::tempdir_in(".").unwrap();
    let store: Arc<dyn Store> = Arc::new(opened(&folder));
    let (peers, tally) = (Arc::new(Peers::new(SHARING)), Arc::new(Tally::default()));
    let (limits, keep) = (Limits { sharing: SHARING, ..Limits::default() }, Retention::default());
    let ingest = Arc::new(Ingest::new(folder.path(), store, peers, tally, limits, keep).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
    let mut took: Vec<Duration> = runtime.block_on(async {
        let began = tokio::time::Instant::now();
        let pushes: Vec<_> = messages
            .iter()
            .cloned()
            .enumerate()
            .map(|(index, message)| {
                let ingest = ingest.clone();
                let due = began + Duration::from_secs_f64(index as f64 / 2_000.0);
                tokio::spawn(async move {
                    tokio::time::sleep_until(due).await;
                    push(&ingest, message).await;
                    due.elapsed()
                })
            })
            .collect();
        let mut took = Vec::new();
        for push in pushes {
            took.push(push.await.unwrap());
        }
        took
    });
    took.sort_unstable();
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize];
    println!(
        "2000 pushes a second of {} points: answered after {:?}, 99 of 100 within {:?}, the last within {:?}",
        POINTS / 4,
        at(0.5),
        at(0.99),
        at(1.0)
    );
}

fn messages_of_agents(agents: usize, start_ns: u64) -> Vec<Bytes> {
    (0..agents * 10).map(|push| request(1_000_000 + push, start_ns, 2).encode_to_vec().into()).collect()
}

/// Fifty million rows of an hour, and who is an outlier in its last minute.
fn asked() {
    let rows: u64 = std::env::var("ROWS").ok().and_then(|text| text.parse().ok()).unwrap_or(50_000_000);
    let folder = tempfile::tempdir_in(".").unwrap();
    let store = opened(&folder);
    store.fill(rows).unwrap();
    let stop = Stop::default();
    let (began, filter) =
        (Instant::now(), Filter { clusters: Some(vec!["training".into()]), ..Filter::default() });
    let newest = store.newest_ns(&filter, &stop).unwrap().unwrap();
    let filter = Filter {
        from_ns: Some(newest - 60_000_000_000),
        metric: Some("gpuwhy.rank.health".into()),
        ..filter
    };
    let ranks = store.by_rank(&filter, &stop).unwrap();
    println!("outliers of {} ranks among {rows} rows: {:?}", ranks.len(), began.elapsed());
}

fn pair(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.into(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn value(push: usize, rank: i64, which: usize) -> f64 {
    ((push * 31 + rank as usize * 7 + which * 3) % 1_000) as f64 / 999.0
}

fn request(push: usize, start_ns: u64, ranks: i64) -> ExportMetricsServiceRequest {
    let point = |rank: i64, which: usize, class: Option<&str>| {
        let mut attributes = vec![pair("rank", Value::IntValue(rank)), pair("nranks", Value::IntValue(4096))];
        attributes.extend(class.map(|class| pair("class", Value::StringValue(class.into()))));
        NumberDataPoint {
            attributes,
            time_unix_nano: start_ns + push as u64 * 1_000,
            value: Some(number_data_point::Value::AsDouble(value(push, rank, which))),
            ..NumberDataPoint::default()
        }
    };
    let gauge = |name: &str, data_points: Vec<NumberDataPoint>| Metric {
        name: format!("gpuwhy.rank.{name}"),
        data: Some(metric::Data::Gauge(Gauge { data_points })),
        ..Metric::default()
    };
    let mut metrics: Vec<Metric> = METRICS
        .iter()
        .enumerate()
        .map(|(which, name)| gauge(name, (0..ranks).map(|rank| point(rank, which, None)).collect()))
        .collect();
    let blame =
        (0..ranks).flat_map(|rank| CLASSES.iter().enumerate().map(move |(n, class)| (rank, n, *class)));
    metrics
        .push(gauge("blame_ratio", blame.map(|(rank, n, class)| point(rank, 20 + n, Some(class))).collect()));
    let attributes = [
        ("service.name", "gpuwhy"),
        ("cluster_id", "training"),
        ("job_id", "0x1234567890abcdef"),
        ("node_id", &format!("node{}", push % 512)),
    ]
    .map(|(key, text)| pair(key, Value::StringValue(text.into())));
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(Resource { attributes: attributes.to_vec(), ..Resource::default() }),
            scope_metrics: vec![ScopeMetrics { metrics, ..ScopeMetrics::default() }],
            ..ResourceMetrics::default()
        }],
    }
}

/// The rows that the request must become.
fn events(push: usize, start_ns: u64) -> Vec<Event> {
    let node: Arc<str> = format!("node{}", push % 512).into();
    let row = |name: &str, rank: i64, which: usize, class: Option<&str>| Event {
        timestamp_ns: (start_ns + push as u64 * 1_000) as i64,
        origin: Origin {
            cluster: "training".into(),
            node: node.clone(),
            job: Some("0x1234567890abcdef".into()),
            rank: Some(rank as i32),
            nranks: Some(4096),
        },
        name: format!("gpuwhy.rank.{name}").into(),
        kind: Kind::Gauge,
        double: Some(value(push, rank, which)),
        int: None,
        attrs: class.map(|class| format!("{{\"class\":\"{class}\"}}").into()),
    };
    let mut rows = Vec::with_capacity(POINTS);
    for (which, name) in METRICS.iter().enumerate() {
        rows.extend((0..RANKS).map(|rank| row(name, rank, which, None)));
    }
    for rank in 0..RANKS {
        rows.extend(
            CLASSES.iter().enumerate().map(|(n, class)| row("blame_ratio", rank, 20 + n, Some(class))),
        );
    }
    rows
}
