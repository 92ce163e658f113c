//! What the binary is made of.

#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt;
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
fn a_library_that_is_not_the_pinned_one_is_refused_on_each_machine() {
    let script = std::fs::read_to_string(FETCH).unwrap();
    let pinned = |name: &str| -> Vec<String> {
        script.lines().filter_map(|line| line.trim().strip_prefix(name)).map(str::to_string).collect()
    };
    let (versions, digests) = (pinned("version="), pinned("digest="));
    assert!(digests.len() == 2 && digests.iter().all(|digest| digest.len() == 64), "{digests:?}");
    for (machine, version) in ["x86_64", "aarch64"].iter().zip(&versions) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("version"), version).unwrap();
        std::fs::write(folder.path().join("libduckdb.so"), "another one").unwrap();
        // A machine of that kind, as far as the script asks.
        let uname = folder.path().join("uname");
        std::fs::write(&uname, format!("#!/bin/sh\necho {machine}\n")).unwrap();
        std::fs::set_permissions(&uname, std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
        let output = Command::new(FETCH).arg(folder.path()).env("PATH", path).output().unwrap();
        assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(message.contains("it is not the library of"), "{message}");
    }
}
