//! The store's thread: takes batches from a bounded queue and commits several times a second. When the disk is slow
//! the queue fills, the rings fill behind it, and the kernel counts what it then drops.

use gpuwhy_confine::Purpose;
use gpuwhy_model::{Batch, Facts, OpInfo, ProbeStatus};
use gpuwhy_store::{Options, SessionInfo, StoreError, Writer};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const QUEUE: usize = 16;
/// With the half second of a window, its grace and the agent's turn, a killed agent loses 0.8 s at most.
const COMMIT_EVERY: Duration = Duration::from_millis(100);

enum Message {
    Batch(Box<(Batch, Facts)>),
    Probes(Vec<ProbeStatus>),
    Finish(u64),
    Abandon,
}

/// The sending end.
#[derive(Debug)]
pub(crate) struct Sink {
    /// Nothing once the thread is to end.
    queue: Option<SyncSender<Message>>,
    thread: Option<JoinHandle<Result<(), StoreError>>>,
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
        let writer = Writer::create_or_append(path, session, ops, options)?;
        let (queue, inbox) = sync_channel(QUEUE);
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).to_path_buf();
        let thread = std::thread::Builder::new()
            .name("gpuwhy-store".into())
            .spawn(move || {
                gpuwhy_confine::confine(&Purpose::Store(folder));
                run(writer, &inbox)
            })
            .map_err(|error| StoreError::Disk { path: path.to_path_buf(), why: error.to_string() })?;
        Ok(Sink { queue: Some(queue), thread: Some(thread) })
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
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            _ => Ok(()),
        }
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

fn run(mut writer: Writer, inbox: &Receiver<Message>) -> Result<(), StoreError> {
    let mut committed = Instant::now();
    loop {
        match inbox.recv_timeout(COMMIT_EVERY) {
            Ok(Message::Batch(sent)) => writer.write(&sent.0, &sent.1)?,
            Ok(Message::Probes(probes)) => writer.write_probes(&probes)?,
            Ok(Message::Finish(end_ns)) => return writer.finish(end_ns),
            Ok(Message::Abandon) => return writer.abandon(),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return writer.commit(),
        }
        if committed.elapsed() >= COMMIT_EVERY {
            writer.commit()?;
            committed = Instant::now();
        }
    }
}
