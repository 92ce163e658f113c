//! Native frames on the stacks of GPU calls: unwound without frame pointers, named after the end of the process.

use crate::frames::Stored;
use crate::support::{Trace, can_trace, done, sim, skip};
use crate::victim::Victim;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/e2e/native");
const DRIVER: &str = "libcuda.so.1";
const RUNTIME: &str = "libcudart.so.12";
const BYTES: &str = "81920";
/// Those of `nested.c`, innermost first.
const STEPS: [u32; 12] = [12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1];

/// Whether this can be done here; said aloud where not.
pub(crate) fn can_compile(test: &str, compiler: &str) -> bool {
    let there = can_trace(test) && Command::new(compiler).arg("--version").output().is_ok();
    if !there {
        skip(test, &format!("there is no {compiler}"));
    }
    there
}

pub(crate) fn compile(compiler: &str, out: &Path, source: &str, flags: &[&str], links: &[&Path]) {
    let output = Command::new(compiler)
        .args(["-O2", "-fomit-frame-pointer", "-Wall", "-Wextra"])
        .args(flags)
        .arg("-o")
        .arg(out)
        .arg(Path::new(SOURCES).join(source))
        .args(links)
        .arg(format!("-Wl,-rpath-link,{}", sim().display()))
        .output()
        .unwrap();
    done(output);
}

/// A program and its library, in a folder of their own.
struct Built {
    folder: tempfile::TempDir,
    program: PathBuf,
    library: PathBuf,
}

impl Built {
    fn new(compiler: &str, source: &str, flags: &[&str]) -> Built {
        Self::linked(compiler, source, flags, &[])
    }

    /// `more`: libraries it calls, as source and name.
    fn linked(compiler: &str, source: &str, flags: &[&str], more: &[(&str, &str)]) -> Built {
        let folder = tempfile::tempdir().unwrap();
        let runtime = sim().join(RUNTIME);
        let mut links = vec![runtime.clone()];
        for (source, name) in more {
            let out = folder.path().join(name);
            let soname = format!("-Wl,-soname,{name}");
            compile(compiler, &out, source, &["-shared", "-fPIC", &soname], &[&runtime]);
            links.push(out);
        }
        let links: Vec<&Path> = links.iter().map(PathBuf::as_path).collect();
        let library = folder.path().join("libvictim.so");
        let shared = ["-shared", "-fPIC", "-Wl,-soname,libvictim.so"];
        let flags: Vec<&str> = shared.iter().chain(flags).copied().collect();
        compile(compiler, &library, source, &flags, &links);
        let program = folder.path().join("main");
        compile("gcc", &program, "main.c", &[], &[&library, &runtime]);
        Built { folder, program, library }
    }

    /// Traces it to its end: the stack of its call.
    fn trace(&self, flags: &[&str], environment: &[(&str, &OsStr)]) -> Stored {
        let trace = Trace::new();
        let words = [self.program.to_str().unwrap(), BYTES];
        let libraries = [self.folder.path(), sim()];
        // What lies beside the program is all there is to attach to where it has a driver of its own.
        let libraries = &libraries[..if self.folder.path().join(DRIVER).exists() { 1 } else { 2 }];
        let mut victim = Victim::start(&trace, flags, libraries, &words, environment);
        let pid = victim.pass("gate");
        victim.finish();
        stack_of(&trace, pid)
    }
}

fn stack_of(trace: &Trace, pid: u64) -> Stored {
    let stored = Stored::of(trace, &format!("op = 'cudaMalloc' AND pid = {pid} AND bytes = {BYTES}"));
    assert!(stored.complete, "not unwound to its end: {}", stored.shown());
    stored
}

/// These functions follow each other, and `main` comes at once.
fn check_nested(stored: &Stored, names: &[String]) {
    let functions = stored.functions();
    let from = stored.position(&names[0]).unwrap_or_else(|| panic!("no {}: {}", names[0], stored.shown()));
    let expected: Vec<&str> = names.iter().map(String::as_str).chain(["call"]).collect();
    assert_eq!(functions[from..from + expected.len()], expected, "{}", stored.shown());
    assert_eq!(functions.last(), Some(&"_start"), "{}", stored.shown());
}

fn steps(name: &str) -> Vec<String> {
    STEPS.iter().map(|number| format!("{name}_{number}")).collect()
}

#[test]
fn a_stack_without_frame_pointers_of_a_process_that_ended() {
    let test = "a_stack_without_frame_pointers_of_a_process_that_ended";
    if !can_compile(test, "gcc") {
        return;
    }
    let built = Built::new("gcc", "nested.c", &[]);
    let stored = built.trace(&[], &[("VICTIM_DELETE", built.library.as_os_str())]);
    assert!(!built.library.exists());
    let names: Vec<String> = std::iter::once("allocate".into()).chain(steps("step")).collect();
    check_nested(&stored, &names);
    let call = stored.position("call").unwrap();
    assert_eq!(stored.frames[call + 1].function, "main", "{}", stored.shown());
    assert_eq!(stored.frames[call].module, built.library.to_str().unwrap());
}

#[test]
fn a_stripped_library_has_the_names_it_exports() {
    let test = "a_stripped_library_has_the_names_it_exports";
    if !can_compile(test, "gcc") {
        return;
    }
    let stored = Built::new("gcc", "nested.c", &["-s"]).trace(&[], &[]);
    check_nested(&stored, &steps("step"));
    assert!(!stored.has("allocate"), "it is not exported: {}", stored.shown());
}

