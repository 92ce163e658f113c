//! What the end-to-end tests share: the binary, the simulated GPU, traces to look into, and honest skips.

pub(crate) use gpuwhy_testkit::{Ended, skip, unavailable};
use rusqlite::Connection;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

/// The longest anything awaited may take; the machines that run this are slow.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn gpuwhy() -> Command {
    beside_others();
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuwhy"));
    command.env_remove("GPUWHY_DB").env("NO_COLOR", "1");
    // What one test has found must not help another.
    command.env("GPUWHY_LIBRARIES", "");
    // Tests count every call, at rates that no budget allows; those of the governor say what they want.
    command.env("GPUWHY_BUDGET", "100%");
    command
}

/// The simulated libraries and workloads, unpacked once for all tests.
pub(crate) fn sim() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    FOLDER
        .get_or_init(|| {
            let folder = tempfile::Builder::new().prefix("gpuwhy-e2e-").tempdir().unwrap();
            gpuwhy_simgpu::unpack(folder.path()).unwrap();
            folder
        })
        .path()
}

pub(crate) fn simwork() -> PathBuf {
    sim().join(gpuwhy_simgpu::WORKLOAD)
}

/// Tests that measure time or count everything on the host have it for themselves: there may be two cores only. The
/// others run beside each other, from the first time they start the binary on.
pub(crate) fn alone() -> Alone {
    // Given back first: nobody gets to be alone beside a test that waits for that.
    TURN.set(Turn::None);
    let host = HOST.write().unwrap_or_else(std::sync::PoisonError::into_inner);
    TURN.set(Turn::Alone);
    Alone { _host: host }
}

static HOST: RwLock<()> = RwLock::new(());

thread_local! {
    /// A test has a thread of its own, unless they all run in one, where nobody is beside anybody.
    static TURN: RefCell<Turn> = const { RefCell::new(Turn::None) };
}

enum Turn {
    None,
    Beside { _host: RwLockReadGuard<'static, ()> },
    Alone,
}

pub(crate) struct Alone {
    _host: RwLockWriteGuard<'static, ()>,
}

impl Drop for Alone {
    fn drop(&mut self) {
        TURN.set(Turn::None);
    }
}

/// Threads that a test starts are within its turn: they have no name.
fn beside_others() {
    let is_test = std::thread::current().name().is_some_and(|name| name.contains("::"));
    if is_test && TURN.with_borrow(|turn| matches!(turn, Turn::None)) {
        let host = HOST.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        TURN.set(Turn::Beside { _host: host });
    }
}

/// Whether eBPF can be used. Where not, the skip is counted and named, and is a failure under GPUWHY_REQUIRE=all.
pub(crate) fn can_trace(test: &str) -> bool {
    static ANSWER: OnceLock<Result<(), String>> = OnceLock::new();
    let answer = ANSWER.get_or_init(|| {
        let output = gpuwhy().arg("check").output().map_err(|error| error.to_string())?;
        if output.status.success() {
            Ok(())
        } else {
            Err("`gpuwhy check` says that this host cannot trace".into())
        }
    });
    match answer {
        Ok(()) => true,
        Err(reason) => {
            skip(test, reason);
            false
        }
    }
}

/// A finished command that must have done well.
pub(crate) fn done(output: Output) -> String {
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{}\nstdout: {stdout}\nstderr: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    stdout
}

/// The last line of a workload's output: what it really did.
pub(crate) fn truth(output: &str) -> Value {
    let line = output
        .lines()
        .rev()
        .find(|line| line.starts_with('{'))
        .unwrap_or_else(|| panic!("no truth in: {output}"));
    serde_json::from_str(line).unwrap()
}

/// A trace file in a folder of its own.
pub(crate) struct Trace {
    pub(crate) folder: tempfile::TempDir,
}

impl Trace {
    pub(crate) fn new() -> Trace {
        Trace { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("trace.db")
    }

    /// Runs `gpuwhy trace [flags] -- words` to its end; the command's truth.
    pub(crate) fn of_command(&self, flags: &[&str], words: &[&OsStr]) -> Value {
        let output = gpuwhy()
            .arg("trace")
            .arg("--out")
            .arg(self.file())
            .args(flags)
            .arg("--")
            .args(words)
            .output()
            .unwrap();
        truth(&done(output))
    }

    /// The same for a simulated workload.
    pub(crate) fn of_simwork(&self, flags: &[&str], words: &[&str]) -> Value {
        let program = simwork();
        let all: Vec<&OsStr> =
            std::iter::once(program.as_os_str()).chain(words.iter().map(OsStr::new)).collect();
        self.of_command(flags, &all)
    }

    pub(crate) fn db(&self) -> Connection {
        Connection::open_with_flags(self.file(), rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap()
    }

    pub(crate) fn number(&self, sql: &str) -> i64 {
        self.db().query_row(sql, [], |row| row.get::<_, Option<i64>>(0)).unwrap().unwrap_or(0)
    }

    pub(crate) fn text(&self, sql: &str) -> String {
        self.db().query_row(sql, [], |row| row.get::<_, Option<String>>(0)).unwrap().unwrap_or_default()
    }

    pub(crate) fn count_of(&self, op: &str) -> i64 {
        self.number(&format!("SELECT sum(count) FROM call_stats WHERE op = '{op}'"))
    }
}

/// A `gpuwhy trace --json` in the background.
pub(crate) struct Running {
    pub(crate) child: Child,
    lines: Receiver<String>,
    /// The most calls told so far, by process and operation.
    called: HashMap<(u64, String), u64>,
    /// Library files whose calls are seen. One that is known from an earlier trace is attached before anything else is said.
    attached: HashSet<String>,
}

impl Running {
    /// Returns when it says that it traces.
    pub(crate) fn start(trace: &Trace, flags: &[&str]) -> Running {
        Self::start_with(trace, flags, &[])
    }

    pub(crate) fn start_with(trace: &Trace, flags: &[&str], environment: &[(&str, &OsStr)]) -> Running {
        let mut child = gpuwhy()
            .args(["trace", "--json", "--out"])
            .arg(trace.file())
            .args(flags)
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (line, lines) = channel();
        let message = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            message.lines().map_while(Result::ok).try_for_each(|message| line.send(message))
        });
        let mut running = Running { child, lines, called: HashMap::new(), attached: HashSet::new() };
        running.until("started", |_| true);
        running
    }

