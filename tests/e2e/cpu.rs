//! Samples of running code, against what a program knows of its own CPU time; and traces with some of the probes only.

use crate::native::{can_compile, compile};
use crate::python::pythons;
use crate::support::{Trace, ahead_of_others, alone, can_trace, done, gpuwhy, sim};
use crate::victim::Victim;
use serde_json::Value;
use std::ffi::OsStr;

const BUSY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/e2e/cpu/busy.py");
/// CPU seconds of each of its phases.
const SECONDS: f64 = 1.0;

/// What the program says of itself; its trace.
fn busy(python: &str, flags: &[&str]) -> (Value, Trace) {
    let trace = Trace::new();
    let spin = OsStr::new("20000000");
    let environment = [("VICTIM_GPU", sim().as_os_str()), ("SIMGPU_ALLOC_SPIN_NS", spin)];
    // How often it is sampled is chance where it takes turns with others.
    let seconds = SECONDS.to_string();
    let words = [ahead_of_others(), &[python, BUSY, &seconds]].concat();
    let mut victim = Victim::start(&trace, flags, &[sim()], &words, &environment);
    victim.pass("gate");
    victim.finish();
    let says = std::fs::read_to_string(victim.folder().join("gate.says")).unwrap();
    (serde_json::from_str(&says).unwrap(), trace)
}

/// CPU seconds that samples of a phase stand for: of those with its function on their stack.
fn sampled_s(trace: &Trace, truth: &Value, phase: &str, condition: &str) -> f64 {
    let sql = format!(
        "SELECT sum(weight_ns) FROM cpu_samples c WHERE pid = {} AND tid = {} AND {condition} AND EXISTS \
         (SELECT 1 FROM frames f WHERE f.stack_id = c.stack_id AND kind = 'python' AND function = '{phase}')",
        truth["pid"], truth["tid"]
    );
    trace.number(&sql) as f64 / 1e9
}

#[test]
fn samples_show_where_a_python_thread_spends_its_cpu_time() {
    let test = "samples_show_where_a_python_thread_spends_its_cpu_time";
    if !can_trace(test) {
        return;
    }
    let _turn = alone();
    for python in pythons(test) {
        let (truth, trace) = busy(&python.command, &[]);
        for (phase, condition) in [
            ("hot", "op IS NULL AND gc = 0"),
            ("collect", "op IS NULL AND gc = 1"),
            ("call", "op = 'cudaMalloc'"),
        ] {
            let spent_s = truth[phase].as_f64().unwrap();
            let found_s = sampled_s(&trace, &truth, phase, condition);
            let context =
                format!("{}: {phase} took {spent_s} s, {found_s} s where {condition}", python.version);
            // A period or two is the error of the samples; the rest is what a phase does besides.
            assert!((0.8 * spent_s..1.1 * spent_s).contains(&found_s), "{context}");
        }
        let native = trace.number(
            "SELECT count(*) FROM cpu_samples JOIN frames USING (stack_id) WHERE op = 'cudaMalloc' AND depth = 0 \
             AND (module LIKE '%libcuda.so%' OR module = '[vdso]')",
        );
        let innermost = "SELECT group_concat(place, '; ') FROM (SELECT count(*) || ' in ' || kind || ' ' || ifnull(module, '?') || ' ' \
                         || ifnull(function, '?') AS place FROM cpu_samples LEFT JOIN frames USING (stack_id) WHERE op = 'cudaMalloc' \
                         AND ifnull(depth, 0) = 0 GROUP BY kind, module, function)";
        assert!(
            native > 0,
            "{}: no sample names the library it is in: {}",
            python.version,
            trace.text(innermost)
        );
        // Stacks are few whatever the instruction.
        assert!(trace.number("SELECT count(DISTINCT stack_id) FROM cpu_samples") < 150, "{}", python.version);
    }
}

