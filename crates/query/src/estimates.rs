//! Numbers of calls that were watched in slices of time, scaled to all of the time. What was watched all the time has no
//! estimate: its sums are exact.

use crate::QueryError;
use crate::evidence::row::rows;
use gpuwhy_model::{CallClass, Estimate, Slice, Span, Watched};
use gpuwhy_store::{CallStats, Filter, Reader, Session};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Slices so long before and after the time that is asked about tell of it, too.
const AROUND_NS: u64 = 30_000_000_000;

/// An interval from one number to so many times that number says nothing worth scaling.
const MAX_WIDTH: f64 = 2.0;

#[derive(Debug)]
pub(crate) struct Estimates {
    within: Span,
    /// With the host each is of.
    slices: Vec<(String, Slice)>,
    hosts: HashMap<u32, String>,
    /// Operations that were watched in slices.
    ops: HashMap<String, CallClass>,
    /// From when to when each process ran and was traced.
    lives: HashMap<u32, Span>,
    /// What was counted, by when.
    counted: BTreeMap<(u32, String), Vec<(u64, f64)>>,
    watched: RefCell<HashMap<(CallClass, u32), Option<Watched>>>,
}

impl Estimates {
    /// Of the calls in a time; nothing where all were watched all the time.
    pub(crate) fn read(reader: &Reader, within: Span) -> Result<Option<Estimates>, QueryError> {
        let around = Span {
            start_ns: within.start_ns.saturating_sub(AROUND_NS),
            end_ns: within.end_ns.saturating_add(AROUND_NS),
        };
        let sessions: HashMap<i64, Session> =
            reader.sessions()?.into_iter().map(|session| (session.session_id, session)).collect();
        let host = |session: i64| {
            sessions.get(&session).map_or_else(String::new, |session| session.info.host.clone())
        };
        let is_near =
            |slice: &Slice| slice.span.end_ns > around.start_ns && slice.span.start_ns < around.end_ns;
        let slices = reader.slices_of_sessions()?.into_iter().filter(|(_, slice)| is_near(slice));
        let slices: Vec<(String, Slice)> = slices.map(|(session, slice)| (host(session), slice)).collect();
        if slices.is_empty() {
            return Ok(None);
        }
        let is_sliced = |class: &CallClass| slices.iter().any(|(_, slice)| slice.class == *class);
        let of_process = "SELECT pid, ifnull(session_id, 0) FROM processes WHERE ?1 <= ?2";
        let hosts = rows(reader, of_process, [0, 1])?;
        let of_session = hosts.iter().map(|row| (row.id(0), row.number(1) as i64));
        let of_session: HashMap<u32, i64> = of_session.collect();
        let hosts = of_session.iter().map(|(pid, session)| (*pid, host(*session))).collect();
        let ops = reader.ops()?.into_iter();
        let ops: HashMap<String, CallClass> =
            ops.filter_map(|op| Some((op.name.clone(), CallClass::of_op(&op).filter(is_sliced)?))).collect();
        // What a process did before it was traced is no part of the trace.
        let life = |pid: u32, start_ns: u64, end_ns: Option<u64>| {
            let session = of_session.get(&pid).and_then(|session| sessions.get(session));
            let traced_ns = session.map_or(0, |session| session.info.start_ns);
            Span { start_ns: start_ns.max(traced_ns), end_ns: end_ns.unwrap_or(u64::MAX) }
        };
        let lives = reader.processes()?.into_iter();
        let lives = lives.map(|of| (of.pid, life(of.pid, of.start_ns, of.end_ns))).collect();
        let mut counted: BTreeMap<(u32, String), Vec<(u64, f64)>> = BTreeMap::new();
        let filter =
            Filter { from_ns: Some(around.start_ns), to_ns: Some(around.end_ns), ..Filter::default() };
        reader.each_call_stats(&filter, |stats| {
            if ops.contains_key(&stats.op) {
                let time_ns = stats.window_start_ns;
                counted.entry((stats.pid, stats.op)).or_default().push((time_ns, stats.count as f64));
            }
        })?;
        let watched = RefCell::default();
        Ok(Some(Estimates { within, slices, hosts, ops, lives, counted, watched }))
    }

    pub(crate) fn class(&self, op: &str) -> Option<CallClass> {
        self.ops.get(op).copied()
    }

    /// When the calls of a class of a process were watched; nothing where that was all the time.
    pub(crate) fn watched(&self, class: CallClass, pid: u32) -> Option<Watched> {
        let mut watched = self.watched.borrow_mut();
        let of_host = || {
            let host = self.hosts.get(&pid);
            let slices = self.slices.iter().filter(|(of, _)| host.is_none_or(|host| of == host));
            // A slice tells of a process for as long as that ran.
            let lived = |slice: &Slice| Slice { span: self.life(pid, slice.span), ..*slice };
            let slices: Vec<Slice> = slices.map(|(_, slice)| lived(slice)).collect();
            let slices: Vec<Slice> = slices.into_iter().filter(|slice| slice.span.ns() > 0).collect();
            Watched::new(&slices, class, pid)
        };
        watched.entry((class, pid)).or_insert_with(of_host).clone()
    }

    /// The part of a time in which a process ran.
    pub(crate) fn life(&self, pid: u32, within: Span) -> Span {
        let Some(life) = self.lives.get(&pid) else { return within };
        Span { start_ns: within.start_ns.max(life.start_ns), end_ns: within.end_ns.min(life.end_ns) }
    }

