//! A process that does one thing for us and ends. It gets nothing of our environment but what is named, is asked once, answers within
//! a limit, and is killed when its time is over or nobody waits for it. What it may take it has limited by the kernel, for good.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};
use std::ffi::OsString;
use std::io::{self, ErrorKind, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Instant;

/// How soon a question that was taken back ends.
const TURN: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// How to start the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Helper {
    pub program: PathBuf,
    pub words: Vec<OsString>,
    /// All that it has of our environment. Tokens are not for it.
    pub variables: &'static [&'static str],
    /// Where it works; here where nothing is said.
    pub folder: Option<PathBuf>,
}

/// What it said, and how it ended.
#[derive(Debug)]
pub struct Reply {
    pub bytes: Vec<u8>,
    pub status: ExitStatus,
}

/// Why there is no reply.
#[derive(Debug)]
pub enum Trouble {
    NotStarted(io::Error),
    Lost(io::Error),
    Stopped,
    Late,
    /// It said more than it may.
    TooMuch,
}

impl Helper {
    /// The question goes to its standard input, what comes on its standard output until it ends is the reply. Whatever comes
    /// of it, nothing is left running.
    pub fn ask(
        &self,
        question: &[u8],
        max_bytes: usize,
        until: Instant,
        is_stopped: impl Fn() -> bool,
    ) -> Result<Reply, Trouble> {
        let mut child = self.start().map_err(Trouble::NotStarted)?;
        let read = exchange(&mut child, question, max_bytes, until, is_stopped);
        // It may have ended by itself.
        let _ = child.kill();
        let status = child.wait().map_err(Trouble::Lost)?;
        read.map(|bytes| Reply { bytes, status })
    }

    fn start(&self) -> io::Result<Child> {
        let mut command = Command::new(&self.program);
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command
            .args(&self.words)
            .env_clear()
            .envs(self.variables.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
    }
}

fn exchange(
    child: &mut Child,
    question: &[u8],
    max_bytes: usize,
    until: Instant,
    is_stopped: impl Fn() -> bool,
) -> Result<Vec<u8>, Trouble> {
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Trouble::Lost(ErrorKind::BrokenPipe.into()));
    };
    // One that does not read has ended, and its status says why.
    let _ = input.write_all(question);
    drop(input);
    read(output, max_bytes, until, is_stopped)
}

/// All that comes until the pipe is closed.
fn read(
    mut output: ChildStdout,
    max_bytes: usize,
    until: Instant,
    is_stopped: impl Fn() -> bool,
) -> Result<Vec<u8>, Trouble> {
    let mut bytes = Vec::new();
    let mut part = vec![0; 64 << 10];
    loop {
        if is_stopped() {
            return Err(Trouble::Stopped);
        }
        if Instant::now() >= until {
            return Err(Trouble::Late);
        }
        match poll(&mut [PollFd::new(&output, PollFlags::IN)], Some(&TURN)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(Trouble::Lost(error.into())),
        }
        match output.read(&mut part) {
            Ok(0) => return Ok(bytes),
            Ok(count) if bytes.len() + count > max_bytes => return Err(Trouble::TooMuch),
            Ok(count) => bytes.extend_from_slice(&part[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Trouble::Lost(error)),
        }
    }
}

/// What the helper's process may take from now on; nothing raises it again.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    pub address_space: Option<u64>,
    /// Memory that is its own.
    pub data: Option<u64>,
    pub cpu_seconds: Option<u64>,
    pub file_size: Option<u64>,
}

impl Limits {
    /// Of the calling process, with all its threads. Whoever started it may have set less.
    pub fn set(&self) -> io::Result<()> {
        for (resource, max) in [
            (Resource::As, self.address_space),
            (Resource::Data, self.data),
            (Resource::Cpu, self.cpu_seconds),
            (Resource::Fsize, self.file_size),
            // What it has in memory is not for files.
            (Resource::Core, Some(0)),
        ] {
            let Some(max) = max else { continue };
            let max = rustix::process::getrlimit(resource).maximum.map_or(max, |hard| hard.min(max));
            setrlimit(resource, Rlimit { current: Some(max), maximum: Some(max) })?;
        }
        Ok(())
    }
}

/// The helper ends when whoever asked is gone. A change of its user undoes that: it is to be said again.
pub fn die_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::time::Duration;

    fn shell(script: &str) -> Helper {
        Helper {
            program: "/bin/sh".into(),
            words: vec!["-c".into(), script.into()],
            variables: &["PATH"],
            folder: Some("/".into()),
        }
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(20)
    }

    #[test]
    fn it_is_asked_and_answers_and_knows_nothing_else() {
        let reply =
            shell("cat; pwd; env | grep -c CARGO").ask(b"asked\n", 1 << 10, soon(), || false).unwrap();
        assert_eq!(String::from_utf8(reply.bytes).unwrap(), "asked\n/\n0\n");
        assert_eq!(reply.status.code(), Some(1), "that of grep");
    }

    #[test]
    fn it_is_ended_when_it_is_late_stopped_or_says_too_much() {
        let began = Instant::now();
        let late = shell("exec sleep 60").ask(b"", 10, began + Duration::from_millis(100), || false);
        assert!(matches!(late, Err(Trouble::Late)), "{late:?}");
        let stopped = shell("exec sleep 60").ask(b"", 10, soon(), || true);
        assert!(matches!(stopped, Err(Trouble::Stopped)), "{stopped:?}");
        let much = shell("exec cat /dev/zero").ask(b"", 1 << 20, soon(), || false);
        assert!(matches!(much, Err(Trouble::TooMuch)), "{much:?}");
        let absent = Helper { program: "/absent".into(), ..shell("") }.ask(b"", 10, soon(), || false);
        assert!(matches!(absent, Err(Trouble::NotStarted(_))), "{absent:?}");
        assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    }

    #[test]
    fn one_that_does_not_read_its_question_says_so_by_its_end() {
        let reply = shell("kill -9 $$").ask(&vec![b'x'; 1 << 20], 10, soon(), || false).unwrap();
        assert_eq!((reply.bytes.len(), reply.status.signal()), (0, Some(9)));
    }
}
