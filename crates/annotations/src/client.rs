//! Sending one mark and waiting for the answer.

use crate::{Line, clock};
use serde_json::Value;
use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(2);
const MAX_ANSWER_BYTES: u64 = 4096;

#[derive(Debug)]
pub enum SendError {
    /// Nobody listens at any of these.
    NoListener(Vec<PathBuf>),
    /// It was not taken, and why.
    Refused(String),
    Failed(PathBuf, std::io::Error),
}

impl fmt::Display for SendError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendError::NoListener(paths) => {
                let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
                write!(
                    out,
                    "no trace listens at {}; start one with `gpuwhy trace --annotate`",
                    paths.join(" or ")
                )
            }
            SendError::Refused(why) => write!(out, "the trace did not take it: {why}"),
            SendError::Failed(path, error) => write!(
                out,
                "{} cannot be used ({error}); is it the socket of a trace, and may you use it?",
                path.display()
            ),
        }
    }
}

/// To the first of the sockets at which somebody listens, at the time of this call.
pub fn send(paths: &[PathBuf], line: &Line) -> Result<(), SendError> {
    let line = Line { monotonic_ns: Some(clock::monotonic_ns()), reply: true, ..line.clone() };
    for path in paths {
        match UnixStream::connect(path) {
            Ok(stream) => return ask(stream, path, &line),
            Err(error) if has_no_listener(&error) => {}
            Err(error) => return Err(SendError::Failed(path.clone(), error)),
        }
    }
    Err(SendError::NoListener(paths.to_vec()))
}

fn has_no_listener(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused)
}

fn ask(mut stream: UnixStream, path: &Path, line: &Line) -> Result<(), SendError> {
    let failed = |error: std::io::Error| SendError::Failed(path.into(), error);
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
    let mut text = serde_json::to_vec(line).map_err(|error| failed(error.into()))?;
    text.push(b'\n');
    stream.write_all(&text).map_err(failed)?;
    let mut answer = String::new();
    BufReader::new(stream.take(MAX_ANSWER_BYTES)).read_line(&mut answer).map_err(failed)?;
    let answer: Value = serde_json::from_str(&answer)
        .map_err(|_| SendError::Refused("it answered nothing that could be understood; try again".into()))?;
    match answer.get("ok").and_then(Value::as_bool) {
        Some(true) => Ok(()),
        _ => Err(SendError::Refused(
            answer.get("error").and_then(Value::as_str).unwrap_or("it gave no reason").into(),
        )),
    }
}
