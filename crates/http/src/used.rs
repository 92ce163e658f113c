//! Whether anything comes over a connection that is left open: one on which nothing is asked, or nothing that is allowed, takes a place
//! from others.

use axum::http::{Request, Response};
use hyper::service::Service;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// What was asked on one connection until now.
#[derive(Debug, Default)]
pub(crate) struct Used {
    running: AtomicUsize,
    asked: AtomicU64,
    /// Something was answered well: who is on the other side has a right to be there.
    is_welcome: AtomicBool,
}

impl Used {
    /// Returns when nothing was asked for that long by somebody who was never answered well.
    pub(crate) async fn until_idle(&self, idle: Duration) {
        loop {
            let before = self.asked.load(Ordering::Relaxed);
            tokio::time::sleep(idle).await;
            let is_idle = self.running.load(Ordering::Relaxed) == 0
                && self.asked.load(Ordering::Relaxed) == before
                && !self.is_welcome.load(Ordering::Relaxed);
            if is_idle {
                return;
            }
        }
    }
}

/// A service whose use is counted.
#[derive(Debug)]
pub(crate) struct Watched<S> {
    pub(crate) service: S,
    pub(crate) used: Arc<Used>,
}

/// One that runs; ended also where nobody waits for it any more.
struct Running(Arc<Used>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<S, In, Out> Service<Request<In>> for Watched<S>
where
    S: Service<Request<In>, Response = Response<Out>>,
    S::Future: Send + 'static,
{
    type Response = Response<Out>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn call(&self, request: Request<In>) -> Self::Future {
        self.used.running.fetch_add(1, Ordering::Relaxed);
        self.used.asked.fetch_add(1, Ordering::Relaxed);
        let (running, answer) = (Running(self.used.clone()), self.service.call(request));
        Box::pin(async move {
            let answer = answer.await?;
            if is_good(&answer) {
                running.0.is_welcome.store(true, Ordering::Relaxed);
            }
            Ok(answer)
        })
    }
}

/// gRPC says in a header what is wrong, where it says it at once.
fn is_good<T>(answer: &Response<T>) -> bool {
    let status = answer.headers().get("grpc-status");
    answer.status().is_success() && status.is_none_or(|status| status == "0")
}
