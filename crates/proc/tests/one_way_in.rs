//! Files of traced processes are opened by this crate alone: no other spells their paths.

#![allow(clippy::unwrap_used, reason = "a test may only fail")]

use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn no_other_crate_opens_files_of_traced_processes() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for one in fs::read_dir(&crates).unwrap() {
        let one = one.unwrap();
        if one.file_name() != "proc" && one.path().join("src").is_dir() {
            sources(&one.path().join("src"), &mut files);
        }
    }
    assert!(files.len() > 100, "the sources are there");
    let mut wrong = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        // What is below the root of the host's first process: sockets of container daemons, not files.
        let allowed = file.ends_with("host/src/root.rs");
        let spells = |line: &&str| line.contains("map_files") || (line.contains("}/root") && !allowed);
        wrong.extend(text.lines().filter(spells).map(|line| format!("{}: {line}", file.display())));
    }
    assert!(wrong.is_empty(), "use gpuwhy_proc::{{Inside, TargetFile}}: {wrong:#?}");
}
