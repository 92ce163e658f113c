//! Where in their programs followed threads are between GPU calls, and blocked in one, and what they do there. That changes by
//! the thousand a second, so they are sampled; a line that is sampled often is where the time goes.

use crate::stacks::stack_of;
use gpuwhy_model::{Batch, BetweenCalls, Frame, Part};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// No more often than this.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// From one look to the next it is so many times what it cost: looking takes at most 1% of a core.
const PAUSE: u32 = 100;
/// Where looking pauses for long, a thread that is met stands for no more than this.
const MAX_WEIGHT: Duration = Duration::from_secs(1);
/// Stacks read at one look. Those of threads that are in the same wait as at the last one are known.
const MAX_READS: usize = 16;

/// When to look, and what is known from the last time.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    began: Option<Instant>,
    next: Option<Instant>,
    /// With whom the next look begins, by [`Urgency`]: where there are many, everybody has a turn.
    turns: [usize; Urgency::COUNT],
    /// The moment of the last look, on the clock of the records.
    looked_ns: u64,
    /// Waits whose stacks were read, by process and thread.
    waits: HashMap<(u32, u32), KnownWait>,
}

/// A wait that lasted at the last look. A thread that waits does not move, so its stack is read once.
#[derive(Debug, Clone, Copy)]
struct KnownWait {
    part: Part,
    since_ns: u64,
    /// Nothing where the thread runs no Python.
    stack_id: Option<i64>,
}

impl KnownWait {
    fn is_of(&self, thread: &BetweenCalls) -> bool {
        (self.part, self.since_ns) == (thread.part, thread.since_ns)
    }
}

/// Who is read first.
#[derive(Debug, Clone, Copy)]
enum Urgency {
    MakesCalls,
    /// It ran, or its wait began, since the last look.
    IsNew,
    Other,
}

impl Urgency {
    const COUNT: usize = 3;

    fn of(thread: &BetweenCalls, looked_ns: u64) -> Urgency {
        match thread.last_call_ns {
            0 if thread.since_ns >= looked_ns => Urgency::IsNew,
            0 => Urgency::Other,
            _ => Urgency::MakesCalls,
        }
    }
}

impl Looks {
    /// How long it is until the next one.
    pub(crate) fn pause(&self, now: Instant) -> Duration {
        self.next.map_or(Duration::ZERO, |next| next.saturating_duration_since(now))
    }

    /// What a thread stands for that is met now; nothing where it is too early to look.
    pub(crate) fn due(&mut self, now: Instant) -> Option<Duration> {
        if !self.pause(now).is_zero() {
            return None;
        }
        let since = self.began.map_or(LOOK_EVERY, |began| now - began);
        self.began = Some(now);
        Some(since.min(MAX_WEIGHT))
    }

    /// `cost` is the time of a CPU: a look that waits for one takes nothing from others.
    pub(crate) fn done(&mut self, cost: Duration) {
        self.next = self.began.map(|began| began + (cost * PAUSE).max(LOOK_EVERY));
    }

    /// Adds threads that are in the same wait as at the last look; gives the others, the most urgent first.
    fn reuse(
        &mut self,
        batch: &mut Batch,
        threads: Vec<BetweenCalls>,
        weight_ns: u64,
    ) -> [Vec<BetweenCalls>; Urgency::COUNT] {
        let mut known = std::mem::take(&mut self.waits);
        let mut unread: [Vec<BetweenCalls>; Urgency::COUNT] = Default::default();
        let looked_ns = threads.first().map_or(self.looked_ns, |thread| thread.time_ns);
        for mut thread in threads {
            let key = (thread.pid, thread.tid);
            match known.remove(&key).filter(|wait| wait.is_of(&thread)) {
                Some(wait) => {
                    self.waits.insert(key, wait);
                    if wait.stack_id.is_some() {
                        (thread.stack_id, thread.weight_ns) = (wait.stack_id, weight_ns);
                        batch.between_calls.push(thread);
                    }
                }
                None => unread[Urgency::of(&thread, self.looked_ns) as usize].push(thread),
            }
        }
        self.looked_ns = looked_ns;
        unread
    }

