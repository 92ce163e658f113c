//! Files and tables made to do harm.

use std::fs;
use std::process::Command;

use crate::support::{Victim, Workshop, assert_chain, has, stack_of, symbols};

/// Maps a file and calls the code in its second page.
const RUN_FILE: &str = r#"
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
static __attribute__((noinline)) void stop_here(void) { raise(SIGSTOP); }
int main(int argc, char **argv) {
    char *file = mmap(0, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE, open(argv[1], O_RDONLY), 0);
    ((void (*)(void (*)(void)))(file + 4096))(stop_here);
    return argc;
}
"#;
const CODE: [u8; 8] = [0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3];

#[test]
fn truncated_and_garbage_files_are_passed() {
    if !has("truncated_and_garbage_files_are_passed", &["gcc"]) {
        return;
    }
    let workshop = Workshop::new();
    workshop.compile("run.c", RUN_FILE, "victim", "-O1 -fno-omit-frame-pointer");
    let real = fs::read(workshop.path("victim")).unwrap();
    let all_ones = [&real[..20], &[0xff; 4076]].concat();
    let mut huge_tables = real[..4096].to_vec();
    huge_tables[40..48].copy_from_slice(&64u64.to_le_bytes());
    huge_tables[60..62].copy_from_slice(&0xffffu16.to_le_bytes());
    let garbage: Vec<u8> = (0..4096u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for (name, head) in [
        ("truncated", real[..4096].to_vec()),
        ("all ones", all_ones),
        ("huge tables", huge_tables),
        ("garbage", garbage),
        ("empty", vec![0; 4096]),
    ] {
        let mut bytes = head;
        bytes.extend_from_slice(&CODE);
        bytes.resize(8192, 0x7f);
        fs::write(workshop.path("file"), bytes).unwrap();
        let victim = Victim::start(Command::new(workshop.path("victim")).arg(workshop.path("file")));
        let (unwound, frames) = stack_of(&mut symbols(), &victim);
        let functions = crate::support::functions(&frames);
        let ours: Vec<_> = functions.iter().filter(|name| ["stop_here", "main"].contains(name)).collect();
        assert_eq!(ours, [&"stop_here", &"main"], "{name}: {frames:#?}");
        assert!(unwound.complete, "{name}");
    }
}

/// The frame is said to be at the value of an expression that jumps back to itself.
const LOOP: &str = r#"
#include <signal.h>
__attribute__((noinline)) int endless(int n) {
    __asm__ volatile(".cfi_remember_state\n\t.cfi_escape 0x0f, 3, 0x2f, 0xfd, 0xff" ::: "memory");
    raise(SIGSTOP);
    __asm__ volatile(".cfi_restore_state" ::: "memory");
    return n + 1;
}
int main(int argc, char **argv) { return endless(argc) + 1; }
"#;

#[test]
fn an_endless_expression_ends() {
    if !has("an_endless_expression_ends", &["gcc"]) {
        return;
    }
    let workshop = Workshop::new();
    workshop.compile("loop.c", LOOP, "victim", "-O1 -fno-omit-frame-pointer");
    let victim = Victim::program(&workshop.path("victim"));
    let (unwound, frames) = stack_of(&mut symbols(), &victim);
    assert_chain(&frames, &["endless"]);
    assert!(!unwound.complete);
}

/// Debug information of a function with functions inlined into each other a million times.
const DEEP: &str = r#"
#include <signal.h>
__attribute__((noinline)) int deep(int n) { raise(SIGSTOP); return n + 1; }
int main(int argc, char **argv) { return deep(argc) + 1; }
__asm__(".section .debug_abbrev,\"\",@progbits\n"
        "abbreviations: .byte 1, 0x11, 1, 0x11, 1, 0x12, 7, 0, 0\n"
        ".byte 2, 0x2e, 1, 0x11, 1, 0x12, 7, 0, 0\n"
        ".byte 3, 0x1d, 1, 0, 0, 0\n"
        ".section .debug_info,\"\",@progbits\n"
        ".long end - start\nstart: .short 4\n.long abbreviations\n.byte 8\n"
        ".byte 1\n.quad deep, 64\n"
        ".byte 2\n.quad deep, 64\n"
        ".fill 1000000, 1, 3\n"
        ".fill 1000002, 1, 0\nend:\n.text\n");
"#;

#[test]
fn bottomless_debug_information_is_not_followed() {
    if !has("bottomless_debug_information_is_not_followed", &["gcc"]) {
        return;
    }
    let workshop = Workshop::new();
    workshop.compile("deep.c", DEEP, "victim", "-O1");
    let victim = Victim::program(&workshop.path("victim"));
    let (unwound, frames) = stack_of(&mut symbols(), &victim);
    assert_chain(&frames, &["deep", "main"]);
    assert!(unwound.complete);
}

#[test]
fn enormous_names_are_cut() {
    if !has("enormous_names_are_cut", &["gcc"]) {
        return;
    }
    let workshop = Workshop::new();
    let name = "n".repeat(100_000);
    let source = format!(
        "#include <signal.h>\n__attribute__((noinline)) int {name}(int n) {{ raise(SIGSTOP); return n + 1; }}\n\
         int main(int argc, char **argv) {{ return {name}(argc) + 1; }}"
    );
    workshop.compile("name.c", &source, "victim", "-O1 -g");
    let victim = Victim::program(&workshop.path("victim"));
    let (unwound, frames) = stack_of(&mut symbols(), &victim);
    assert_chain(&frames, &[&name[..4096], "main"]);
    assert!(unwound.complete);
}
