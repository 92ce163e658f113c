//! A process of `victim.py`.

use gpuwhy_testkit::skip;
use serde::Deserialize;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// File, function, line.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Frame(pub(crate) String, pub(crate) String, pub(crate) u32);

/// What it says of itself.
#[derive(Debug, Deserialize)]
pub(crate) struct Reported {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) thread: u64,
    pub(crate) frames: Vec<Frame>,
}

#[derive(Debug)]
pub(crate) struct Victim {
    child: Child,
    pub(crate) reported: Reported,
}

impl Victim {
    /// None, and said aloud, where this Python cannot do the case.
    pub(crate) fn start(command: &str, case: &str) -> Option<Self> {
        Self::start_as(&mut Command::new(command), case)
    }

    /// With an environment of its own.
    pub(crate) fn start_as(command: &mut Command, case: &str) -> Option<Self> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/victim.py");
        let mut child = command
            .args([script, case])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the victim does not start");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("no output")).read_line(&mut line).expect("no output");
        let value: serde_json::Value = serde_json::from_str(&line).expect(&line);
        if let Some(missing) = value.get("missing") {
            skip(case, &format!("{command:?}: {missing}"));
            let _ = child.wait();
            return None;
        }
        let reported = serde_json::from_value(value).expect("the victim's words");
        Some(Self { child, reported })
    }

    /// Turns its ids, which are of its own pid namespace, into those they have here.
    pub(crate) fn look_from_outside(&mut self) {
        let parent = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
        let pid = children.expect("no children").trim().parse().expect("one child");
        let own = self.reported.tid.to_string();
        let is_it = |tid: &u32| {
            let status =
                std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).unwrap_or_default();
            status
                .lines()
                .any(|line| line.starts_with("NSpid:") && line.split('\t').next_back() == Some(&own))
        };
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the victim died");
        let mut tids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
        self.reported.tid = tids.find(is_it).expect("no such thread");
        self.reported.pid = pid;
    }

    /// It blocks in `read` right after it has spoken.
    pub(crate) fn await_blocked(&self) {
        let read = if cfg!(target_arch = "x86_64") { "0 " } else { "63 " };
        let path = format!("/proc/{}/task/{}/syscall", self.reported.pid, self.reported.tid);
        while !std::fs::read_to_string(&path).expect("the victim died").starts_with(read) {
            std::thread::yield_now();
        }
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // The end of its input ends it.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
