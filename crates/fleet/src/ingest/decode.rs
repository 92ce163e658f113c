//! A push as rows: what every kind of OTLP data has in common. Nothing is refused for being unknown; what goes beyond a limit
//! is left out, and said.

use super::attributes::{Lifted, Object};
use super::names::Names;
use crate::clock::Now;
use crate::limits::Limits;
use crate::point::{Batch, Event, Kind, Origin, Seen};
use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The attributes of a request may be so many times as large as a request.
const SWELLS: usize = 4;

/// Names of each kind.
#[derive(Debug)]
pub(super) struct AllNames {
    clusters: Names,
    nodes: Names,
    jobs: Names,
    pub(super) metrics: Names,
}

impl AllNames {
    pub(super) fn new(limits: &Limits) -> AllNames {
        let names = || Names::new(limits.names);
        AllNames { clusters: names(), nodes: names(), jobs: names(), metrics: names() }
    }
}

/// Why points are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Why {
    NotYours,
    Ahead,
    Behind,
    Attributes,
    LongName,
    Names,
    Malformed,
}

impl Why {
    fn words(self) -> &'static str {
        match self {
            Why::NotYours => "are of a cluster this token may not push to",
            Why::Ahead => "are ahead of this server's clock",
            Why::Behind => "are too old",
            Why::Attributes => "have too many or too large attributes",
            Why::LongName => "have names that are too long",
            Why::Names => "have new names, of which there are too many already",
            Why::Malformed => "are malformed",
        }
    }
}

/// What was left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftOut(BTreeMap<Why, u64>);

impl LeftOut {
    pub(super) fn add(&mut self, why: Why, count: u64) {
        *self.0.entry(why).or_default() += count;
    }

    pub fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// One sentence; nothing where nothing was left out.
    pub fn sentence(&self) -> String {
        let parts: Vec<String> =
            self.0.iter().map(|(why, count)| format!("{count} {}", why.words())).collect();
        parts.join("; ")
    }
}

/// Decodes one push.
pub(super) struct Decoding<'a> {
    pub(super) limits: &'a Limits,
    pub(super) names: &'a AllNames,
    /// Whether rows of this cluster are wanted.
    pub(super) may_push: &'a dyn Fn(&str) -> bool,
    pub(super) now: Now,
    /// Of all attributes so far.
    pub(super) attribute_bytes: usize,
    pub(super) room: Room,
    pub(super) batch: Batch,
    pub(super) left_out: LeftOut,
}

/// To write the attributes of a point in, which is used for the next one again.
#[derive(Debug, Default)]
pub(super) struct Room {
    own: Object,
    text: String,
}

/// What all points of a scope share.
#[derive(Debug, Clone, Default)]
pub(super) struct Around {
    lifted: Lifted,
    attrs: Object,
    attributes: usize,
    /// The same for all points that say nothing of their own.
    shared: Option<Arc<str>>,
    origin: Option<Result<Origin, Why>>,
}

impl Around {
    /// Its attributes, with those of a point.
    fn with(&mut self, room: &mut Room) -> Option<Arc<str>> {
        match (room.own.is_empty(), self.attrs.is_empty()) {
            (true, true) => None,
            (true, false) => Some(self.shared.get_or_insert_with(|| self.attrs.text().into()).clone()),
            (false, _) => Some(self.attrs.put_together(&room.own, &mut room.text).into()),
        }
    }
}

/// Attributes of the software that sends, which the node's own row keeps.
fn is_of_sender(key: &str) -> bool {
    key.starts_with("service.") || key.starts_with("telemetry.sdk.") || key.starts_with("host.")
}

