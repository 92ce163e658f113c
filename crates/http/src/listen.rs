//! Listening: so many connections at a time, each with TLS where it is asked for, none that only waits, and none whose other side
//! does not read.

use crate::used::{Used, Watched};
use crate::{HttpError, Shares, Timed, Tls};
use axum::{Extension, Router};
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::future::Future;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;

/// For TLS to be agreed upon, and for a request's head to come.
const PATIENCE: Duration = Duration::from_secs(10);
/// For an answer to be taken, piece by piece.
const STALL: Duration = Duration::from_secs(30);
/// A connection of HTTP/2 that does not answer a ping is gone.
const PING: Duration = Duration::from_secs(30);
/// A connection of HTTP/2 on which nothing was asked for so long, or nothing that was allowed.
const IDLE: Duration = Duration::from_secs(30);
/// What one connection of HTTP/2 may send before it is read.
const WINDOW: u32 = 65_535;
/// Requests at a time on one connection of HTTP/2.
const STREAMS: u32 = 32;

/// The protocol of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    /// As gRPC does, without asking first.
    Http2,
}

/// Who is at the other end: every request has it among its extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

/// How a server listens.
#[derive(Debug, Clone)]
pub struct ListenOptions {
    pub tls: Option<Tls>,
    pub protocol: Protocol,
    /// So many at a time; others wait to be let in.
    pub connections: usize,
}

pub fn addresses(address: &str) -> Result<Vec<SocketAddr>, HttpError> {
    let wrong = |why: String| HttpError::Address { address: address.into(), why };
    let found: Vec<SocketAddr> =
        address.to_socket_addrs().map_err(|error| wrong(error.to_string()))?.collect();
    if found.is_empty() { Err(wrong("it names no host".into())) } else { Ok(found) }
}

pub async fn bind(address: &str, addresses: &[SocketAddr]) -> Result<TcpListener, HttpError> {
    TcpListener::bind(addresses)
        .await
        .map_err(|error| HttpError::Listen { address: address.into(), why: error.to_string() })
}

/// Ctrl-C or SIGTERM.
pub async fn until_asked_to_end() -> Result<(), HttpError> {
    let failed = |error: std::io::Error| HttpError::Failed(error.to_string());
    let mut interrupted = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminated = signal(SignalKind::terminate()).map_err(failed)?;
    tokio::select! {
        _ = interrupted.recv() => Ok(()),
        _ = terminated.recv() => Ok(()),
    }
}

impl ListenOptions {
    /// Until `end` comes. No address, and no user of this host, has more than `each` of the connections: more are closed at once.
    pub async fn serve_shared<E>(
        &self,
        listener: TcpListener,
        router: Router,
        end: impl Future<Output = E>,
        each: usize,
    ) -> Option<E> {
        tokio::select! {
            ended = end => Some(ended),
            () = self.accept(listener, router, Shares::new(each)) => None,
        }
    }

    async fn accept(&self, listener: TcpListener, router: Router, shares: Arc<Shares>) {
        let turns = Arc::new(Semaphore::new(self.connections));
        while let Ok(turn) = turns.clone().acquire_owned().await {
            let Ok((stream, peer)) = listener.accept().await else {
                // As when there are no more file descriptors: others will be closed.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let (options, router) = (self.clone(), router.clone().layer(Extension(Peer(peer))));
            let shares = shares.clone();
            tokio::spawn(async move {
                // Whose a connection is may have to be read from a long table; the next one does not wait for that.
                let share = tokio::task::spawn_blocking(move || shares.take(peer)).await;
                let Ok(Some(share)) = share else { return };
                options.connection(stream, router).await;
                drop((turn, share));
            });
        }
    }

    /// What goes wrong with a connection is the other side's to see.
    async fn connection(&self, stream: TcpStream, router: Router) {
        // Answers are written whole.
        let _ = stream.set_nodelay(true);
        let stream = Timed::new(stream, STALL);
        match &self.tls {
            None => requests(self.protocol, stream, router, IDLE).await,
            Some(tls) => {
                if let Ok(Ok(stream)) = tokio::time::timeout(PATIENCE, tls.0.accept(stream)).await {
                    requests(self.protocol, stream, router, IDLE).await;
                }
            }
        }
    }
}

async fn requests(
    protocol: Protocol,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    idle: Duration,
) {
    let (io, service) = (TokioIo::new(stream), TowerToHyperService::new(router));
    // An error is the other side's to see.
    let _ = match protocol {
        Protocol::Http1 => {
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(64 << 10);
            server.serve_connection(io, service).await
        }
        Protocol::Http2 => {
            let mut server = http2::Builder::new(TokioExecutor::new());
            server.timer(TokioTimer::new()).max_concurrent_streams(STREAMS).max_header_list_size(32 << 10);
            server.initial_stream_window_size(WINDOW).initial_connection_window_size(WINDOW);
            server.keep_alive_interval(PING).keep_alive_timeout(PATIENCE);
            let used = Arc::new(Used::default());
            let connection = server.serve_connection(io, Watched { service, used: used.clone() });
            tokio::select! {
                ended = connection => ended,
                () = used.until_idle(idle) => Ok(()),
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::StatusCode;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    /// So that waiting for the end takes no time: the clock is moved on whenever nothing else is to be done.
    const LONG: Duration = Duration::from_secs(3_600);
    /// The beginning of a connection, as RFC 9113 has it, and empty settings.
    const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    const PING_ANSWERED: u8 = 1;

    fn connected() -> DuplexStream {
        let (ours, theirs) = duplex(1 << 16);
        let router = Router::new()
            .route("/good", get(|| async { "good" }))
            .route("/refused", get(|| async { StatusCode::UNAUTHORIZED }));
        tokio::spawn(requests(Protocol::Http2, theirs, router, IDLE));
        ours
    }

    /// GET of a path, by the names that HPACK has: `:method: GET`, `:scheme: http`, and a literal for the path.
    fn get_of(path: &str) -> Vec<u8> {
        let mut block = vec![0x82, 0x86, 0x04, path.len() as u8];
        block.extend(path.bytes());
        let mut frame = vec![0, 0, block.len() as u8, 1, 0x5, 0, 0, 0, 1];
        frame.extend(block);
        frame
    }

    /// Answers pings, as any client does, until the other side closes; whether it did.
    async fn is_closed(mut connection: DuplexStream, asked: Vec<u8>) -> bool {
        connection.write_all(HELLO).await.unwrap();
        connection.write_all(&asked).await.unwrap();
        let read = async {
            let mut head = [0; 9];
            while connection.read_exact(&mut head).await.is_ok() {
                let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
                connection.read_exact(&mut payload).await.unwrap();
                if head[3] == 6 && head[4] & PING_ANSWERED == 0 {
                    let _ = connection.write_all(&[0, 0, 8, 6, PING_ANSWERED, 0, 0, 0, 0]).await;
                    let _ = connection.write_all(&payload).await;
                }
            }
        };
        tokio::time::timeout(LONG, read).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_on_which_nothing_is_asked_is_closed() {
        assert!(is_closed(connected(), Vec::new()).await);
        assert!(is_closed(connected(), get_of("/refused")).await, "nor one that is never allowed anything");
        assert!(!is_closed(connected(), get_of("/good")).await, "who pushes now and then stays connected");
    }
}
