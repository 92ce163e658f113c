//! Where names and lines come from.

use std::fs;

use crate::support::{
    MAX_FRAMES, Victim, Workshop, assert_chain, functions, has, is_root, stack_of, symbols,
};

const INLINED: &str = r#"#include <signal.h>
static inline __attribute__((always_inline)) int inner(int n) {
    raise(SIGSTOP);
    return n + 1;
}
static inline __attribute__((always_inline)) int middle(int n) {
    return inner(n) + 1;
}
__attribute__((noinline)) int outer(int n) {
    return middle(n) + 1;
}
int main(int argc, char **argv) {
    return outer(argc) + 1;
}
"#;

/// Function, line, inlined: what the source above says.
const TRUTH: [(&str, u32, bool); 4] =
    [("inner", 3, true), ("middle", 7, true), ("outer", 10, false), ("main", 13, false)];

fn assert_inlined(frames: &[gpuwhy_symbols::Frame]) {
    let ours: Vec<_> = frames
        .iter()
        .filter(|frame| frame.file.as_deref().is_some_and(|file| file.ends_with("inlined.c")))
        .map(|frame| (frame.function.as_deref().unwrap(), frame.line.unwrap(), frame.inlined))
        .collect();
    assert_eq!(ours, TRUTH, "{frames:#?}");
}

#[test]
fn inlined_functions_have_lines() {
    if !has("inlined_functions_have_lines", &["gcc"]) {
        return;
    }
    for format in ["-gdwarf-5", "-gdwarf-4", "-g -gz=zlib"] {
        let workshop = Workshop::new();
        workshop.compile("inlined.c", INLINED, "victim", &format!("-O2 {format}"));
        let victim = Victim::program(&workshop.path("victim"));
        let (unwound, frames) = stack_of(&mut symbols(), &victim);
        assert_inlined(&frames);
        assert!(unwound.complete);
    }
}

#[test]
fn a_debug_file_is_found_by_its_link() {
    if !has("a_debug_file_is_found_by_its_link", &["gcc", "objcopy", "strip"]) {
        return;
    }
    for (place, build_id) in
        [("victim.debug", "-Wl,--build-id"), (".debug/victim.debug", "-Wl,--build-id=none")]
    {
        let workshop = Workshop::new();
        fs::create_dir(workshop.path(".debug")).unwrap();
        workshop.compile("inlined.c", INLINED, "victim", &format!("-O2 -g {build_id}"));
        workshop.run("objcopy", &format!("--only-keep-debug victim {place}"));
        workshop.run("strip", "victim");
        workshop.run("objcopy", &format!("--add-gnu-debuglink={place} victim"));
        let victim = Victim::program(&workshop.path("victim"));
        let (_, frames) = stack_of(&mut symbols(), &victim);
        assert_inlined(&frames);
    }
}

#[test]
fn a_debug_file_is_found_by_its_build_id_in_the_processs_root() {
    let test = "a_debug_file_is_found_by_its_build_id_in_the_processs_root";
    if !has(test, &["gcc", "objcopy", "strip", "chroot"]) || !is_root(test) {
        return;
    }
    let workshop = Workshop::new();
    let id = "ab12cd34ef567890ab12cd34ef567890ab12cd34";
    workshop.compile("inlined.c", INLINED, "victim", &format!("-O2 -g -static -Wl,--build-id=0x{id}"));
    let folder = workshop.path(&format!("usr/lib/debug/.build-id/{}", &id[..2]));
    fs::create_dir_all(&folder).unwrap();
    // A link to a place in its own root, and not in ours.
    workshop.run("objcopy", "--only-keep-debug victim elsewhere");
    std::os::unix::fs::symlink("/elsewhere", folder.join(format!("{}.debug", &id[2..]))).unwrap();
    workshop.run("strip", "victim");
    let mut command = std::process::Command::new("chroot");
    let mut victim = Victim::start(command.arg(workshop.folder.path()).arg("/victim"));
    let (registers, stack) = victim.capture();
    let mut symbols = symbols();
    symbols.see(victim.pid());
    victim.end();
    let unwound = symbols.unwind(victim.pid(), registers, &stack, &[], MAX_FRAMES);
    let frames = symbols.frames(victim.pid(), &unwound.addresses).concat();
    assert_inlined(&frames);
    assert!(unwound.complete);
    let module = symbols.module_of(victim.pid(), *unwound.addresses.last().unwrap()).unwrap();
    assert_eq!(module.build_id.as_deref(), Some(id));
}

