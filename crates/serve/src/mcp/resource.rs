//! Resources: the schema of the trace file, and the trace in short.

use crate::Questions;
use gpuwhy_http::{answer, fence, text};
use rmcp::ErrorData;
use rmcp::model::{ReadResourceResult, Resource, ResourceContents};
use serde_json::{Map, Value};
use std::sync::Arc;

const SCHEMA: &str = "gpuwhy://schema";
const TRACE: &str = "gpuwhy://trace";

pub(super) fn all() -> Vec<Resource> {
    vec![
        Resource::new(SCHEMA, "schema")
            .with_title("Tables and columns of a trace")
            .with_description("Every table, view and column that run_sql can ask, with units")
            .with_mime_type("text/markdown"),
        Resource::new(TRACE, "trace")
            .with_title("The trace in short")
            .with_description("From when until when, how many events, hosts, sessions, coverage")
            .with_mime_type("text/plain"),
    ]
}

pub(super) async fn read(questions: &Arc<Questions>, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let contents = match uri {
        SCHEMA => {
            ResourceContents::text(gpuwhy_store::schema::markdown(), uri).with_mime_type("text/markdown")
        }
        TRACE => {
            let Some(question) = questions.named("trace") else {
                return Err(ErrorData::internal_error("there is no question `trace`", None));
            };
            let found = questions
                .ask(question, Value::Null)
                .await
                .map_err(|error| ErrorData::internal_error(text::harmless(&error.sentence, 600), None))?;
            let fitted = answer::fit(question, &Map::new(), &found, answer::DEFAULT_TOKENS);
            ResourceContents::text(fence::around(question.tool, &fitted), uri)
        }
        other => {
            let uri = text::harmless(other, 200);
            return Err(ErrorData::resource_not_found(
                format!("there is no resource {uri}; there are {SCHEMA} and {TRACE}"),
                None,
            ));
        }
    };
    Ok(ReadResourceResult::new(vec![contents]))
}
