//! What the binary is made of.

#![allow(clippy::unwrap_used)]

use std::process::Command;

const FETCH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/duckdb.sh");

#[test]
fn the_binary_has_no_path_of_the_machine_that_built_it_to_look_for_libraries_in() {
    let output = Command::new("readelf").args(["-d", env!("CARGO_BIN_EXE_gpuwhy-fleet")]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("NEEDED"), "{text}");
    for line in text.lines().filter(|line| line.contains("(RUNPATH)") || line.contains("(RPATH)")) {
        let paths = line.split(['[', ']']).nth(1).unwrap();
        assert!(paths.split(':').all(|path| path.starts_with("$ORIGIN")), "{line}");
    }
}

#[test]
fn a_library_that_is_not_the_pinned_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let script = std::fs::read_to_string(FETCH).unwrap();
    let version = script.lines().find_map(|line| line.strip_prefix("version=")).unwrap();
    std::fs::write(folder.path().join("version"), version).unwrap();
    std::fs::write(folder.path().join("libduckdb.so"), "another one").unwrap();
    let output = Command::new(FETCH).arg(folder.path()).output().unwrap();
    assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
}
