//! Paths that leave the threads that make GPU calls: other threads, children, and processes outside the trace that wake them.

use crate::support::{Ended, Running, Trace, alone, can_trace, sim, skip, wait_until};
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// Steps of a program that waits for its worker, 20 ms each.
const STEPS: i64 = 120;
/// Of these so many are seen whoever else runs here: a process that was there before is followed when it has woken somebody.
const MAX_STEPS: i64 = STEPS * 3 / 4;

/// Asks for an item over a pipe and waits for it, so that the worker's time is the loop's.
const TRAIN: &str = r#"
import ctypes, os, sys, threading
cuda = ctypes.CDLL(os.path.join(os.environ["SIMGPU"], "libcudart.so.12"))
pointer = ctypes.c_void_p()

def next_item(requests, items):
    os.write(requests, b"r")
    return os.read(items, 1)

def train(requests, items, steps):
    pause = threading.Event()
    for _ in range(steps):
        next_item(requests, items)
        pause.wait(0.005)
        assert cuda.cudaMalloc(ctypes.byref(pointer), 1024) == 0
"#;

const WORK: &str = r#"
import os, time

def decode():
    time.sleep(0.02)

def work(requests, items):
    while os.read(requests, 1):
        decode()
        os.write(items, b"i")
"#;

/// With a worker that is forked and another thread that idles; the parent waits for its end.
const FORKS: &str = r#"
requests, items = os.pipe(), os.pipe()
assert cuda.cudaMalloc(ctypes.byref(pointer), 1024) == 0
worker = os.fork()
if worker == 0:
    os.close(requests[1])
    work(requests[0], items[1])
    time.sleep(0.05)
    os._exit(0)
os.close(requests[0])
threading.Thread(target=threading.Event().wait, args=(3,), daemon=True).start()
train(requests[1], items[0], int(sys.argv[1]))
os.close(requests[1])
os.waitpid(worker, 0)
print('{"pid": %d, "worker": %d}' % (os.getpid(), worker))
"#;

/// The two ends of the same, by named pipes.
const TRAINS: &str = r#"
requests, items = os.open(sys.argv[1], os.O_WRONLY), os.open(sys.argv[2], os.O_RDONLY)
print("ready", flush=True)
sys.stdin.readline()
train(requests, items, int(sys.argv[3]))
"#;

const WORKS: &str = r#"
import sys
work(os.open(sys.argv[1], os.O_RDONLY), os.open(sys.argv[2], os.O_WRONLY))
"#;

fn has_python(test: &str) -> bool {
    let there = Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        skip(test, "there is no python3");
    }
    there
}

/// The interpreter itself: what the path has may be a script.
fn python() -> String {
    let output = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_string()
}

/// Waits of a process in a table.
fn waits(trace: &Trace, table: &str, pid: i64, condition: &str) -> i64 {
    trace.number(&format!("SELECT count(*) FROM {table} WHERE pid = {pid} AND {condition}"))
}

/// The share of a process's samples in a function, in percent.
fn sampled_in(trace: &Trace, pid: i64, function: &str) -> i64 {
    trace.number(&format!(
        "SELECT 100 * sum(iif(f.function = '{function}', w.weight_ns, 0)) / sum(w.weight_ns) \
         FROM wait_samples w JOIN frames f USING (stack_id) WHERE f.depth = 0 AND w.pid = {pid}"
    ))
}

/// The loop waits for its worker, and the worker's own waits say for what.
fn assert_path_goes_on(trace: &Trace, pid: i64, worker: i64) {
    let for_worker = format!("event = 'file' AND by_pid = {worker} AND woken_by = 'task' AND syscall = 0");
    assert!(waits(trace, "io_events", pid, &for_worker) >= MAX_STEPS, "the loop waits for its worker");
    let asleep = waits(trace, "sched_events", worker, "event = 'sleep' AND woken_by = 'timer'");
    assert!(asleep >= MAX_STEPS, "the worker's own waits are recorded: {asleep}");
    assert!(sampled_in(trace, worker, "decode") >= 50, "the worker is sampled at the line it waits at");
    let calls = format!("SELECT count(*) FROM wait_samples WHERE makes_calls = 1 AND pid = {worker}");
    assert_eq!(trace.number(&calls), 0, "the worker makes no GPU calls");
    let attributed = format!("SELECT count(*) FROM blame WHERE pid = {worker}");
    assert_eq!(trace.number(&attributed), 0, "sums are of threads that make GPU calls");
}

