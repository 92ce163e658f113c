//! The socket, and the thread that reads it: many connections, none of which can hold up another or the trace.

mod connection;
mod socket;

use crate::News;
use crate::budget::Budget;
use crate::clock::{Clock, monotonic_ns};
use crate::spans::Spans;
use connection::{Connection, Judge, MAX_PER_TURN};
use gpuwhy_confine::{Purpose, live};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket::Socket;
use std::io;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

const NAME: &str = "gpuwhy-annotate";
const MAX_CONNECTIONS: usize = 256;
const MAX_PER_USER: usize = 64;
/// Taken up at one turn: whoever connects without end does not keep the others' lines from being read.
const MAX_NEW_PER_TURN: usize = 64;
/// Read at the end of a trace, of all connections together: it ends soon, whatever they still send.
const MAX_AT_END: usize = 32 << 20;
/// How soon the thread notices that it is to end.
const TURN: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Lines are read together, not each for itself.
const PAUSE: Duration = Duration::from_millis(2);

/// A socket that takes marks, as long as this lives.
#[derive(Debug)]
pub struct Listener {
    path: PathBuf,
    /// Nothing once it is closed.
    socket: Option<Socket>,
    news: Arc<Mutex<News>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// `offset_ns` makes unix time of the monotonic clock, as for all records of the run.
    pub fn open(path: &Path, offset_ns: u64) -> io::Result<Listener> {
        let socket = Socket::open(path)?;
        let clock = Clock { offset_ns, began_ns: monotonic_ns() };
        let news = Arc::new(Mutex::new(News::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let (sink, flag) = (Arc::clone(&news), Arc::clone(&stop));
        // The thread is another user, who may not take the file away.
        let listener = socket.listener().try_clone()?;
        let tracer = rustix::process::geteuid().as_raw();
        let thread = std::thread::Builder::new().name(NAME.into()).spawn(move || {
            live(NAME, &Purpose::Serve, || run(&listener, tracer, &sink, &flag, clock));
        })?;
        Ok(Listener { path: path.into(), socket: Some(socket), news, stop, thread: Some(thread) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What came since the last time; of very much a part.
    pub fn take(&self) -> News {
        self.news.lock().unwrap_or_else(PoisonError::into_inner).part()
    }

    /// Reads what was sent until now, and closes.
    pub fn finish(&mut self) -> News {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // What it had to say is in the news.
            let _ = thread.join();
        }
        self.socket = None;
        std::mem::take(&mut *self.news.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.finish();
    }
}

fn run(socket: &UnixListener, tracer: u32, news: &Mutex<News>, stop: &AtomicBool, clock: Clock) {
    let mut connections: Vec<Connection> = Vec::new();
    let (mut spans, mut budget) = (Spans::default(), Budget::default());
    loop {
        // Read before the last look: whatever was sent before the flag was set is seen.
        let last = stop.load(Ordering::Relaxed);
        let ready = wait(socket, &connections, last);
        accept(socket, &mut connections, tracer);
        let mut judge = Judge { spans: &mut spans, budget: &mut budget, tracer, clock };
        let mut message = News::default();
        let mut left = MAX_AT_END;
        connections.retain_mut(|connection| {
            let mut turn = MAX_PER_TURN;
            connection.read(&mut judge, &mut message, if last { &mut left } else { &mut turn })
        });
        if !message.is_empty() {
            let mut news = news.lock().unwrap_or_else(PoisonError::into_inner);
            for mark in message.annotations {
                news.take(&Ok(vec![mark]));
            }
            news.lost += message.lost;
            for (why, count) in message.refused {
                *news.refused.entry(why).or_default() += count;
            }
        }
        if last {
            return;
        }
        if ready {
            std::thread::sleep(PAUSE);
        }
    }
}

/// Until somebody has something to say; whether that is so.
fn wait(socket: &UnixListener, connections: &[Connection], last: bool) -> bool {
    let mut looked: Vec<PollFd<'_>> = vec![PollFd::new(socket, PollFlags::IN)];
    looked.extend(connections.iter().map(|connection| PollFd::new(connection.stream(), PollFlags::IN)));
    let patience = if last { Timespec { tv_sec: 0, tv_nsec: 0 } } else { TURN };
    match poll(&mut looked, Some(&patience)) {
        Ok(ready) => ready > 0,
        // Interrupted, or out of memory: not at once again.
        Err(_) => {
            std::thread::sleep(PAUSE);
            false
        }
    }
}

fn accept(socket: &UnixListener, connections: &mut Vec<Connection>, tracer: u32) {
    for _ in 0..MAX_NEW_PER_TURN {
        let Ok((stream, _)) = socket.accept() else { return };
        let Some(connection) = Connection::new(stream) else { continue };
        let of_user = connections.iter().filter(|other| other.uid() == connection.uid()).count();
        // Who traces has room of his own, however many others there are.
        let has_room = connections.len() < MAX_CONNECTIONS || connection.uid() == tracer;
        // Whoever has too many is told by the end of the connection.
        if has_room && of_user < MAX_PER_USER {
            connections.push(connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Line, Subject, What, send};
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;

    fn listener() -> (tempfile::TempDir, Listener) {
        let folder = tempfile::tempdir().unwrap();
        let listener = Listener::open(&folder.path().join("a.sock"), 0).unwrap();
        (folder, listener)
    }

    #[test]
    fn what_was_sent_before_the_end_is_there() {
        let (_folder, mut listener) = listener();
        let mut stream = UnixStream::connect(listener.path()).unwrap();
        for n in 0..1000 {
            writeln!(stream, r#"{{"labels":{{"step":{n}}}}}"#).unwrap();
        }
        // The last line has no end, and the peer is gone.
        write!(stream, r#"{{"labels":{{"step":"last"}}}}"#).unwrap();
        drop(stream);
        let news = listener.finish();
        assert_eq!((news.annotations.len(), news.lost), (1001, 0));
        assert_eq!(news.annotations[1000].value.as_deref(), Some("last"));
        assert_eq!(news.annotations[0].pid, Some(std::process::id()));
        assert!(!listener.path().exists(), "the socket is gone");
    }

    #[test]
    fn garbage_is_refused_and_counted_and_too_much_of_it_ends_the_connection() {
        let (_folder, mut listener) = listener();
        let mut stream = UnixStream::connect(listener.path()).unwrap();
        stream.write_all(b"garbage\n\n{\"labels\":{}}\n").unwrap();
        stream.write_all(&[b'x'; 10_000]).unwrap();
        stream.write_all(b"\n{\"labels\":{\"step\":1},\"reply\":true}\n").unwrap();
        let mut answers = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
        for _ in 0..3 {
            assert!(answers.next().unwrap().starts_with(r#"{"ok":false,"error":""#));
        }
        assert_eq!(answers.next().unwrap(), r#"{"ok":true}"#);
        let mut noise = UnixStream::connect(listener.path()).unwrap();
        while noise.write_all(b"noise\n").is_ok() {}
        let news = listener.finish();
        assert_eq!(news.annotations.len(), 1);
        let refused = |kind: &str| news.refused.get(kind).copied().unwrap_or(0);
        assert!(refused("not the JSON of a mark") >= 100);
        assert_eq!((refused("labels that do not fit"), refused("longer than 4096 bytes")), (1, 1));
    }

    #[test]
    fn a_turn_takes_up_so_many_connections_and_leaves_the_rest_for_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let socket = Socket::open(&folder.path().join("a.sock")).unwrap();
        let peers: Vec<UnixStream> = (0..3 * MAX_NEW_PER_TURN)
            .map(|_| UnixStream::connect(folder.path().join("a.sock")).unwrap())
            .collect();
        let mut connections = Vec::new();
        let waits = || wait(socket.listener(), &[], true);
        for _ in 0..2 {
            accept(socket.listener(), &mut connections, u32::MAX);
            assert!(waits(), "there are more");
        }
        accept(socket.listener(), &mut connections, u32::MAX);
        assert_eq!((connections.len(), waits(), peers.len()), (MAX_PER_USER, false, 3 * MAX_NEW_PER_TURN));
    }

    #[test]
    fn a_line_that_does_not_end_ends_the_connection() {
        let (near, far) = UnixStream::pair().unwrap();
        let mut connection = Connection::new(near).unwrap();
        let (mut spans, mut budget) = (Spans::default(), Budget::default());
        let clock = Clock { offset_ns: 0, began_ns: monotonic_ns() };
        let mut judge = Judge { spans: &mut spans, budget: &mut budget, tracer: 0, clock };
        let mut read = |connection: &mut Connection| {
            connection.read(&mut judge, &mut News::default(), &mut { MAX_PER_TURN })
        };
        let mut peer = &far;
        assert!(read(&mut connection), "one that is silent may stay");
        peer.write_all(b"{\"labels\":").unwrap();
        assert!(read(&mut connection));
        connection.age(Duration::from_secs(61));
        assert!(!read(&mut connection));
    }

    #[test]
    fn the_command_line_gets_an_answer() {
        let (_folder, listener) = listener();
        let line = |subject, what| Line {
            what,
            labels: vec![("step".into(), "1".into())],
            pid: subject,
            monotonic_ns: None,
            reply: false,
        };
        let paths = [listener.path().to_path_buf()];
        send(&paths, &line(Subject::All, What::Begin)).unwrap();
        send(&paths, &line(Subject::All, What::End)).unwrap();
        let refused = send(&paths, &line(Subject::All, What::End)).unwrap_err();
        assert!(refused.to_string().contains("begin it first"), "{refused}");
        let refused = send(&paths, &line(Subject::Process(u32::MAX), What::At)).unwrap_err();
        assert!(refused.to_string().contains("there is no process"), "{refused}");
        drop(listener);
        let gone = send(&paths, &line(Subject::All, What::At)).unwrap_err();
        assert!(gone.to_string().contains("gpuwhy trace --annotate"), "{gone}");
    }

    #[test]
    fn a_socket_is_for_all_and_a_stale_one_is_no_hindrance() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/a.sock");
        let listener = Listener::open(&path, 0).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
        let second = Listener::open(&path, 0).unwrap_err();
        assert!(second.to_string().contains("another trace"), "{second}");
        drop(listener);
        // As somebody leaves it who was killed.
        drop(UnixListener::bind(&path).unwrap());
        Listener::open(&path, 0).unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "precious").unwrap();
        assert!(Listener::open(&file, 0).unwrap_err().to_string().contains("no socket"));
        assert_eq!(std::fs::read(&file).unwrap(), b"precious");
    }
}