    fn remember(&mut self, thread: &BetweenCalls, stack_id: Option<i64>) {
        if thread.part != Part::OnCpu {
            let wait = KnownWait { part: thread.part, since_ns: thread.since_ns, stack_id };
            self.waits.insert((thread.pid, thread.tid), wait);
        }
    }
}

/// Adds samples of followed threads, with their Python frames, which `read` gives for each, nothing where they cannot be
/// read. `look` lists the threads: a thread that is still in the same wait after
/// its frames were read has stood at that line all the time. One that runs is believed if it is in the same function when it is
/// read again.
pub(crate) fn see(
    batch: &mut Batch,
    looks: &mut Looks,
    weight: Duration,
    read: impl Fn(&[BetweenCalls]) -> Vec<Option<Vec<Frame>>>,
    look: impl Fn() -> Vec<BetweenCalls>,
) {
    let weight_ns = weight.as_nanos() as u64;
    let unread = looks.reuse(batch, look(), weight_ns);
    let mut seen: Vec<(BetweenCalls, Vec<Frame>)> = Vec::new();
    for (turn, mut threads) in looks.turns.iter_mut().zip(unread) {
        let (count, before) = (threads.len(), seen.len());
        threads.rotate_left(*turn % count.max(1));
        let mut visited = 0_usize;
        while seen.len() < MAX_READS && !threads.is_empty() {
            let later = threads.split_off(threads.len().min(MAX_READS - seen.len()));
            let now = std::mem::replace(&mut threads, later);
            visited += now.len();
            let frames = read(&now);
            seen.extend(now.into_iter().zip(frames).filter_map(|(thread, frames)| Some((thread, frames?))));
        }
        *turn = turn.wrapping_add(visited);
        // Those that were looked at stand for the others that are as urgent.
        for (thread, _) in seen.iter_mut().skip(before) {
            thread.weight_ns = weight_ns * count as u64 / visited.max(1) as u64;
        }
    }
    seen.retain(|(thread, frames)| {
        if frames.is_empty() {
            looks.remember(thread, None);
        }
        !frames.is_empty()
    });
    if seen.is_empty() {
        return;
    }
    let again: HashMap<(u32, u32), BetweenCalls> =
        look().into_iter().map(|seen| ((seen.pid, seen.tid), seen)).collect();
    let again = |seen: &BetweenCalls| again.get(&(seen.pid, seen.tid));
    let may_have_moved = |seen: &BetweenCalls, now: &BetweenCalls| match seen.part {
        Part::OnCpu => true,
        part => part == now.part && seen.since_ns != now.since_ns,
    };
    let moved: Vec<BetweenCalls> = seen
        .iter()
        .filter_map(|(seen, _)| again(seen).filter(|now| may_have_moved(seen, now)).cloned())
        .collect();
    let mut read_again = read(&moved).into_iter();
    for (mut seen, frames) in seen {
        let Some(now) = again(&seen) else { continue };
        let is_there_still = if may_have_moved(&seen, now) {
            let frames_now = read_again.next().flatten();
            frames_now.is_some_and(|now| match seen.part {
                Part::OnCpu => is_same_function(&frames, &now),
                // One that sleeps again and again for less than a look takes is where it was if it is there again.
                _ => is_same_line(&frames, &now),
            })
        } else {
            seen.part == now.part
        };
        if let (true, Some(stack)) = (is_there_still, stack_of(seen.pid, frames)) {
            seen.stack_id = Some(stack.stack_id);
            looks.remember(&seen, seen.stack_id);
            batch.stacks.push(stack);
            batch.between_calls.push(seen);
        }
    }
}

