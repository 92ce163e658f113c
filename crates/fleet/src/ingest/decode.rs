//! A push as rows: what every kind of OTLP data has in common. The message is read where it lies, and every row is charged to
//! the sender's memory before the next one is made. Nothing is refused for being unknown; what goes beyond a limit is left
//! out, and said.

use super::attributes::{Lifted, Pairs};
use super::left_out::{LeftOut, Why};
use super::memory::{Decoded, Memory};
use super::names::{ClusterNames, Names, Owner};
use super::object::Object;
use super::wire::{Message, Read};
use crate::clock::Now;
use crate::limits::Limits;
use crate::point::{Batch, Collective, Event, Found, Kind, Origin, Seen};
use gpuwhy_cohort::shares::Tenant;
use std::collections::HashMap;
use std::sync::Arc;

/// The attributes of a request may be so many times as large as a request.
const SWELLS: usize = 4;

/// Names of each kind.
#[derive(Debug)]
pub(crate) struct AllNames {
    pub(crate) clusters: ClusterNames,
    nodes: Names,
    jobs: Names,
    metrics: Names,
}

impl AllNames {
    pub(super) fn new(limits: &Limits) -> AllNames {
        let names = || Names::new(limits.names, limits.sharing);
        let clusters = ClusterNames::new(limits.clusters);
        AllNames { clusters, nodes: names(), jobs: names(), metrics: names() }
    }
}

/// Decodes one push.
pub(super) struct Decoding<'a> {
    pub(super) limits: &'a Limits,
    pub(super) names: &'a AllNames,
    pub(super) sender: &'a Tenant,
    /// Whether rows of this cluster are wanted.
    pub(super) may_push: &'a dyn Fn(&str) -> bool,
    pub(super) now: Now,
    pub(super) memory: Memory<'a>,
    /// Of all attributes so far.
    pub(super) attribute_bytes: usize,
    pub(super) room: Room,
    pub(super) batch: Batch,
    pub(super) left_out: LeftOut,
}

/// To write the attributes of a point in, which is used for the next one again.
#[derive(Debug)]
pub(super) struct Room {
    own: Object,
    text: String,
}

impl Room {
    pub(super) fn new(limits: &Limits) -> Room {
        Room { own: Object::new(limits.attribute_bytes), text: String::new() }
    }
}

/// What all points of a scope share.
#[derive(Debug, Clone)]
pub(super) struct Around<'m> {
    lifted: Lifted<'m>,
    /// Of the resource; scopes do not copy it.
    outer: Arc<Object>,
    /// Of the scope.
    attrs: Object,
    attributes: usize,
    /// The same for all points that say nothing of their own.
    shared: Option<Arc<str>>,
    origin: Option<Result<Origin, Why>>,
}

/// Attributes of the software that sends, which the node's own row keeps.
fn is_of_sender(key: &str) -> bool {
    key.starts_with("service.") || key.starts_with("telemetry.sdk.") || key.starts_with("host.")
}

