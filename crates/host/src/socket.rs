//! The container daemon's own word, over its socket on this host: only where its files did not tell.

use crate::owner::is_id;
use crate::root::Reader;
use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_millis(200);
const MAX_BYTES: usize = 1 << 20;

/// What `docker inspect` would say. Podman's daemon answers the same question.
pub(crate) fn inspect(socket: &Path, id: &str, reader: &Reader) -> Option<Value> {
    // Nothing but an id may get into the request.
    if !is_id(id) {
        return None;
    }
    let stream = UnixStream::connect(socket).ok()?;
    let id = id.to_string();
    reader.read(move || ask(stream, &id))?
}

fn ask(mut stream: UnixStream, id: &str) -> Option<Value> {
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    // The old version of the protocol: the answer comes in one piece and ends with the connection.
    let question = format!("GET /containers/{id}/json HTTP/1.0\r\nHost: localhost\r\n\r\n");
    // In one piece: who answers the first of several and hangs up would break the pipe of the next.
    stream.write_all(question.as_bytes()).ok()?;
    body(&all(&mut stream)?).and_then(|body| serde_json::from_slice(body).ok())
}

/// Until it ends; somebody who sends a byte now and then does not get more time.
fn all(stream: &mut UnixStream) -> Option<Vec<u8>> {
    let until = Instant::now() + PATIENCE;
    let mut answer = Vec::new();
    let mut part = [0; 8192];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || answer.len() > MAX_BYTES {
            return None;
        }
        stream.set_read_timeout(Some(left)).ok()?;
        match stream.read(&mut part) {
            Ok(0) => return Some(answer),
            Ok(count) => answer.extend_from_slice(part.get(..count)?),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

fn body(answer: &[u8]) -> Option<&[u8]> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&answer[..end]);
    let mut words = head.split_ascii_whitespace();
    (words.next()?.starts_with("HTTP/1.") && words.next()? == "200").then(|| &answer[end + 4..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// What is understood of an answer, and the question that was asked.
    fn ask(answer: &'static [u8]) -> (Option<Value>, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daemon.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let daemon = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = Vec::new();
            let mut byte = [0];
            while !asked.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() > 0 {
                asked.push(byte[0]);
            }
            stream.write_all(answer).unwrap();
            if answer.is_empty() {
                // Says nothing until the other side has given up.
                let _ = stream.read(&mut byte);
            }
            String::from_utf8(asked).unwrap()
        });
        let found = inspect(&path, &"a".repeat(64), &Reader::default());
        (found, daemon.join().unwrap())
    }

    #[test]
    fn a_daemon_is_asked_and_need_not_answer() {
        let (found, asked) =
            ask(b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{\"Name\":\"/web\"}");
        assert_eq!(found.unwrap()["Name"], "/web");
        assert!(asked.starts_with(&format!("GET /containers/{}/json HTTP/1.0\r\n", "a".repeat(64))));
        for answer in [
            &b"HTTP/1.0 404 Not Found\r\n\r\n{}"[..],
            b"HTTP/1.0 200 OK\r\n\r\n{",
            b"\xff\r\n\r\n{}",
            b"x",
            b"",
        ] {
            assert_eq!(ask(answer).0, None, "{answer:?}");
        }
        assert_eq!(inspect(Path::new("/nowhere"), &"a".repeat(64), &Reader::default()), None);
        assert_eq!(inspect(Path::new("/nowhere"), "../x", &Reader::default()), None);
    }
}