    /// Reads on until a line of this kind fits.
    pub(crate) fn until(&mut self, kind: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            let line = match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => panic!("no fitting '{kind}' came"),
                Err(RecvTimeoutError::Disconnected) => panic!("the trace ended while waiting for '{kind}'"),
            };
            let value: Value = serde_json::from_str(&line).unwrap();
            for row in value["operations"].as_array().into_iter().flatten() {
                if let (Some(pid), Some(op)) = (row["pid"].as_u64(), row["op"].as_str()) {
                    let most = self.called.entry((pid, op.to_string())).or_default();
                    *most = (*most).max(row["count"].as_u64().unwrap());
                }
            }
            if value["type"] == "probe" && value["state"] == "attached" {
                self.attached.extend(value["file"].as_str().map(str::to_string));
            }
            if value["type"] == kind && fits(&value) {
                return value;
            }
        }
    }

    /// Waits until calls of a library are seen.
    pub(crate) fn until_attached(&mut self, library: &Path) {
        let file = library.display().to_string();
        while !self.attached.contains(&file) {
            self.until("probe", |_| true);
        }
    }

    /// Waits until an operation of a process was called so often.
    pub(crate) fn until_called(&mut self, pid: u64, op: &str, times: u64) {
        let key = (pid, op.to_string());
        while self.called.get(&key).is_none_or(|called| *called < times) {
            self.until("sums", |_| true);
        }
    }

    /// Waits until all of these processes were seen to end, in whichever order.
    pub(crate) fn until_ended(&mut self, pids: &[u32]) {
        let ended = RefCell::new(HashSet::new());
        self.until("process", |process| {
            if !process["end_ns"].is_null() {
                ended.borrow_mut().insert(process["pid"].as_u64().unwrap() as u32);
            }
            pids.iter().all(|pid| ended.borrow().contains(pid))
        });
    }

    /// Waits for the end of the command it traces.
    pub(crate) fn finish(&mut self) {
        self.until("summary", |_| true);
        assert!(self.child.wait().unwrap().success());
    }

    /// Ctrl-C; how long it took to the end, and the summary.
    pub(crate) fn stop(mut self) -> (Duration, Value) {
        let began = Instant::now();
        signal(self.child.id(), "INT");
        let summary = self.until("summary", |_| true);
        assert!(self.child.wait().unwrap().success());
        (began.elapsed(), summary)
    }
}

/// A test that fails leaves nothing running.
impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status().unwrap().success());
}

/// A workload held at its gate: started and initialised, but not yet making counted calls.
pub(crate) struct Gated {
    /// Nothing once it has finished.
    child: Option<Child>,
    gate: PathBuf,
    _folder: tempfile::TempDir,
}

impl Gated {
    pub(crate) fn start(program: &Path, words: &[&str]) -> Gated {
        Self::start_with(program, words, &[])
    }

    pub(crate) fn start_with(program: &Path, words: &[&str], environment: &[(&str, &str)]) -> Gated {
        let folder = tempfile::tempdir().unwrap();
        let gate = folder.path().join("gate");
        let child = Command::new(program)
            .args(words)
            .arg("--start-file")
            .arg(&gate)
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let ready = folder.path().join("gate.ready");
        wait_until("the workload is ready", || ready.exists());
        Gated { child: Some(child), gate, _folder: folder }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    pub(crate) fn open(&self) {
        std::fs::write(&self.gate, "").unwrap();
    }

    /// Lets it run to its end; its truth.
    pub(crate) fn finish(mut self) -> Value {
        self.open();
        truth(&done(self.child.take().unwrap().wait_with_output().unwrap()))
    }
}

impl Drop for Gated {
    /// A workload that hangs does not outlive its test.
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(crate) fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Words before a command that let it run ahead of others on its CPU, so that a busy host does not get into what is
/// measured; none where that is not allowed.
pub(crate) fn ahead_of_others() -> &'static [&'static str] {
    const FIRST: &[&str] = &["chrt", "--fifo", "10"];
    let may = Command::new(FIRST[0]).args(&FIRST[1..]).arg("true").output();
    if may.is_ok_and(|output| output.status.success()) { FIRST } else { &[] }
}