/// PyTorch's backward pass runs in such a thread: it has Python frames in hooks and in functions of the program's own.
#[test]
fn samples_of_a_native_thread_that_calls_python_have_its_frames() {
    let test = "samples_of_a_native_thread_that_calls_python_have_its_frames";
    if !can_trace(test) || !can_compile(test, "gcc") {
        return;
    }
    let _turn = alone();
    for python in pythons(test) {
        let trace = Trace::new();
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("libthread.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/e2e/cpu/native_thread.c");
        compile("gcc", &library, source, &["-shared", "-fPIC"], &[]);
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/e2e/cpu/native_thread.py");
        let words = [ahead_of_others(), &[&python.command, script, library.to_str().unwrap()]].concat();
        let environment = [("VICTIM_GPU", sim().as_os_str())];
        let mut victim = Victim::start(&trace, &[], &[sim()], &words, &environment);
        victim.pass("gate");
        victim.finish();
        let said = std::fs::read_to_string(victim.folder().join("gate.says")).unwrap();
        let truth: Value = serde_json::from_str(&said).unwrap();
        for function in ["with_its_state", "with_new_states"] {
            let sql = format!(
                "SELECT sum(weight_ns) FROM cpu_samples c WHERE pid = {} AND EXISTS (SELECT 1 FROM frames f WHERE \
                 f.stack_id = c.stack_id AND kind = 'python' AND function = '{function}')",
                truth["pid"]
            );
            let (spent_s, found_s) = (truth[function].as_f64().unwrap(), trace.number(&sql) as f64 / 1e9);
            let context = format!("{}: {function} took {spent_s} s, found {found_s} s", python.version);
            assert!((0.7 * spent_s..1.2 * spent_s).contains(&found_s), "{context}");
        }
    }
}

#[test]
fn without_stacks_samples_are_counted() {
    let test = "without_stacks_samples_are_counted";
    if !can_trace(test) {
        return;
    }
    let _turn = alone();
    let Some(python) = pythons(test).into_iter().next() else { return };
    let (_, trace) = busy(&python.command, &["--stacks", "off"]);
    assert_eq!(trace.number("SELECT count(stack_id) FROM cpu_samples"), 0);
    let sampled_s = trace.number("SELECT sum(weight_ns) FROM cpu_samples") as f64 / 1e9;
    assert!((0.8 * 3.0 * SECONDS..1.2 * 3.0 * SECONDS).contains(&sampled_s), "{sampled_s}");
    assert!(trace.number("SELECT count(*) FROM cpu_samples WHERE op = 'cudaMalloc'") > 0);
}

#[test]
fn samples_of_a_native_thread_name_its_functions() {
    let test = "samples_of_a_native_thread_name_its_functions";
    if !can_trace(test) {
        return;
    }
    let _turn = alone();
    let trace = Trace::new();
    let truth = trace
        .of_simwork(&["--probes", "cuda,cpu"], &["hold", "--for", "spin", "--ms", "50", "--rounds", "20"]);
    let samples = trace.number("SELECT count(*) FROM cpu_samples");
    assert!(samples > 20, "{samples} samples: {truth}");
    let named = trace.number(
        "SELECT count(DISTINCT timestamp_ns) FROM cpu_samples JOIN frames USING (stack_id) WHERE module IS NOT NULL",
    );
    assert!(named * 10 >= samples * 9, "{named} of {samples} samples are in a module");
    let mut export = gpuwhy();
    export.arg("export").arg(trace.file()).args(["--format", "chrome", "-o", "-"]);
    let exported = done(export.output().unwrap());
    assert_eq!(exported.matches("cpu_sample\"").count() as i64, samples);
}

#[test]
fn any_subset_of_the_probes_can_be_traced() {
    let test = "any_subset_of_the_probes_can_be_traced";
    if !can_trace(test) {
        return;
    }
    for probes in ["sched", "cpu", "cpu,sched", "sched,mem,irq,io,tcp", "mem", "nccl", "driver"] {
        let trace = Trace::new();
        let out = trace.file();
        let mut command = gpuwhy();
        command.args(["trace", "--probes", probes, "--out"]).arg(&out).args(["--", "true"]);
        done(command.output().unwrap());
        let refused = trace.number("SELECT count(*) FROM probes WHERE state = 'refused'");
        assert_eq!(refused, 0, "{probes}");
    }
}

#[test]
fn samples_alone_bring_what_follows_the_threads() {
    let test = "samples_alone_bring_what_follows_the_threads";
    if !can_trace(test) {
        return;
    }
    let trace = Trace::new();
    let busy = "import time\nend = time.time() + 1\nwhile time.time() < end: sum(range(1000))";
    let mut command = gpuwhy();
    command.args(["trace", "--probes", "cpu", "--out"]).arg(trace.file()).args(["--", "python3", "-c", busy]);
    done(command.output().unwrap());
    let samples = trace.number("SELECT count(*) FROM cpu_samples");
    assert!(samples >= 5, "{samples} samples of a second of computing");
}
