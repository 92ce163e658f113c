//! What came in by the socket since the last time.

use crate::Refusal;
use gpuwhy_model::Annotation;
use std::collections::BTreeMap;

/// Kept until the agent takes them; beyond it they are lost, and counted.
const MAX_PENDING: usize = 65_536;

#[derive(Debug, Default)]
pub struct News {
    pub annotations: Vec<Annotation>,
    /// Lines by why they were not taken.
    pub refused: BTreeMap<&'static str, u64>,
    /// Lines that came too fast.
    pub lost: u64,
}

impl News {
    pub fn is_empty(&self) -> bool {
        self.annotations.is_empty() && self.refused.is_empty() && self.lost == 0
    }

    /// As much as one batch is to have; the rest stays. Counts go with the first part.
    pub(crate) fn part(&mut self) -> News {
        const MAX_PER_BATCH: usize = 4096;
        let count = self.annotations.len().min(MAX_PER_BATCH);
        let rest = self.annotations.split_off(count);
        let part = std::mem::take(self);
        self.annotations = rest;
        part
    }

    pub(crate) fn take(&mut self, reported: &Result<Vec<Annotation>, Refusal>) {
        match reported {
            Ok(marks) if self.annotations.len() + marks.len() > MAX_PENDING => self.lost += 1,
            Ok(marks) => self.annotations.extend(marks.iter().cloned()),
            Err(Refusal::TooManyLines) => self.lost += 1,
            // Whoever began before the trace did ends in it.
            Err(Refusal::NothingOpen) => {}
            Err(refusal) => *self.refused.entry(refusal.kind()).or_default() += 1,
        }
    }
}
