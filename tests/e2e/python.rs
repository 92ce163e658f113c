//! Python's frames on the stacks of GPU calls, against what a program knows of itself. The interpreters are the python3 of
//! the PATH, those of GPUWHY_PYTHONS (commands, a colon between them), and those `scripts/pythons.sh` fetched.

use crate::frames::Stored;
use crate::readers::readers;
use crate::support::{PATIENCE, Trace, alone, can_trace, sim, skip, wait_until};
use crate::victim::Victim;
use serde::Deserialize;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const VICTIM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../python/tests/victim.py");
/// The kernel's walker takes so many frames.
const MAX_FRAMES: usize = 64;
/// A case that comes again after the subinterpreter was made has two to choose from.
const CASES: &str = "plain,callbacks,generators,comprehension,init,async,thread,fork,unicode,hot,ctypes_callback,deep,\
                     subinterpreter,plain,thread";

/// It gives way to the Python functions that it runs.
const EVAL_LOOP: &str = "_PyEval_EvalFrameDefault";

/// What a case of the victim says of itself.
#[derive(Debug, Deserialize)]
struct Reported {
    case: String,
    pid: u32,
    tid: u32,
    bytes: u64,
    /// File, function and line, innermost first.
    frames: Vec<(String, String, i64)>,
}

impl Reported {
    fn call(&self) -> String {
        let Reported { pid, tid, bytes, .. } = self;
        format!("op = 'cudaMalloc' AND pid = {pid} AND tid = {tid} AND bytes = {bytes}")
    }

    /// The stack of its call, whose Python frames are as it says.
    fn check(&self, python: &Python, trace: &Trace) -> Stored {
        let stored = Stored::of(trace, &self.call());
        self.check_lines(python, &stored);
        // Of a stack so deep the end may not have been copied.
        let context = format!("{} {}\n{}", python.version, self.case, stored.shown());
        assert!(stored.complete || self.case == "deep", "not unwound to its end: {context}");
        stored
    }

    /// Python's frames are as it says.
    fn check_lines(&self, python: &Python, stored: &Stored) {
        let context = format!("{} {}\n{}", python.version, self.case, stored.shown());
        let got: Vec<(String, String, i64)> =
            stored.python().map(|frame| (frame.file.clone(), frame.function.clone(), frame.line)).collect();
        let mut expected: Vec<(String, String, i64)> = self
            .frames
            .iter()
            .map(|(file, function, line)| (file.clone(), python.name(function), *line))
            .collect();
        expected.truncate(MAX_FRAMES);
        assert!(expected.len() >= 8, "{context}");
        assert!(got.len() >= expected.len(), "{} of {} frames: {context}", got.len(), expected.len());
        assert_eq!(got[..expected.len()], expected, "{context}");
    }
}

/// An interpreter to test with.
#[derive(Debug)]
pub(crate) struct Python {
    pub(crate) command: String,
    pub(crate) version: String,
    minor: u32,
}

impl Python {
    /// Nothing, and said aloud, where it cannot run the victim.
    fn new(command: String) -> Option<Python> {
        let ask = "import ctypes, sys; ctypes.CDLL(sys.argv[1]); print(sys.version_info[1], sys.version.split()[0])";
        let library = sim().join("libcudart.so.12");
        let output = Command::new(&command).args(["-c", ask]).arg(library).output().ok()?;
        let message = String::from_utf8_lossy(&output.stdout).into_owned();
        let [minor, version] = message.split_whitespace().collect::<Vec<_>>()[..] else {
            let why = String::from_utf8_lossy(&output.stderr);
            eprintln!("{command} is not tested: {}", why.lines().last().unwrap_or_default());
            return None;
        };
        let minor = minor.parse().unwrap();
        if minor < 9 {
            eprintln!("{command} is not tested: Python {version} is too old");
            return None;
        }
        Some(Python { version: version.into(), minor, command })
    }

    /// Versions before 3.11 keep the last part of a qualified name.
    fn name(&self, qualified: &str) -> String {
        match self.minor {
            ..11 => qualified.rsplit('.').next().unwrap().into(),
            _ => qualified.into(),
        }
    }
}

/// Victims in one trace, one of each interpreter.
struct Traced<'a> {
    pythons: &'a [Python],
    victim: Victim,
}

