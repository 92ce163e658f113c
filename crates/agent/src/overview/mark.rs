//! What was marked so far: by name and process, the latest one, how many, and how long they take.

use gpuwhy_model::{Annotation, MarkState};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct MarkSum {
    pub last_value: String,
    pub last_ns: u64,
    /// Moments, and those that began.
    pub count: u64,
    /// Those that ended, and how long they took in all and at most.
    pub ended: u64,
    pub sum_ns: u64,
    pub max_ns: u64,
}

impl MarkSum {
    pub(super) fn take(&mut self, mark: &Annotation) {
        if mark.state == MarkState::Ended {
            let ns = mark.duration_ns.unwrap_or(0);
            self.ended += 1;
            self.sum_ns += ns;
            self.max_ns = self.max_ns.max(ns);
            return;
        }
        self.count += 1;
        self.last_value = mark.value.clone().unwrap_or_default();
        self.last_ns = mark.time_ns;
    }
}
