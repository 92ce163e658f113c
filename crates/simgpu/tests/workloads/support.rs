//! The unpacked files, and running workloads on them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

/// The unpacked files, and a folder of the test's own for what it writes.
pub(crate) struct Folder {
    pub(crate) files: &'static Path,
    own: tempfile::TempDir,
}

/// Unpacked once, before any test starts a process: a child forked while a program is being written would keep it open
/// for writing, and then nobody could run it ("text file busy").
fn files() -> &'static Path {
    static FILES: OnceLock<PathBuf> = OnceLock::new();
    FILES.get_or_init(|| {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("simgpu");
        gpuwhy_simgpu::unpack(&dir).unwrap();
        dir
    })
}

impl Folder {
    pub(crate) fn unpack() -> Self {
        Self { files: files(), own: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.own.path().join(name)
    }

    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut words = arguments.split_whitespace();
        let mut command = Command::new(self.files.join(words.next().unwrap()));
        command.args(words).current_dir(self.own.path()).stdout(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, arguments: &str) -> Value {
        finish(self.command(arguments).spawn().unwrap())
    }

    pub(crate) fn run_with(&self, arguments: &str, variables: &[(&str, &str)]) -> Value {
        finish(self.command(arguments).envs(variables.iter().copied()).spawn().unwrap())
    }
}

pub(crate) fn finish(child: Child) -> Value {
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}: {text}", output.status);
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a count"))
}

/// Every call that was counted is in the list, and every copy there says where it went.
pub(crate) fn assert_all_are_listed(truth: &Value) {
    let calls = truth["calls"].as_array().unwrap();
    for (op, count) in truth["ops"].as_object().unwrap() {
        let listed = calls.iter().filter(|call| call["op"] == op.as_str()).count() as u64;
        assert_eq!(listed, number(count), "{op}");
    }
    for call in calls {
        let api = call["api"].as_str().unwrap();
        let is_copy = api.contains("Memcpy") && !api.contains("Graph");
        assert_eq!(call["direction"] != "", is_copy, "{call}");
    }
}
