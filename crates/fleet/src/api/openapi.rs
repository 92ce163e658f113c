//! The API as an OpenAPI 3.1 document, made from the registry.

use super::tools::{SQL, TOOLS, Tool};
use gpuwhy_http::openapi::{About, document, responses};
use gpuwhy_http::schemas::{self, Object};
use serde_json::{Value, json};

/// Of all tools.
pub fn openapi() -> Value {
    let mut definitions = Object::new();
    let mut paths = Object::new();
    for (path, about, answer) in [
        (
            "/api/versions",
            "the versions of this API",
            json!({"type": "object", "properties": {"versions": {"type": "array"}}}),
        ),
        (
            "/api/v1/health",
            "whether it lives; with a token also which version",
            json!({"type": "object", "properties": {"ok": {"type": "boolean"}}}),
        ),
        (
            "/api/v1/tools/list",
            "the tools this token may use",
            json!({"type": "object", "properties": {"tools": {"type": "array"}}}),
        ),
    ] {
        paths.insert(
            path.into(),
            json!({"get": {
                "operationId": path.rsplit('/').next(), "summary": about, "responses": responses(&answer),
            }}),
        );
    }
    let which =
        |name: &str| json!({"name": name, "in": "query", "required": false, "schema": {"type": "string"}});
    let thresholds = json!({"type": "object", "properties": {"cluster_id": {"type": "string"}, "thresholds": {"type": "array"}}});
    paths.insert("/api/v1/threshold".into(), json!({"get": {
        "operationId": "threshold", "summary": "the thresholds of a cluster's cohorts, as answers to pushes carry them",
        "parameters": [which("cluster_id"), which("job_id")], "responses": responses(&thresholds),
    }}));
    for tool in TOOLS {
        let path = format!("/api/v1/tools/{}", tool.name);
        paths.insert(path, post(tool, &mut definitions));
    }
    paths.insert("/api/v1/sql".into(), post(&SQL, &mut definitions));
    let about = About {
        title: "gpuwhy-fleet",
        description: "Which rank drags the others, why, and what it costs. Every tool takes a JSON object and answers with one.",
        token_is_optional: false,
    };
    document(about, &paths, &definitions)
}

fn post(tool: &Tool, definitions: &mut Object) -> Value {
    let (request, answer) = schemas::shared(tool, definitions);
    json!({"post": {
        "operationId": tool.name,
        "summary": tool.about,
        "description": format!("Needs the scope `{}`.", tool.run.scope.name()),
        "requestBody": {"content": {"application/json": {"schema": request}}},
        "responses": responses(&answer),
    }})
}
