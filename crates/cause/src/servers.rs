//! Inference servers beside the findings: their latencies in the time that was asked about, and what was lost when those
//! were worst. That is coincidence in time: only where it is the server's own process is more than that likely.

use crate::evidence::Evidence;
use crate::severity::percent;
use crate::when::{Known, descends, losses_of, within};
use gpuwhy_model::{Finding, Latency, Quantile, ServerSample, Severity, Signal, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A server over the whole time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerReport {
    pub server: String,
    pub url: String,
    pub pid: Option<u32>,
    pub model: String,
    pub start_ns: u64,
    pub end_ns: u64,
    pub samples: u64,
    pub requests: Option<u64>,
    pub latencies: BTreeMap<Signal, LatencyReport>,
    pub running_mean: Option<f64>,
    pub running_max: Option<f64>,
    pub waiting_mean: Option<f64>,
    pub waiting_max: Option<f64>,
    pub kv_cache_max_pct: Option<f64>,
    pub preemptions: Option<u64>,
    pub prompt_tokens_per_s: Option<f64>,
    pub generation_tokens_per_s: Option<f64>,
    pub spec_accept_pct: Option<f64>,
    pub worst: Vec<Worst>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyReport {
    pub count: u64,
    pub mean_us: Option<f64>,
    /// With the bounds of the server's bucket they lie in.
    pub p50: Option<Quantile>,
    pub p99: Option<Quantile>,
}

impl LatencyReport {
    fn of(latency: &Latency) -> LatencyReport {
        LatencyReport {
            count: latency.count,
            mean_us: latency.mean_us(),
            p50: latency.quantile(0.5),
            p99: latency.quantile(0.99),
        }
    }
}

/// The times in which a latency was worst.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Worst {
    pub signal: Signal,
    /// From when the slowest requests had begun.
    pub windows: Vec<Span>,
    pub p99: Option<Quantile>,
    /// In the other times.
    pub else_p99: Option<Quantile>,
    pub findings: Vec<Coincidence>,
}

/// What lost more in those times than at others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Coincidence {
    pub id: String,
    pub severity: Severity,
    pub title: String,
    pub pid: Option<u32>,
    /// It is of the server's process, or of one that it started: then it held the server up. Else nothing but the time
    /// speaks for it.
    pub same_process: bool,
    pub ms: f64,
    /// Of all that it lost while the server was watched.
    pub share_pct: f64,
    /// The share of that time which those windows are.
    pub time_pct: f64,
}

pub(crate) fn servers(evidence: &Evidence, findings: &[Finding]) -> Vec<ServerReport> {
    let mut by_url: BTreeMap<&str, Vec<&ServerSample>> = BTreeMap::new();
    for sample in &evidence.servers {
        by_url.entry(&sample.url).or_default().push(sample);
    }
    by_url.into_values().filter_map(|samples| report(evidence, findings, samples)).collect()
}

fn report(
    evidence: &Evidence,
    findings: &[Finding],
    mut samples: Vec<&ServerSample>,
) -> Option<ServerReport> {
    samples.sort_by_key(|sample| sample.time_ns);
    let (first, last) = (samples.first()?, samples.last()?);
    let reported =
        |value: fn(&ServerSample) -> Option<f64>| samples.iter().filter_map(move |sample| value(sample));
    let most = |value| reported(value).reduce(f64::max);
    let mean = |value| {
        let (count, sum) = reported(value).fold((0.0, 0.0), |(count, sum), value| (count + 1.0, sum + value));
        (count > 0.0).then(|| sum / count)
    };
    let sum = |value: fn(&ServerSample) -> Option<u64>| {
        samples.iter().filter_map(|sample| value(sample)).reduce(|a, b| a + b)
    };
    let latencies: BTreeMap<Signal, Latency> = Signal::ALL
        .into_iter()
        .filter_map(|signal| merged(&samples, signal).map(|latency| (signal, latency)))
        .collect();
    let has = |signal: &Signal| latencies.get(signal).is_some_and(|latency| !latency.buckets.is_empty());
    let mut judged: Vec<Signal> = [Signal::Ttft, Signal::Itl].into_iter().filter(has).collect();
    if judged.is_empty() {
        judged.extend(Some(Signal::E2e).filter(has));
    }
    Some(ServerReport {
        server: last.server.clone(),
        url: last.url.clone(),
        pid: last.pid,
        model: last.model.clone(),
        start_ns: span_of(first).start_ns,
        end_ns: last.time_ns,
        samples: samples.len() as u64,
        requests: sum(|sample| sample.requests),
        latencies: latencies.iter().map(|(signal, latency)| (*signal, LatencyReport::of(latency))).collect(),
        running_mean: mean(|sample| sample.running),
        running_max: most(|sample| sample.running),
        waiting_mean: mean(|sample| sample.waiting),
        waiting_max: most(|sample| sample.waiting),
        kv_cache_max_pct: most(|sample| sample.kv_cache_pct),
        preemptions: sum(|sample| sample.preemptions),
        prompt_tokens_per_s: mean(|sample| sample.prompt_tokens_per_s),
        generation_tokens_per_s: mean(|sample| sample.generation_tokens_per_s),
        spec_accept_pct: mean(|sample| sample.spec_accept_pct),
        worst: judged.into_iter().filter_map(|signal| worst(evidence, findings, &samples, signal)).collect(),
    })
}

