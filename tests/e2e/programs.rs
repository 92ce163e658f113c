//! Programs in the shape of PyTorch's that nothing was tuned for, each with one fault or none: what is said of them first. Python
//! drives the simulated GPU; forward runs in the thread of the loop, backward in another, and the faults are in threads, processes,
//! pipes, sockets and locks beside them.

use crate::support::{Trace, alone, can_trace, done, gpuwhy, sim, skip};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/e2e/programs");
const SECONDS: &str = "2";

/// As Python names them.
fn sources() -> PathBuf {
    Path::new(SOURCES).canonicalize().unwrap()
}

/// How many of a stack's own frames may hold the expected line.
const OWN_FRAMES: usize = 3;

/// One way to be right.
struct Say {
    class: &'static str,
    who: Who,
    /// The mark of the line; none where no line is to be named.
    mark: Option<&'static str>,
}

#[derive(Debug, Clone, Copy)]
enum Who {
    /// The process of the loop.
    Own,
    /// A process that the program reports by this name.
    Helper(&'static str),
    /// A thread, or a command, of this name.
    Named(&'static str),
}

const fn say(class: &'static str, who: Who, mark: &'static str) -> Say {
    Say { class, who, mark: Some(mark) }
}

/// Nothing is wrong with these.
const CLEAN: [&str; 6] = [
    "plain",
    "gpu_bound_synced",
    "few_kernels_synced",
    "prefetch_hides",
    "queue_listener_ok",
    "periodic_evaluation",
];

/// With these something is; the best answer first.
const FAULTS: [(&str, &[Say]); 17] = [
    ("stall_near_end", &[say("self.sleep", Who::Own, "stall_end")]),
    ("lock_chain", &[say("self.sleep", Who::Named("db"), "lock_chain")]),
    (
        "executor_cpu",
        &[
            say("cpu.self", Who::Named("backend"), "thread_pool_cpu"),
            say("python.gil", Who::Named("backend"), "thread_pool_cpu"),
        ],
    ),
    ("queue_listener_blocks", &[say("self.sleep", Who::Named("writer"), "queue_listener")]),
    ("asyncio_to_thread", &[say("self.sleep", Who::Own, "to_thread")]),
    ("loop_in_thread", &[say("self.sleep", Who::Own, "thread_loop")]),
    ("two_stages", &[say("cpu.self", Who::Helper("tokenizer"), "two_stages")]),
    ("first_stage", &[say("self.sleep", Who::Helper("reader"), "first_stage")]),
    ("slow_of_three", &[say("self.sleep", Who::Helper("worker2"), "slow_of_three")]),
    ("pin_thread", &[say("self.sleep", Who::Helper("worker"), "pinned_worker")]),
    ("worker_lock", &[say("self.sleep", Who::Helper("holder"), "worker_lock")]),
    ("poll_shared_memory", &[say("self.sleep", Who::Own, "poll")]),
    ("mp_lock", &[say("self.sleep", Who::Helper("holder"), "mp_lock")]),
    ("unix_socket_json", &[say("cpu.self", Who::Helper("server"), "unix_server")]),
    ("asyncio_streams", &[say("self.sleep", Who::Helper("server"), "stream_server")]),
    ("spawned_worker", &[say("cpu.self", Who::Helper("spawned"), "burn")]),
    (
        "subprocess_output",
        &[say("proc.wait", Who::Named("sh"), "child"), say("proc.wait", Who::Named("sleep"), "child")],
    ),
];

/// The programs, and what stands for PyTorch as an installed package.
struct Built {
    folder: tempfile::TempDir,
}

impl Built {
    /// Nothing, and said aloud, where it cannot be had.
    fn new(test: &str) -> Option<Built> {
        if !can_trace(test) {
            return None;
        }
        for tool in ["cc", "python3"] {
            if Command::new(tool).arg("--version").output().is_err() {
                skip(test, &format!("there is no {tool}"));
                return None;
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let package = folder.path().join("site-packages/torch");
        for folder in ["nn", "optim"] {
            std::fs::create_dir_all(package.join(folder)).unwrap();
        }
        for file in ["__init__.py", "nn/__init__.py", "optim/__init__.py"] {
            std::fs::copy(sources().join("package").join(file), package.join(file)).unwrap();
        }
        let output = Command::new("cc")
            .args(["-O1", "-g", "-fPIC", "-shared", "-Wall", "-Wextra", "-pthread", "-o"])
            .arg(package.join("libtorch_cuda.so"))
            .arg(sources().join("package/torch_cuda.c"))
            .args([sim().join("libcudart.so.12"), sim().join("libcuda.so.1")])
            .arg(format!("-Wl,-rpath,{}", sim().display()))
            .output()
            .unwrap();
        done(output);
        Some(Built { folder })
    }

    /// What the program reported of itself, and what was said of it.
    fn run(&self, name: &str) -> (Value, Value) {
        let trace = Trace::new();
        let message: PathBuf = trace.folder.path().join("said");
        let status = gpuwhy()
            .args(["trace", "--out"])
            .arg(trace.file())
            .args(["--", "python3"])
            .arg(sources().join("programs.py"))
            .args([name, SECONDS])
            .env("PYTHONPATH", self.folder.path().join("site-packages"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("LD_LIBRARY_PATH", sim())
            .env("SIMGPU_CONTROL", trace.folder.path().join("gpu"))
            .stdout(std::fs::File::create(&message).unwrap())
            .status()
            .unwrap();
        assert!(status.success(), "{name}");
        let lines = std::fs::read_to_string(&message).unwrap();
        let report = lines.lines().find(|line| line.starts_with("{\"pid\"")).unwrap();
        let output = gpuwhy().args(["explain", "--json"]).arg(trace.file()).output().unwrap();
        (serde_json::from_str(report).unwrap(), serde_json::from_str(&done(output)).unwrap())
    }
}

/// Findings of the loop, the first one first.
fn of_loop(answer: &Value) -> Vec<&Value> {
    let all = answer["findings"].as_array().unwrap().iter();
    all.filter(|finding| finding["phase"] != "start" && finding["phase"] != "end").collect()
}

/// As `programs.py` has them.
fn lines_of(mark: &str) -> Vec<(String, u64)> {
    let of = |file: &str| {
        let text = std::fs::read_to_string(sources().join(file)).unwrap();
        let end = format!("# MARK {mark}");
        let marked = text.lines().enumerate().filter(|(_, line)| line.ends_with(&end));
        marked.map(|(number, _)| (file.to_string(), number as u64 + 1)).collect::<Vec<_>>()
    };
    ["programs.py", "loop.py"].into_iter().flat_map(of).collect()
}

/// The program's own frames of a finding, innermost first.
fn own_frames(finding: &Value) -> Vec<(String, u64)> {
    let frames = finding["where"]["python"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let folder = format!("{}/", sources().display());
    let own = frames.filter_map(|frame| frame.strip_prefix(&folder)?.split_once(':'));
    own.filter_map(|(file, rest)| Some((file.to_string(), rest.split_whitespace().next()?.parse().ok()?)))
        .collect()
}

fn is_culprit(who: Who, finding: &Value, report: &Value) -> bool {
    let by = &finding["causes"][0]["by"][0];
    match who {
        Who::Own => by["pid"] == report["pid"],
        Who::Helper(name) => by["pid"] == report["helpers"][name],
        Who::Named(name) => by["comm"] == name,
    }
}

/// What is wrong with the first finding.
fn misjudged(says: &[Say], report: &Value, findings: &[&Value]) -> Option<String> {
    let Some(first) = findings.first() else { return Some("nothing was said".into()) };
    let class = first["causes"][0]["class"].as_str().unwrap_or_default();
    let of_class: Vec<&Say> = says.iter().filter(|say| say.class == class).collect();
    let frames = own_frames(first);
    let is_at = |mark: &str| {
        let lines = lines_of(mark);
        assert!(!lines.is_empty(), "no line is marked {mark}");
        frames.iter().take(OWN_FRAMES).any(|frame| lines.contains(frame))
    };
    let what = match () {
        () if of_class.is_empty() => "class",
        () if !of_class.iter().any(|say| is_culprit(say.who, first, report)) => "culprit",
        () if !of_class.iter().any(|say| say.mark.is_none_or(is_at)) => "line",
        () if first["severity"] == "low" => "severity",
        () => return None,
    };
    Some(format!(
        "{what}: {} {class} by {}, {}",
        first["severity"], first["causes"][0]["by"][0], first["title"]
    ))
}

#[test]
fn faults_of_unseen_programs_are_named_with_culprit_and_line() {
    const TEST: &str = "faults_of_unseen_programs_are_named_with_culprit_and_line";
    let Some(built) = Built::new(TEST) else { return };
    let _turn = alone();
    let mut wrong = Vec::new();
    for (name, says) in FAULTS {
        let (report, answer) = built.run(name);
        wrong.extend(misjudged(says, &report, &of_loop(&answer)).map(|what| format!("{name}: wrong {what}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn unseen_programs_without_a_fault_raise_no_alarm() {
    const TEST: &str = "unseen_programs_without_a_fault_raise_no_alarm";
    let Some(built) = Built::new(TEST) else { return };
    let _turn = alone();
    let mut wrong = Vec::new();
    for name in CLEAN {
        let (report, answer) = built.run(name);
        let alarms = of_loop(&answer).into_iter().filter(|finding| finding["severity"] != "low");
        // Whatever else runs on this host may take the CPU: that is true, and no fault of the program.
        let alarms = alarms.filter(|finding| {
            let cause = &finding["causes"][0];
            cause["class"] != "cpu.preempted" || cause["by"][0]["pid"] == report["pid"]
        });
        let busy = &answer["steps"][0]["gpu_busy_pct"];
        let alarm =
            |finding: &Value| format!("{name} (busy {busy}): {} {}", finding["severity"], finding["title"]);
        wrong.extend(alarms.map(alarm));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
