//! The registry as paths.

use super::asking::find;
use super::mcp::Assistant;
use super::openapi::openapi;
use super::tools::{SQL, TOOLS};
use super::{Caller, Site, guard, page};
use crate::clock::now_ns;
use crate::tokens::{Grant, Scope};
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::{Response, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use axum::{Extension, Router};
use gpuwhy_http::reply::json;
use gpuwhy_http::{AskError, Kind, schemas};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// The largest request.
const LARGEST_BODY: usize = 1 << 20;

type Shared = State<Arc<Site>>;
type Asker = Extension<Caller>;

pub(crate) fn router(site: Arc<Site>) -> Router {
    // No sessions: whoever asks shows a token each time, and nothing is kept in between.
    let mut config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .with_max_request_body_bytes(LARGEST_BODY);
    config.legacy_session_mode = false;
    config.json_response = true;
    let shared = site.clone();
    let mcp = StreamableHttpService::new(
        move || Ok(Assistant::new(shared.clone())),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    Router::new()
        .route("/api/versions", get(versions))
        .route("/api/v1/health", get(health))
        .route("/api/v1/threshold", get(threshold))
        .route("/api/v1/tools/list", get(list))
        .route("/api/v1/tools/{name}", post(tool))
        .route("/api/v1/sql", post(sql))
        .route("/api/v1/openapi.json", get(described))
        .route_service("/mcp", mcp)
        .route("/", get(page::index))
        .route("/login", post(page::enter))
        .route("/logout", post(page::leave))
        .route("/{*file}", get(page::file))
        .fallback(no_such_path)
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .layer(from_fn_with_state(site.clone(), guard::check))
        .with_state(site)
}

async fn versions() -> Response<Body> {
    json(StatusCode::OK, &json!({"versions": ["v1"]}))
}

/// That it lives everybody may know; what it counts only who administers it.
async fn health(State(site): Shared, Extension(Caller(grant)): Asker) -> Response<Body> {
    let mut health = json!({"ok": true});
    if let Some(grant) = grant {
        health["version"] = env!("CARGO_PKG_VERSION").into();
        health["now_ns"] = now_ns().into();
        health["scopes"] = grant.scopes.iter().map(|scope| scope.name()).collect();
        health["clusters"] = grant.clusters.as_ref().map_or_else(|| json!("*"), |clusters| json!(clusters));
        if grant.clusters.is_none() && grant.has(Scope::Admin) {
            health["counted"] = site.asking.tally().json();
        }
    }
    json(StatusCode::OK, &health)
}

async fn list(Extension(Caller(grant)): Asker) -> Response<Body> {
    let tools: Vec<Value> = TOOLS
        .iter()
        .filter(|tool| grant.as_ref().is_some_and(|grant| grant.has(tool.run.scope)))
        .map(|tool| {
            json!({
                "name": tool.name, "about": tool.about, "scope": tool.run.scope.name(),
                "path": format!("/api/v1/tools/{}", tool.name), "request": schemas::request(tool),
            })
        })
        .collect();
    json(StatusCode::OK, &json!({"tools": tools}))
}

async fn tool(
    State(site): Shared,
    Extension(caller): Asker,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Response<Body>, AskError> {
    let grant = granted(caller)?;
    let tool = find(&name).ok_or_else(|| {
        AskError::new(Kind::Nothing, "there is no tool of that name; /api/v1/tools/list has all")
    })?;
    Ok(json(StatusCode::OK, &site.asking.ask(tool, &grant, parsed(&body)?).await?))
}

async fn sql(State(site): Shared, Extension(caller): Asker, body: Bytes) -> Result<Response<Body>, AskError> {
    let grant = granted(caller)?;
    Ok(json(StatusCode::OK, &site.asking.ask(&SQL, &grant, parsed(&body)?).await?))
}

async fn described() -> Response<Body> {
    json(StatusCode::OK, &openapi())
}

#[derive(Debug, Deserialize)]
struct Which {
    cluster_id: Option<String>,
    job_id: Option<String>,
}

/// For agents that cannot read the answers to their pushes.
async fn threshold(
    State(site): Shared,
    Extension(caller): Asker,
    Query(which): Query<Which>,
) -> Result<Response<Body>, AskError> {
    let grant = granted(caller)?;
    if !grant.has(Scope::Push) && !grant.has(Scope::Read) {
        let sentence = "this token may not ask this; it needs the scope `push` or `read`";
        return Err(AskError::new(Kind::Refused, sentence));
    }
    let cluster = which.cluster_id.as_deref().unwrap_or("default");
    let thresholds = match grant.covers(cluster) {
        true => site.asking.peers().thresholds(cluster, which.job_id.as_deref()),
        false => Vec::new(),
    };
    Ok(json(StatusCode::OK, &json!({"cluster_id": cluster, "thresholds": thresholds})))
}

pub(super) async fn no_such_path() -> AskError {
    AskError::new(Kind::Nothing, "there is nothing at this path; /api/v1/tools/list has all there is to ask")
}

fn granted(caller: Caller) -> Result<Arc<Grant>, AskError> {
    caller.0.ok_or_else(|| AskError::new(Kind::Refused, "a token is needed"))
}

fn parsed(body: &[u8]) -> Result<Value, AskError> {
    match body.trim_ascii().is_empty() {
        true => Ok(json!({})),
        false => serde_json::from_slice(body)
            .map_err(|error| AskError::new(Kind::Usage, format!("the request is no JSON: {error}"))),
    }
}