#[test]
fn inlined_functions_and_lines() {
    let test = "inlined_functions_and_lines";
    if !can_compile(test, "gcc") {
        return;
    }
    let stored = Built::new("gcc", "inlined.c", &["-g"]).trace(&[], &[]);
    let source = std::fs::read_to_string(Path::new(SOURCES).join("inlined.c")).unwrap();
    let from = stored.position("innermost").unwrap_or_else(|| panic!("{}", stored.shown()));
    for (frame, (name, inlined)) in stored.frames[from..].iter().zip([
        ("innermost", true),
        ("middle", true),
        ("outer", false),
        ("call", false),
    ]) {
        let marker = format!("// at {name}");
        let line = 1 + source.lines().position(|line| line.ends_with(&marker)).unwrap() as i64;
        assert_eq!(
            (frame.function.as_str(), frame.line, frame.inlined),
            (name, line, inlined),
            "{}",
            stored.shown()
        );
        assert!(frame.file.ends_with("native/inlined.c"), "{}", stored.shown());
    }
}

#[test]
fn names_of_cpp_are_readable() {
    let test = "names_of_cpp_are_readable";
    if !can_compile(test, "g++") {
        return;
    }
    let stored = Built::new("g++", "mangled.cpp", &[]).trace(&[], &[]);
    let name = "trainer::Model<float>::step(float*, unsigned long) const";
    check_nested(&stored, &[name.to_string()]);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn code_made_at_run_time_has_the_names_of_its_map() {
    let test = "code_made_at_run_time_has_the_names_of_its_map";
    if !can_compile(test, "gcc") {
        return;
    }
    let stored = Built::new("gcc", "jit.c", &[]).trace(&[], &[]);
    check_nested(&stored, &["allocate".into(), "jitted_step".into()]);
}

/// The outer call's return address is the probe's for the time being.
fn check_call_inside_a_call(flavour: &str) {
    let test = format!("a_call_inside_a_call ({flavour})");
    if !can_compile(&test, "gcc") {
        return;
    }
    let built = Built::linked("gcc", "collective.c", &[], &[("nccl.c", "libnccl.so.2")]);
    if flavour == "single" {
        // The kernel takes its time to detach each of those.
        for name in [DRIVER, RUNTIME] {
            std::fs::copy(sim().join(name), built.folder.path().join(name)).unwrap();
        }
    }
    let stored = built.trace(&["--attach", flavour], &[]);
    let names = ["enqueue", "ncclAllReduce", "reduce"].map(String::from);
    check_nested(&stored, &names);
}

#[test]
fn a_call_inside_a_call_with_session_probes() {
    check_call_inside_a_call("session");
}

#[test]
fn a_call_inside_a_call_with_multi_probes() {
    check_call_inside_a_call("multi");
}

#[test]
fn a_call_inside_a_call_with_single_probes() {
    check_call_inside_a_call("single");
}

#[test]
fn the_same_path_in_two_mount_namespaces() {
    let test = "the_same_path_in_two_mount_namespaces";
    if !can_compile(test, "gcc") {
        return;
    }
    let mut unshare = Command::new("unshare");
    if !unshare.args(["--mount", "true"]).status().is_ok_and(|status| status.success()) {
        return skip(test, "no mount namespace can be made here");
    }
    let red = Built::new("gcc", "nested.c", &["-DNAME=red"]);
    let blue = Built::new("gcc", "nested.c", &["-DNAME=blue"]);
    let seen_at = tempfile::tempdir().unwrap();
    let (at, program) = (seen_at.path().display(), seen_at.path().join("main"));
    let start = |color: &str, built: &Built| {
        format!(
            "VICTIM_GATE=$VICTIM_GATE-{color} unshare --mount sh -c 'mount --bind {} {at} && exec {} {BYTES}' & ",
            built.folder.path().display(),
            program.display()
        )
    };
    let script = format!("{}{}wait", start("red", &red), start("blue", &blue));
    let trace = Trace::new();
    let mut victim = Victim::start(&trace, &[], &[seen_at.path(), sim()], &["sh", "-c", &script], &[]);
    let pids = ["red", "blue"].map(|color| victim.pass(&format!("gate-{color}")));
    victim.finish();
    for (pid, color) in pids.into_iter().zip(["red", "blue"]) {
        check_nested(&stack_of(&trace, pid), &steps(color));
    }
}

#[test]
fn stacks_as_asked_for() {
    if !can_trace("stacks_as_asked_for") {
        return;
    }
    let launch = ["launch", "--launches", "20000"];
    let sampled = "SELECT count(*) FROM cuda_events WHERE kept = 'sample' AND op = 'cuLaunchKernel'";
    for (mode, with, without) in [("off", false, true), ("auto", false, true), ("on", true, false)] {
        let trace = Trace::new();
        trace.of_simwork(&["--stacks", mode], &launch);
        let having = |condition: &str| trace.number(&format!("{sampled} AND {condition}")) > 0;
        assert_eq!(having("stack_id IS NOT NULL"), with, "--stacks {mode}");
        assert_eq!(having("stack_id IS NULL"), without, "--stacks {mode}");
        let stacks =
            trace.number("SELECT count(*) FROM stacks") + trace.number("SELECT count(*) FROM frames");
        assert_eq!(stacks == 0, mode == "off", "--stacks {mode} stored {stacks}");
    }
}
