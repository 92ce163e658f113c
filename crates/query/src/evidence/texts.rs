//! A number for each text, so that rows are compared without copies of theirs.

use foldhash::fast::RandomState;
use std::collections::HashMap;

#[derive(Default)]
pub(super) struct Texts(HashMap<String, u32, RandomState>);

impl Texts {
    pub(super) fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.0.get(text) {
            return *number;
        }
        let next = self.0.len() as u32;
        self.0.insert(text.to_string(), next);
        next
    }
}