impl<'a> Traced<'a> {
    /// Where a case says so, each becomes the next one.
    fn start(
        pythons: &'a [Python],
        trace: &Trace,
        cases: &str,
        environment: &[(&str, &OsStr)],
    ) -> Traced<'a> {
        let mut all = environment.to_vec();
        all.push(("VICTIM_GPU", sim().as_os_str()));
        let nexts = pythons.iter().cycle().skip(1);
        let commands = pythons.iter().zip(nexts).enumerate().map(|(number, (python, next))| {
            let (python, next) = (&python.command, &next.command);
            format!(
                "VICTIM_GATE=\"${{VICTIM_GATE}}{number}\" VICTIM_NEXT='{next}' '{python}' '{VICTIM}' {cases} &\n"
            )
        });
        let script: String = commands.chain(["wait".to_string()]).collect();
        Traced { pythons, victim: Victim::start(trace, &[], &[sim()], &["sh", "-c", &script], &all) }
    }

    /// Lets all of them on at once.
    fn pass_all(&mut self) {
        for number in 0..self.pythons.len() {
            self.victim.pass(&format!("gate{number}"));
        }
    }

    /// What each has said so far. What a Python cannot do is said aloud.
    fn reported(&self, test: &str) -> Vec<(&'a Python, Vec<Reported>)> {
        self.pythons
            .iter()
            .enumerate()
            .map(|(number, python)| (python, self.reported_by(test, number)))
            .collect()
    }

    fn reported_by(&self, test: &str, number: usize) -> Vec<Reported> {
        let says = self.victim.folder().join(format!("gate{number}.says"));
        let mut all = Vec::new();
        for line in std::fs::read_to_string(says).unwrap_or_default().lines() {
            let value: serde_json::Value = serde_json::from_str(line).expect(line);
            match value.get("missing") {
                Some(why) => {
                    let version = &self.pythons[number].version;
                    skip(test, &format!("Python {version} {}: {why}", value["case"]));
                }
                None => all.push(serde_json::from_value(value).expect(line)),
            }
        }
        all
    }
}

/// All cases of a victim of each interpreter, traced from its start to its end, one after the other: what each said.
fn trace_to_end<'a>(
    test: &str,
    pythons: &'a [Python],
    trace: &Trace,
    cases: &str,
) -> Vec<(&'a Python, Vec<Reported>)> {
    let mut traced = Traced::start(pythons, trace, cases, &[]);
    for number in 0..pythons.len() {
        let pid = traced.victim.pass(&format!("gate{number}"));
        if cases == "replaced" {
            traced.victim.pass(&format!("gate{number}-next"));
        }
        traced.victim.until_ended(pid);
    }
    traced.victim.finish();
    traced.reported(test)
}

/// All there are, and which those are.
pub(crate) fn pythons(test: &str) -> Vec<Python> {
    let in_path = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let mut commands: Vec<String> = Vec::new();
    if let Ok(output) = in_path {
        commands.push(String::from_utf8_lossy(&output.stdout).trim().into());
    }
    commands.extend(std::env::var("GPUWHY_PYTHONS").unwrap_or_default().split(':').map(str::to_string));
    let fetched = std::fs::read_dir(cache_folder()).into_iter().flatten();
    let mut fetched: Vec<PathBuf> = fetched.map(|entry| entry.unwrap().path().join("python")).collect();
    fetched.retain(|command| command.is_file());
    fetched.sort();
    commands.extend(fetched.into_iter().map(|command| command.display().to_string()));
    commands.retain(|command| !command.is_empty());
    let mut seen = std::collections::HashSet::new();
    commands.retain(|command| seen.insert(command.clone()));
    let found: Vec<Python> = commands.into_iter().filter_map(Python::new).collect();
    if found.is_empty() {
        skip(test, "there is no python3 with ctypes");
    }
    for python in &found {
        eprintln!("{test}: Python {} ({})", python.version, python.command);
    }
    found
}

/// Where `scripts/pythons.sh` puts what it fetches.
fn cache_folder() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    cache.unwrap_or_default().join("gpuwhy/pythons")
}

#[test]
fn every_case_in_every_python() {
    let test = "every_case_in_every_python";
    if !can_trace(test) {
        return;
    }
    let (pythons, trace) = (pythons(test), Trace::new());
    for (python, cases) in trace_to_end(test, &pythons, &trace, CASES) {
        for reported in &cases {
            let stored = reported.check(python, &trace);
            check_order(python, reported, &stored);
        }
        let names: Vec<&str> = cases.iter().map(|reported| reported.case.as_str()).collect();
        eprintln!("{test}: Python {}: {} are right", python.version, names.join(", "));
    }
}

