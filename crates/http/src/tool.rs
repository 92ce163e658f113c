//! A question as a tool.

use crate::answer::{self, DEFAULT_TOKENS, MAX_TOKENS, MIN_TOKENS};
use crate::fence;
use crate::schemas::{self, Object};
use crate::text::{self, sentence};
use gpuwhy_model::Question;
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ContentBlock, Tool, ToolAnnotations};
use serde_json::{Value, json};
use std::sync::Arc;

const BUDGET: &str = "max_tokens";

/// What is said of a name that no tool has.
pub fn unknown(name: &str) -> ErrorData {
    let name = text::harmless(name, 100);
    ErrorData::invalid_params(format!("there is no tool {name}; list the tools"), None)
}

/// An answer that fits the budget, its strings fenced as data.
pub fn answered<Run>(
    question: &Question<Run>,
    asked: &Object,
    found: &Value,
    budget: usize,
) -> CallToolResult {
    let fitted = answer::fit(question, asked, found, budget);
    let content = vec![ContentBlock::text(fence::around(question.tool, &fitted))];
    let mut result = CallToolResult::structured(fitted);
    result.content = content;
    result
}

/// A sentence may have names in it that others chose.
pub fn failed(sentence: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text::harmless(sentence, 600))])
}

pub fn of<Run>(question: &Question<Run>) -> Tool {
    let mut input = schemas::request(question);
    if let Some(Value::Object(properties)) = input.get_mut("properties") {
        properties.insert(
            BUDGET.into(),
            json!({
                "description": "About how many tokens the answer may have; what does not fit is left out and named.",
                "type": "integer", "minimum": MIN_TOKENS, "maximum": MAX_TOKENS, "default": DEFAULT_TOKENS,
            }),
        );
    }
    let description = format!("{}. Next: {}.", sentence(question.about), question.next);
    // All of them only look: the host's, too, leave nothing behind.
    let annotations =
        ToolAnnotations::new().read_only(true).destructive(false).idempotent(true).open_world(false);
    Tool::new(question.tool, description, Arc::new(input))
        .with_raw_output_schema(Arc::new(output(question)))
        .with_annotations(annotations)
}

/// The answer's schema, with what fitting it into a budget adds.
fn output<Run>(question: &Question<Run>) -> Object {
    let mut schema = Value::Object(schemas::answer(question));
    schemas::without_nulls(&mut schema);
    schemas::with_plain_enums(&mut schema);
    if schema["properties"].get("rows").is_some() {
        // Rows look alike everywhere; every tool listed costs its reader.
        schema = json!({
            "type": "object",
            "properties": {
                "rows": {"type": "array", "items": {"type": "object"}},
                "truncated": {"type": "boolean"},
                "coverage": {"type": "object"},
            },
            "required": ["rows", "truncated", "coverage"],
        });
    }
    let Value::Object(mut schema) = schema else { return Object::new() };
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.insert("notice".into(), json!({"type": "string"}));
        properties.insert(
            "left_out".into(),
            json!({
                "description": "What was cut to fit the budget: lists by name, and how many of their entries are missing.",
                "type": "object", "additionalProperties": {"type": "integer"},
            }),
        );
        properties.insert(
            "next".into(),
            json!({"description": "Calls to go on with.", "type": "array", "items": {"type": "string"}}),
        );
    }
    schema
}

/// The budget and the request itself.
pub fn split<Run>(question: &Question<Run>, mut arguments: Object) -> Result<(usize, Object), String> {
    let budget = match arguments.remove(BUDGET) {
        None | Some(Value::Null) => DEFAULT_TOKENS,
        Some(number) => match number.as_u64() {
            Some(tokens) => (tokens as usize).clamp(MIN_TOKENS, MAX_TOKENS),
            None => return Err(format!("max_tokens is a number from {MIN_TOKENS} to {MAX_TOKENS}")),
        },
    };
    // More than fits need not be read. A row has ten tokens at least.
    let usual =
        [("limit", budget / 10), ("points", budget / 50), ("slices", budget / 200), ("tracks", budget / 300)];
    let properties = schemas::request(question).remove("properties").unwrap_or_default();
    for (name, number) in usual {
        if properties.get(name).is_some() && arguments.get(name).is_none_or(Value::is_null) {
            arguments.insert(name.into(), number.into());
        }
    }
    Ok((budget, arguments))
}
