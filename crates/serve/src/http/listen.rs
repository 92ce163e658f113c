//! Listening: so many connections at a time, each with TLS where it is asked for, and none that only waits.

use crate::{ServeError, Tls};
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;

const CONNECTIONS: usize = 256;
/// For TLS to be agreed upon, and for a request's head to come.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn addresses(address: &str) -> Result<Vec<SocketAddr>, ServeError> {
    let wrong = |why: String| ServeError::Address { address: address.into(), why };
    let found: Vec<SocketAddr> =
        address.to_socket_addrs().map_err(|error| wrong(error.to_string()))?.collect();
    if found.is_empty() { Err(wrong("it names no host".into())) } else { Ok(found) }
}

pub(super) async fn bind(address: &str, addresses: &[SocketAddr]) -> Result<TcpListener, ServeError> {
    TcpListener::bind(addresses)
        .await
        .map_err(|error| ServeError::Listen { address: address.into(), why: error.to_string() })
}

/// Until Ctrl-C or SIGTERM.
pub(super) async fn serve(listener: TcpListener, tls: Option<Tls>, router: Router) -> Result<(), ServeError> {
    let failed = |error: std::io::Error| ServeError::Failed(error.to_string());
    let mut interrupted = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminated = signal(SignalKind::terminate()).map_err(failed)?;
    let turns = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(turn) = turns.clone().acquire_owned().await else { return Ok(()) };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = interrupted.recv() => return Ok(()),
            _ = terminated.recv() => return Ok(()),
        };
        let Ok((stream, _)) = accepted else {
            // As when there are no more file descriptors: others will be closed.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (tls, router) = (tls.clone(), router.clone());
        tokio::spawn(async move {
            connection(stream, tls, router).await;
            drop(turn);
        });
    }
}

/// What goes wrong with a connection is the other side's to see.
async fn connection(stream: TcpStream, tls: Option<Tls>, router: Router) {
    // Answers are written whole.
    let _ = stream.set_nodelay(true);
    match tls {
        None => requests(stream, router).await,
        Some(tls) => {
            if let Ok(Ok(stream)) = tokio::time::timeout(PATIENCE, tls.0.accept(stream)).await {
                requests(stream, router).await;
            }
        }
    }
}

async fn requests(stream: impl AsyncRead + AsyncWrite + Unpin + 'static, router: Router) {
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(64 << 10)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .await;
}
