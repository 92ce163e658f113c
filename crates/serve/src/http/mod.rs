//! HTTP: the table as paths, MCP beside it, and the dashboard's files; who may ask is decided before anything is looked at.

mod api;
mod assets;
mod guard;
mod login;
mod missing;
mod snapshot;

use crate::mcp::Assistant;
use crate::{Questions, ServeError, Tokens};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use gpuwhy_http::page::{Cookie, Sessions};
use gpuwhy_http::{ListenOptions, McpSessions, Protocol, Tls, addresses, bind, until_asked_to_end};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::Semaphore;

const CONNECTIONS: usize = 256;
/// Of one address, or of one user of this host.
const CONNECTIONS_EACH: usize = 64;
/// Of assistants.
const MCP_SESSIONS: usize = 64;
/// The largest request.
const LARGEST_BODY: usize = 1 << 20;

/// How a server listens, and to whom.
#[derive(Debug, Default)]
pub struct HttpOptions {
    /// As `127.0.0.1:7777`.
    pub address: String,
    pub tls: Option<Tls>,
    pub tokens: Tokens,
    /// On loopback nobody has to show a token. Else one is made where there is none: others use the same host.
    pub open: bool,
    /// The dashboard's page, too.
    pub page: bool,
    /// Names under which others reach this server, as a proxy's; on loopback only its own are answered.
    pub hosts: Vec<String>,
}

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) questions: Arc<Questions>,
    pub(crate) tokens: Tokens,
    pub(crate) sessions: Sessions<()>,
    pub(crate) cookie: Cookie,
    /// It can only be reached from this host.
    pub(crate) loopback: bool,
    pub(crate) hosts: Vec<String>,
    pub(crate) page: bool,
    pub(crate) snapshots: Arc<Semaphore>,
}

/// Where a server can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct At {
    /// As `http://127.0.0.1:7777`.
    pub address: String,
    /// The token that was made for this run.
    pub token: Option<String>,
}

/// Serves until it is told to end (Ctrl-C, SIGTERM); `ready` is told where.
pub fn serve_http(
    questions: Questions,
    mut options: HttpOptions,
    ready: impl FnOnce(&At),
) -> Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| ServeError::Failed(error.to_string()))?;
    let addresses = addresses(&options.address)?;
    let loopback = addresses.iter().all(|address| address.ip().is_loopback());
    if !loopback && (options.tls.is_none() || options.tokens.is_empty()) {
        return Err(ServeError::Open { address: options.address });
    }
    let token = match options.tokens.is_empty() && !options.open {
        true => Some(options.tokens.make()?),
        false => None,
    };
    let served = runtime.block_on(async {
        let listener = bind(&options.address, &addresses).await?;
        let address: SocketAddr =
            listener.local_addr().map_err(|error| ServeError::Failed(error.to_string()))?;
        let scheme = if options.tls.is_some() { "https" } else { "http" };
        let questions = Arc::new(questions);
        if options.page {
            tokio::spawn(think_ahead(questions.clone()));
        }
        let site = Arc::new(Site {
            questions,
            tokens: options.tokens,
            sessions: Sessions::default(),
            cookie: cookie(address, options.tls.is_some()),
            loopback,
            hosts: options.hosts,
            page: options.page,
            snapshots: Arc::new(Semaphore::new(snapshot::AT_ONCE)),
        });
        ready(&At { address: format!("{scheme}://{address}"), token });
        let http = ListenOptions { tls: options.tls, protocol: Protocol::Http1, connections: CONNECTIONS };
        http.serve_shared(listener, router(site), until_asked_to_end(), CONNECTIONS_EACH)
            .await
            .transpose()?;
        Ok(())
    });
    runtime.shutdown_background();
    served
}

/// Cookies know no ports: without TLS, several servers on one host have a name each, so that logging in to one is not logging out
/// of another.
fn cookie(address: SocketAddr, secure: bool) -> Cookie {
    let name = match secure {
        true => "gpuwhy",
        // One a run of the program.
        false => String::leak(format!("gpuwhy-{}", address.port())),
    };
    Cookie { name, secure }
}

/// The page opens with what takes longest of a large trace: it is known by the time somebody looks.
async fn think_ahead(questions: Arc<Questions>) {
    if let Some(explain) = questions.named("explain") {
        // Whoever asks is told what is wrong.
        drop(questions.ask(explain, serde_json::json!({})).await);
    }
}

fn router(site: Arc<Site>) -> Router {
    let questions = site.questions.clone();
    // Host and origin are checked for all paths alike, so not once more here.
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .with_max_request_body_bytes(LARGEST_BODY);
    let mcp = StreamableHttpService::new(
        move || Ok(Assistant::new(questions.clone())),
        Arc::new(McpSessions::new(MCP_SESSIONS)),
        config,
    );
    let mut router = Router::new()
        .route("/api/v1", get(api::list))
        .route("/api/v1/health", get(api::health))
        .route("/api/v1/openapi.json", get(api::openapi))
        .route("/api/v1/snapshot", get(snapshot::get))
        .route("/api/v1/{question}", get(api::get).post(api::post))
        .route_service("/mcp", mcp);
    if site.page {
        router = router
            .route("/", get(assets::index))
            .route("/login", post(login::enter))
            .route("/logout", post(login::leave))
            .route("/{*file}", get(assets::file));
    }
    router
        .fallback(missing::no_such_path)
        .method_not_allowed_fallback(missing::wrong_method)
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .layer(from_fn_with_state(site.clone(), guard::check))
        .with_state(site)
}
