//! The server: three doors, one store behind them.

use crate::api::audit::Audit;
use crate::api::{Asking, Site, router};
use crate::clock::now_ns;
use crate::ingest::{Gate, Ingest, grpc_router, http_router};
use crate::limits::Limits;
use crate::peers::Peers;
use crate::store::duck::{DuckOptions, DuckStore};
use crate::store::{Filter, Retention, Stop, Store, StoreError};
use crate::tally::Tally;
use crate::tokens::Tokens;
use gpuwhy_cohort::Rates;
use gpuwhy_http::{HttpError, ListenOptions, Protocol, Tls, addresses, bind, until_asked_to_end};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

/// Agents keep their connections: so many at each of the doors for pushes, where there are descriptors for them.
const PUSHING: usize = 30_000;
/// Of people, programs and assistants.
const ASKING: usize = 4_096;
/// For files, threads and processes of our own.
const OWN_DESCRIPTORS: usize = 256;
/// No address has more than one in so many; all agents of a site may come through one.
const PART: usize = 3;

/// How often it is looked whether refusals that were counted are to be written down.
const SETTLE_EVERY: Duration = Duration::from_secs(10);

/// How many calls of how long ago are looked at again when it begins.
const REMEMBERED: usize = 100_000;
const REMEMBERED_NS: i64 = 300_000_000_000;

/// How to serve.
#[derive(Debug)]
pub struct Serve {
    pub data: PathBuf,
    /// As `0.0.0.0:4317`.
    pub grpc: String,
    pub http: String,
    pub api: String,
    pub tls: Option<Tls>,
    pub tokens: Tokens,
    pub limits: Limits,
    pub keep: Retention,
    pub duck: DuckOptions,
    /// What a GPU-hour costs.
    pub rates: Rates,
}

#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    #[error(transparent)]
    ListenOptions(#[from] HttpError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    Failed(String),
}

/// Where it listens: gRPC, HTTP, API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses {
    pub grpc: String,
    pub http: String,
    pub api: String,
}

/// Serves until it is told to end; `ready` is told where.
pub fn serve(options: &Serve, ready: impl FnOnce(&Addresses)) -> Result<(), FleetError> {
    let failed = |error: std::io::Error| FleetError::Failed(error.to_string());
    let store: Arc<dyn Store> = Arc::new(DuckStore::open(&options.data, options.duck.clone())?);
    let audit = Arc::new(Audit::open(&options.data, options.tokens.count()).map_err(failed)?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(failed)?;
    let sharing = options.tokens.sharing();
    let (peers, tally) = (Arc::new(Peers::new(sharing)), Arc::new(Tally::default()));
    let (limits, keep) = (Limits { sharing, ..options.limits.clone() }, options.keep);
    let ingest = Ingest::new(&options.data, store.clone(), peers.clone(), tally.clone(), limits, keep)?;
    let ingest = Arc::new(ingest);
    remember(&*store, &peers);
    let progress = ingest.progress().clone();
    let asking = Asking::new(store, peers, tally, audit.clone(), options.rates.clone(), progress);
    let site = Arc::new(Site::new(asking, options.tokens.clone(), audit.clone(), options.tls.is_some()));
    let gate = Arc::new(Gate { ingest, tokens: options.tokens.clone(), audit: audit.clone() });
    let served = runtime.block_on(async {
        let (grpc, grpc_at) = listener(&options.grpc, options.tls.is_some()).await?;
        let (http, http_at) = listener(&options.http, options.tls.is_some()).await?;
        let (api, api_at) = listener(&options.api, options.tls.is_some()).await?;
        ready(&Addresses { grpc: grpc_at, http: http_at, api: api_at });
        let descriptors = raise_descriptors().saturating_sub(OWN_DESCRIPTORS);
        let (pushing, asking) =
            (PUSHING.min(descriptors / 5 * 2).max(PART), ASKING.min(descriptors / 5).max(PART));
        let options_api =
            ListenOptions { tls: options.tls.clone(), protocol: Protocol::Http1, connections: asking };
        let other = ListenOptions { connections: pushing, ..options_api.clone() };
        let tls = options.tls.as_ref().map(Tls::for_http2);
        let h2 = ListenOptions { tls, protocol: Protocol::Http2, connections: pushing };
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(SETTLE_EVERY).await;
                audit.settle();
            }
        });
        let (pushes, calls) = (http_router(&gate), grpc_router(&gate));
        let (never, each) = (std::future::pending::<()>, pushing / PART);
        tokio::spawn(async move { h2.serve_shared(grpc, calls, never(), each).await });
        tokio::spawn(async move { other.serve_shared(http, pushes, never(), each).await });
        options_api.serve_shared(api, router(site), until_asked_to_end(), asking / PART).await.transpose()?;
        Ok(())
    });
    // Whoever waits for an answer is told to come later; what was acknowledged is on disk.
    runtime.shutdown_background();
    served
}

/// Calls of the last minutes, so that a hang is known after a restart as well.
fn remember(store: &dyn Store, peers: &Peers) {
    let now_ns = now_ns();
    let lately = Filter { from_ns: Some(now_ns - REMEMBERED_NS), ..Filter::default() };
    match store.collectives(&lately, REMEMBERED, &Stop::default()) {
        Ok(mut calls) => {
            // Clocks of nodes differ: what belongs together is told by its number.
            calls.sort_by(|a, b| (&a.comm_id_hash, a.seq).cmp(&(&b.comm_id_hash, b.seq)));
            peers.remember(&calls);
        }
        Err(error) => crate::log::log!("the last collectives could not be read: {error}"),
    }
}

/// As many as may be open at a time; how many that are.
fn raise_descriptors() -> usize {
    let before = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: before.maximum, ..before };
    let now = if setrlimit(Resource::Nofile, raised).is_ok() { raised } else { before };
    now.current.map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(usize::MAX))
}

async fn listener(address: &str, secure: bool) -> Result<(TcpListener, String), HttpError> {
    let listener = bind(address, &addresses(address)?).await?;
    let at = listener.local_addr().map_err(|error| HttpError::Failed(error.to_string()))?;
    Ok((listener, format!("{}://{at}", if secure { "https" } else { "http" })))
}
