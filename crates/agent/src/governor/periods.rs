//! When the calls of each class were watched, and what follows for the sums of that time.

use gpuwhy_model::{CallClass, CallWindow, OpId, Part, Slice, Span, Wait};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Numbers are used again after so many slices; sums come within seconds.
const NUMBERS: u8 = u8::MAX;

#[derive(Debug)]
pub(super) struct Periods {
    /// By class and number, as far as is known; the end of time where there is no end yet.
    spans: HashMap<(CallClass, u8), Span>,
    open: BTreeMap<CallClass, u8>,
    /// Classes that were ever watched in slices: only of those is told when they were watched.
    sliced: BTreeSet<CallClass>,
    gone_ns: HashMap<CallClass, u64>,
    number: u8,
    ended: Vec<Slice>,
}

impl Periods {
    /// All are watched.
    pub(super) fn new(now_ns: u64) -> Self {
        let span = Span { start_ns: now_ns, end_ns: u64::MAX };
        Periods {
            spans: CallClass::ALL.into_iter().map(|class| ((class, 0), span)).collect(),
            open: CallClass::ALL.into_iter().map(|class| (class, 0)).collect(),
            sliced: BTreeSet::new(),
            gone_ns: HashMap::new(),
            number: 0,
            ended: Vec::new(),
        }
    }

    pub(super) fn is_open(&self, class: CallClass) -> bool {
        self.open.contains_key(&class)
    }

    pub(super) fn number(&self) -> u8 {
        self.number
    }

    pub(super) fn next_number(&mut self) -> u8 {
        self.number = self.number % NUMBERS + 1;
        self.number
    }

    /// Calls that began before may have returned unseen.
    pub(super) fn gone_ns(&self, class: CallClass) -> u64 {
        self.gone_ns.get(&class).copied().unwrap_or(0)
    }

    pub(super) fn begin(&mut self, class: CallClass, number: u8, span: Span) {
        self.spans.insert((class, number), span);
        self.open.insert(class, number);
    }

    pub(super) fn end(&mut self, class: CallClass, end_ns: u64) {
        self.sliced.insert(class);
        self.gone_ns.insert(class, end_ns);
        self.end_open(class, end_ns);
    }

    fn end_open(&mut self, class: CallClass, end_ns: u64) {
        let Some(number) = self.open.remove(&class) else { return };
        let Some(span) = self.spans.get_mut(&(class, number)) else { return };
        span.end_ns = end_ns.max(span.start_ns);
        self.ended.push(Slice { class, span: *span, pid: None, slowed_ns: 0 });
    }

    /// What is watched to the end of the trace is told where there was a time in which it was not.
    pub(super) fn finish(&mut self, now_ns: u64) {
        for class in self.sliced.clone() {
            self.end_open(class, now_ns);
        }
    }

    pub(super) fn take_ended(&mut self) -> Vec<Slice> {
        std::mem::take(&mut self.ended)
    }

    /// A slice, as opposed to what is watched all the time.
    pub(super) fn slice(&self, class: CallClass, number: u8) -> Option<Span> {
        self.spans.get(&(class, number)).copied().filter(|span| number != 0 && span.end_ns != u64::MAX)
    }

    /// How much of a window lies in the time before the first slice, once that has ended.
    pub(super) fn watched_in(&self, class: CallClass, window: &CallWindow) -> Option<u64> {
        let span = self
            .spans
            .get(&(class, window.slice))
            .filter(|span| window.slice == 0 && span.end_ns != u64::MAX)?;
        let watched = overlap(*span, window);
        (watched.end_ns > watched.start_ns).then(|| watched.ns())
    }

    /// Leaves of each window the time in which its calls were watched.
    pub(super) fn clip(&self, windows: &mut [CallWindow], class_of: impl Fn(OpId) -> Option<CallClass>) {
        for window in windows {
            let Some(class) = class_of(window.op) else { continue };
            let Some(span) = self.spans.get(&(class, window.slice)) else { continue };
            if span.end_ns == u64::MAX && window.slice == 0 {
                continue;
            }
            let watched = overlap(*span, window);
            if watched.ns() > 0 {
                window.window_start_ns = watched.start_ns;
                window.window_ns = watched.ns();
            }
        }
    }

    /// By how much being watched slowed processes down in slices: what their threads paid, less what they waited anyway.
    pub(super) fn slowed(
        &self,
        windows: &[CallWindow],
        waits: &[Wait],
        class_of: impl Fn(OpId) -> Option<CallClass>,
        waits_for_gpu: impl Fn(OpId) -> bool,
    ) -> Vec<Slice> {
        let mut idle: HashMap<(u64, u32), u64> = HashMap::new();
        for wait in waits.iter().filter(|wait| matches!(wait.part, Part::Blocked(_))) {
            *idle.entry((wait.window_start_ns, wait.tid)).or_default() += wait.ns;
        }
        // Calls that wait for the GPU spin.
        for window in windows.iter().filter(|window| waits_for_gpu(window.op)) {
            *idle.entry((window.window_start_ns, window.tid)).or_default() += window.blame.oncpu_ns;
        }
        // By slice, window, process and thread.
        let mut paid: BTreeMap<(u8, u64, u32, u32), u64> = BTreeMap::new();
        let mut parts: BTreeMap<(u8, u64, u32), BTreeMap<CallClass, Span>> = BTreeMap::new();
        for window in windows {
            let Some(class) = class_of(window.op) else { continue };
            let Some(span) = self.slice(class, window.slice) else { continue };
            let key = (window.slice, window.window_start_ns, window.pid);
            *paid.entry((key.0, key.1, key.2, window.tid)).or_default() += window.cost_ns;
            parts.entry(key).or_default().insert(class, span);
        }
        let mut slowed: BTreeMap<(u8, u64, u32), u64> = BTreeMap::new();
        for ((number, start_ns, pid, tid), cost_ns) in paid {
            let window = windows.iter().find(|window| window.window_start_ns == start_ns);
            let spans = parts.get(&(number, start_ns, pid));
            let (Some(window), Some(span)) = (window, spans.and_then(|spans| spans.values().next())) else {
                continue;
            };
            let idle_ns = idle.get(&(start_ns, tid)).copied().unwrap_or(0) as f64;
            let idle_here = idle_ns / window.window_ns.max(1) as f64 * overlap(*span, window).ns() as f64;
            let own = slowed.entry((number, start_ns, pid)).or_default();
            *own = (*own).max((cost_ns as f64 - idle_here).max(0.0) as u64);
        }
        parts
            .into_iter()
            .flat_map(|(key, spans)| spans.into_iter().map(move |(class, span)| (key, class, span)))
            .filter_map(|(key, class, span)| {
                let slowed_ns = slowed.get(&key).copied().filter(|ns| *ns > 0)?;
                Some(Slice { class, span, pid: Some(key.2), slowed_ns })
            })
            .collect()
    }
}

fn overlap(span: Span, window: &CallWindow) -> Span {
    let end_ns = (window.window_start_ns + window.window_ns).min(span.end_ns);
    Span { start_ns: window.window_start_ns.max(span.start_ns), end_ns }
}