/// Native frames are where they belong: around and between Python's.
fn check_order(python: &Python, reported: &Reported, stored: &Stored) {
    let context = format!("{} {}\n{}", python.version, reported.case, stored.shown());
    let innermost = stored.frames.iter().position(|frame| frame.kind == "python").unwrap();
    assert!(stored.frames[..innermost].iter().any(|frame| frame.module.contains("_ctypes")), "{context}");
    if !matches!(reported.case.as_str(), "deep" | "subinterpreter") {
        // The loops of an outer interpreter, and of frames that were cut, are all that may stay.
        assert!(!stored.frames.iter().any(|frame| frame.function == EVAL_LOOP), "a loop stayed: {context}");
    }
    // A program that its loader was given starts in that.
    if reported.pid == reported.tid && reported.case != "deep" {
        let last = stored.frames.last().unwrap();
        assert!(last.function == "_start" || last.kind == "native", "{context}");
    }
    if reported.case == "callbacks" {
        // Each was called back from C, so that native frames are between it and its caller.
        let at = |name: &str| stored.position(&python.name(&format!("callbacks.<locals>.{name}"))).unwrap();
        for (inner, outer) in [("by_key", "by_map"), ("by_map", "by_reduce"), ("by_partial", "")] {
            let outer = if outer.is_empty() { stored.position("callbacks").unwrap() } else { at(outer) };
            let between = &stored.frames[at(inner) + 1..outer];
            assert!(!between.is_empty(), "nothing between {inner} and its caller: {context}");
            assert!(between.iter().all(|frame| frame.kind == "native"), "{context}");
        }
    }
    if reported.case == "ctypes_callback" {
        let inner = stored.position(&python.name("run_ctypes_callback.<locals>.compare")).unwrap();
        let outer = stored.position("run_ctypes_callback").unwrap();
        let between = &stored.frames[inner + 1..outer];
        assert!(between.iter().any(|frame| frame.module.contains("libc.so")), "qsort is missing: {context}");
    }
}

#[test]
fn a_python_that_ends_right_after_its_call() {
    let test = "a_python_that_ends_right_after_its_call";
    if !can_trace(test) {
        return;
    }
    let (pythons, trace) = (pythons(test), Trace::new());
    for (python, reported) in trace_to_end(test, &pythons, &trace, "last") {
        reported[0].check(python, &trace);
    }
}

#[test]
fn a_python_that_becomes_another_one() {
    let test = "a_python_that_becomes_another_one";
    if !can_trace(test) {
        return;
    }
    let (pythons, trace) = (pythons(test), Trace::new());
    let reported = trace_to_end(test, &pythons, &trace, "replaced");
    for ((before, both), after) in reported.into_iter().zip(pythons.iter().cycle().skip(1)) {
        assert_eq!(both.len(), 2, "{both:?}");
        assert_eq!(both[0].pid, both[1].pid);
        both[0].check(before, &trace);
        both[1].check(after, &trace);
    }
}

#[test]
fn sixty_threads_at_once() {
    let test = "sixty_threads_at_once";
    if !can_trace(test) {
        return;
    }
    let (pythons, _turn, trace) = (pythons(test), alone(), Trace::new());
    let mut without = 0;
    for (python, threads) in trace_to_end(test, &pythons, &trace, "many") {
        assert_eq!(threads.len(), 60);
        for reported in threads {
            match Stored::ids(&trace, &reported.call())[..] {
                [None] => without += 1,
                _ => drop(reported.check(python, &trace)),
            }
        }
    }
    // All at once may be more than a slow reader has room for; that is told then.
    let lost = trace.number("SELECT sum(count) FROM loss WHERE reason = 'ring full: a stack was lost'");
    assert!(without <= lost.min(20 * pythons.len() as i64), "{without} have no stack, {lost} were lost");
}

/// The newest is the first in the interpreter's list of threads; the main thread is the last.
#[test]
fn a_crowd_of_threads() {
    let test = "a_crowd_of_threads";
    if !can_trace(test) {
        return;
    }
    let (pythons, _turn, trace) = (pythons(test), alone(), Trace::new());
    for (python, callers) in trace_to_end(test, &pythons, &trace, "crowd") {
        assert_eq!(callers.len(), 3);
        for reported in callers {
            reported.check(python, &trace);
        }
    }
}

