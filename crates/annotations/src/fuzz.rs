//! The entry point for the fuzzers in `fuzz/`: lines as they come through the socket. Nothing else calls it.

use crate::clock::Clock;
use crate::line::Line;
use crate::spans::{About, Spans};

/// Takes lines of two processes in turns; returns how many annotations followed from them.
pub fn lines(text: &[u8]) -> usize {
    let mut spans = Spans::default();
    let clock = Clock { offset_ns: 1 << 60, began_ns: 0 };
    let mut marks = 0;
    for (at, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let Ok(line) = Line::parse(line) else { continue };
        let moment = clock.moment(line.monotonic_ns, 1_000_000 + at as u64);
        let about = About { pid: Some(at as u32 % 2), uid: 0 };
        marks += spans.take(line, about, moment).map_or(0, |marks| marks.len());
    }
    marks
}
