//! Code that is in no file.

use std::fs;
use std::process::Command;

use crate::support::{Victim, Workshop, assert_chain, has, stack_of, symbols};

/// Makes a function with a frame pointer that calls its argument.
const JIT: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static __attribute__((noinline)) void stop_here(void) { raise(SIGSTOP); }
int main(int argc, char **argv) {
    static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
    void *page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, code, sizeof(code));
    char path[64];
    snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(path, "w");
    fprintf(map, "%lx %lx py::train:/job/train.py\n", (long)page, (long)sizeof(code));
    fclose(map);
    ((void (*)(void (*)(void)))page)(stop_here);
    return argc;
}
"#;

#[test]
fn a_perf_map_names_code_made_at_run_time() {
    if !has("a_perf_map_names_code_made_at_run_time", &["gcc"]) {
        return;
    }
    let workshop = Workshop::new();
    workshop.compile("jit.c", JIT, "victim", "-O1 -fno-omit-frame-pointer");
    let victim = Victim::start(&mut Command::new(workshop.path("victim")));
    let map = format!("/tmp/perf-{}.map", victim.pid());
    let mut symbols = symbols();
    let (unwound, frames) = stack_of(&mut symbols, &victim);
    assert_chain(&frames, &["stop_here", "py::train:/job/train.py", "main"]);
    assert!(unwound.complete);
    let made = frames.iter().find(|frame| frame.module == "perf-map").unwrap();
    assert_eq!(symbols.module_of(victim.pid(), made.address).unwrap().path, "[anon]");
    if nix::unistd::geteuid().is_root() {
        // Written by somebody else: it is not believed.
        std::os::unix::fs::chown(&map, Some(12_345), None).unwrap();
        let (_, frames) = stack_of(&mut crate::support::symbols(), &victim);
        assert_chain(&frames, &["stop_here", "?", "main"]);
    }
    fs::remove_file(map).unwrap();
}