/// A call that hangs has not returned, so the kernel has no stack of it: its frames are read while it lasts.
#[test]
fn a_call_that_hangs_shows_its_line() {
    let test = "a_call_that_hangs_shows_its_line";
    if !can_trace(test) {
        return;
    }
    let hang = [("SIMGPU_ALLOC_SLEEP_NS", OsStr::new("3000000000"))];
    let (pythons, trace) = (pythons(test), Trace::new());
    let mut traced = Traced::start(&pythons, &trace, "callbacks,thread,fork", &hang);
    traced.pass_all();
    traced.victim.finish();
    for (python, all) in traced.reported(test) {
        assert_eq!(all.len(), 3);
        for reported in all {
            let Reported { pid, tid, .. } = reported;
            let row = format!("FROM calls_in_flight WHERE op = 'cudaMalloc' AND pid = {pid} AND tid = {tid}");
            let hung = Stored::of_id(&trace, trace.number(&format!("SELECT stack_id {row}")));
            // Where the call was made, which the kernel told too when it returned.
            reported.check_lines(python, &hung);
            let returned = reported.check(python, &trace);
            let context = format!("{} {}", python.version, reported.case);
            assert_eq!(hung.python().collect::<Vec<_>>(), returned.python().collect::<Vec<_>>(), "{context}");
        }
    }
}

/// What an independent reader sees while the call lasts is what is stored of that call.
#[test]
fn py_spy_agrees() {
    let test = "py_spy_agrees";
    if !can_trace(test) {
        return;
    }
    let Some(readers) = readers(test) else { return };
    let spy = readers.with_file_name("py-spy");
    let (pythons, trace) = (pythons(test), Trace::new());
    let sleep = [("SIMGPU_ALLOC_SLEEP_NS", OsStr::new("8000000000"))];
    let mut traced = Traced::start(&pythons, &trace, "callbacks", &sleep);
    traced.pass_all();
    wait_until("the victims have spoken", || {
        traced.reported(test).iter().all(|(_, reported)| !reported.is_empty())
    });
    let all: Vec<_> = traced
        .reported(test)
        .into_iter()
        .map(|(python, mut reported)| (python, reported.remove(0)))
        .collect();
    let all: Vec<_> =
        all.into_iter().map(|(python, reported)| (python, dump(&spy, reported.pid), reported)).collect();
    traced.victim.finish();
    let mut compared = 0;
    for (python, theirs, reported) in all {
        let Some(theirs) = theirs else {
            eprintln!("{test}: py-spy does not know Python {}", python.version);
            continue;
        };
        let stored = reported.check(python, &trace);
        let short = |name: &str| name.rsplit('.').next().unwrap().to_string();
        // It is a line off in the middle of some expressions of 3.10, where the interpreter's own f_lineno is not.
        let line = |line: i64| if python.minor == 10 { 0 } else { line };
        let ours: Vec<_> = stored
            .python()
            .map(|frame| (frame.file.clone(), short(&frame.function), line(frame.line)))
            .collect();
        let theirs: Vec<_> =
            theirs.into_iter().map(|(file, name, at)| (file, short(&name), line(at))).collect();
        assert_eq!(ours, theirs, "{} {}", python.version, reported.case);
        eprintln!("{test}: it does for Python {}", python.version);
        compared += 1;
    }
    if compared == 0 {
        skip(test, "py-spy knows none of the Pythons here");
    }
}

/// The frames of a process's only thread, once it is in its call; nothing where this Python is not known to py-spy.
fn dump(spy: &Path, pid: u32) -> Option<Vec<(String, String, i64)>> {
    let began = Instant::now();
    loop {
        // The victim sleeps in its call: it need not be stopped, which would cut that sleep short.
        let pid = pid.to_string();
        let output =
            Command::new(spy).args(["dump", "--nonblocking", "--json", "--pid", &pid]).output().unwrap();
        if !output.status.success() {
            eprintln!("{}", String::from_utf8_lossy(&output.stderr));
            return None;
        }
        let stacks: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let frames = stacks[0]["frames"].as_array()?;
        let words = frames.iter().map(|frame| {
            let word = |name: &str| frame[name].as_str().unwrap().to_string();
            (word("filename"), word("name"), frame["line"].as_i64().unwrap())
        });
        let words: Vec<_> = words.collect();
        // It calls right after it has spoken.
        if words.first().is_some_and(|(_, name, _)| name == "block") {
            return Some(words);
        }
        assert!(began.elapsed() < PATIENCE, "{words:?}");
    }
}