impl Decoding<'_> {
    /// What a resource says of all that is below it, and the JSON of it.
    pub(super) fn resource(&self, resource: Option<&Resource>) -> (Around, Arc<str>) {
        let mut around = Around::default();
        let mut whole = Object::default();
        for pair in resource.map(|resource| resource.attributes.as_slice()).unwrap_or_default() {
            if whole.len() < self.limits.attribute_bytes {
                whole.add(&pair.key, pair.value.as_ref());
            }
            if !around.lifted.take(pair) && !is_of_sender(&pair.key) {
                around.attrs.add(&pair.key, pair.value.as_ref());
                around.attributes += 1;
            }
        }
        (around, whole.text().into())
    }

    pub(super) fn scope(&self, outer: &Around, scope: Option<&InstrumentationScope>) -> Around {
        let mut around = Around { origin: None, shared: None, ..outer.clone() };
        for pair in scope.map(|scope| scope.attributes.as_slice()).unwrap_or_default() {
            if !around.lifted.take(pair) {
                around.attrs.add(&pair.key, pair.value.as_ref());
                around.attributes += 1;
            }
        }
        around
    }

    /// Whom a point is about and what else it says; None, and counted, where it is not taken.
    pub(super) fn inner(
        &mut self,
        around: &mut Around,
        pairs: &[KeyValue],
        add: impl FnOnce(&mut Object),
    ) -> Option<(Origin, Option<Arc<str>>)> {
        if around.attributes + pairs.len() > self.limits.attributes {
            self.left_out.add(Why::Attributes, 1);
            return None;
        }
        let own = &mut self.room.own;
        own.clear();
        for pair in pairs.iter().filter(|pair| !is_lifted(&pair.key)) {
            own.add(&pair.key, pair.value.as_ref());
        }
        add(own);
        if own.len() + around.attrs.len() > self.limits.attribute_bytes {
            self.left_out.add(Why::Attributes, 1);
            return None;
        }
        // What stands around many points is in each of them: a small request must not become a huge one.
        if !own.is_empty() {
            self.attribute_bytes += own.len() + around.attrs.len();
        }
        if self.attribute_bytes > self.limits.request_bytes * SWELLS {
            self.left_out.add(Why::Attributes, 1);
            return None;
        }
        let attrs = around.with(&mut self.room);
        match self.about(around, pairs) {
            Ok(origin) => Some((origin, attrs)),
            Err(why) => {
                self.left_out.add(why, 1);
                None
            }
        }
    }

    /// Most points say nothing of their own but a rank: what is around them is looked up once.
    fn about(&self, around: &mut Around, pairs: &[KeyValue]) -> Result<Origin, Why> {
        if pairs.iter().any(|pair| is_lifted(&pair.key) && !is_rank(&pair.key)) {
            let mut lifted = around.lifted.clone();
            for pair in pairs {
                lifted.take(pair);
            }
            return self.origin(&lifted);
        }
        let shared = match &around.origin {
            Some(shared) => shared.clone(),
            None => around.origin.insert(self.origin(&around.lifted)).clone(),
        };
        let mut origin = shared?;
        let mut ranks = Lifted { rank: origin.rank, nranks: origin.nranks, ..Lifted::default() };
        for pair in pairs.iter().filter(|pair| is_rank(&pair.key)) {
            ranks.take(pair);
        }
        (origin.rank, origin.nranks) = (ranks.rank, ranks.nranks);
        Ok(origin)
    }

    fn origin(&self, lifted: &Lifted) -> Result<Origin, Why> {
        let (cluster, node) = (lifted.cluster(), lifted.node());
        let lengths = [cluster.len(), node.len(), lifted.job.as_ref().map_or(0, String::len)];
        if lengths.into_iter().any(|length| length > self.limits.name_bytes) {
            return Err(Why::LongName);
        }
        if !(self.may_push)(cluster) {
            return Err(Why::NotYours);
        }
        let job = match &lifted.job {
            Some(job) => Some(self.names.jobs.of(job).ok_or(Why::Names)?),
            None => None,
        };
        Ok(Origin {
            cluster: own(&self.names.clusters.of(cluster).ok_or(Why::Names)?),
            node: own(&self.names.nodes.of(node).ok_or(Why::Names)?),
            job: job.as_ref().map(own),
            rank: lifted.rank,
            nranks: lifted.nranks,
        })
    }

    /// A metric's, a log's or a span's name.
    pub(super) fn name(&mut self, name: &str, points: usize) -> Option<Arc<str>> {
        let found = match name.len() > self.limits.name_bytes {
            true => Err(Why::LongName),
            false => self.names.metrics.of(name).as_ref().map(own).ok_or(Why::Names),
        };
        found.map_err(|why| self.left_out.add(why, points as u64)).ok()
    }

    /// Its time, or that of receipt where it has none.
    pub(super) fn time(&mut self, time_ns: u64) -> Option<i64> {
        if time_ns == 0 {
            return Some(self.now.wall_ns);
        }
        let time = i64::try_from(time_ns).unwrap_or(i64::MAX);
        if time > self.now.latest().saturating_add(self.limits.ahead.as_nanos() as i64) {
            self.left_out.add(Why::Ahead, 1);
            return None;
        }
        if time < self.now.earliest().saturating_sub(self.limits.behind.as_nanos() as i64) {
            self.left_out.add(Why::Behind, 1);
            return None;
        }
        Some(time)
    }

    pub(super) fn push(&mut self, event: Event) {
        self.batch.events.push(event);
    }

    /// Notes which nodes the rows from `first` on are of.
    pub(super) fn note_nodes(&mut self, first: (usize, usize, usize), resource: &Arc<str>) {
        let batch = &self.batch;
        let origins = batch.events[first.0..].iter().map(|event| &event.origin);
        let origins = origins.chain(batch.collectives[first.1..].iter().map(|collective| &collective.origin));
        let origins = origins.chain(batch.findings[first.2..].iter().map(|found| &found.origin));
        let mut seen: HashMap<(&Arc<str>, &Arc<str>), u64> = HashMap::new();
        // Most of them are of the one that those before them are of.
        let is_same = |one: &&Origin, other: &&Origin| {
            Arc::ptr_eq(&one.cluster, &other.cluster) && Arc::ptr_eq(&one.node, &other.node)
        };
        let origins: Vec<&Origin> = origins.collect();
        for run in origins.chunk_by(is_same) {
            *seen.entry((&run[0].cluster, &run[0].node)).or_default() += run.len() as u64;
        }
        let seen = seen.into_iter().map(|((cluster, node), points)| Seen {
            cluster: cluster.clone(),
            node: node.clone(),
            at_ns: self.now.wall_ns,
            points,
            resource: resource.clone(),
        });
        let mut seen: Vec<Seen> = seen.collect();
        self.batch.nodes.append(&mut seen);
    }

    pub(super) fn so_far(&self) -> (usize, usize, usize) {
        (self.batch.events.len(), self.batch.collectives.len(), self.batch.findings.len())
    }
}

fn is_lifted(key: &str) -> bool {
    matches!(key, "cluster_id" | "node_id" | "host.name" | "job_id" | "rank" | "nranks")
}

fn is_rank(key: &str) -> bool {
    matches!(key, "rank" | "nranks")
}

/// For the rows of one push: were it all pushes', every thread would count who has it at the same place, and wait for it.
fn own(name: &Arc<str>) -> Arc<str> {
    Arc::from(&**name)
}

/// An event without a value.
pub(super) fn event(
    timestamp_ns: i64,
    name: &Arc<str>,
    kind: Kind,
    (origin, attrs): (Origin, Option<Arc<str>>),
) -> Event {
    Event { timestamp_ns, origin, name: name.clone(), kind, double: None, int: None, attrs }
}