fn is_same_line(one: &[Frame], other: &[Frame]) -> bool {
    is_same_function(one, other)
        && one.first().map(|frame| frame.line) == other.first().map(|frame| frame.line)
}

fn is_same_function(one: &[Frame], other: &[Frame]) -> bool {
    let function =
        |frames: &[Frame]| frames.first().map(|frame| (frame.file.clone(), frame.function.clone()));
    function(one) == function(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_model::{FrameKind, OpId, Reason};
    use std::cell::Cell;

    const SLEEP: Part = Part::Blocked(Reason::Sleep);

    fn seen(tid: u32, part: Part, since_ns: u64) -> BetweenCalls {
        BetweenCalls {
            time_ns: 10_000_000,
            pid: 7,
            tid,
            since_ns,
            part,
            last_call_ns: 1,
            op: OpId::NONE,
            weight_ns: 0,
            stack_id: None,
            thread_pointer: 0,
        }
    }

    fn frame(function: &str, line: u32) -> Frame {
        Frame {
            kind: FrameKind::Python,
            function: Some(function.into()),
            line: Some(line),
            ..Frame::default()
        }
    }

    fn each(
        read: impl Fn(&BetweenCalls) -> Option<Vec<Frame>>,
    ) -> impl Fn(&[BetweenCalls]) -> Vec<Option<Vec<Frame>>> {
        move |threads| threads.iter().map(&read).collect()
    }

    #[test]
    fn only_a_thread_that_is_there_still_is_believed() {
        let looks = Cell::new(0);
        let look = || {
            looks.set(looks.get() + 1);
            // The second one waits elsewhere by then, the third runs.
            match looks.get() {
                1 => vec![seen(1, SLEEP, 5), seen(2, SLEEP, 5), seen(3, Part::Runnable, 9)],
                _ => vec![seen(1, SLEEP, 5), seen(2, SLEEP, 6), seen(3, Part::OnCpu, 9)],
            }
        };
        let mut batch = Batch::default();
        let read = |seen: &BetweenCalls| {
            Some(vec![frame("load", if seen.tid == 2 { seen.since_ns as u32 } else { 3 })])
        };
        see(&mut batch, &mut Looks::default(), Duration::from_millis(50), each(read), look);
        assert_eq!(batch.between_calls.iter().map(|seen| seen.tid).collect::<Vec<_>>(), [1]);
        assert_eq!(batch.between_calls[0].stack_id, Some(batch.stacks[0].stack_id));
        assert_eq!(batch.between_calls[0].weight_ns, 50_000_000);
    }

    #[test]
    fn one_that_polls_with_short_sleeps_is_where_it_is_again() {
        let time = Cell::new(0);
        let look = || {
            time.set(time.get() + 7);
            vec![seen(1, SLEEP, time.get())]
        };
        let mut batch = Batch::default();
        let read = |_: &BetweenCalls| Some(vec![frame("poll", 3)]);
        see(&mut batch, &mut Looks::default(), Duration::from_millis(50), each(read), look);
        assert_eq!(batch.between_calls.len(), 1);
    }

    #[test]
    fn one_that_runs_may_go_on_to_another_line_but_not_to_another_function() {
        let reads = Cell::new(0);
        let read = |seen: &BetweenCalls| {
            reads.set(reads.get() + 1);
            let function = if seen.tid == 2 && reads.get() > 2 { "forward" } else { "augment" };
            Some(vec![frame(function, reads.get())])
        };
        let look = || vec![seen(1, Part::OnCpu, 1), seen(2, Part::OnCpu, 1)];
        let mut batch = Batch::default();
        see(&mut batch, &mut Looks::default(), Duration::from_millis(50), each(read), look);
        assert_eq!(batch.between_calls.iter().map(|seen| seen.tid).collect::<Vec<_>>(), [1]);
        assert_eq!(batch.stacks[0].frames[0].line, Some(1), "where it was when it was met");
    }

    #[test]
    fn looking_takes_a_hundredth_of_the_time_at_most() {
        let begin = Instant::now();
        let at = |ms: u64| begin + Duration::from_millis(ms);
        let mut looks = Looks::default();
        assert_eq!(looks.due(at(0)), Some(LOOK_EVERY));
        looks.done(Duration::ZERO);
        assert_eq!(looks.due(at(24)), None);
        assert_eq!(looks.pause(at(20)), Duration::from_millis(5));
        assert_eq!(looks.due(at(60)), Some(Duration::from_millis(60)), "the time since the last look");
        looks.done(Duration::from_millis(3));
        assert_eq!(looks.due(at(359)), None);
        assert_eq!(looks.due(at(360)), Some(Duration::from_millis(300)));
    }

    #[test]
    fn of_many_everybody_has_a_turn_and_stands_for_those_that_had_none() {
        let many = 3 * MAX_READS as u32 + 1;
        let mut looks = Looks::default();
        let mut batch = Batch::default();
        for turn in 0..8 {
            // They wait anew each time, so that nothing is known of them.
            let look = || (0..many).map(|tid| seen(tid, SLEEP, 5 + turn)).collect();
            let read = |_: &BetweenCalls| Some(vec![frame("load", 3)]);
            see(&mut batch, &mut looks, Duration::from_millis(16), each(read), look);
        }
        let mut tids: Vec<u32> = batch.between_calls.iter().map(|seen| seen.tid).collect();
        assert_eq!(tids.len(), 8 * MAX_READS);
        tids.sort_unstable();
        tids.dedup();
        assert_eq!(tids.len(), many as usize);
        assert_eq!(batch.between_calls[0].weight_ns, u64::from(many) * 1_000_000);
    }

    #[test]
    fn a_wait_that_goes_on_is_read_once() {
        let (mut looks, mut batch) = (Looks::default(), Batch::default());
        let reads = Cell::new(0);
        let read = |thread: &BetweenCalls| {
            reads.set(reads.get() + 1);
            // The second runs no Python.
            Some(if thread.tid == 1 { vec![frame("recv", 3)] } else { Vec::new() })
        };
        let mut sample = |since_ns| {
            let look = || vec![seen(1, SLEEP, since_ns), seen(2, SLEEP, 5)];
            see(&mut batch, &mut looks, Duration::from_millis(16), each(read), look);
        };
        (0..3).for_each(|_| sample(5));
        assert_eq!(reads.get(), 2);
        sample(6);
        assert_eq!(reads.get(), 3, "another wait is read anew");
        let expected = batch.stacks[0].stack_id;
        assert!(batch.between_calls.iter().all(|seen| seen.tid == 1 && seen.stack_id == Some(expected)));
        assert!(batch.between_calls.iter().all(|seen| seen.weight_ns == 16_000_000));
        assert_eq!((batch.between_calls.len(), batch.stacks.len()), (4, 2));
    }

    #[test]
    fn threads_that_make_calls_are_read_first_then_those_that_moved() {
        let (mut looks, mut batch) = (Looks { looked_ns: 100, ..Looks::default() }, Batch::default());
        let others = 2 * MAX_READS as u32;
        let look = || {
            let idle = |tid| BetweenCalls { last_call_ns: 0, ..seen(tid, SLEEP, 50) };
            let moved = BetweenCalls { last_call_ns: 0, ..seen(others, SLEEP, 200) };
            (0..others).map(idle).chain([moved, seen(others + 1, SLEEP, 50)]).collect()
        };
        let read = |_: &BetweenCalls| Some(vec![frame("wait", 3)]);
        see(&mut batch, &mut looks, Duration::from_millis(16), each(read), look);
        let first: Vec<(u32, u64)> =
            batch.between_calls.iter().map(|seen| (seen.tid, seen.weight_ns)).take(2).collect();
        assert_eq!(first, [(others + 1, 16_000_000), (others, 16_000_000)]);
        assert_eq!(batch.between_calls.len(), MAX_READS);
    }
}