/// The parts of a push: a resource each, in it scopes, in them what `each` reads.
impl Decoding<'_> {
    /// Resources and scopes are numbered alike in all kinds of data, and so is what is in a scope.
    pub(super) fn each<'m>(
        &mut self,
        message: Message<'m>,
        mut each: impl FnMut(&mut Self, &mut Around<'m>, Message<'m>) -> Decoded<()>,
    ) -> Decoded<()> {
        for resource in message.messages(1) {
            let resource = resource?;
            // It stands before its scopes, but need not.
            let about = resource.messages(1).last().transpose()?.map(|of| Pairs { of, number: 1 });
            let mut outer = self.resource(about)?;
            let first = self.so_far();
            for scope in resource.messages(2) {
                let scope = scope?;
                let pairs = scope.messages(1).last().transpose()?.map(|of| Pairs { of, number: 3 });
                let mut inner = self.scope(&outer, pairs)?;
                let around = inner.as_mut().unwrap_or(&mut outer);
                for entry in scope.messages(2) {
                    each(self, around, entry?)?;
                }
            }
            self.note_nodes(first, about)?;
        }
        Ok(())
    }

    /// What a resource says of all that is below it.
    fn resource<'m>(&self, pairs: Option<Pairs<'m>>) -> Read<Around<'m>> {
        let (mut lifted, mut attributes) = (Lifted::default(), 0);
        let mut attrs = Object::new(self.limits.attribute_bytes);
        for pair in pairs.into_iter().flat_map(Pairs::iter) {
            let pair = pair?;
            if !lifted.take(&pair) && !is_of_sender(pair.key) {
                attributes += 1;
                if !attrs.is_too_long() {
                    attrs.add(pair.key, pair.value)?;
                }
            }
        }
        let inner = Object::new(self.limits.attribute_bytes);
        Ok(Around { lifted, outer: Arc::new(attrs), attrs: inner, attributes, shared: None, origin: None })
    }

    /// Nothing where it adds nothing to what stands around it.
    fn scope<'m>(&self, outer: &Around<'m>, pairs: Option<Pairs<'m>>) -> Read<Option<Around<'m>>> {
        let mut around = None;
        for pair in pairs.into_iter().flat_map(Pairs::iter) {
            let pair = pair?;
            let around = around.get_or_insert_with(|| Around { shared: None, origin: None, ..outer.clone() });
            if !around.lifted.take(&pair) {
                around.attributes += 1;
                if !around.attrs.is_too_long() {
                    around.attrs.add(pair.key, pair.value)?;
                }
            }
        }
        Ok(around)
    }

    /// Whom a point is about and what else it says; None, and counted, where it is not taken.
    pub(super) fn inner<'m>(
        &mut self,
        around: &mut Around<'m>,
        pairs: Pairs<'m>,
        add: impl FnOnce(&mut Object) -> Read<()>,
    ) -> Decoded<Option<(Origin, Option<Arc<str>>)>> {
        let (mut lifted, mut attributes) = (Lifted::default(), around.attributes);
        let own = &mut self.room.own;
        own.clear();
        for pair in pairs.iter() {
            let pair = pair?;
            attributes += 1;
            if !lifted.take(&pair) && attributes <= self.limits.attributes && !own.is_too_long() {
                own.add(pair.key, pair.value)?;
            }
        }
        add(own)?;
        let length = own.len() + around.attrs.len() + around.outer.len();
        if attributes > self.limits.attributes || length > self.limits.attribute_bytes {
            return Ok(self.leave_out(Why::Attributes));
        }
        let origin = match self.about(around, lifted)? {
            Ok(origin) => origin,
            Err(why) => return Ok(self.leave_out(why)),
        };
        let is_shared = self.room.own.is_empty();
        let attrs = match &around.shared {
            _ if length == 0 => None,
            Some(shared) if is_shared => Some(shared.clone()),
            _ => {
                // What stands around many points is in each of them: a small request must not become a huge one.
                self.attribute_bytes += length;
                if self.attribute_bytes > self.limits.request_bytes * SWELLS {
                    return Ok(self.leave_out(Why::Attributes));
                }
                let parts = [&*around.outer, &around.attrs, &self.room.own];
                let text = Object::put_together(parts, &mut self.room.text);
                let text = self.memory.text(text)?;
                if is_shared {
                    around.shared = Some(text.clone());
                }
                Some(text)
            }
        };
        Ok(Some((origin, attrs)))
    }

    pub(super) fn leave_out<T>(&mut self, why: Why) -> Option<T> {
        self.left_out.add(why, 1);
        None
    }

    /// Most points say nothing of their own but a rank: what is around them is looked up once.
    fn about<'m>(&mut self, around: &mut Around<'m>, own: Lifted<'m>) -> Decoded<Result<Origin, Why>> {
        if own.has_names() {
            return self.origin(&own.within(&around.lifted));
        }
        let shared = match &around.origin {
            Some(shared) => shared.clone(),
            None => around.origin.insert(self.origin(&around.lifted)?).clone(),
        };
        Ok(shared.map(|shared| Origin {
            rank: own.rank.or(shared.rank),
            nranks: own.nranks.or(shared.nranks),
            ..shared
        }))
    }

    fn origin(&mut self, lifted: &Lifted<'_>) -> Decoded<Result<Origin, Why>> {
        let (cluster, node, job) = (lifted.cluster(), lifted.node(), lifted.job.as_deref());
        let lengths = [cluster.len(), node.len(), job.map_or(0, str::len)];
        if lengths.into_iter().any(|length| length > self.limits.name_bytes) {
            return Ok(Err(Why::LongName));
        }
        if !(self.may_push)(cluster) {
            return Ok(Err(Why::NotYours));
        }
        let (names, owner) = (self.names, Owner { token: self.sender, cluster });
        if !names.clusters.admits(self.sender, cluster)
            || !names.nodes.admits(owner, node)
            || !job.is_none_or(|job| names.jobs.admits(owner, job))
        {
            return Ok(Err(Why::Names));
        }
        // Of this push alone: were it all pushes', every thread would count who has it at the same place, and wait for it.
        Ok(Ok(Origin {
            cluster: self.memory.text(cluster)?,
            node: self.memory.text(node)?,
            job: job.map(|job| self.memory.text(job)).transpose()?,
            rank: lifted.rank,
            nranks: lifted.nranks,
        }))
    }

    /// A metric's, a log's or a span's name. It is its cluster's to hold it to its share.
    pub(super) fn name(&mut self, around: &Around<'_>, name: &str) -> Decoded<Result<Arc<str>, Why>> {
        if name.len() > self.limits.name_bytes {
            return Ok(Err(Why::LongName));
        }
        let owner = Owner { token: self.sender, cluster: around.lifted.cluster() };
        if !(self.may_push)(owner.cluster) {
            // Its points may still name another cluster; whether they may is decided there.
            return Ok(Ok(self.memory.text(name)?));
        }
        match self.names.metrics.admits(owner, name) {
            true => Ok(Ok(self.memory.text(name)?)),
            false => Ok(Err(Why::Names)),
        }
    }

    /// Its time, or that of receipt where it has none.
    pub(super) fn time(&mut self, time_ns: u64) -> Option<i64> {
        if time_ns == 0 {
            return Some(self.now.wall_ns);
        }
        let time = i64::try_from(time_ns).unwrap_or(i64::MAX);
        if time > self.now.latest().saturating_add(self.limits.ahead.as_nanos() as i64) {
            return self.leave_out(Why::Ahead);
        }
        if time < self.now.earliest().saturating_sub(self.limits.behind.as_nanos() as i64) {
            return self.leave_out(Why::Behind);
        }
        Some(time)
    }

    pub(super) fn push(&mut self, event: Event) -> Decoded<()> {
        self.memory.row(&mut self.batch.events)?;
        self.batch.events.push(event);
        Ok(())
    }

    pub(super) fn push_collective(&mut self, collective: Collective) -> Decoded<()> {
        self.memory.row(&mut self.batch.collectives)?;
        self.batch.collectives.push(collective);
        Ok(())
    }

    pub(super) fn push_finding(&mut self, found: Found) -> Decoded<()> {
        self.memory.row(&mut self.batch.findings)?;
        self.batch.findings.push(found);
        Ok(())
    }

    fn so_far(&self) -> [usize; 3] {
        [self.batch.events.len(), self.batch.collectives.len(), self.batch.findings.len()]
    }

    /// Notes which nodes the rows from `first` on are of, with what the resource says of them.
    fn note_nodes(&mut self, first: [usize; 3], about: Option<Pairs<'_>>) -> Decoded<()> {
        if first == self.so_far() {
            return Ok(());
        }
        let batch = &self.batch;
        let origins = batch.events[first[0]..].iter().map(|event| &event.origin);
        let origins =
            origins.chain(batch.collectives[first[1]..].iter().map(|collective| &collective.origin));
        let origins = origins.chain(batch.findings[first[2]..].iter().map(|found| &found.origin));
        let mut seen: HashMap<(&Arc<str>, &Arc<str>), u64> = HashMap::new();
        // Most of them are of the one that those before them are of.
        let mut last: Option<(&Origin, &mut u64)> = None;
        for origin in origins {
            match &mut last {
                Some((before, points))
                    if Arc::ptr_eq(&before.cluster, &origin.cluster)
                        && Arc::ptr_eq(&before.node, &origin.node) =>
                {
                    **points += 1;
                }
                _ => {
                    self.memory.charge(2 * size_of::<Seen>())?;
                    let points = seen.entry((&origin.cluster, &origin.node)).or_default();
                    *points += 1;
                    last = Some((origin, points));
                }
            }
        }
        let resource = self.memory.text(&resource_text(about, self.limits.attribute_bytes)?)?;
        let seen = seen.into_iter().map(|((cluster, node), points)| Seen {
            cluster: cluster.clone(),
            node: node.clone(),
            at_ns: self.now.wall_ns,
            points,
            resource: resource.clone(),
        });
        let mut seen: Vec<Seen> = seen.collect();
        self.batch.nodes.append(&mut seen);
        Ok(())
    }
}

/// All that it says, as far as there is room for it.
fn resource_text(about: Option<Pairs<'_>>, max: usize) -> Read<String> {
    let mut whole = Object::new(max);
    for pair in about.into_iter().flat_map(Pairs::iter) {
        let (pair, before) = (pair?, whole.len());
        whole.add(pair.key, pair.value)?;
        if whole.is_too_long() {
            whole.truncate(before);
        }
    }
    Ok(whole.text())
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
