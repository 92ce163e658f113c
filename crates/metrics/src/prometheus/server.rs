//! A small HTTP server in a thread of its own: `/metrics` and `/-/healthy`, and nothing else. What a client can take is
//! bounded: connections, in all and of one address or user, the time for a request and for taking its answer, the size of its head.

use super::Format;
use crate::State;
use bytes::Bytes;
use gpuwhy_confine::{Purpose, live};
use gpuwhy_http::{Shares, Timed};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};

const NAME: &str = "gpuwhy-metrics";
/// Connections at a time; another one is closed at once.
const MAX_CONNECTIONS: usize = 64;
/// Of one address, or of one user of this host: nobody keeps scrapers out.
const MAX_PER_PEER: usize = 16;
/// For the head of a request to arrive: also how long an idle connection is kept. Scrapers that come less often connect again.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// For an answer to be taken, piece by piece.
const STALL: Duration = Duration::from_secs(10);
/// For all of a connection; scrapers connect again.
const CONNECTION_LASTS: Duration = Duration::from_secs(600);
const LARGEST_HEAD: usize = 16 << 10;

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    #[error("'{0}' is no address to listen on; write 127.0.0.1:9464")]
    Address(String),
    #[error("nothing can listen on {address}: {why}; name another address")]
    Listen { address: SocketAddr, why: std::io::Error },
    #[error("no thread for the metrics page could be started: {0}")]
    Thread(std::io::Error),
}

/// The page's server, until it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

/// What is shown; nothing until the trace has begun.
pub type Shared = Arc<Mutex<Option<State>>>;

impl Server {
    /// Listens on `address`, as `127.0.0.1:9464`; with port 0 on any that is free.
    pub fn start(address: &str, state: Shared) -> Result<Server, PageError> {
        let wrong = || PageError::Address(address.into());
        let wanted = address.to_socket_addrs().ok().and_then(|mut found| found.next()).ok_or_else(wrong)?;
        let failed = |why| PageError::Listen { address: wanted, why };
        let listener = TcpListener::bind(wanted).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(PageError::Thread)?;
        let thread = std::thread::Builder::new()
            .name(NAME.into())
            .spawn(move || {
                live(NAME, &Purpose::Serve, || {
                    runtime.block_on(async {
                        tokio::select! {
                            () = serve(&listener, &state) => {}
                            () = stopped.notified() => {}
                        }
                    });
                });
                runtime.shutdown_background();
            })
            .map_err(PageError::Thread)?;
        Ok(Server { address, stop, thread: Some(thread) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether others than this host may read it.
    pub fn is_open(&self) -> bool {
        !self.address.ip().is_loopback()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            // It has nothing to tell.
            let _ = thread.join();
        }
    }
}

async fn serve(listener: &TcpListener, state: &Shared) {
    // Made non-blocking above: it can fail for no other reason than descriptors.
    let Ok(listener) = listener.try_clone().and_then(tokio::net::TcpListener::from_std) else { return };
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let shares = Shares::new(MAX_PER_PEER);
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            // Out of file descriptors, say: that passes, but not at once.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Ok(place) = Arc::clone(&room).try_acquire_owned() else { continue };
        let shares = Arc::clone(&shares);
        // Whose a connection is may have to be read from a long table.
        let share = tokio::task::spawn_blocking(move || shares.take(peer)).await;
        let Ok(Some(share)) = share else { continue };
        let state = Arc::clone(state);
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let answer = answer(&request, &state);
                async move { Ok::<_, Infallible>(answer) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_WITHIN)
                .max_buf_size(LARGEST_HEAD)
                .serve_connection(TokioIo::new(Timed::new(stream, STALL)), service);
            // A client that went away or took too long is its own business.
            let _ = tokio::time::timeout(CONNECTION_LASTS, connection).await;
            drop((place, share));
        });
    }
}

fn answer(request: &Request<Incoming>, state: &Shared) -> Response<Full<Bytes>> {
    let plain = |status, words: &'static str| response(status, "text/plain; charset=utf-8", words.into());
    let path = request.uri().path();
    if !matches!(path, "/metrics" | "/-/healthy") {
        return plain(StatusCode::NOT_FOUND, "there are /metrics and /-/healthy\n");
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
    }
    if path == "/-/healthy" {
        return plain(StatusCode::OK, "tracing\n");
    }
    let accepts = request.headers().get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let format = Format::wanted(&accepts.collect::<Vec<_>>().join(","));
    let state = state.lock().unwrap_or_else(PoisonError::into_inner);
    match &*state {
        Some(state) => response(StatusCode::OK, format.content_type(), format.page(state).into()),
        None => plain(StatusCode::SERVICE_UNAVAILABLE, "the trace has not begun yet\n"),
    }
}

fn response(status: StatusCode, kind: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}
