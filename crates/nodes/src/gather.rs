//! All nodes at once: first each one's clock and newest event, then its trace, from the same moment on everywhere.

use crate::client::{Client, Patience};
use crate::{Node, Tokens, Trouble};
use flate2::write::GzDecoder;
use gpuwhy_store::merge::Offset;
use gpuwhy_store::transfer::Receiver;
use http::header::CONTENT_ENCODING;
use http_body_util::BodyExt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Nodes that are asked at a time.
const AT_ONCE: usize = 8;
/// How often progress is told.
const PAUSE: Duration = Duration::from_millis(100);
/// What is fetched before the time that was asked about: calls that began earlier, and clocks that are not aligned yet.
const MARGIN_NS: i64 = 30_000_000_000;
/// Bytes that are unpacked at once: they may become a thousand times as many.
const SLICE: usize = 16 << 10;

/// What is asked of all nodes.
#[derive(Debug)]
pub struct Ask<'a> {
    pub tokens: &'a Tokens,
    /// Certificates to trust, instead of the system's.
    pub ca: Option<&'a Path>,
    pub part: Part,
    /// Of a node's trace.
    pub most_bytes: u64,
    /// How long a node may say nothing.
    pub patience: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    All,
    /// So long before the newest event of all.
    Since(Duration),
    /// From this unix time on, as the first node that answers has it.
    From(u64),
}

/// A trace that was fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    pub file: PathBuf,
    pub offset: Offset,
    pub rows: u64,
    /// On the way, packed.
    pub bytes: u64,
}

/// How far it is.
#[derive(Debug, Default)]
pub struct Progress {
    pub nodes: AtomicUsize,
    pub rows: AtomicU64,
    pub bytes: AtomicU64,
}

/// What a node said of itself.
struct Seen {
    offset: Offset,
    /// By its own clock; nothing where its trace is empty.
    newest_ns: Option<u64>,
}

/// The traces of the nodes as files in `folder`, in the order of the nodes. `watch` is told how far it is, again and again, and says
/// whether to go on.
pub fn gather(
    nodes: &[Node],
    ask: &Ask<'_>,
    folder: &Path,
    watch: &dyn Fn(&Progress) -> bool,
) -> Vec<Result<Fetched, Trouble>> {
    let (stop, progress) = (AtomicBool::new(false), Progress::default());
    let patience = Patience { time: ask.patience, stop: &stop };
    let look = || {
        if !watch(&progress) {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let seen = each(nodes, |node| at_node(see(node, ask, patience)), look);
    let from = starts(ask.part, &seen);
    let work: Vec<(&Node, Result<Seen, Trouble>, Option<u64>)> =
        nodes.iter().zip(seen).zip(from).map(|((node, seen), from)| (node, seen, from)).collect();
    let work: Vec<_> = work.into_iter().map(|work| Mutex::new(Some(work))).collect();
    each(
        &work,
        |work| {
            let taken = work.lock().ok().and_then(|mut work| work.take());
            let (node, seen, from) = taken.ok_or(Trouble::Interrupted)?;
            let file = folder.join(node.authority());
            let fetched = at_node(fetch(node, ask, patience, from, &file, seen?.offset, &progress));
            progress.nodes.fetch_add(1, Ordering::Relaxed);
            fetched
        },
        look,
    )
}

/// From when on each node is asked, by its own clock.
fn starts(part: Part, seen: &[Result<Seen, Trouble>]) -> Vec<Option<u64>> {
    let known = || seen.iter().flatten();
    let reference = known().next().map_or(0, |first| first.offset.ahead_ns);
    let from = match part {
        Part::All => None,
        Part::From(ns) => Some(signed(ns)),
        Part::Since(since) => known()
            .filter_map(|seen| {
                Some(signed(seen.newest_ns?).saturating_add(reference.saturating_sub(seen.offset.ahead_ns)))
            })
            .max()
            .map(|newest| newest.saturating_sub(since.as_nanos().min(i64::MAX as u128) as i64)),
    };
    let of = |seen: &Result<Seen, Trouble>| {
        let ahead = seen.as_ref().ok()?.offset.ahead_ns.saturating_sub(reference);
        Some(from?.saturating_add(ahead).saturating_sub(MARGIN_NS).max(0) as u64)
    };
    seen.iter().map(of).collect()
}

fn signed(ns: u64) -> i64 {
    ns.min(i64::MAX as u64) as i64
}

/// Does the work for each item, some at a time, in threads of their own; `look` is called meanwhile, in this one.
fn each<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync, look: impl Fn()) -> Vec<R> {
    let (next, (sender, done)) = (AtomicUsize::new(0), channel());
    let mut results: Vec<(usize, R)> = Vec::with_capacity(items.len());
    std::thread::scope(|scope| {
        for _ in 0..items.len().min(AT_ONCE) {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                while let Some((at, item)) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, items.get(at)?)))
                {
                    // Whoever gets it is there until all is done.
                    let _ = sender.send((at, work(item)));
                }
            });
        }
        drop(sender);
        loop {
            match done.recv_timeout(PAUSE) {
                Ok(result) => results.push(result),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            look();
        }
    });
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

