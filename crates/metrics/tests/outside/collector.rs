//! `collector.py` as a child.

use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

pub(crate) struct Collector {
    child: Child,
    words: ChildStdin,
    lines: BufReader<ChildStdout>,
    pub(crate) port: u16,
}

impl Collector {
    /// `port` 0 is any that is free.
    pub(crate) fn start(python: &Path, protocol: &str, port: u16, more: &[&str]) -> Collector {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/outside/collector.py");
        let mut child = Command::new(python)
            .arg(script)
            .args([protocol, &port.to_string()])
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let words = child.stdin.take().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        Collector { port: line.trim().parse().unwrap(), child, words, lines }
    }

    /// How to behave from now on.
    pub(crate) fn emit(&mut self, words: &str) {
        assert_eq!(self.ask(words), "told");
    }

    pub(crate) fn report(&mut self) -> Value {
        serde_json::from_str(&self.ask("report")).unwrap()
    }

    fn ask(&mut self, words: &str) -> String {
        writeln!(self.words, "{words}").unwrap();
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim().to_string()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
