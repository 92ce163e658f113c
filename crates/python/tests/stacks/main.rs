//! Real interpreters, read from outside: the python3 of the PATH, those of GPUWHY_PYTHONS (commands, a colon between
//! them), and those `scripts/pythons.sh` fetched. The victim says what its stack is.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod files;
mod oracle;
mod pythons;
mod victim;

use gpuwhy_python::{Interpreter, ProcessMemory, Thread, find, gil_holder, line_at, read_code, stack};
use gpuwhy_testkit::skip;
use pythons::pythons;
use victim::{Frame, Reported, Victim};

const CASES: [&str; 11] = [
    "plain",
    "callbacks",
    "generators",
    "comprehension",
    "init",
    "async",
    "thread",
    "subinterpreter",
    "fork",
    "unicode",
    "hot",
];

/// The stack as words, and which frames are entries.
fn frames(memory: &ProcessMemory, interpreter: &Interpreter, thread: Thread) -> (Vec<Frame>, Vec<bool>) {
    let raw = stack(memory, interpreter, thread, 256).unwrap();
    let words = raw.iter().map(|frame| {
        let code = read_code(memory, interpreter, frame.code).unwrap();
        let line = line_at(&interpreter.version, code.first_line, &code.linetable, frame.instr).unwrap_or(0);
        Frame(code.filename, code.name, line)
    });
    (words.collect(), raw.iter().map(|frame| frame.entry).collect())
}

/// Before 3.11 there are no qualified names.
fn short(frame: &Frame) -> Frame {
    let name = frame.1.rsplit('.').next().unwrap_or_default();
    Frame(frame.0.clone(), name.to_string(), frame.2)
}

fn check(command: &str, case: &str) {
    let Some(victim) = Victim::start(command, case) else { return };
    victim.await_blocked();
    let reported = &victim.reported;
    let interpreter = find(reported.pid).unwrap().expect("no Python found");
    let context = format!("{} {case} ({command})", interpreter.version);
    let memory = ProcessMemory::open(reported.pid).unwrap();
    let keeps_qualified_names = interpreter.layout.code_qualname != 0;
    let expected: Vec<Frame> = reported
        .frames
        .iter()
        .map(|frame| if keeps_qualified_names { frame.clone() } else { short(frame) })
        .collect();
    assert!(expected.len() >= if case == "unicode" { 7 } else { 9 }, "{context}");
    for thread in [
        Thread::of(reported.pid, reported.tid).unwrap(),
        Thread { native: reported.tid, fs_base: Some(reported.thread) },
    ] {
        let (got, entries) = frames(&memory, &interpreter, thread);
        assert!(got.len() >= expected.len(), "{context}: {got:#?}");
        assert_eq!(got[..expected.len()], expected, "{context}");
        check_entries(&context, case, &interpreter, &got, &entries);
        compare(&context, reported, &interpreter, &got);
    }
    // Everybody waits, so nobody has it.
    assert_eq!(gil_holder(&memory, &interpreter), None, "{context}");
    println!("{context}: {} frames are right", expected.len());
}

/// The stack of a victim is as it says.
fn check_plainly(context: &str, victim: &Victim) -> Interpreter {
    victim.await_blocked();
    let reported = &victim.reported;
    let interpreter = find(reported.pid).unwrap().expect("no Python found");
    let memory = ProcessMemory::open(reported.pid).unwrap();
    let (got, _) = frames(&memory, &interpreter, Thread::of(reported.pid, reported.tid).unwrap());
    let got: Vec<Frame> = got.iter().map(short).collect();
    let expected: Vec<Frame> = reported.frames.iter().map(short).collect();
    assert!(got.starts_with(&expected), "{} {context}: {got:#?}", interpreter.version);
    interpreter
}

/// With what py-spy says. It takes a free-threaded build for the other one, and is a line off in the middle of some
/// expressions of 3.10, where the interpreter's own `f_lineno` is as the victim says.
fn compare(context: &str, reported: &Reported, interpreter: &Interpreter, got: &[Frame]) {
    let version = &interpreter.version;
    if version.free_threaded {
        return;
    }
    let Some(theirs) = oracle::frames(reported.pid, reported.thread) else { return };
    let line = |line| if version.minor == 10 { 0 } else { line };
    let plain = |frames: &[Frame]| -> Vec<Frame> {
        frames.iter().map(short).map(|frame| Frame(frame.0, frame.1, line(frame.2))).collect()
    };
    // It tells every thread state of this thread.
    let theirs: Vec<Vec<Frame>> = theirs.iter().map(|frames| plain(frames)).collect();
    assert!(theirs.contains(&plain(got)), "{context}: {got:#?} is not among {theirs:#?}");
    println!("{context}: py-spy agrees");
}

