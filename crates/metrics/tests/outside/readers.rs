//! The programs of others, fetched by `scripts/telemetry.sh`, and honest skips where they cannot be had.

use gpuwhy_testkit::unavailable;
use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The longest anything awaited may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The command of a reader; nothing, and a skip that is told, where there is none.
pub(crate) fn reader(name: &str, test: &str) -> Option<PathBuf> {
    static FOUND: OnceLock<HashMap<String, PathBuf>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/telemetry.sh");
        let output = Command::new(script).stderr(Stdio::inherit()).output().unwrap();
        let lines = String::from_utf8(output.stdout).unwrap();
        let pairs = lines.lines().filter_map(|line| line.split_once(' '));
        pairs.map(|(name, command)| (name.to_string(), PathBuf::from(command))).collect()
    });
    if !found.contains_key(name) {
        unavailable(test, &format!("scripts/telemetry.sh could not fetch {name}"));
    }
    found.get(name).cloned()
}

/// Runs a program on a text.
pub(crate) fn fed(command: &mut Command, text: &[u8]) -> Output {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text).unwrap();
    child.wait_with_output().unwrap()
}

pub(crate) fn done(output: Output) -> String {
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\nstdout: {stdout}\nstderr: {stderr}", output.status);
    stdout
}

pub(crate) fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
