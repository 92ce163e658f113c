//! Beginnings and their ends. Pure: who and when come in.

use crate::{Line, Refusal, What};
use gpuwhy_model::{Annotation, MarkClock, MarkState};
use std::collections::{BTreeMap, HashMap};

/// Of one process, or of a user's processes together. A server with more requests at once marks only some of them.
pub(crate) const MAX_OPEN: usize = 4096;
/// Processes with something open; those that have not marked anything for longest are forgotten first.
const MAX_PROCESSES: usize = 1024;

/// Who a mark is about, as the kernel tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct About {
    /// Nothing for all processes of the user.
    pub(crate) pid: Option<u32>,
    pub(crate) uid: u32,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) time_ns: u64,
    pub(crate) clock: MarkClock,
}

#[derive(Debug, Default)]
pub(crate) struct Spans {
    open: HashMap<About, Process>,
    turn: u64,
}

#[derive(Debug, Default)]
struct Process {
    /// By name and value.
    open: BTreeMap<(String, String), Annotation>,
    used: u64,
}

impl Spans {
    /// What follows from a line, in the order in which it is to be written.
    pub(crate) fn take(&mut self, line: Line, about: About, at: Moment) -> Result<Vec<Annotation>, Refusal> {
        let Some((event, value)) = line.labels.first().cloned() else { return Ok(Vec::new()) };
        let mark = Annotation {
            time_ns: at.time_ns,
            duration_ns: None,
            state: MarkState::At,
            event: event.clone(),
            value: Some(value.clone()).filter(|value| !value.is_empty()),
            labels: line.labels.into_iter().collect(),
            pid: about.pid,
            uid: about.uid,
            clock: at.clock,
        };
        let key = (event, value);
        match line.what {
            What::At => Ok(vec![mark]),
            What::Begin => self.begin(about, key, mark).map(|mark| vec![mark]),
            What::Next => {
                let process = self.process(about);
                let same: Vec<_> = process.open.keys().filter(|open| open.0 == key.0).cloned().collect();
                let mut reported: Vec<Annotation> = same
                    .into_iter()
                    .filter_map(|open| process.open.remove(&open))
                    .map(|open| ended(open, at.time_ns))
                    .collect();
                reported.push(self.begin(about, key, mark)?);
                Ok(reported)
            }
            What::End => {
                let open = self.process(about).open.remove(&key).ok_or(Refusal::NothingOpen)?;
                Ok(vec![ended(open, at.time_ns)])
            }
        }
    }

    fn begin(
        &mut self,
        about: About,
        key: (String, String),
        mark: Annotation,
    ) -> Result<Annotation, Refusal> {
        let process = self.process(about);
        if process.open.len() >= MAX_OPEN && !process.open.contains_key(&key) {
            return Err(Refusal::TooManyOpen);
        }
        let mark = Annotation { state: MarkState::Open, ..mark };
        process.open.insert(key, mark.clone());
        Ok(mark)
    }

    fn process(&mut self, about: About) -> &mut Process {
        self.turn += 1;
        if !self.open.contains_key(&about) && self.open.len() >= MAX_PROCESSES {
            let oldest = self.open.iter().min_by_key(|(_, process)| process.used).map(|(about, _)| *about);
            oldest.map(|oldest| self.open.remove(&oldest));
        }
        let process = self.open.entry(about).or_default();
        process.used = self.turn;
        process
    }
}

fn ended(open: Annotation, end_ns: u64) -> Annotation {
    let duration_ns = Some(end_ns.saturating_sub(open.time_ns));
    Annotation { state: MarkState::Ended, duration_ns, ..open }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Subject;

    const ME: About = About { pid: Some(7), uid: 1000 };

    fn take(spans: &mut Spans, what: What, step: &str, time_ns: u64) -> Result<Vec<Annotation>, Refusal> {
        let line = Line {
            what,
            labels: vec![("step".into(), step.into())],
            pid: Subject::Own,
            monotonic_ns: None,
            reply: false,
        };
        spans.take(line, ME, Moment { time_ns, clock: MarkClock::Annotator })
    }

    fn short(marks: &[Annotation]) -> Vec<(&str, u64, Option<u64>, &str)> {
        marks
            .iter()
            .map(|m| (m.value.as_deref().unwrap_or(""), m.time_ns, m.duration_ns, m.state.name()))
            .collect()
    }

    #[test]
    fn a_span_is_told_when_it_begins_and_when_it_ends() {
        let mut spans = Spans::default();
        assert_eq!(short(&take(&mut spans, What::Begin, "1", 10).unwrap()), [("1", 10, None, "open")]);
        assert_eq!(short(&take(&mut spans, What::End, "1", 25).unwrap()), [("1", 10, Some(15), "ended")]);
        assert_eq!(take(&mut spans, What::End, "1", 30), Err(Refusal::NothingOpen));
        assert_eq!(short(&take(&mut spans, What::At, "2", 40).unwrap()), [("2", 40, None, "at")]);
    }

    #[test]
    fn the_next_step_ends_the_one_before() {
        let mut spans = Spans::default();
        take(&mut spans, What::Next, "1", 10).unwrap();
        let reported = take(&mut spans, What::Next, "2", 30).unwrap();
        assert_eq!(short(&reported), [("1", 10, Some(20), "ended"), ("2", 30, None, "open")]);
        // A clock that went back makes no negative time.
        assert_eq!(short(&take(&mut spans, What::End, "2", 20).unwrap()), [("2", 30, Some(0), "ended")]);
    }

    #[test]
    fn what_is_open_has_a_limit() {
        let mut spans = Spans::default();
        for n in 0..MAX_OPEN {
            take(&mut spans, What::Begin, &n.to_string(), 1).unwrap();
        }
        assert_eq!(take(&mut spans, What::Begin, "more", 1), Err(Refusal::TooManyOpen));
        assert!(take(&mut spans, What::Begin, "0", 2).is_ok(), "begun again");
        for uid in 0..2 * MAX_PROCESSES as u32 {
            spans.process(About { pid: None, uid });
        }
        assert_eq!(spans.open.len(), MAX_PROCESSES);
    }
}
