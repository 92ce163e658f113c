//! Processes that change while they are looked at.

use std::process::Command;
use std::time::Duration;

use gpuwhy_symbols::{Limits, Symbols};

use crate::support::{MAX_FRAMES, Victim, Workshop, assert_chain, has, stack_of, symbols};

const THREAD: &str = r#"
#include <pthread.h>
#include <signal.h>
__attribute__((noinline)) int inside(int n) { raise(SIGSTOP); return n + 1; }
static void *body(void *argument) { return (char *)argument + inside(1); }
int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, body, 0);
    return pthread_join(thread, 0);
}
"#;

#[test]
fn a_thread_is_followed_to_where_it_started() {
    if !has("a_thread_is_followed_to_where_it_started", &["gcc"]) {
        return;
    }
    let workshop = Workshop::new();
    workshop.compile("thread.c", THREAD, "victim", "-O2 -pthread");
    let victim = Victim::program(&workshop.path("victim"));
    let mut symbols = symbols();
    symbols.see(victim.pid());
    let (registers, stack) = victim.capture_thread(victim.threads()[0]);
    let unwound = symbols.unwind(victim.pid(), registers, &stack, &[], MAX_FRAMES);
    let frames = symbols.frames(victim.pid(), &unwound.addresses).concat();
    assert_chain(&frames, &["inside", "body"]);
    assert!(unwound.complete, "{frames:#?}");
    assert!(frames.last().unwrap().function.as_deref().is_some_and(|name| name.contains("clone")));
}

const LATER: &str = r#"
#include <dlfcn.h>
#include <signal.h>
int main(int argc, char **argv) {
    raise(SIGSTOP);
    int (*entry)(int) = (int (*)(int))dlsym(dlopen(argv[1], RTLD_NOW), "entry");
    return entry(argc) + 1;
}
"#;
const LIBRARY: &str = r#"
#include <signal.h>
__attribute__((noinline)) int late(int n) { raise(SIGSTOP); return n + 1; }
int entry(int n) { return late(n) + 1; }
"#;

#[test]
fn a_library_that_is_loaded_later_is_found() {
    if !has("a_library_that_is_loaded_later_is_found", &["gcc"]) {
        return;
    }
    let workshop = Workshop::new();
    workshop.compile("library.c", LIBRARY, "liblate.so", "-O2 -shared -fPIC -fno-optimize-sibling-calls");
    workshop.compile("later.c", LATER, "victim", "-O2 -ldl");
    let victim = Victim::start(Command::new(workshop.path("victim")).arg(workshop.path("liblate.so")));
    let mut symbols = Symbols::new(Limits { reread_after: Duration::ZERO, ..Limits::default() });
    symbols.see(victim.pid());
    victim.go_on();
    let (registers, stack) = victim.capture();
    let unwound = symbols.unwind(victim.pid(), registers, &stack, &[], MAX_FRAMES);
    let frames = symbols.frames(victim.pid(), &unwound.addresses).concat();
    assert_chain(&frames, &["late", "entry", "main"]);
    assert!(unwound.complete);
}

const PROGRAM: &str = r#"
#include <signal.h>
__attribute__((noinline)) int second(int n) { raise(SIGSTOP); return n + 1; }
int main(int argc, char **argv) { return second(argc) + 1; }
"#;

#[test]
fn a_process_that_runs_another_program_is_met_anew() {
    if !has("a_process_that_runs_another_program_is_met_anew", &["gcc"]) {
        return;
    }
    let workshop = Workshop::new();
    workshop.compile("program.c", PROGRAM, "victim", "-O2 -no-pie");
    let script = format!("kill -STOP $$; exec {}", workshop.path("victim").display());
    let victim = Victim::start(Command::new("sh").args(["-c", &script]));
    let mut symbols = symbols();
    let (before, _) = stack_of(&mut symbols, &victim);
    victim.go_on();
    let (unwound, frames) = stack_of(&mut symbols, &victim);
    assert_chain(&frames, &["second", "main"]);
    assert!(unwound.complete);
    // The shell's code is at other addresses, and no more.
    let outermost = before.addresses.last().unwrap();
    assert!(symbols.module_of(victim.pid(), *outermost).is_none());
}

#[test]
fn few_files_at_a_time_are_enough() {
    if !has("few_files_at_a_time_are_enough", &["gcc"]) {
        return;
    }
    let workshop = Workshop::new();
    workshop.compile("program.c", PROGRAM, "victim", "-O2 -g");
    let victim = Victim::program(&workshop.path("victim"));
    let limits = Limits {
        files: 1,
        processes: 1,
        addresses: 2,
        table_bytes: 1 << 20,
        symbol_bytes: 64 << 20,
        ..Limits::default()
    };
    let mut symbols = Symbols::new(limits);
    let (unwound, frames) = stack_of(&mut symbols, &victim);
    assert_chain(&frames, &["second", "main"]);
    assert!(unwound.complete);
    symbols.see(std::process::id());
    let (again, frames) = stack_of(&mut symbols, &victim);
    assert_chain(&frames, &["second", "main"]);
    assert_eq!(again, unwound);
}

#[test]
fn names_that_were_dropped_are_read_again() {
    if !has("names_that_were_dropped_are_read_again", &["gcc"]) {
        return;
    }
    let workshop = Workshop::new();
    workshop.compile("program.c", PROGRAM, "victim", "-O2 -g");
    let victim = Victim::program(&workshop.path("victim"));
    let limits = Limits { addresses: 1, names_idle: Duration::ZERO, ..Limits::default() };
    let mut symbols = Symbols::new(limits);
    let (_, frames) = stack_of(&mut symbols, &victim);
    symbols.drop_unused();
    assert_eq!(stack_of(&mut symbols, &victim).1, frames);
    assert_chain(&frames, &["second", "main"]);
}

#[test]
fn lines_that_take_too_much_memory_are_not_read() {
    if !has("lines_that_take_too_much_memory_are_not_read", &["gcc"]) {
        return;
    }
    let workshop = Workshop::new();
    workshop.compile("program.c", PROGRAM, "victim", "-O2 -g");
    let victim = Victim::program(&workshop.path("victim"));
    let has_lines = |debug_bytes: u64| {
        let mut symbols = Symbols::new(Limits { debug_bytes, ..Limits::default() });
        let (_, frames) = stack_of(&mut symbols, &victim);
        assert_chain(&frames, &["second", "main"]);
        frames.iter().any(|frame| frame.function.as_deref() == Some("second") && frame.line.is_some())
    };
    // Its sections are smaller than this, what is held of its unit is not.
    assert!(!has_lines(12 << 10));
    assert!(has_lines(1 << 20));
}
