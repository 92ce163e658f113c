//! Thinning out: what is shorter than a step is summed up with all else of its step; what is longer stands for itself.

use super::{Slice, SliceBlame, Track, TrackKind};
use gpuwhy_model::{Cause, Span};
use std::collections::{BTreeMap, HashMap};

/// What a track is of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) kind: TrackKind,
    pub(super) pid: Option<u32>,
    pub(super) tid: Option<u32>,
    pub(super) rank: Option<i32>,
    pub(super) stream: Option<String>,
}

impl Key {
    pub(super) fn new(kind: TrackKind, pid: u32) -> Key {
        Key { kind, pid: Some(pid), tid: None, rank: None, stream: None }
    }
}

/// Something that happened, or many of the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Happened<'a> {
    pub(super) start_ns: u64,
    pub(super) length_ns: u64,
    pub(super) name: &'a str,
    pub(super) count: u64,
    pub(super) busy_ns: u64,
    pub(super) longest_ns: u64,
    pub(super) errors: u64,
    pub(super) blame: &'a [(Cause, u64)],
    pub(super) stack_id: Option<i64>,
    /// It is a part of what happened in that time, and shares its slice with the others.
    pub(super) summed: bool,
}

#[derive(Debug)]
pub(super) struct Thinner {
    span: Span,
    step_ns: u64,
    tracks: HashMap<Key, Steps>,
}

#[derive(Debug, Default)]
struct Steps {
    /// By step, what is short.
    sums: BTreeMap<u64, Sum>,
    long: Vec<Slice>,
    busy_ns: u64,
}

#[derive(Debug, Default)]
struct Sum {
    start_ns: u64,
    end_ns: u64,
    count: u64,
    busy_ns: u64,
    longest_ns: u64,
    errors: u64,
    by_name: BTreeMap<String, u64>,
    by_cause: BTreeMap<Cause, u64>,
    stack_id: Option<i64>,
}

impl Thinner {
    pub(super) fn new(span: Span, slices: u64) -> Thinner {
        Thinner { span, step_ns: (span.ns() / slices).max(1), tracks: HashMap::new() }
    }

    pub(super) fn span(&self) -> Span {
        self.span
    }

    pub(super) fn step_ns(&self) -> u64 {
        self.step_ns
    }

    pub(super) fn add(&mut self, key: Key, what: &Happened<'_>) {
        let steps = self.tracks.entry(key).or_default();
        steps.busy_ns += what.busy_ns;
        let end_ns = what.start_ns + what.length_ns;
        if what.length_ns >= self.step_ns && !what.summed {
            steps.long.push(Slice {
                start_ns: what.start_ns,
                end_ns,
                name: what.name.into(),
                count: what.count,
                busy_ns: what.busy_ns,
                longest_ns: what.longest_ns,
                errors: what.errors,
                blame: attribution(what.blame.iter().copied()),
                stack_id: what.stack_id,
            });
            return;
        }
        let step = what.start_ns.saturating_sub(self.span.start_ns) / self.step_ns;
        let sum = steps.sums.entry(step).or_insert_with(|| Sum {
            start_ns: what.start_ns,
            end_ns,
            ..Sum::default()
        });
        sum.start_ns = sum.start_ns.min(what.start_ns);
        sum.end_ns = sum.end_ns.max(end_ns);
        sum.count += what.count;
        sum.busy_ns += what.busy_ns;
        sum.errors += what.errors;
        if what.longest_ns >= sum.longest_ns {
            sum.longest_ns = what.longest_ns;
            sum.stack_id = what.stack_id.or(sum.stack_id);
        }
        match sum.by_name.get_mut(what.name) {
            Some(ns) => *ns += what.busy_ns,
            None => drop(sum.by_name.insert(what.name.into(), what.busy_ns)),
        }
        for (cause, ns) in what.blame {
            *sum.by_cause.entry(*cause).or_default() += ns;
        }
    }

    /// By kind, most time first.
    pub(super) fn tracks(self, names: &Names) -> Vec<Track> {
        let mut tracks: Vec<(Key, Steps)> = self.tracks.into_iter().collect();
        tracks.sort_by(|(a, of_a), (b, of_b)| {
            a.kind.cmp(&b.kind).then(of_b.busy_ns.cmp(&of_a.busy_ns)).then_with(|| a.cmp(b))
        });
        tracks
            .into_iter()
            .map(|(key, steps)| Track {
                kind: key.kind,
                name: names.of(&key),
                pid: key.pid,
                tid: key.tid,
                rank: key.rank,
                stream: key.stream,
                slices: steps.slices(),
            })
            .collect()
    }
}

