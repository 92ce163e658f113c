//! Marks that come in by the socket, on their way into the batch.

use crate::AgentError;
use gpuwhy_annotations::{Listener, News};
use gpuwhy_model::{Batch, Loss, ProbeState, ProbeStatus};
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Debug)]
pub(crate) struct Annotating {
    listener: Listener,
}

impl Annotating {
    pub(crate) fn open(path: &Path, clock_offset_ns: u64) -> Result<Annotating, AgentError> {
        let listener = Listener::open(path, clock_offset_ns).map_err(|error| AgentError::Annotate {
            path: path.display().to_string(),
            reason: error.to_string(),
        })?;
        Ok(Annotating { listener })
    }

    pub(crate) fn take(&self, batch: &mut Batch, now_ns: u64) {
        put(self.listener.take(), batch, now_ns);
    }

    /// All that was sent until now; then nobody listens any more.
    pub(crate) fn finish(&mut self, batch: &mut Batch, now_ns: u64) {
        put(self.listener.finish(), batch, now_ns);
    }

    /// How it went: lines that were not taken are said with every answer.
    pub(crate) fn status<'a>(
        &self,
        refused: impl Iterator<Item = (&'a String, &'a u64)>,
        now_ns: u64,
    ) -> ProbeStatus {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for (why, count) in refused {
            *sums.entry(why).or_default() += count;
        }
        let words: Vec<String> = sums.iter().map(|(why, count)| format!("{count} {why}")).collect();
        let all: u64 = sums.values().sum();
        ProbeStatus {
            probe: "annotate".into(),
            target: self.listener.path().display().to_string(),
            file: String::new(),
            state: if all == 0 { ProbeState::Attached } else { ProbeState::Degraded },
            flavour: "socket".into(),
            since_ns: now_ns,
            reason: if all == 0 {
                String::new()
            } else {
                format!("lines were refused: {}", words.join(", "))
            },
        }
    }
}

fn put(news: News, batch: &mut Batch, now_ns: u64) {
    batch.annotations.extend(news.annotations);
    for (why, count) in news.refused {
        *batch.refused_annotations.entry(why.into()).or_default() += count;
    }
    if news.lost > 0 {
        batch.losses.push(Loss {
            start_ns: now_ns,
            end_ns: now_ns,
            probe: "annotate".into(),
            cpu: -1,
            reason: "more lines than may be sent in a second".into(),
            count: news.lost,
        });
    }
}