fn is_process_of_the_trace(trace: &Trace, pid: i64) -> bool {
    trace.number(&format!("SELECT count(*) FROM processes WHERE pid = {pid}")) > 0
}

#[test]
fn a_forked_worker_is_followed_from_its_birth() {
    const TEST: &str = "a_forked_worker_is_followed_from_its_birth";
    if !can_trace(TEST) || !has_python(TEST) {
        return;
    }
    let trace = Trace::new();
    let program = trace.folder.path().join("train.py");
    std::fs::write(&program, [TRAIN, WORK, FORKS].concat()).unwrap();
    let environment = format!("SIMGPU={0} LD_LIBRARY_PATH={0}", sim().display());
    let script = format!("{environment} exec {} {} {STEPS}", python(), program.display());
    let truth = trace.of_command(&[], &["sh", "-c", &script].map(OsStr::new));
    let (pid, worker) = (truth["pid"].as_i64().unwrap(), truth["worker"].as_i64().unwrap());
    assert_path_goes_on(&trace, pid, worker);
    assert!(!is_process_of_the_trace(&trace, worker), "one that makes no calls is no GPU process");
    let paused =
        waits(&trace, "sched_events", pid, "event = 'futex' AND woken_by = 'timer' AND by_pid IS NULL");
    assert!(paused >= MAX_STEPS, "{paused} pauses ended by time-out");
    let for_end = format!("event = 'other' AND syscall = {} AND by_pid = {worker}", libc_wait4());
    assert_eq!(waits(&trace, "sched_events", pid, &for_end), 1, "the child's end woke its parent");
    // The main thread makes none until its first.
    let others = format!(
        "SELECT count(DISTINCT tid) FROM wait_samples WHERE makes_calls = 0 AND pid = {pid} AND tid <> pid"
    );
    assert_eq!(trace.number(&others), 1, "the thread that idles is sampled");
    let attributed = format!("SELECT count(DISTINCT tid) FROM blame WHERE pid = {pid}");
    assert_eq!(trace.number(&attributed), 1, "and billed to nobody");
}

const fn libc_wait4() -> i64 {
    if cfg!(target_arch = "x86_64") { 61 } else { 260 }
}

/// Two processes that were there before the trace; both traced with `flags`, once their numbers are known.
fn trace_running(flags: impl Fn(u32) -> Vec<String>) -> (Trace, i64, i64) {
    let trace = Trace::new();
    let path = |name: &str| trace.folder.path().join(name);
    let (requests, items) = (path("requests"), path("items"));
    for pipe in [&requests, &items] {
        assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
    }
    let start = |name: &str, text: String, steps: &str| {
        let program = path(name);
        std::fs::write(&program, text).unwrap();
        Command::new(python())
            .arg(program)
            .args([&requests, &items])
            .arg(steps)
            .env("SIMGPU", sim())
            .env("LD_LIBRARY_PATH", sim())
            .stdin(std::process::Stdio::piped())
            .stdout(std::fs::File::create(path(&format!("{name}.out"))).unwrap())
            .spawn()
            .unwrap()
    };
    // More than enough to be followed in: the trace ends when the program does.
    let steps = (2 * STEPS).to_string();
    let worker = Ended(start("work.py", [WORK, WORKS].concat(), ""));
    let mut train = Ended(start("train.py", [TRAIN, TRAINS].concat(), &steps));
    let is_ready = |file: &Path| std::fs::read_to_string(file).is_ok_and(|message| message.contains("ready"));
    wait_until("the program is ready", || is_ready(&path("train.py.out")));
    let (pid, worker_pid) = (train.0.id(), worker.0.id());
    let flags = flags(pid);
    let running = Running::start(&trace, &flags.iter().map(String::as_str).collect::<Vec<_>>());
    drop(train.0.stdin.take());
    assert!(train.0.wait().unwrap().success());
    running.stop();
    drop(worker);
    (trace, pid.into(), worker_pid.into())
}

#[test]
fn a_worker_that_was_there_before_is_followed_when_it_wakes_a_traced_thread() {
    const TEST: &str = "a_worker_that_was_there_before_is_followed_when_it_wakes_a_traced_thread";
    if !can_trace(TEST) || !has_python(TEST) {
        return;
    }
    let _turn = alone();
    for flags in [|_| Vec::new(), |pid: u32| vec!["--pid".to_string(), pid.to_string()]] {
        let (trace, pid, worker) = trace_running(flags);
        assert_path_goes_on(&trace, pid, worker);
        assert!(is_process_of_the_trace(&trace, pid));
        assert!(!is_process_of_the_trace(&trace, worker), "a waker is no GPU process");
    }
}
