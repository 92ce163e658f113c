//! The questions as paths.

use super::{Site, guard};
use crate::openapi::document;
use crate::questions::Run;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, Response, StatusCode};
use gpuwhy_http::reply::json;
use gpuwhy_http::{AskError, Kind, schemas};
use gpuwhy_query::Question;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

type Shared = State<Arc<Site>>;

/// All there is to ask.
pub(super) async fn list(State(site): Shared) -> Response<Body> {
    let questions: Vec<Value> = site
        .questions
        .all()
        .iter()
        .map(|question| {
            json!({"name": question.name, "tool": question.tool, "about": question.about, "path": format!("/api/v1/{}", question.name)})
        })
        .collect();
    json(StatusCode::OK, &json!({"questions": questions}))
}

/// Whether it lives; the clock is for those who compare several nodes.
pub(super) async fn health(State(site): Shared, headers: HeaderMap) -> Response<Body> {
    // That much everybody may know.
    if !guard::is_allowed(&site, &headers) {
        return json(StatusCode::OK, &json!({"ok": true}));
    }
    let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    let file = site.questions.path().display().to_string();
    json(
        StatusCode::OK,
        &json!({"ok": true, "version": env!("CARGO_PKG_VERSION"), "now_ns": now_ns, "file": file}),
    )
}

pub(super) async fn openapi(State(site): Shared) -> Response<Body> {
    json(StatusCode::OK, &document(site.questions.all()))
}

pub(super) async fn get(
    State(site): Shared,
    Path(name): Path<String>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Response<Body>, AskError> {
    let question = find(&site, &name)?;
    if matches!(question.run, Run::Host(_)) {
        let sentence = format!("{name} makes this host work, so it is asked with POST");
        return Err(AskError::new(Kind::Usage, sentence));
    }
    let request = typed(question, pairs)?;
    answer(&site, question, request).await
}

pub(super) async fn post(
    State(site): Shared,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Response<Body>, AskError> {
    let question = find(&site, &name)?;
    let request = match body.trim_ascii().is_empty() {
        true => Value::Null,
        false => serde_json::from_slice(&body)
            .map_err(|error| AskError::new(Kind::Usage, format!("the request is no JSON: {error}")))?,
    };
    answer(&site, question, request).await
}

fn find<'a>(site: &'a Site, name: &str) -> Result<&'a Question<Run>, AskError> {
    site.questions
        .named(name)
        .ok_or_else(|| AskError::new(Kind::Nothing, "there is no question of that name; /api/v1 lists all"))
}

async fn answer(
    site: &Arc<Site>,
    question: &Question<Run>,
    request: Value,
) -> Result<Response<Body>, AskError> {
    Ok(json(StatusCode::OK, &*site.questions.ask(question, request).await?))
}

/// Query parameters as the request's schema types them; a list may be given by commas, or several times.
fn typed(question: &Question<Run>, pairs: Vec<(String, String)>) -> Result<Value, AskError> {
    let properties = schemas::request(question).remove("properties").unwrap_or_default();
    let mut request = Map::new();
    for (name, text) in pairs {
        let wrong = |what: &str| AskError::new(Kind::Usage, format!("{name} is {what}; '{text}' is not"));
        let types = &properties[&name]["type"];
        let is = |wanted: &str| {
            types == wanted || types.as_array().is_some_and(|list| list.iter().any(|one| one == wanted))
        };
        let value = if is("integer") {
            let number =
                text.parse::<u64>().map(Value::from).or_else(|_| text.parse::<i64>().map(Value::from));
            number.map_err(|_| wrong("a whole number"))?
        } else if is("boolean") {
            match text.as_str() {
                "true" | "1" | "" => true.into(),
                "false" | "0" => false.into(),
                _ => return Err(wrong("true or false")),
            }
        } else if is("array") {
            let list = request.entry(name).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(list) = list {
                list.extend(text.split(',').filter(|part| !part.is_empty()).map(Value::from));
            }
            continue;
        } else {
            text.into()
        };
        request.insert(name, value);
    }
    Ok(Value::Object(request))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_query::find as endpoint;

    fn parsed(name: &str, pairs: &[(&str, &str)]) -> Result<Value, AskError> {
        let endpoint = endpoint(name).unwrap();
        let pairs = pairs.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect();
        typed(&endpoint.with(Run::Trace(endpoint.run)), pairs)
    }

    #[test]
    fn parameters_are_what_the_schema_says() {
        assert_eq!(
            parsed("blame", &[("pid", "42"), ("op", "7"), ("by", "op,cause"), ("by", "pid")]).unwrap(),
            json!({"pid": 42, "op": "7", "by": ["op", "cause", "pid"]})
        );
        assert_eq!(parsed("collectives", &[("per_rank", "true")]).unwrap(), json!({"per_rank": true}));
        assert_eq!(parsed("blame", &[("pid", "x")]).unwrap_err().kind, Kind::Usage);
        assert_eq!(parsed("blame", &[("colour", "red")]).unwrap(), json!({"colour": "red"}), "refused later");
    }
}
