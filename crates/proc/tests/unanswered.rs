//! Reading a process that holds the lock of its memory, and a page of a file system that never answers: refused, or given up in time.
//! In a program of its own, as what does not return sleeps until that process has ended.

use gpuwhy_proc::{MappedFile, ProcessMemory, distrusted, is_trusted, look};
use gpuwhy_testkit::{Ended, skip};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

const SCRIPT: &str = include_str!("../../../tests/e2e/strangers.py");

/// The process, and where it maps a page that never comes.
fn stranger(folder: &std::path::Path) -> Option<(Ended, u32, u64)> {
    let before = ["--user", "--map-root-user", "--mount", "python3", "-c", SCRIPT, "unanswered"];
    let mut child = Command::new("unshare")
        .args(before)
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let mut lines = BufReader::new(child.stdout.take()?).lines();
    let child = Ended(child);
    let line = lines.next()?.ok()?;
    let (pid, at) = line.split_once(" 0x")?;
    lines.next()?.ok().filter(|line| line == "ready")?;
    Some((child, pid.parse().ok()?, u64::from_str_radix(at, 16).ok()?))
}

#[test]
fn what_never_answers_is_given_up_and_not_asked_again() {
    let folder = tempfile::tempdir().unwrap();
    let Some((stranger, pid, at)) = stranger(folder.path()) else {
        return skip("what_never_answers_is_given_up_and_not_asked_again", "no file system can be made");
    };
    // Its library can be opened, but not read.
    let opened = MappedFile::of_process(pid, |name| name == "libcuda.so.1");
    let command_line = look(pid, move || fs::read(format!("/proc/{pid}/cmdline")).is_ok());
    assert_eq!(command_line, None);
    assert!(!is_trusted(pid) && distrusted().iter().any(|process| process.pid == pid));
    // At once, from now on.
    let memory = ProcessMemory::open(pid).unwrap();
    assert!(
        !memory.read(at, &mut [0; 8])
            && !memory.fetching(std::iter::once(at..at + 4096).collect()).read(at, &mut [0; 8])
    );
    assert!(MappedFile::of_process(pid, |_| true).is_empty());
    // Closing it asks the file system, which answers that as long as it lives.
    drop(opened);
    drop(stranger);
}
