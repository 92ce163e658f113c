//! One peer: its lines as they come, and answers as far as it reads them.

use crate::budget::Budget;
use crate::clock::{Clock, monotonic_ns};
use crate::peer::{Peer, uid_of};
use crate::spans::Spans;
use crate::{Line, MAX_LINE_BYTES, News, Refusal};
use gpuwhy_model::Annotation;
use serde::Serialize;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// At one turn; what is more waits, and its sender with it.
pub(super) const MAX_PER_TURN: usize = 256 * 1024;
/// For a line to end that has begun.
const LINE_WITHIN: Duration = Duration::from_secs(60);
/// Whoever sends so many lines that are no marks is not one who marks.
const MAX_REFUSED: u32 = 100;

/// What decides about a line.
pub(super) struct Judge<'a> {
    pub(super) spans: &'a mut Spans,
    pub(super) budget: &'a mut Budget,
    pub(super) tracer: u32,
    pub(super) clock: Clock,
}

impl Judge<'_> {
    /// What follows from a line, and whether the sender wants to know.
    fn take(&mut self, peer: &Peer, line: &[u8]) -> (Result<Vec<Annotation>, Refusal>, bool) {
        let now = monotonic_ns();
        if !self.budget.allows(peer.uid(), now) {
            return (Err(Refusal::TooManyLines), false);
        }
        let line = match Line::parse(line) {
            Ok(line) => line,
            Err(refusal) => return (Err(refusal), true),
        };
        let reply = line.reply;
        let reported = peer.about(line.pid, self.tracer, uid_of).and_then(|about| {
            let at = self.clock.moment(line.monotonic_ns, now);
            self.spans.take(line, about, at)
        });
        let wants_to_know = reply || matches!(reported, Err(Refusal::NotTheirs(_) | Refusal::NoProcess(_)));
        (reported, wants_to_know)
    }
}

#[derive(Debug, Serialize)]
struct Answer {
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    peer: Peer,
    /// The beginning of a line whose end has not come.
    rest: Vec<u8>,
    /// The line is too long already: its end is awaited.
    skips: bool,
    /// When the line began whose end is awaited.
    began: Option<Instant>,
    refused: u32,
}

impl Connection {
    /// Nothing where the kernel does not say who it is.
    pub(super) fn new(stream: UnixStream) -> Option<Connection> {
        stream.set_nonblocking(true).ok()?;
        let peer = Peer::of(&stream)?;
        Some(Connection { stream, peer, rest: Vec::new(), skips: false, began: None, refused: 0 })
    }

    pub(super) fn uid(&self) -> u32 {
        self.peer.uid()
    }

    pub(super) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Reads what there is, as far as there is room for it; whether the connection goes on.
    pub(super) fn read(&mut self, judge: &mut Judge<'_>, news: &mut News, room: &mut usize) -> bool {
        let mut part = [0; 16 * 1024];
        while *room > 0 {
            match self.stream.read(&mut part) {
                Ok(0) => {
                    if !self.rest.is_empty() || self.skips {
                        self.end_line(judge, news);
                    }
                    return false;
                }
                Ok(count) => {
                    *room = room.saturating_sub(count);
                    self.take(&part[..count], judge, news);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == ErrorKind::WouldBlock && !self.is_late(),
            }
            if self.refused >= MAX_REFUSED {
                return false;
            }
        }
        true
    }

    fn is_late(&self) -> bool {
        self.began.is_some_and(|began| began.elapsed() > LINE_WITHIN)
    }

    /// As if the line had begun so long before.
    #[cfg(test)]
    pub(super) fn age(&mut self, by: Duration) {
        self.began = self.began.and_then(|began| began.checked_sub(by));
    }

    fn take(&mut self, bytes: &[u8], judge: &mut Judge<'_>, news: &mut News) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = match piece.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (piece, false),
            };
            if self.rest.len() + text.len() > MAX_LINE_BYTES {
                self.skips = true;
                self.rest.clear();
            }
            if !self.skips {
                self.rest.extend_from_slice(text);
            }
            match ends {
                true => self.end_line(judge, news),
                false => self.began = self.began.or_else(|| Some(Instant::now())),
            }
        }
    }

    fn end_line(&mut self, judge: &mut Judge<'_>, news: &mut News) {
        let line = std::mem::take(&mut self.rest);
        let skipped = std::mem::take(&mut self.skips);
        self.began = None;
        if line.iter().all(u8::is_ascii_whitespace) && !skipped {
            return;
        }
        let (reported, reply) = match skipped {
            true => (Err(Refusal::TooLong), true),
            false => judge.take(&self.peer, &line),
        };
        news.take(&reported);
        if matches!(reported, Err(Refusal::NotJson(_) | Refusal::TooLong | Refusal::Labels(_))) {
            self.refused += 1;
        }
        if reply {
            let answer =
                Answer { ok: reported.is_ok(), error: reported.err().map(|refusal| refusal.to_string()) };
            let mut text = serde_json::to_vec(&answer).unwrap_or_default();
            text.push(b'\n');
            // Who does not read his answers goes without.
            let _ = self.stream.write(&text);
        }
    }
}
