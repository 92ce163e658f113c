//! What py-spy says of the same process, where it is installed and knows this Python.

use crate::pythons::cache_folder;
use crate::victim::Frame;
use serde::Deserialize;
use std::process::Command;

#[derive(Debug, Deserialize)]
struct Stack {
    thread_id: u64,
    frames: Vec<TheirFrame>,
}

#[derive(Debug, Deserialize)]
struct TheirFrame {
    name: String,
    filename: String,
    line: u32,
}

/// The stacks it sees for a thread: one for each interpreter. Names are their last part.
pub(crate) fn frames(pid: u32, thread: u64) -> Option<Vec<Vec<Frame>>> {
    let fetched = cache_folder().join("py-spy/bin/py-spy");
    let command = if fetched.is_file() { fetched } else { "py-spy".into() };
    // It stops the process while it looks; the victim is blocked anyway.
    let output = Command::new(command).args(["dump", "--json", "--pid", &pid.to_string()]).output().ok()?;
    if !output.status.success() {
        println!(
            "py-spy cannot: {}",
            String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default()
        );
        return None;
    }
    let stacks: Vec<Stack> = serde_json::from_slice(&output.stdout).ok()?;
    let of_thread = stacks.into_iter().filter(|stack| stack.thread_id == thread);
    let words = |frame: TheirFrame| {
        let name = frame.name.rsplit('.').next().unwrap_or_default().to_string();
        Frame(frame.filename, name, frame.line)
    };
    // It takes the interpreter's own frames around `__init__` for Python's.
    let real = |frame: &Frame| frame.0 != "__init__";
    Some(of_thread.map(|stack| stack.frames.into_iter().map(words).filter(real).collect()).collect())
}
