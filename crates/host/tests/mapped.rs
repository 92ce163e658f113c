//! Files that processes map, when there is nothing left at their path.

#![allow(clippy::unwrap_used, reason = "a test may only fail")]

use gpuwhy_host::mapped_files;
use gpuwhy_testkit::skip;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

/// A program that is mapped at the address it was linked for, which is a low one. It says when it runs, and waits.
fn build_fixed(program: &Path) -> bool {
    let source = program.with_extension("c");
    fs::write(
        &source,
        "#include <stdio.h>\nint main(void) { puts(\"here\"); fflush(stdout); return getchar(); }\n",
    )
    .unwrap();
    let built = Command::new("gcc").arg("-no-pie").arg(&source).arg("-o").arg(program).status();
    built.is_ok_and(|status| status.success())
}

#[test]
fn a_deleted_program_at_a_low_address_is_opened_by_its_mapping() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("fixed");
    if !build_fixed(&program) {
        return skip(
            "a_deleted_program_at_a_low_address_is_opened_by_its_mapping",
            "no gcc that makes programs for a fixed address",
        );
    }
    let mut child = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 4]).unwrap();
    let mapped = || mapped_files([child.id()], |name| name == "fixed");
    let before = mapped();
    fs::remove_file(&program).unwrap();
    let after = mapped();
    let may_open = fs::read_dir(format!("/proc/{}/map_files", child.id()))
        .is_ok_and(|mut entries| entries.any(|entry| fs::metadata(entry.unwrap().path()).is_ok()));
    let content = after.first().map(|file| fs::read(file.file.path()).unwrap());
    child.kill().unwrap();
    child.wait().unwrap();
    if !may_open {
        return skip(
            "a_deleted_program_at_a_low_address_is_opened_by_its_mapping",
            "mappings can be opened by root alone",
        );
    }
    assert_eq!((before.len(), after.len()), (1, 1));
    assert_eq!((&before[0].path, before[0].file.id()), (&after[0].path, after[0].file.id()));
    assert!(content.unwrap().starts_with(b"\x7fELF"));
}
