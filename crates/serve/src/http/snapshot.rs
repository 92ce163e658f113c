//! The whole trace, or its newer part, as a stream of rows: for `--nodes` on another host, which merges several.

use super::Site;
use crate::error::of_store;
use crate::{AskError, Kind};
use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use gpuwhy_store::transfer::{TransferError, send};
use gpuwhy_store::{Maker, Reader};
use hyper::body::Frame;
use serde::Deserialize;
use std::io::{BufWriter, Error, ErrorKind, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// So many are sent at a time; each keeps the log of a trace that is being written from being cleared.
pub(super) const AT_ONCE: usize = 2;
/// One that does not get its turn in this time is refused.
const TURN: Duration = Duration::from_secs(20);
/// A whole trace takes no longer, and nobody is waited for longer.
const MAX_WAIT: Duration = Duration::from_secs(600);
const STALL: Duration = Duration::from_secs(30);
/// Packed bytes that go at once, and how often before somebody takes them.
const PIECE: usize = 64 << 10;
const PIECES: usize = 4;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Part {
    /// Unix time in nanoseconds; older rows stay where they are.
    from_ns: Option<u64>,
}

pub(super) async fn get(
    State(site): State<Arc<Site>>,
    part: Result<Query<Part>, axum::extract::rejection::QueryRejection>,
) -> Result<Response<Body>, AskError> {
    let Query(part) = part.map_err(|_| {
        AskError::new(Kind::Usage, "a snapshot has one parameter: from_ns, unix time in nanoseconds")
    })?;
    let turn = tokio::time::timeout(TURN, site.snapshots.clone().acquire_owned()).await;
    let Ok(Ok(turn)) = turn else {
        return Err(AskError::new(Kind::Busy, "too many snapshots are being taken; ask again later"));
    };
    let path = site.questions.path().to_path_buf();
    let opened =
        tokio::task::spawn_blocking(move || Reader::open(&path).map(|reader| (file_bytes(&path), reader)));
    let failed = |_| AskError::new(Kind::Failed, "reading the trace failed; look at the server's messages");
    let (bytes, reader) = opened.await.map_err(failed)?.map_err(of_store)?;
    if reader.origin().maker != Maker::Gpuwhy {
        return Err(AskError::new(Kind::Usage, TransferError::Foreign.to_string()));
    }
    let (sender, pieces) = channel(PIECES);
    let handle = Handle::current();
    tokio::task::spawn_blocking(move || {
        stream(&reader, part.from_ns, Pieces { sender, handle });
        drop(turn);
    });
    let mut response = Response::new(Body::new(Pack(pieces)));
    for (name, value) in [
        (CONTENT_TYPE, HeaderValue::from_static("application/x-gpuwhy-rows")),
        (CONTENT_ENCODING, HeaderValue::from_static("gzip")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (HeaderName::from_static("gpuwhy-trace-bytes"), HeaderValue::from(bytes)),
    ] {
        response.headers_mut().insert(name, value);
    }
    Ok(response)
}

/// What the trace takes on disk, its log included.
fn file_bytes(path: &std::path::Path) -> u64 {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let size = |path: &std::path::Path| std::fs::metadata(path).map_or(0, |file| file.len());
    size(path) + size(log.as_ref())
}

fn stream(reader: &Reader, from_ns: Option<u64>, pieces: Pieces) {
    let began = Instant::now();
    let sender = pieces.sender.clone();
    let mut packed = GzEncoder::new(BufWriter::with_capacity(PIECE, pieces), Compression::fast());
    match send(reader, from_ns, &mut packed, &|_| began.elapsed() < MAX_WAIT) {
        // What went wrong with the trace was said in the stream. Where nobody takes the rest, nobody misses it.
        Ok(_) | Err(TransferError::Store(_)) => {
            let _ = packed.finish().and_then(|mut out| out.flush());
        }
        // An end that is none: whoever gets it sees that it is cut.
        Err(error) => {
            let _ = sender.try_send(Err(Error::other(error.to_string())));
        }
    }
}

/// Where packed bytes go: to whoever asked, who may take his time, but not for ever.
struct Pieces {
    sender: Sender<Result<Bytes, Error>>,
    handle: Handle,
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let piece = Bytes::copy_from_slice(bytes);
        self.handle
            .block_on(self.sender.send_timeout(Ok(piece), STALL))
            .map_err(|_| Error::new(ErrorKind::BrokenPipe, "nobody takes the trace"))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The body of the answer.
struct Pack(Receiver<Result<Bytes, Error>>);

impl hyper::body::Body for Pack {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}
