//! Real ranks: eight processes with NCCL-shaped calls, watched by the node's agent with real eBPF.

#![allow(clippy::unwrap_used)]

use gpuwhy_testkit::skip;
use std::path::{Path, PathBuf};
use std::process::Command;

const TRIALS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/fleet-trials.py");
const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/demo-fleet.py");

/// The node's binary, which the workspace's tests build beside this one.
fn agent(test: &str) -> Option<PathBuf> {
    let agent = Path::new(env!("CARGO_BIN_EXE_gpuwhy-fleet")).with_file_name("gpuwhy");
    if !agent.exists() {
        skip(test, "gpuwhy is not built: `cargo build -p gpuwhy`");
        return None;
    }
    if !Command::new(&agent).arg("check").output().unwrap().status.success() {
        skip(test, "`gpuwhy check` says that this host cannot trace");
        return None;
    }
    Some(agent)
}

/// The demonstration itself fails where another rank than the planted one is named, or nobody.
#[test]
fn the_one_late_rank_of_eight_is_named_in_text_over_http_and_over_mcp() {
    let Some(agent) = agent("the_one_late_rank_of_eight_is_named_in_text_over_http_and_over_mcp") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    gpuwhy_simgpu::unpack(folder.path()).unwrap();
    let output = Command::new("python3")
        .arg(DEMO)
        .args([&agent, Path::new(env!("CARGO_BIN_EXE_gpuwhy-fleet")), folder.path()])
        .args(["3", "30000"])
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{message}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(message.contains("rank 3"), "{message}");
    let of_assistant = message.split("over MCP:").nth(1).unwrap();
    assert!(of_assistant.contains("straggler"), "{message}");
}

/// How soon is measured elsewhere: here the machine does other things meanwhile.
fn try_faults(test: &str, names: &[&str]) {
    let Some(agent) = agent(test) else { return };
    let folder = tempfile::tempdir().unwrap();
    gpuwhy_simgpu::unpack(folder.path()).unwrap();
    let mut command = Command::new("python3");
    command.arg(TRIALS).args([&agent, Path::new(env!("CARGO_BIN_EXE_gpuwhy-fleet")), folder.path()]);
    command.arg("--patient").args(names.iter().flat_map(|name| ["--only", name]));
    let output = command.output().unwrap();
    let message = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{message}\n{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(message.matches("\"holds\": true").count(), names.len(), "{message}");
}

#[test]
fn a_rank_that_sleeps_is_named_with_its_cause_and_its_line_of_python() {
    try_faults(
        "a_rank_that_sleeps_is_named_with_its_cause_and_its_line_of_python",
        &["sleep-20-percent", "sleep-80-ms"],
    );
}

#[test]
fn a_rank_that_does_not_come_is_named_with_its_stack_whether_it_sleeps_or_computes() {
    try_faults(
        "a_rank_that_does_not_come_is_named_with_its_stack_whether_it_sleeps_or_computes",
        &["hang", "hang-busy"],
    );
}

#[test]
fn a_rank_that_calls_with_another_count_is_named() {
    try_faults("a_rank_that_calls_with_another_count_is_named", &["mismatch"]);
}