    /// How many calls of an operation a process made in a time; nothing where they were watched all the time, or too
    /// little to tell.
    pub(crate) fn calls(&self, pid: u32, op: &str, within: Span) -> Option<Estimate> {
        let watched = self.watched(self.class(op)?, pid)?;
        let counted = self.counted.get(&(pid, op.to_string()))?;
        let is_known = |estimate: &Estimate| estimate.high <= estimate.low * MAX_WIDTH;
        watched.estimate(self.life(pid, within), counted).filter(is_known)
    }

    /// By what to multiply what was counted of a class, in all of the time.
    fn factor(&self, pid: u32, class: CallClass) -> Factor {
        let ops = self.ops.iter().filter(|(_, of)| **of == class).map(|(op, _)| op);
        let within = self.life(pid, self.within);
        let in_time = |(time_ns, _): &&(u64, f64)| (within.start_ns..within.end_ns).contains(time_ns);
        let (mut seen, mut all) = (0.0, Some(Estimate::exact(0)));
        for op in ops {
            let Some(counted) = self.counted.get(&(pid, op.clone())) else { continue };
            seen += counted.iter().filter(in_time).map(|(_, calls)| calls).sum::<f64>();
            all = all.zip(self.calls(pid, op, self.within)).map(|(sum, calls)| sum.plus(&calls));
        }
        let watched_pct = self.watched(class, pid).map_or(100.0, |watched| watched.pct_within(within));
        let interval = all.map(|all| match seen > 0.0 {
            true => [all.value / seen, all.low / seen, all.high / seen],
            false => [1.0; 3],
        });
        Factor { interval, watched_pct }
    }
}

/// What is counted of a process stands for so many times as much.
struct Factor {
    /// With the least and the most; nothing where too little was watched to tell.
    interval: Option<[f64; 3]>,
    watched_pct: f64,
}

/// Factors of each process as SQL expressions over the column of its number. Where too little was watched to tell they are
/// NULL, and so is what is multiplied by them: what was counted is not all.
pub(crate) struct Factors {
    pub(crate) value: String,
    pub(crate) low: String,
    pub(crate) high: String,
    pub(crate) watched_pct: String,
}

impl Factors {
    /// Nothing where all calls of the class were watched all the time.
    pub(crate) fn read(
        reader: &Reader,
        within: Span,
        class: CallClass,
        pid: &str,
    ) -> Result<Option<Factors>, QueryError> {
        let Some(estimates) = Estimates::read(reader, within)? else { return Ok(None) };
        let pids: BTreeSet<u32> = estimates.counted.keys().map(|(pid, _)| *pid).collect();
        let watched = pids.into_iter().filter(|pid| estimates.watched(class, *pid).is_some());
        let factors: Vec<(u32, Factor)> = watched.map(|pid| (pid, estimates.factor(pid, class))).collect();
        let case = |of: &dyn Fn(&Factor) -> Option<f64>, otherwise: &str| {
            let cases = factors.iter().map(|(pid, factor)| match of(factor) {
                Some(number) => format!(" WHEN {pid} THEN {number:.6}"),
                None => format!(" WHEN {pid} THEN NULL"),
            });
            format!("(CASE {pid}{} ELSE {otherwise} END)", cases.collect::<String>())
        };
        Ok((!factors.is_empty()).then(|| Factors {
            value: case(&|factor| factor.interval.map(|[value, ..]| value), "1.0"),
            low: case(&|factor| factor.interval.map(|[_, low, _]| low), "1.0"),
            high: case(&|factor| factor.interval.map(|[.., high]| high), "1.0"),
            watched_pct: case(&|factor| Some(factor.watched_pct), "100.0"),
        }))
    }

    /// A whole number of which so much was counted, its least and its most, and the share of the time that was watched: columns of
    /// a table.
    pub(crate) fn interval_columns(factors: Option<&Factors>, counted: &str, name: &str) -> String {
        factors.map_or_else(String::new, |factors| {
            let column = |factor: &str, end: &str| {
                format!(", CAST(round({counted} * {factor}) AS INTEGER) AS {name}_{end}")
            };
            let (low, high) = (column(&factors.low, "low"), column(&factors.high, "high"));
            format!("{low}{high}, {} AS watched_pct", factors.watched_pct)
        })
    }
}

/// A sum times its factor, as a whole number.
pub(crate) fn scaled(factors: Option<&Factors>, counted: &str) -> String {
    match factors {
        Some(factors) => format!("CAST(round({counted} * {}) AS INTEGER)", factors.value),
        None => counted.into(),
    }
}

/// What was counted, and what it stands for: calls and all that adds up with them, but not the histogram, which says how
/// many calls there are to tell quantiles from.
pub(crate) fn scale(stats: &mut CallStats, estimate: &Estimate) {
    let factor = estimate.value / stats.count.max(1) as f64;
    let scaled = |number: u64| (number as f64 * factor).round() as u64;
    stats.count = estimate.value.round() as u64;
    stats.errors = scaled(stats.errors);
    stats.bytes = scaled(stats.bytes);
    stats.sum_ns = scaled(stats.sum_ns);
    stats.blame = stats.blame.scaled(factor);
}
