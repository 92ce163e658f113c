//! docs/api.md: every question with its request and its answer, for people.

use crate::questions::{HostEndpoint, Run, all};
use gpuwhy_http::schemas;
use gpuwhy_http::text::sentence;
use serde_json::Value;
use std::fmt::Write;

/// In Markdown.
pub fn markdown(host: &[HostEndpoint]) -> String {
    let mut page = String::from(
        "# Questions\n\nMade from the `ENDPOINTS` table by `make docs`. Each is a tool over MCP (`gpuwhy mcp`) and a path over HTTP \
         (`gpuwhy dashboard`): `POST /api/v1/NAME` with a JSON object, or `GET` with query parameters where it is asked of the trace. \
         `/api/v1/openapi.json` describes the same to programs. Over MCP every request may have `max_tokens` too, and answers \
         have `left_out` and `next`. An error is `{\"error\": SENTENCE, \"kind\": KIND}`; kinds are `usage`, `nothing` (no such data), `slow`, \
         `busy`, `stopped`, `refused` and `failed`.\n",
    );
    for question in all(host) {
        let methods = if matches!(question.run, Run::Host(_)) { "POST" } else { "GET, POST" };
        // Writing to a String cannot fail.
        let _ = write!(
            page,
            "\n## {}\n\nTool `{}`; {methods} `/api/v1/{}`. {}.\n\nNext: {}.\n",
            question.name,
            question.tool,
            question.name,
            sentence(question.about),
            question.next
        );
        let request = Value::Object(schemas::request(&question));
        let answer = Value::Object(schemas::answer(&question));
        table(&mut page, "field of the request", &request);
        table(&mut page, "field of the answer", &answer);
    }
    page
}

fn table(page: &mut String, title: &str, schema: &Value) {
    let fields = schema["properties"].as_object().cloned().unwrap_or_default();
    if fields.is_empty() {
        return;
    }
    let _ = write!(page, "\n| {title} | type | about |\n|---|---|---|\n");
    for (name, field) in fields {
        let target = resolved(schema, &field);
        let about =
            field["description"].as_str().or_else(|| target["description"].as_str()).unwrap_or_default();
        let about = about.replace('\n', " ").replace('|', "\\|");
        let _ = writeln!(page, "| `{name}` | {} | {about} |", kind(schema, &field));
    }
}

/// A type in words.
fn kind(root: &Value, field: &Value) -> String {
    if let Some(reference) = field["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or_default();
        let target = resolved(root, field);
        return match names(&target) {
            Some(names) => names,
            None => name.to_string(),
        };
    }
    if let Some(any) = field["anyOf"].as_array() {
        let kinds: Vec<String> =
            any.iter().filter(|one| one["type"] != "null").map(|one| kind(root, one)).collect();
        return kinds.join(" or ");
    }
    let types: Vec<&str> = match &field["type"] {
        Value::String(one) => vec![one],
        Value::Array(list) => list.iter().filter_map(Value::as_str).filter(|one| *one != "null").collect(),
        _ => Vec::new(),
    };
    match types.as_slice() {
        ["array"] => format!("list of {}", kind(root, &field["items"])),
        [] => names(field).unwrap_or_else(|| "any".into()),
        types => types.join(" or "),
    }
}

/// The values of an enumeration.
fn names(schema: &Value) -> Option<String> {
    let word = |value: &Value| value.as_str().map(|word| format!("`{word}`"));
    let of_list = schema["enum"].as_array().map(|list| list.iter().filter_map(word).collect::<Vec<_>>());
    let of_choices = schema["oneOf"].as_array().map(|list| {
        let consts = list.iter().filter_map(|one| word(&one["const"]));
        let enums = list.iter().filter_map(|one| one["enum"].as_array()).flatten().filter_map(word);
        enums.chain(consts).collect::<Vec<_>>()
    });
    let names = of_list.or(of_choices).filter(|names| !names.is_empty())?;
    Some(names.join(", "))
}

fn resolved(root: &Value, field: &Value) -> Value {
    let Some(reference) = field["$ref"].as_str() else { return field.clone() };
    root.pointer(reference.trim_start_matches('#')).cloned().unwrap_or_default()
}
