//! What became of what was to be sent.

use crate::otlp::Signal;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Why something was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GivenUp {
    /// The queue was full, and it was the oldest.
    Queue,
    /// The server does not want it, now or ever.
    Refused,
    /// The server took the rest of the request.
    Rejected,
    /// The trace was over, and so was the time to send it.
    End,
}

impl GivenUp {
    pub fn name(self) -> &'static str {
        match self {
            GivenUp::Queue => "queue",
            GivenUp::Refused => "refused",
            GivenUp::Rejected => "rejected",
            GivenUp::End => "end",
        }
    }
}

/// The counts, shared between threads.
#[derive(Debug, Default)]
pub struct Delivery(Mutex<DeliveryNow>);

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeliveryNow {
    /// Points, records and spans that were taken.
    pub sent: BTreeMap<Signal, u64>,
    pub dropped: BTreeMap<(Signal, GivenUp), u64>,
    /// Requests sent again.
    pub retries: u64,
    pub queued_bytes: u64,
    /// The last thing that went wrong, in a sentence.
    pub trouble: Option<String>,
    /// Kinds of data the server has no place for, and what it said: they are not sent any more, which is no trouble for
    /// the others. Prometheus takes metrics alone.
    pub not_taken: BTreeMap<Signal, String>,
}

impl DeliveryNow {
    /// For people: what was sent and what was given up.
    pub fn message(&self) -> String {
        let list = |parts: Vec<String>| if parts.is_empty() { "nothing".into() } else { parts.join(", ") };
        let sent = self.sent.iter().filter(|(_, n)| **n > 0);
        let sent = list(sent.map(|(signal, n)| format!("{n} {}", signal.items())).collect());
        let dropped = self.dropped.iter().filter(|(_, n)| **n > 0);
        let dropped = list(
            dropped.map(|((signal, why), n)| format!("{n} {} ({})", signal.items(), why.name())).collect(),
        );
        let not_taken = self.not_taken.values().next().map_or_else(String::new, |why| {
            let kinds: Vec<&str> = self.not_taken.keys().map(|signal| signal.name()).collect();
            format!("; the server takes no {} ({why})", kinds.join(" and no "))
        });
        let trouble =
            self.trouble.as_ref().map_or_else(String::new, |trouble| format!("; last trouble: {trouble}"));
        format!("{sent} sent, {dropped} dropped{not_taken}{trouble}")
    }

    pub fn dropped_in_all(&self) -> u64 {
        self.dropped.values().sum()
    }
}

impl Delivery {
    pub fn now(&self) -> DeliveryNow {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn sent(&self, signal: Signal, items: u64) {
        self.change(|now| *now.sent.entry(signal).or_default() += items);
    }

    pub fn dropped(&self, signal: Signal, why: GivenUp, items: u64) {
        if items > 0 {
            self.change(|now| *now.dropped.entry((signal, why)).or_default() += items);
        }
    }

    pub(super) fn retried(&self) {
        self.change(|now| now.retries += 1);
    }

    pub(super) fn queued(&self, bytes: usize) {
        self.change(|now| now.queued_bytes = bytes as u64);
    }

    pub(super) fn trouble(&self, words: String) {
        self.change(|now| now.trouble = Some(words));
    }

    pub(super) fn not_taken(&self, signal: Signal, words: String) {
        self.change(|now| drop(now.not_taken.insert(signal, words)));
    }

    fn change(&self, change: impl FnOnce(&mut DeliveryNow)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