fn at_node<T>(work: impl Future<Output = Result<T, Trouble>>) -> Result<T, Trouble> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Trouble::Here(error.to_string()))?;
    let done = runtime.block_on(work);
    // A name that is being looked up may take its time.
    runtime.shutdown_background();
    done
}

async fn see(node: &Node, ask: &Ask<'_>, patience: Patience<'_>) -> Result<Seen, Trouble> {
    let mut client = Client::connect(node, ask.tokens.of(node), ask.ca, patience).await?;
    let offset = client.offset().await?;
    let newest_ns = match ask.part {
        Part::Since(_) => client.json("/api/v1/trace").await?["end_ns"].as_u64(),
        _ => None,
    };
    Ok(Seen { offset, newest_ns })
}

async fn fetch(
    node: &Node,
    ask: &Ask<'_>,
    patience: Patience<'_>,
    from_ns: Option<u64>,
    file: &Path,
    offset: Offset,
    progress: &Progress,
) -> Result<Fetched, Trouble> {
    let mut client = Client::connect(node, ask.tokens.of(node), ask.ca, patience).await?;
    let path = match from_ns {
        Some(from_ns) => format!("/api/v1/snapshot?from_ns={from_ns}"),
        None => "/api/v1/snapshot".into(),
    };
    let response = client.get(&path).await?;
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    // The whole of it is at least about as large as the file says.
    let size = header("gpuwhy-trace-bytes").and_then(|value| value.parse().ok());
    if let Some(bytes) = size.filter(|bytes| from_ns.is_none() && *bytes > ask.most_bytes) {
        return Err(Trouble::TooLarge { bytes: Some(bytes), limit: ask.most_bytes });
    }
    if header(CONTENT_ENCODING.as_str()) != Some("gzip") {
        return Err(Trouble::Stranger("its trace is not packed as it should be".into()));
    }
    let mut receiver = Receiver::new(file, ask.most_bytes)?;
    let mut unpacked = GzDecoder::new(Vec::new());
    let mut incoming = response.into_body();
    let (mut bytes, mut rows) = (0, 0);
    let broken = |_: std::io::Error| Trouble::Stranger("its trace cannot be unpacked".into());
    while let Some(frame) = patience.wait(incoming.frame()).await? {
        let frame = frame.map_err(|error| Trouble::Cut(error.to_string()))?;
        let Ok(data) = frame.into_data() else { continue };
        for slice in data.chunks(SLICE) {
            unpacked.write_all(slice).map_err(broken)?;
            receiver.take(&std::mem::take(unpacked.get_mut()))?;
        }
        bytes += data.len() as u64;
        progress.bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
        progress.rows.fetch_add(receiver.rows() - rows, Ordering::Relaxed);
        rows = receiver.rows();
        if patience.stop.load(Ordering::Relaxed) {
            return Err(Trouble::Interrupted);
        }
    }
    // What came could be unpacked, so it is the end that is wrong.
    let left = unpacked.finish().map_err(|_| Trouble::Cut("its trace is not whole".into()))?;
    receiver.take(&left)?;
    let rows = receiver.finish()?;
    Ok(Fetched { file: file.into(), offset, rows, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(ahead_ns: i64, newest_ns: u64) -> Result<Seen, Trouble> {
        Ok(Seen { offset: Offset { ahead_ns, error_ns: 5 }, newest_ns: Some(newest_ns) })
    }

    #[test]
    fn every_node_is_asked_from_the_same_moment_on_by_its_own_clock() {
        let second = 1_000_000_000;
        let newest = 1_000 * second as u64;
        // The second fails; the third is an hour ahead, and its newest event is a second older.
        let hour = 3_600 * second;
        let all = [seen(0, newest), Err(Trouble::NoToken), seen(hour, newest + hour as u64 - second as u64)];
        let since = starts(Part::Since(Duration::from_secs(100)), &all);
        let from = newest - 130 * second as u64;
        assert_eq!(since, [Some(from), None, Some(from + hour as u64)]);
        assert_eq!(starts(Part::From(newest), &all)[2], Some(newest - 30 * second as u64 + hour as u64));
        assert_eq!(starts(Part::All, &all), [None, None, None]);
        assert_eq!(starts(Part::Since(Duration::MAX), &all)[0], Some(0));
    }

    /// Accepts, and says nothing.
    #[test]
    fn a_node_that_says_nothing_is_left_out_after_a_while() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let node = Node::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let patience = Duration::from_millis(200);
        let ask =
            Ask { tokens: &Tokens::default(), ca: None, part: Part::All, most_bytes: 1 << 20, patience };
        let gathered = gather(&[node], &ask, folder.path(), &|_| true);
        assert!(matches!(&gathered[..], [Err(Trouble::Slow(after))] if *after == patience), "{gathered:?}");
    }

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..40).collect();
        let looks = AtomicUsize::new(0);
        let done = each(
            &items,
            |item| item * 2,
            || {
                looks.fetch_add(1, Ordering::Relaxed);
            },
        );
        assert_eq!(done, items.iter().map(|item| item * 2).collect::<Vec<_>>());
        assert!(looks.into_inner() >= items.len());
    }
}