const LIBRARY: &str = r#"
#include <signal.h>
static __attribute__((noinline)) int hidden(int n) { raise(SIGSTOP); return n + 1; }
__attribute__((noinline)) int NAME(int n) { return hidden(n) + 1; }
int entry(int n) { return NAME(n) + 1; }
"#;
const MAIN: &str = "int entry(int); int main(int argc, char **argv) { return entry(argc) + 1; }";

fn build_library(workshop: &Workshop, name: &str) {
    let args = format!("-O2 -shared -fPIC -fno-optimize-sibling-calls -DNAME={name}");
    workshop.compile("library.c", LIBRARY, "liblibrary.so", &args);
}

#[test]
fn a_stripped_library_still_has_its_exported_names() {
    if !has("a_stripped_library_still_has_its_exported_names", &["gcc", "strip"]) {
        return;
    }
    let workshop = Workshop::new();
    build_library(&workshop, "exported");
    workshop.run("strip", "liblibrary.so");
    workshop.compile("main.c", MAIN, "victim", "-llibrary");
    let victim = Victim::program(&workshop.path("victim"));
    let (unwound, frames) = stack_of(&mut symbols(), &victim);
    // The one that is not exported has no name, rather than a wrong one.
    assert_chain(&frames, &["?", "exported", "entry", "main"]);
    assert!(unwound.complete);
}

#[test]
fn a_file_that_was_replaced_is_still_the_old_one() {
    if !has("a_file_that_was_replaced_is_still_the_old_one", &["gcc"]) {
        return;
    }
    let workshop = Workshop::new();
    build_library(&workshop, "before");
    workshop.compile("main.c", MAIN, "victim", "-llibrary");
    let old = Victim::program(&workshop.path("victim"));
    fs::remove_file(workshop.path("liblibrary.so")).unwrap();
    build_library(&workshop, "after_");
    let new = Victim::program(&workshop.path("victim"));
    fs::remove_file(workshop.path("liblibrary.so")).unwrap();
    let mut symbols = symbols();
    if !is_root("a_file_that_was_replaced_is_still_the_old_one") {
        return;
    }
    assert_chain(&stack_of(&mut symbols, &old).1, &["hidden", "before", "entry", "main"]);
    assert_chain(&stack_of(&mut symbols, &new).1, &["hidden", "after_", "entry", "main"]);
}

#[test]
fn a_file_that_was_written_over_is_not_read() {
    if !has("a_file_that_was_written_over_is_not_read", &["gcc"]) {
        return;
    }
    let workshop = Workshop::new();
    build_library(&workshop, "before");
    workshop.compile("main.c", MAIN, "victim", "-llibrary");
    let victim = Victim::program(&workshop.path("victim"));
    let mut symbols = symbols();
    let (unwound, frames) = stack_of(&mut symbols, &victim);
    assert_chain(&frames, &["hidden", "before", "entry", "main"]);
    // In place, shorter: pages that were mapped are gone.
    fs::write(workshop.path("liblibrary.so"), b"nothing").unwrap();
    // Remembered names stay; new ones are not looked for.
    let known = symbols.frames(victim.pid(), &unwound.addresses).concat();
    assert_chain(&known, &["hidden", "before", "entry", "main"]);
    let hidden = frames.iter().find(|frame| frame.function.as_deref() == Some("hidden")).unwrap().address;
    let fresh = symbols.frames(victim.pid(), &[hidden + 3]).concat();
    assert_eq!(functions(&fresh), ["?"]);
}