fn merged(samples: &[&ServerSample], signal: Signal) -> Option<Latency> {
    let mut latencies = samples.iter().filter_map(|sample| sample.latencies.get(&signal));
    let mut all = latencies.next()?.clone();
    latencies.for_each(|latency| all.merge(latency));
    Some(all)
}

fn span_of(sample: &ServerSample) -> Span {
    Span { start_ns: sample.time_ns.saturating_sub(sample.window_ns), end_ns: sample.time_ns }
}

/// Nothing where no time stands out.
fn worst(
    evidence: &Evidence,
    findings: &[Finding],
    samples: &[&ServerSample],
    signal: Signal,
) -> Option<Worst> {
    /// Fewer samples have no worst among them.
    const MIN_SAMPLES: usize = 4;
    /// One in so many is among the worst.
    const ONE_IN: usize = 10;
    /// So much worse than the one in the middle; and so much more of a loss than its time is of all.
    const STANDS_OUT: f64 = 1.5;
    const MAX_FINDINGS: usize = 5;
    const MIN_MS: f64 = 1.0;
    let p99 = |sample: &ServerSample| sample.latencies.get(&signal)?.quantile(0.99).map(|found| found.us);
    let mut ranked: Vec<(f64, &ServerSample)> =
        samples.iter().filter_map(|sample| Some((p99(sample)?, *sample))).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.time_ns.cmp(&b.1.time_ns)));
    let middle = ranked.get(ranked.len() / 2)?.0;
    ranked.retain({
        let most = ranked.len().div_ceil(ONE_IN);
        let enough = ranked.len() >= MIN_SAMPLES;
        let mut taken = 0;
        move |(p99, _)| {
            taken += 1;
            enough && taken <= most && *p99 > STANDS_OUT * middle
        }
    });
    if ranked.is_empty() {
        return None;
    }
    let windows = joined(ranked.iter().map(|(p99, sample)| since_it_began(sample, *p99)).collect());
    let chosen = |sample: &&&ServerSample| ranked.iter().any(|(_, worst)| worst.time_ns == sample.time_ns);
    let of = |samples: &[&ServerSample]| merged(samples, signal).and_then(|latency| latency.quantile(0.99));
    let (bad, rest): (Vec<&ServerSample>, Vec<&ServerSample>) =
        samples.iter().partition(|sample| chosen(sample));
    let watched = Span { start_ns: span_of(samples.first()?).start_ns, end_ns: samples.last()?.time_ns };
    let worst_ns: u64 = windows.iter().map(Span::ns).sum();
    let pid = samples.last()?.pid;
    let mut found: Vec<Coincidence> = findings
        .iter()
        .filter_map(|finding| {
            let losses = losses_of(evidence, finding, Known::Wholly);
            let ns: f64 =
                losses.iter().map(|lost| windows.iter().map(|span| within(lost, span)).sum::<f64>()).sum();
            let all: f64 = losses.iter().map(|lost| within(lost, &watched)).sum();
            (ns / 1e6 >= MIN_MS).then(|| Coincidence {
                id: finding.id.clone(),
                severity: finding.severity,
                title: finding.title.clone(),
                pid: finding.pid,
                same_process: finding
                    .pid
                    .zip(pid)
                    .is_some_and(|(own, server)| descends(evidence, own, server)),
                ms: ns / 1e6,
                share_pct: if all > 0.0 { (100.0 * ns / all).min(100.0) } else { 100.0 },
                time_pct: percent(worst_ns, watched.ns()).min(100.0),
            })
        })
        .collect();
    // What was lost then as at any other time says nothing.
    found.retain(|found| found.share_pct > STANDS_OUT * found.time_pct);
    let beyond = |found: &Coincidence| found.ms * (1.0 - found.time_pct / found.share_pct.max(1e-9));
    found.sort_by(|a, b| beyond(b).total_cmp(&beyond(a)).then_with(|| a.id.cmp(&b.id)));
    found.truncate(MAX_FINDINGS);
    Some(Worst { signal, windows, p99: of(&bad), else_p99: of(&rest), findings: found })
}

/// A request is counted when it gets its token: what held it up was before that.
fn since_it_began(sample: &ServerSample, p99_us: f64) -> Span {
    const MAX_NS: f64 = 60e9;
    let span = span_of(sample);
    let before = (p99_us * 1e3).clamp(0.0, MAX_NS) as u64;
    Span { start_ns: span.start_ns.saturating_sub(before), ..span }
}