impl Steps {
    fn slices(self) -> Vec<Slice> {
        let mut slices = self.long;
        slices.extend(self.sums.into_values().map(|sum| Slice {
            start_ns: sum.start_ns,
            end_ns: sum.end_ns,
            name: sum.by_name.into_iter().max_by_key(|(_, ns)| *ns).map(|(name, _)| name).unwrap_or_default(),
            count: sum.count,
            busy_ns: sum.busy_ns,
            longest_ns: sum.longest_ns,
            errors: sum.errors,
            blame: attribution(sum.by_cause.into_iter()),
            stack_id: sum.stack_id,
        }));
        slices.sort_by_key(|slice| (slice.start_ns, slice.end_ns));
        slices
    }
}

/// Most first; what is less than a hundredth is left out.
fn attribution(causes: impl Iterator<Item = (Cause, u64)>) -> Vec<SliceBlame> {
    let mut attribution: Vec<SliceBlame> = causes.map(|(class, ns)| SliceBlame { class, ns }).collect();
    let total: u64 = attribution.iter().map(|part| part.ns).sum();
    attribution.retain(|part| part.ns > 0 && part.ns * 100 >= total);
    attribution.sort_by(|a, b| b.ns.cmp(&a.ns).then(a.class.cmp(&b.class)));
    attribution
}

/// What people call processes and threads.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) processes: HashMap<u32, String>,
    pub(super) threads: HashMap<(u32, u32), String>,
}

impl Names {
    fn of(&self, key: &Key) -> String {
        let pid = key.pid.unwrap_or(0);
        let process = self.processes.get(&pid).map_or("process", String::as_str);
        let thread = key.tid.map(|tid| {
            let name = self.threads.get(&(pid, tid)).map_or(process, String::as_str);
            format!("{name}[{tid}]")
        });
        match key.kind {
            TrackKind::Annotation => "annotations".into(),
            TrackKind::Process => format!("{process}[{pid}]"),
            TrackKind::Thread => thread.unwrap_or_default(),
            TrackKind::Waits => format!("waits of {}", thread.unwrap_or_default()),
            TrackKind::Stream => {
                let stream = key.stream.as_deref().unwrap_or("default");
                format!("stream {stream} of {process}[{pid}]")
            }
            TrackKind::Rank => match key.rank {
                Some(rank) => format!("rank {rank}, {process}[{pid}]"),
                None => format!("collectives of {process}[{pid}]"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(start_ns: u64, length_ns: u64, name: &str) -> Happened<'_> {
        Happened {
            start_ns,
            length_ns,
            name,
            count: 1,
            busy_ns: length_ns,
            longest_ns: length_ns,
            ..Happened::default()
        }
    }

    #[test]
    fn short_calls_are_summed_up_and_long_ones_stand_for_themselves() {
        let mut thinner = Thinner::new(Span { start_ns: 1000, end_ns: 2000 }, 10);
        let key = Key::new(TrackKind::Thread, 7);
        for (start, length, name) in [(1000, 5, "a"), (1010, 60, "b"), (1099, 3, "a"), (1200, 500, "c")] {
            thinner.add(key.clone(), &call(start, length, name));
        }
        let tracks = thinner.tracks(&Names::default());
        let slices: Vec<(u64, u64, &str, u64, u64, u64)> = tracks[0]
            .slices
            .iter()
            .map(|slice| {
                (
                    slice.start_ns,
                    slice.end_ns,
                    slice.name.as_str(),
                    slice.count,
                    slice.busy_ns,
                    slice.longest_ns,
                )
            })
            .collect();
        assert_eq!(slices, [(1000, 1102, "b", 3, 68, 60), (1200, 1700, "c", 1, 500, 500)]);
    }

    #[test]
    fn there_are_never_more_slices_than_steps_and_long_calls() {
        let mut thinner = Thinner::new(Span { start_ns: 0, end_ns: 1_000_000 }, 50);
        for start in 0..100_000 {
            thinner.add(Key::new(TrackKind::Thread, 7), &call(start * 10, 9, "x"));
        }
        let tracks = thinner.tracks(&Names::default());
        assert_eq!(tracks[0].slices.len(), 50);
        assert_eq!(tracks[0].slices.iter().map(|slice| slice.count).sum::<u64>(), 100_000);
    }
}
