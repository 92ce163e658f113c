//! The store's thread: takes batches from a bounded queue and commits several times a second. When the disk is slow
//! the queue fills, the rings fill behind it, and the kernel counts what it then drops.

use gpuwhy_confine::{Purpose, apart, live};
use gpuwhy_model::{Batch, Facts, OpInfo, ProbeStatus};
use gpuwhy_store::{Options, SessionInfo, StoreError, Writer};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const NAME: &str = "gpuwhy-store";
/// Opens the trace's files before, and puts them in order after.
const FILES: &str = "gpuwhy-files";
const QUEUE: usize = 16;
/// With the half second of a window, its grace and the agent's turn, a killed agent loses 0.8 s at most.
const COMMIT_EVERY: Duration = Duration::from_millis(100);

enum Message {
    Start(u64, u64),
    Batch(Box<(Batch, Facts)>),
    Probes(Vec<ProbeStatus>),
    Finish(u64),
    Abandon,
}

/// How a trace is to be closed.
enum Close {
    Finish(u64),
    Abandon,
    /// As it is, where the trace ends otherwise.
    Leave,
}

/// What came of the thread, and the writer, which is closed elsewhere: that needs files to be removed.
type Written = (Option<Writer>, Result<Close, StoreError>);

/// The sending end.
#[derive(Debug)]
pub(crate) struct Sink {
    folder: PathBuf,
    /// Nothing once the thread is to end.
    queue: Option<SyncSender<Message>>,
    thread: Option<JoinHandle<Written>>,
}

/// The session as this host and command line describe it.
pub fn session_info(start_ns: u64, clock_offset_ns: u64, flags: Vec<String>) -> SessionInfo {
    SessionInfo {
        start_ns,
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        kernel: gpuwhy_host::kernel_release(),
        gpus: gpuwhy_host::gpus(),
        driver: gpuwhy_host::driver_version().unwrap_or_default(),
        version: env!("CARGO_PKG_VERSION").to_string(),
        flags,
        clock_offset_ns: clock_offset_ns as i64,
    }
}

impl Sink {
    pub(crate) fn open(
        path: &Path,
        session: &SessionInfo,
        ops: &[OpInfo],
        options: &Options,
    ) -> Result<Sink, StoreError> {
        options.make_folders(path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).to_path_buf();
        let failed = |why: String| StoreError::Disk { path: path.to_path_buf(), why };
        let open = || {
            let writer = Writer::create_or_append(path, session, ops, options)?;
            let purpose = match writer.has_all_files_open()? {
                true => Purpose::Write,
                false => Purpose::Store(folder.clone()),
            };
            Ok((writer, purpose))
        };
        let opened = apart(FILES, &Purpose::Open(folder.clone()), open);
        let (writer, purpose) =
            opened.unwrap_or_else(|| Err(failed(format!("opening it failed; {FAULT}"))))?;
        let (queue, inbox) = sync_channel(QUEUE);
        let file = path.to_path_buf();
        let thread = std::thread::Builder::new()
            .name(NAME.into())
            .spawn(move || {
                let mut writer = Some(writer);
                let end = live(NAME, &purpose, || run(&mut writer, &file, &inbox));
                (writer, end)
            })
            .map_err(|error| failed(error.to_string()))?;
        Ok(Sink { folder, queue: Some(queue), thread: Some(thread) })
    }

    /// When the trace began: the file is made before that.
    pub(crate) fn start_at(&mut self, start_ns: u64, clock_offset_ns: u64) -> Result<(), StoreError> {
        self.send(Message::Start(start_ns, clock_offset_ns))
    }

    pub(crate) fn write(&mut self, batch: Batch, facts: Facts) -> Result<(), StoreError> {
        self.send(Message::Batch(Box::new((batch, facts))))
    }

    pub(crate) fn write_probes(&mut self, probes: Vec<ProbeStatus>) -> Result<(), StoreError> {
        self.send(Message::Probes(probes))
    }

    /// Writes what is queued and closes the file.
    pub(crate) fn finish(mut self, end_ns: u64) -> Result<(), StoreError> {
        let sent = self.send(Message::Finish(end_ns));
        sent.and_then(|()| self.join())
    }

    /// Leaves no trace of a trace that never began.
    pub(crate) fn abandon(mut self) {
        // A writer that has failed already has nothing to take back.
        let _ = self.send(Message::Abandon);
    }

    /// A queue nobody reads means the writer has failed: its error is the answer.
    fn send(&mut self, message: Message) -> Result<(), StoreError> {
        match &self.queue {
            Some(queue) if queue.send(message).is_ok() => Ok(()),
            _ => self.join(),
        }
    }

    fn join(&mut self) -> Result<(), StoreError> {
        let Some(Ok((writer, end))) = self.thread.take().map(JoinHandle::join) else { return Ok(()) };
        let Some(writer) = writer else { return end.map(drop) };
        let path = writer.path().to_path_buf();
        let close = move || match end {
            Ok(Close::Finish(end_ns)) => writer.finish(end_ns),
            Ok(Close::Abandon) => writer.abandon(),
            Ok(Close::Leave) => Ok(()),
            // The log goes into the file where that is possible.
            Err(error) => {
                drop(writer);
                Err(error)
            }
        };
        let closed = apart(FILES, &Purpose::Open(self.folder.clone()), close);
        closed.unwrap_or_else(|| Err(StoreError::Disk { path, why: format!("closing it failed; {FAULT}") }))
    }
}

impl Drop for Sink {
    /// However a trace ends, what was queued is written and the file is closed.
    fn drop(&mut self) {
        self.queue = None;
        // The error, if any, has been or is being reported by whoever gave up the trace.
        let _ = self.join();
    }
}

const FAULT: &str = "this is a fault of gpuwhy's own";

/// Until the trace ends, or the disk does not take it. A message that makes the writer panic is lost, and no other.
fn run(open: &mut Option<Writer>, file: &Path, inbox: &Receiver<Message>) -> Result<Close, StoreError> {
    let mut committed = Instant::now();
    while let Some(writer) = open {
        match inbox.recv_timeout(COMMIT_EVERY) {
            Ok(Message::Start(start_ns, clock_offset_ns)) => {
                writer.start_at(start_ns, clock_offset_ns as i64)?;
            }
            Ok(Message::Batch(sent)) => writer.write(&sent.0, &sent.1)?,
            Ok(Message::Probes(probes)) => writer.write_probes(&probes)?,
            Ok(Message::Finish(end_ns)) => return Ok(Close::Finish(end_ns)),
            Ok(Message::Abandon) => return Ok(Close::Abandon),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return writer.commit().map(|()| Close::Leave),
        }
        if committed.elapsed() >= COMMIT_EVERY {
            writer.commit()?;
            committed = Instant::now();
        }
    }
    Err(StoreError::Disk { path: file.into(), why: format!("there is no writer; {FAULT}") })
}
