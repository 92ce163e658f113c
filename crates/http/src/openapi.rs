//! What the OpenAPI 3.1 documents of all servers have in common.

use crate::schemas::Object;
use serde_json::{Value, json};

/// What a server's document says of itself.
#[derive(Debug, Clone, Copy)]
pub struct About<'a> {
    pub title: &'a str,
    pub description: &'a str,
    /// Some answer without a token, too.
    pub token_is_optional: bool,
}

pub fn document(about: About<'_>, paths: &Object, definitions: &Object) -> Value {
    let security = match about.token_is_optional {
        true => json!([{"token": []}, {}]),
        false => json!([{"token": []}]),
    };
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": about.title,
            "version": env!("CARGO_PKG_VERSION"),
            "description": about.description,
            "license": {"name": "Apache-2.0 OR MIT", "identifier": "Apache-2.0 OR MIT"},
        },
        "servers": [{"url": "/"}],
        "security": security,
        "paths": paths,
        "components": {
            "schemas": definitions,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {"Error": {
                "description": "No answer, and why in one sentence",
                "content": {"application/json": {"schema": {
                    "type": "object",
                    "required": ["error", "kind"],
                    "properties": {
                        "error": {"type": "string"},
                        "kind": {"enum": ["usage", "nothing", "slow", "busy", "stopped", "refused", "failed"]},
                    },
                }}},
            }},
        },
    })
}

/// The answer's schema, or the error's.
pub fn responses(answer: &Value) -> Value {
    json!({
        "200": {"description": "The answer", "content": {"application/json": {"schema": answer}}},
        "default": {"$ref": "#/components/responses/Error"},
    })
}
