//! Answers that took a while, kept as long as the file is as it was: pages ask the same again and again.

use crate::traces::Look;
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Quicker answers are not worth it.
const SLOW: Duration = Duration::from_millis(20);
const ENTRIES: usize = 48;
/// Larger answers are not kept.
const LARGEST: usize = 2 << 20;

#[derive(Debug, Default)]
pub(crate) struct Answers(Mutex<Vec<Answered>>);

#[derive(Debug)]
struct Answered {
    name: &'static str,
    request: String,
    look: Look,
    answer: Arc<Value>,
}

impl Answers {
    pub(crate) fn find(&self, name: &str, request: &str, look: &Look) -> Option<Arc<Value>> {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.retain(|entry| entry.look == *look);
        let at = answers.iter().position(|entry| entry.name == name && entry.request == request)?;
        // The last one used is the last one dropped.
        let entry = answers.remove(at);
        let answer = entry.answer.clone();
        answers.push(entry);
        Some(answer)
    }

    pub(crate) fn keep(
        &self,
        name: &'static str,
        request: String,
        look: Look,
        answer: &Arc<Value>,
        took: Duration,
    ) {
        if took < SLOW || rough_size(answer) > LARGEST {
            return;
        }
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= ENTRIES {
            answers.remove(0);
        }
        answers.push(Answered { name, request, look, answer: answer.clone() });
    }
}

fn rough_size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 8,
        Value::Array(list) => list.iter().map(rough_size).sum::<usize>() + 8,
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + 16 + rough_size(value)).sum(),
        _ => 8,
    }
}
