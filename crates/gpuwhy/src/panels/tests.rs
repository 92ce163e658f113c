//! The panels of a recorded run, and of troubles made up.

use super::{OPERATIONS, PAGES, REST, Rest, TROUBLE, Topic, View};
use flate2::read::GzDecoder;
use gpuwhy_agent::Overview;
use gpuwhy_cause::Tallies;
use gpuwhy_ledger::Ledger;
use gpuwhy_model::{CallInFlight, GpuError, GpuSample, OpId, OpInfo, Process, Recording};
use std::collections::HashMap;

#[derive(Default)]
struct Run {
    start_ns: u64,
    end_ns: u64,
    tallies: Tallies,
    ops: Vec<OpInfo>,
    processes: Vec<Process>,
    overview: Overview,
}

impl Run {
    fn tour() -> Run {
        let bytes = include_bytes!("../../recordings/tour.json.gz");
        let recording: Recording = serde_json::from_reader(GzDecoder::new(bytes.as_slice())).unwrap();
        let mut ledger = Ledger::new(&recording.ops);
        let mut run = Run { start_ns: recording.start_ns, end_ns: recording.end_ns, ..Run::default() };
        let mut processes = HashMap::new();
        for batch in &recording.batches {
            run.tallies.add(batch);
            run.overview.take(batch, &ledger.take(batch));
            processes.extend(batch.processes.iter().map(|process| (process.pid, process.clone())));
        }
        run.ops = recording.ops;
        run.processes = processes.into_values().collect();
        run
    }

    fn view(&self, live: bool) -> View<'_> {
        View {
            start_ns: self.start_ns,
            now_ns: self.end_ns,
            tallies: &self.tallies,
            ops: &self.ops,
            processes: &self.processes,
            overview: &self.overview,
            findings: &[],
            steps: &[],
            verdict: None,
            lost: None,
            live,
        }
    }

    fn text<'a>(&self, live: bool, topics: impl IntoIterator<Item = &'a Topic>) -> String {
        let panels = topics.into_iter().filter_map(|topic| topic(&self.view(live)));
        let lines = panels.flat_map(|panel| panel.lines(80, 40, Rest::Nowhere));
        lines.map(|line| format!("{line}\n")).collect()
    }
}

#[test]
fn the_tour_has_something_to_show_on_every_page() {
    let run = Run::tour();
    for (page, words) in PAGES.iter().zip([
        &["cuLaunchKernel", "Simulated GPU 3", "the time went"][..],
        // It has neither stacks nor marks nor servers.
        &[],
        &["kernels a launch", "matmul", "GPU busy"],
        &["ALL_REDUCE", "came last in", "host to device"],
    ]) {
        let text = run.text(true, page.topics);
        for word in words {
            assert!(text.contains(word), "{word} on page {}:\n{text}", page.name);
        }
    }
    let text = run.text(false, std::iter::once(&OPERATIONS).chain(REST));
    for word in
        ["cudaGraphInstantiateWithFlags", "ALL_REDUCE", "rank 2 (pid ", "still live", "context", "max 61°C"]
    {
        assert!(text.contains(word), "{word} at the end:\n{text}");
    }
    assert!(!text.contains("TROUBLE"), "{text}");
}

#[test]
fn nothing_is_shown_of_nothing() {
    let run = Run::default();
    let topics = PAGES.iter().flat_map(|page| page.topics).chain([&TROUBLE]);
    assert_eq!(run.text(true, topics.clone()), "");
    assert_eq!(run.text(false, topics), "");
}

