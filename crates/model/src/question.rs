//! A question and all that HTTP, MCP, OpenAPI and the documentation are made from, whatever it is asked of.

use schemars::{Schema, SchemaGenerator};

#[derive(Debug, Clone, Copy)]
pub struct Question<Run> {
    pub name: &'static str,
    /// Its name as a tool of an assistant.
    pub tool: &'static str,
    /// In one sentence.
    pub about: &'static str,
    /// What to ask next; names tools.
    pub next: &'static str,
    pub request: fn(&mut SchemaGenerator) -> Schema,
    pub answer: fn(&mut SchemaGenerator) -> Schema,
    pub run: Run,
}

impl<Run> Question<Run> {
    /// The same question, with something else to run.
    pub fn with<Other>(&self, run: Other) -> Question<Other> {
        Question {
            name: self.name,
            tool: self.tool,
            about: self.about,
            next: self.next,
            request: self.request,
            answer: self.answer,
            run,
        }
    }
}