/// Where native code called Python, Python began anew.
fn check_entries(context: &str, case: &str, interpreter: &Interpreter, got: &[Frame], entries: &[bool]) {
    if interpreter.version.minor < 11 {
        assert!(entries.iter().all(|entry| *entry), "{context}");
        return;
    }
    assert_eq!(entries.last(), Some(&true), "{context}");
    match case {
        "plain" => assert_eq!(entries.iter().filter(|entry| **entry).count(), 1, "{context}: {entries:?}"),
        "callbacks" => {
            let called_back: Vec<&str> = got
                .iter()
                .zip(entries)
                .filter(|(_, entry)| **entry)
                .map(|(frame, _)| frame.1.rsplit('.').next().unwrap_or_default())
                .collect();
            // From 3.12 on `self[0]` may call without leaving the eval loop, once it is hot; here it is cold.
            let expected =
                ["by_key", "by_map", "by_reduce", "__getitem__", "__len__", "by_partial", "<module>"];
            assert_eq!(called_back, expected, "{context}");
        }
        _ => {}
    }
}

fn for_every_python(case: &str) {
    let pythons = pythons();
    if pythons.is_empty() {
        skip(case, "there is no python3");
    }
    for command in pythons {
        check(&command, case);
    }
}

macro_rules! cases {
    ($($test:ident: $case:literal,)*) => {
        $(#[test] fn $test() { for_every_python($case); })*
        #[test]
        fn every_case_is_tested() {
            assert_eq!([$($case),*], CASES);
        }
    };
}

cases! {
    plain_calls: "plain",
    callbacks_from_native_code: "callbacks",
    generators: "generators",
    generator_expressions: "comprehension",
    objects_being_made: "init",
    tasks: "async",
    a_second_thread: "thread",
    a_second_interpreter: "subinterpreter",
    the_child_of_a_fork: "fork",
    names_that_are_not_ascii: "unicode",
    hot_code_of_a_second_thread: "hot",
}

#[test]
fn a_thread_that_computes_has_the_gil() {
    for command in pythons() {
        let Some(victim) = Victim::start(&command, "spin") else { continue };
        let reported = &victim.reported;
        let interpreter = find(reported.pid).unwrap().expect("no Python found");
        let context = format!("{} spin ({command})", interpreter.version);
        let memory = ProcessMemory::open(reported.pid).unwrap();
        // It gets to its loop soon after it has spoken.
        let spins =
            |frame: &Frame| (frame.1.rsplit('.').next(), frame.2) == (Some("spin"), reported.frames[0].2);
        let thread = Thread::of(reported.pid, reported.tid).unwrap();
        while !frames(&memory, &interpreter, thread).0.first().is_some_and(spins) {
            std::thread::yield_now();
        }
        let holder = gil_holder(&memory, &interpreter);
        if let (Some((state, _)), true) = (holder, interpreter.layout.tstate_status != 0) {
            let mut status = [0; 4];
            assert!(memory.read(state + u64::from(interpreter.layout.tstate_status), &mut status));
            assert_ne!(u32::from_le_bytes(status) & interpreter.layout.tstate_active_mask, 0, "{context}");
        }
        let holder = holder.map(|(_, native)| native);
        let expected = (!interpreter.version.free_threaded).then_some(Some(reported.tid));
        assert_eq!(holder, expected, "{context}");
    }
}

#[test]
fn a_process_without_python_has_none() {
    assert!(find(std::process::id()).unwrap().is_none());
    assert!(find(u32::MAX).is_err());
}

#[test]
fn a_thread_without_python_is_not_found() {
    for command in pythons() {
        let Some(victim) = Victim::start(&command, "plain") else { continue };
        let interpreter = find(victim.reported.pid).unwrap().expect("no Python found");
        let memory = ProcessMemory::open(victim.reported.pid).unwrap();
        let thread = Thread { native: u32::MAX - 1, fs_base: None };
        assert!(stack(&memory, &interpreter, thread, 8).is_err());
        let thread = Thread::of(victim.reported.pid, victim.reported.tid).unwrap();
        assert_eq!(stack(&memory, &interpreter, thread, 3).unwrap().len(), 3);
    }
}

/// As in a container: its own idea of process ids.
#[test]
fn a_process_in_a_pid_namespace() {
    for command in pythons() {
        let mut unshare = std::process::Command::new("unshare");
        let allowed = unshare.args(["--pid", "--fork", "true"]).status().is_ok_and(|status| status.success());
        if !allowed {
            skip("a_process_in_a_pid_namespace", "a process in a pid namespace: this user may not make one");
            return;
        }
        let mut unshare = std::process::Command::new("unshare");
        let Some(mut victim) =
            Victim::start_as(unshare.args(["--pid", "--fork", "--kill-child", &command]), "thread")
        else {
            continue;
        };
        let native = victim.reported.tid;
        victim.look_from_outside();
        assert_ne!(native, victim.reported.tid);
        check_plainly("in a pid namespace", &victim);
    }
}
