//! An interpreter: deep C stacks of somebody else's build.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Victim, functions, has, stack_of, symbols};

const NESTED: &str = "
import time
def a(): b()
def b(): list(map(c, [1]))
def c(_): time.sleep(1000)
a()
";

#[test]
fn a_sleeping_interpreter_is_unwound_to_its_start() {
    if !has("a_sleeping_interpreter_is_unwound_to_its_start", &["python3"]) {
        return;
    }
    let program = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
    let program = String::from_utf8(program.stdout).unwrap();
    let child =
        Command::new(program.trim()).args(["-S", "-c", NESTED]).stdout(Stdio::null()).spawn().unwrap();
    let victim = Victim::running(child);
    // clock_nanosleep, or select in old versions.
    let asleep = || {
        let call = std::fs::read_to_string(format!("/proc/{}/syscall", victim.pid())).unwrap_or_default();
        ["230 ", "23 ", "270 "].iter().any(|number| call.starts_with(number))
    };
    let start = Instant::now();
    while !asleep() {
        assert!(start.elapsed() < Duration::from_secs(60), "python3 never slept");
        std::thread::sleep(Duration::from_millis(5));
    }
    let (unwound, frames) = stack_of(&mut symbols(), &victim);
    let functions = functions(&frames);
    assert!(unwound.complete, "{frames:#?}");
    assert!(
        ["_start", "main"].contains(functions.last().unwrap()) || functions.contains(&"main"),
        "{functions:?}"
    );
    // A stripped interpreter exports it, or there are no names at all.
    if functions.iter().any(|name| name.starts_with("Py_")) {
        assert!(functions.contains(&"_PyEval_EvalFrameDefault"), "{functions:?}");
    }
}