#[test]
fn troubles_are_told_and_their_words_are_harmless() {
    let mut run = Run { end_ns: 50_000_000_000, ..Run::default() };
    run.processes.push(Process {
        pid: 7,
        comm: "tra\u{1b}[2Jin".into(),
        rank: Some(3),
        ..Process::default()
    });
    let call = CallInFlight {
        start_ns: 8_000_000_000,
        pid: 7,
        tid: 7,
        op: OpId(1),
        stream: 0,
        handle: 0,
        comm_id_hash: Some(0xabc),
        rank: Some(3),
        nranks: Some(8),
        seq: Some(128),
        seen_ns: 9,
        ended_ns: None,
        stack_id: Some(5),
        line: Some("train.py:142 for\u{1b}[2Jward".into()),
    };
    run.overview.in_flight.insert((7, 7, call.start_ns), call);
    run.overview.gpu_errors.push(GpuError {
        time_ns: 40_000_000_000,
        event: "xid".into(),
        gpu: Some(0),
        code: 79,
        message: "GPU has fallen off the bus\u{1b}[31m".into(),
        ..GpuError::default()
    });
    run.overview.gpu_errors_seen = 1;
    let text = run.text(true, [&TROUBLE]);
    assert!(text.contains("GPU 0: Xid 79 10.0s ago: GPU has fallen off the bus"), "{text}");
    assert!(text.contains("has not returned for 42.0s, at train.py:142 for"), "{text}");
    assert!(text.contains("ward, communicator 0xabc rank 3 of 8 seq 128"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text:?}");
}

#[test]
fn a_gpu_that_is_not_well_has_a_second_line() {
    let mut run = Run::default();
    let sample = GpuSample {
        name: "NVIDIA H200".into(),
        sm_pct: Some(80.0),
        throttle_reasons: vec!["hw_thermal".into()],
        pcie_width: Some(8),
        pcie_width_max: Some(16),
        pcie_generation: Some(1),
        pcie_generation_max: Some(5),
        ..GpuSample::default()
    };
    let batch =
        |sample: &GpuSample| gpuwhy_model::Batch { gpu_samples: vec![sample.clone()], ..Default::default() };
    run.overview.take(&batch(&sample), &gpuwhy_model::Facts::default());
    let text = run.text(true, PAGES[0].topics);
    for word in
        ["0 H200", "held down by hw_thermal", "PCIe with 8 lanes, could be 16", "generation 1, could be 5"]
    {
        assert!(text.contains(word), "{word}:\n{text}");
    }
    // An idle link saves power.
    let idle = GpuSample { sm_pct: Some(0.0), throttle_reasons: Vec::new(), ..sample };
    run.overview.take(&batch(&idle), &gpuwhy_model::Facts::default());
    let text = run.text(true, PAGES[0].topics);
    assert!(!text.contains("generation") && !text.contains("held down"), "{text}");
    assert!(run.text(false, PAGES[0].topics).contains("hw_thermal in 50% of the samples"));
}

#[test]
fn what_programs_and_servers_say_of_themselves_is_shown_and_harmless() {
    use gpuwhy_model::{
        Annotation, Batch, Bucket, Facts, Latency, MarkClock, MarkState, ServerSample, Signal,
    };
    use std::collections::BTreeMap;
    let mark = |state, value: &str, duration_ns| Annotation {
        time_ns: 5,
        duration_ns,
        state,
        event: "step".into(),
        value: Some(value.into()),
        labels: BTreeMap::new(),
        pid: None,
        uid: 0,
        clock: MarkClock::Received,
    };
    let buckets = vec![Bucket { lower_us: 10_000.0, upper_us: Some(10_000.0), count: 4 }];
    let sample = ServerSample {
        server: "vllm".into(),
        url: "http://127.0.0.1:8000/metrics".into(),
        running: Some(3.0),
        kv_cache_pct: Some(97.0),
        generation_tokens_per_s: Some(1234.4),
        latencies: BTreeMap::from([(Signal::Ttft, Latency { count: 4, sum_us: 1.0, buckets })]),
        ..ServerSample::default()
    };
    let batch = Batch {
        annotations: vec![
            mark(MarkState::Open, "140", None),
            mark(MarkState::Ended, "140", Some(3_000_000)),
            mark(MarkState::Open, "14\u{1b}[2J1", None),
        ],
        refused_annotations: BTreeMap::from([("garbage".into(), 7)]),
        server_samples: vec![sample],
        ..Batch::default()
    };
    let mut run = Run::default();
    run.overview.take(&batch, &Facts::default());
    let topics: [Topic; 2] = [super::marks::panel, super::servers::panel];
    let panels = topics.iter().filter_map(|topic| topic(&run.view(true)));
    let text: String = panels
        .flat_map(|panel| panel.lines(120, 40, Rest::Nowhere))
        .map(|line| format!("{line}\n"))
        .collect();
    for words in
        ["step", "[2J1", "3.00ms", "7 lines were refused", "97%", "1,234", "10.0ms", "127.0.0.1:8000"]
    {
        assert!(text.contains(words), "{words}:\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "{text:?}");
}
