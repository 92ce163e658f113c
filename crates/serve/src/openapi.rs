//! The HTTP API as an OpenAPI 3.1 document.

use crate::questions::{HostEndpoint, Run, all};
use gpuwhy_http::openapi::{self, About};
use gpuwhy_http::schemas::{self, Object};
use gpuwhy_query::Question;
use serde_json::{Value, json};

/// Of the questions of the trace and those of the host.
pub fn openapi(host: &[HostEndpoint]) -> Value {
    document(&all(host))
}

pub(crate) fn document(questions: &[Question<Run>]) -> Value {
    let mut definitions = Object::new();
    let mut paths = Object::new();
    for question in questions {
        let (request, answer) = schemas::shared(question, &mut definitions);
        let parameters = parameters(&request);
        let operation = |id: String| {
            json!({
                "operationId": id,
                "summary": question.about,
                "tags": [if matches!(question.run, Run::Host(_)) { "host" } else { "trace" }],
                "responses": openapi::responses(&answer),
            })
        };
        let mut post = operation(question.name.into());
        post["requestBody"] = json!({"content": {"application/json": {"schema": request}}});
        let mut path = Object::new();
        // What makes the host work is not done by following a link.
        if matches!(question.run, Run::Trace(_)) {
            let mut get = operation(format!("get_{}", question.name));
            get["parameters"] = parameters;
            path.insert("get".into(), get);
        }
        path.insert("post".into(), post);
        paths.insert(format!("/api/v1/{}", question.name), path.into());
    }
    let about = About {
        title: "gpuwhy",
        description: "Why did the GPU stall? Every question takes a JSON object, or query parameters, and answers with one.",
        token_is_optional: true,
    };
    openapi::document(about, &paths, &definitions)
}

/// The fields of a request as query parameters.
fn parameters(request: &Value) -> Value {
    let required = request["required"].as_array().cloned().unwrap_or_default();
    let fields = request["properties"].as_object().cloned().unwrap_or_default();
    fields
        .into_iter()
        .map(|(name, schema)| {
            let required = required.iter().any(|required| *required == name);
            json!({"name": name, "in": "query", "required": required, "schema": schema})
        })
        .collect()
}