/// Without overlaps, in their order.
fn joined(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_by_key(|span| (span.start_ns, span.end_ns));
    let mut joined: Vec<Span> = Vec::new();
    for span in spans {
        match joined.last_mut() {
            Some(last) if span.start_ns <= last.end_ns => last.end_ns = last.end_ns.max(span.end_ns),
            _ => joined.push(span),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::LostAt;
    use gpuwhy_model::{Bucket, Process};

    const SECOND: u64 = 1_000_000_000;

    /// A second with ten first tokens in one bucket.
    fn sample(second: u64, lower_us: f64, upper_us: f64) -> ServerSample {
        let buckets = vec![Bucket { lower_us, upper_us: Some(upper_us), count: 10 }];
        let latency = Latency { count: 10, sum_us: 10.0 * lower_us, buckets };
        ServerSample {
            time_ns: (second + 1) * SECOND,
            window_ns: SECOND,
            server: "vllm".into(),
            url: "http://127.0.0.1:8000/metrics".into(),
            pid: Some(5),
            running: Some(second as f64),
            requests: Some(10),
            preemptions: Some(1),
            latencies: BTreeMap::from([(Signal::Ttft, latency)]),
            ..ServerSample::default()
        }
    }

    fn finding(id: &str, pid: u32) -> Finding {
        let json = format!(
            r#"{{"id":"{id}","rule":"slow_calls","severity":"high","title":"{id}","op":"cuLaunchKernel","pid":{pid},"process":null,
            "cgroup":null,"rank":null,"node":null,"window":{{"start_ns":0,"end_ns":1}},"impact":{{"calls":0,"slow_calls":0,"p50_us":0,
            "p99_us":0,"max_us":0,"excess_ms":0,"wall_pct":0}},"causes":[],"explained_pct":0,"where":{{"python":[],"native":[],
            "kernel":null}},"fixes":[],"refuted_by":"","sql":""}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    fn lost(pid: u32, second: u64, ms: u64) -> LostAt {
        let start_ns = second * SECOND;
        let op = Some("cuLaunchKernel".into());
        LostAt { pid, op, cause: None, start_ns, end_ns: start_ns + SECOND / 2, ns: ms * 1_000_000 }
    }

    #[test]
    fn what_was_lost_when_it_was_worst_stands_beside_it() {
        let servers =
            (0..20).map(|n| if n == 12 { sample(n, 1e6, 2.5e6) } else { sample(n, 1e4, 5e4) }).collect();
        let process = |pid, parent_pid| Process { pid, parent_pid, ..Process::default() };
        let evidence = Evidence {
            servers,
            processes: vec![process(5, 1), process(6, 5), process(9, 1)],
            losses: [lost(6, 12, 400), lost(6, 3, 100), lost(9, 12, 50), lost(9, 2, 50)]
                .into_iter()
                .chain((0..20).map(|second| lost(8, second, 900)))
                .collect(),
            ..Evidence::default()
        };
        let findings =
            [finding("engine", 6), finding("always", 8), finding("other", 9), finding("elsewhere", 77)];
        let [report] = servers_of(&evidence, &findings).try_into().unwrap();
        assert_eq!((report.samples, report.requests, report.preemptions), (20, Some(200), Some(20)));
        assert_eq!((report.running_mean, report.running_max), (Some(9.5), Some(19.0)));
        let ttft = &report.latencies[&Signal::Ttft];
        let bounds = |quantile: Option<Quantile>| quantile.map(|found| (found.lower_us, found.upper_us));
        assert_eq!(bounds(ttft.p50), Some((1e4, Some(5e4))));
        assert_eq!(bounds(ttft.p99), Some((1e6, Some(2.5e6))));
        let [worst] = report.worst.try_into().unwrap();
        assert_eq!(bounds(worst.else_p99), Some((1e4, Some(5e4))));
        assert_eq!(worst.windows.len(), 1);
        assert!(worst.windows[0].start_ns < 12 * SECOND, "it had begun before it was counted");
        let message: Vec<_> = worst.findings.iter().map(|f| (f.id.as_str(), f.same_process, f.ms)).collect();
        assert_eq!(message, [("engine", true, 400.0), ("other", false, 50.0)]);
        assert!((worst.findings[0].share_pct - 80.0).abs() < 0.01 && worst.findings[0].time_pct < 20.0);
    }

    fn servers_of(evidence: &Evidence, findings: &[Finding]) -> Vec<ServerReport> {
        servers(evidence, findings)
    }

    #[test]
    fn even_latencies_have_no_worst() {
        let servers = (0..20).map(|n| sample(n, 1e4, 5e4)).collect();
        let evidence = Evidence { servers, ..Evidence::default() };
        assert!(servers_of(&evidence, &[])[0].worst.is_empty());
        let few = (0..3).map(|n| sample(n, 1e4 * n as f64, 5e4 * (n + 1) as f64)).collect();
        assert!(servers_of(&Evidence { servers: few, ..Evidence::default() }, &[])[0].worst.is_empty());
    }
}
