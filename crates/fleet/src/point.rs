//! The words of the cluster side: a row of each table of the store, and the batch in which rows come.

use std::sync::Arc;

/// What kind of OTLP data an event was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Gauge,
    Sum,
    Histogram,
    Summary,
    Log,
    Span,
}

impl Kind {
    /// The journal has their places in it: new ones go to the end.
    pub const ALL: [Kind; 6] =
        [Kind::Gauge, Kind::Sum, Kind::Histogram, Kind::Summary, Kind::Log, Kind::Span];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Gauge => "gauge",
            Kind::Sum => "sum",
            Kind::Histogram => "histogram",
            Kind::Summary => "summary",
            Kind::Log => "log",
            Kind::Span => "span",
        }
    }
}

/// Whom something is about. Texts are shared by all rows of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub cluster: Arc<str>,
    pub node: Arc<str>,
    pub job: Option<Arc<str>>,
    pub rank: Option<i32>,
    pub nranks: Option<i32>,
}

/// One data point, log record or span.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub timestamp_ns: i64,
    pub origin: Origin,
    pub name: Arc<str>,
    pub kind: Kind,
    pub double: Option<f64>,
    pub int: Option<i64>,
    /// What else is known of it, a JSON object.
    pub attrs: Option<Arc<str>>,
}

/// A call of a collective by one rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collective {
    pub start_ns: i64,
    /// None while it runs.
    pub duration_ns: Option<i64>,
    pub origin: Origin,
    pub comm_id_hash: Arc<str>,
    /// None for sends and receives, which have no number by which ranks could be joined.
    pub seq: Option<i64>,
    pub op: Arc<str>,
    /// Within the communicator; the origin has those of the job.
    pub comm_rank: Option<i32>,
    pub comm_nranks: Option<i32>,
    /// At the other end of a send or receive, within the communicator.
    pub peer: Option<i32>,
    pub count: Option<i64>,
    pub datatype: Option<Arc<str>>,
    pub reduce_op: Option<Arc<str>>,
    pub pid: Option<i64>,
    pub tid: Option<i64>,
}

/// A finding of a node, or of the fleet itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    pub timestamp_ns: i64,
    pub origin: Origin,
    /// One of [`Found::SOURCES`].
    pub source: &'static str,
    pub class: Option<Arc<str>>,
    pub severity: Option<Arc<str>>,
    pub title: Arc<str>,
    pub pid: Option<i64>,
    /// All of it, a JSON object.
    pub finding: Option<Arc<str>>,
}

impl Found {
    pub const SOURCES: [&'static str; 2] = ["node", "fleet"];
}

/// A node that spoke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub cluster: Arc<str>,
    pub node: Arc<str>,
    pub at_ns: i64,
    pub points: u64,
    /// What its resource says of it, a JSON object.
    pub resource: Arc<str>,
}

/// What tells a push from all others; one that comes again has the same.
pub type BatchId = i128;

/// All rows of one push: stored together or not at all.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Batch {
    pub id: BatchId,
    pub received_ns: i64,
    pub events: Vec<Event>,
    pub collectives: Vec<Collective>,
    pub findings: Vec<Found>,
    pub nodes: Vec<Seen>,
    /// The token that pushed it: the beginning of its digest. None is 0: it is the server's own, or of an earlier version.
    pub sender: u32,
}

impl Batch {
    pub fn rows(&self) -> usize {
        self.events.len() + self.collectives.len() + self.findings.len()
    }
}
