//! One question: GET a page. No redirects, no names, no more time and no more bytes than so much.

use crate::Target;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const TO_CONNECT: Duration = Duration::from_millis(300);
/// For all of it: somebody who sends a byte now and then does not get more time.
const IN_ALL: Duration = Duration::from_secs(1);
const MAX_BYTES: usize = 4 << 20;
const MAX_HEAD_BYTES: usize = 16 << 10;

pub(crate) fn connect(target: &Target) -> Result<TcpStream, String> {
    TcpStream::connect_timeout(&target.address, TO_CONNECT).map_err(|error| match error.kind() {
        ErrorKind::ConnectionRefused => "nobody listens there".to_string(),
        ErrorKind::TimedOut | ErrorKind::WouldBlock => "it does not answer".to_string(),
        _ => error.to_string(),
    })
}

/// The page, or why there is none, in a few words.
pub(crate) fn get(mut stream: TcpStream, target: &Target) -> Result<String, String> {
    let until = Instant::now() + IN_ALL;
    stream.set_write_timeout(Some(IN_ALL)).map_err(|error| error.to_string())?;
    // The old version of the protocol: the answer comes in one piece and ends with the connection.
    let question = format!(
        "GET {} HTTP/1.0\r\nHost: {}\r\nAccept: text/plain\r\nUser-Agent: gpuwhy\r\nConnection: close\r\n\r\n",
        target.path, target.address
    );
    stream.write_all(question.as_bytes()).map_err(|error| error.to_string())?;
    let answer = all(&mut stream, until)?;
    let body = body(&answer)?;
    Ok(String::from_utf8_lossy(body).into_owned())
}

fn all(stream: &mut TcpStream, until: Instant) -> Result<Vec<u8>, String> {
    let mut answer = Vec::new();
    let mut part = [0; 16 * 1024];
    // Of the head, and of the body as it says.
    let mut length: Option<(usize, Option<usize>)> = None;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(format!("its page took longer than {} s", IN_ALL.as_secs()));
        }
        if answer.len() > MAX_BYTES {
            return Err(format!("its page is larger than {} MiB", MAX_BYTES >> 20));
        }
        stream.set_read_timeout(Some(left)).map_err(|error| error.to_string())?;
        match stream.read(&mut part) {
            Ok(0) => return Ok(answer),
            Ok(count) => answer.extend_from_slice(part.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error.to_string()),
        }
        // Some servers keep the connection open although they were asked not to: the length tells.
        if length.is_none() {
            length = split(&answer).map(|(head, body)| (answer.len() - body.len(), content_length(&head)));
        }
        if let Some((head, Some(body))) = length
            && answer.len() >= head.saturating_add(body)
        {
            return Ok(answer);
        }
    }
}

fn content_length(head: &str) -> Option<usize> {
    head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    })
}

fn split(answer: &[u8]) -> Option<(String, &[u8])> {
    let end = answer.windows(4).take(MAX_HEAD_BYTES).position(|four| four == b"\r\n\r\n")?;
    Some((String::from_utf8_lossy(&answer[..end]).into_owned(), &answer[end + 4..]))
}

pub(crate) fn body(answer: &[u8]) -> Result<&[u8], String> {
    let (head, body) = split(answer).ok_or("it does not speak HTTP")?;
    let mut words = head.split_ascii_whitespace();
    if !words.next().is_some_and(|word| word.starts_with("HTTP/1.")) {
        return Err("it does not speak HTTP".into());
    }
    match words.next() {
        Some("200") => {}
        Some(code) if code.starts_with('3') => {
            return Err("it points elsewhere, and that is not followed".into());
        }
        Some("404") => return Err("it has no page of metrics there (404)".into()),
        Some(code) => return Err(format!("it answers {code}")),
        None => return Err("it does not speak HTTP".into()),
    }
    let is_chunked = head.lines().any(|line| {
        let line = line.to_ascii_lowercase();
        line.starts_with("transfer-encoding:") && line.contains("chunked")
    });
    if is_chunked {
        return Err("it sends its page in chunks although HTTP/1.0 has none".into());
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn ask(answer: &'static [u8]) -> Result<String, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target::at(listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut question = Vec::new();
            let mut byte = [0];
            while !question.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() > 0 {
                question.push(byte[0]);
            }
            // Whoever asked may be gone before all of it is written.
            let _ = stream.write_all(answer);
            String::from_utf8(question).unwrap()
        });
        let got = connect(&target).and_then(|stream| get(stream, &target));
        assert!(server.join().unwrap().starts_with("GET /metrics HTTP/1.0\r\nHost: 127.0.0.1:"));
        got
    }

    #[test]
    fn a_page_is_fetched_and_nothing_else() {
        assert_eq!(ask(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\na 1\n"), Ok("a 1\n".into()));
        assert_eq!(ask(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na 1\n"), Ok("a 1\n".into()));
        let why = |answer| ask(answer).unwrap_err();
        assert!(why(b"HTTP/1.1 307 Go\r\nLocation: http://192.0.2.1/\r\n\r\n").contains("not followed"));
        assert!(why(b"HTTP/1.1 404 No\r\n\r\n").contains("404"));
        assert!(why(b"HTTP/1.1 500 Oh\r\n\r\n").contains("500"));
        assert!(why(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n").contains("chunks"));
        for noise in [&b"SSH-2.0-x\r\n\r\n"[..], b"", b"\r\n\r\n", b"\xff\xff\r\n\r\n"] {
            assert!(why(noise).contains("HTTP"), "{noise:?}");
        }
        static LARGE: [u8; MAX_BYTES + 100_000] = [b'x'; MAX_BYTES + 100_000];
        assert!(why(&LARGE).contains("larger"));
    }

    #[test]
    fn nobody_is_said_so() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target::at(listener.local_addr().unwrap());
        drop(listener);
        assert_eq!(connect(&target).unwrap_err(), "nobody listens there");
    }
}
