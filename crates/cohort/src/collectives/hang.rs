//! Who is missing. A rank that others wait for may itself wait in another communicator: the one that waits in none is it.

use super::autopsy::{Autopsy, HangKind, Suspect, Waiter};
use super::communicator::Communicator;
use super::joiner::Joiner;
use gpuwhy_model::is_of_library;
use std::collections::{BTreeMap, BTreeSet};

/// What a rank that has not been heard of for so long said last is not believed any more.
const FORGOTTEN_NS: u64 = 60_000_000_000;
/// An agent pushes every second or two.
const SILENT_NS: u64 = 5_000_000_000;
/// Collectives that agreed, after which ranks are known to be numbered alike. An agent that came late may count from its own start.
const AGREED: u64 = 3;

/// A communicator in which ranks wait.
struct Stuck<'a> {
    name: &'a str,
    comm: &'a Communicator,
    seq: u64,
    since_ns: u64,
    /// In the communicator.
    waiting: Vec<u32>,
    missing: Vec<u32>,
    unobserved: Vec<u32>,
}

pub(super) fn autopsies(
    joiner: &Joiner,
    cluster: &str,
    job: &str,
    now_ns: u64,
    after_ns: u64,
) -> Vec<Autopsy> {
    let stuck: Vec<Stuck<'_>> =
        joiner.comms.iter().filter_map(|(name, comm)| stuck(name, comm, now_ns, after_ns)).collect();
    // By rank in the job: those that wait anywhere.
    let waits: BTreeSet<u32> = stuck.iter().flat_map(|stuck| ranks(stuck.comm, &stuck.waiting)).collect();
    let mut autopsies: Vec<Autopsy> =
        stuck.iter().map(|stuck| autopsy(joiner, stuck, &waits, (cluster, job, now_ns))).collect();
    // Whoever is the cause is told of once, where it is missing and waits nowhere; the others follow from it.
    let roots = autopsies.iter().filter(|autopsy| autopsy.kind != HangKind::Deadlock).count();
    if roots > 0 {
        autopsies.retain(|autopsy| autopsy.kind != HangKind::Deadlock);
    }
    autopsies.sort_by_key(|autopsy| (autopsy.since_ns, autopsy.comm.clone()));
    autopsies
}

fn ranks<'a>(comm: &'a Communicator, seats: &'a [u32]) -> impl Iterator<Item = u32> + 'a {
    seats.iter().filter_map(|seat| comm.seats.get(seat)).map(|seat| seat.rank)
}

fn stuck<'a>(name: &'a str, comm: &'a Communicator, now_ns: u64, after_ns: u64) -> Option<Stuck<'a>> {
    let mut oldest: Option<(u64, u64)> = None;
    let mut running: BTreeMap<u32, u64> = BTreeMap::new();
    for (seat, state) in &comm.seats {
        let Some((seq, call)) = state.oldest_running() else { continue };
        if now_ns.saturating_sub(state.seen_ns) > FORGOTTEN_NS {
            continue;
        }
        running.insert(*seat, seq);
        if now_ns.saturating_sub(call.since_seen_ns) >= after_ns
            && oldest.is_none_or(|(known, _)| seq < known)
        {
            oldest = Some((seq, call.since_seen_ns));
        }
    }
    let (seq, since_ns) = oldest?;
    let waiting: Vec<u32> = running.iter().filter(|(_, at)| **at == seq).map(|(seat, _)| *seat).collect();
    // Whoever went beyond it has been there, though its record was lost.
    if comm.seats.values().any(|seat| seat.last_seq > seq && seat.running.is_empty()) {
        return None;
    }
    let missing = comm.seats.iter().filter(|(_, seat)| seat.last_seq < seq).map(|(rank, _)| *rank).collect();
    /// Of a communicator whose size nobody checked, at most so many are listed.
    const LISTED: u32 = 4096;
    let unobserved = (0..comm.nranks.min(LISTED)).filter(|rank| !comm.seats.contains_key(rank)).collect();
    Some(Stuck { name, comm, seq, since_ns, waiting, missing, unobserved })
}

/// What each rank calls at this collective, as far as it is known.
fn shapes(stuck: &Stuck<'_>) -> BTreeMap<u32, u32> {
    let running = stuck.comm.seats.iter().filter_map(|(rank, seat)| {
        let call = seat.running.get(&stuck.seq)?;
        Some((*rank, call.shape))
    });
    let mut shapes: BTreeMap<u32, u32> = running.collect();
    for (rank, seat) in &stuck.comm.seats {
        if seat.last_seq == stuck.seq {
            shapes.entry(*rank).or_insert(seat.last_shape);
        }
    }
    shapes
}

/// Ranks that call something else than most do, and what most call. Of two that disagree, both.
fn odd_ones(shapes: &BTreeMap<u32, u32>) -> Option<(Vec<u32>, Option<u32>)> {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    shapes.values().for_each(|shape| *counts.entry(*shape).or_default() += 1);
    if counts.len() < 2 {
        return None;
    }
    let (common, most) = counts.iter().max_by_key(|(_, count)| **count)?;
    if counts.values().filter(|count| *count == most).count() > 1 {
        return Some((shapes.keys().copied().collect(), None));
    }
    let odd = shapes.iter().filter(|(_, shape)| *shape != common).map(|(rank, _)| *rank).collect();
    Some((odd, Some(*common)))
}

fn autopsy(
    joiner: &Joiner,
    stuck: &Stuck<'_>,
    waits: &BTreeSet<u32>,
    (cluster, job, now_ns): (&str, &str, u64),
) -> Autopsy {
    let comm = stuck.comm;
    let numbered_alike = stuck.seq < AGREED || comm.joined.saturating_sub(comm.mismatched) >= AGREED;
    let odd = odd_ones(&shapes(stuck)).filter(|_| numbered_alike);
    let free: Vec<u32> = stuck
        .missing
        .iter()
        .copied()
        .filter(|seat| ranks(comm, &[*seat]).all(|rank| !waits.contains(&rank)))
        .collect();
    let (kind, culprits, expected) = match odd {
        Some((odd, common)) => (HangKind::Mismatch, odd, common),
        None if !free.is_empty() => (HangKind::Missing, free, None),
        None if !stuck.missing.is_empty() => (HangKind::Deadlock, stuck.missing.clone(), None),
        None if !stuck.unobserved.is_empty() => (HangKind::Missing, stuck.unobserved.clone(), None),
        None => (HangKind::Inside, Vec::new(), None),
    };
    let suspects: Vec<Suspect> =
        culprits.iter().map(|seat| suspect(joiner, stuck, *seat, expected, now_ns)).collect();
    let waiting: Vec<Waiter> = stuck
        .waiting
        .iter()
        .filter(|seat| kind == HangKind::Inside || !culprits.contains(seat))
        .filter_map(|rank| waiter(joiner, stuck, *rank, now_ns))
        .collect();
    let op =
        waiting.first().map(|waiter| waiter.call.clone()).unwrap_or_else(|| call(stuck, culprits.first()));
    let certain = stuck.unobserved.is_empty() && numbered_alike;
    let mut autopsy = Autopsy {
        cluster: cluster.into(),
        job: job.into(),
        kind,
        comm: stuck.name.into(),
        seq: stuck.seq,
        op,
        nranks: comm.nranks,
        since_ns: stuck.since_ns,
        culprits: suspects,
        waiting,
        unobserved: stuck.unobserved.clone(),
        certain,
        message: String::new(),
    };
    autopsy.message = message(&autopsy, now_ns);
    autopsy
}

fn call(stuck: &Stuck<'_>, seat: Option<&u32>) -> String {
    let shape = seat.and_then(|seat| shapes(stuck).get(seat).copied());
    shape.map(|shape| stuck.comm.shape_text(shape)).unwrap_or_default()
}

fn suspect(joiner: &Joiner, stuck: &Stuck<'_>, seat: u32, expected: Option<u32>, now_ns: u64) -> Suspect {
    let Some(state) = stuck.comm.seats.get(&seat) else {
        return Suspect {
            rank: seat,
            node: None,
            last_seq: None,
            last_call: None,
            expected_call: None,
            silent_ns: None,
            stack: Vec::new(),
        };
    };
    let heard = joiner.heard.get(&state.rank).copied().unwrap_or(state.seen_ns);
    Suspect {
        rank: state.rank,
        node: joiner.nodes.get(state.node as usize).cloned(),
        last_seq: Some(state.last_seq),
        last_call: Some(stuck.comm.shape_text(state.last_shape)),
        expected_call: expected.map(|shape| stuck.comm.shape_text(shape)),
        silent_ns: Some(now_ns.saturating_sub(heard)),
        stack: stack(joiner, state.rank, stuck.since_ns),
    }
}

fn waiter(joiner: &Joiner, stuck: &Stuck<'_>, seat: u32, now_ns: u64) -> Option<Waiter> {
    let state = stuck.comm.seats.get(&seat)?;
    let (_, running) = state.oldest_running()?;
    Some(Waiter {
        rank: state.rank,
        node: joiner.nodes.get(state.node as usize).cloned().unwrap_or_default(),
        waits_ns: now_ns.saturating_sub(running.since_seen_ns),
        call: stuck.comm.shape_text(running.shape),
        stack: stack(joiner, state.rank, stuck.since_ns),
    })
}

/// The program's own line of Python, else any; a native stack is told by who called the C library.
fn line_to_look_at(stack: &[String]) -> Option<&String> {
    let python = |line: &&String| {
        let number = line.split_once(' ').and_then(|(place, _)| place.rsplit_once(':'));
        number.is_some_and(|(_, number)| number.parse::<u32>().is_ok())
    };
    let own = stack.iter().filter(python).find(|line| !is_of_library(line));
    let native = || stack.iter().find(|line| !line.ends_with("(libc.so.6)"));
    own.or_else(|| stack.iter().find(python)).or_else(native).or(stack.first())
}

/// What it told since the others wait; an older stack is of another time.
fn stack(joiner: &Joiner, rank: u32, since_ns: u64) -> Vec<String> {
    const EARLIER_NS: u64 = 5_000_000_000;
    let reported =
        joiner.stacks.get(&rank).filter(|note| note.seen_ns.saturating_add(EARLIER_NS) >= since_ns);
    reported.map(|note| note.stack.clone()).unwrap_or_default()
}

fn message(autopsy: &Autopsy, now_ns: u64) -> String {
    let seconds = now_ns.saturating_sub(autopsy.since_ns) / 1_000_000_000;
    let who = names(autopsy.culprits.iter().map(|suspect| suspect.rank));
    let others = autopsy.waiting.len();
    let waiting = format!("{others} rank{} in collective {} ({})", plural(others), autopsy.seq, autopsy.op);
    let sentence = match autopsy.kind {
        HangKind::Mismatch => match autopsy.culprits.first() {
            Some(Suspect { last_call: Some(call), expected_call: Some(expected), .. }) => {
                format!(
                    "{who} called {call} as collective {} where the others called {expected}",
                    autopsy.seq
                )
            }
            _ => format!("{who} do not agree on collective {}", autopsy.seq),
        },
        HangKind::Missing => match autopsy.culprits.first() {
            Some(Suspect { last_seq: Some(last), silent_ns, .. }) => {
                let silent = silent_ns.filter(|ns| *ns > SILENT_NS).map(|ns| ns / 1_000_000_000);
                let heard =
                    silent.map(|s| format!(", and has not been heard of for {s} s")).unwrap_or_default();
                format!("{who} did not come after collective {last}{heard}: {waiting} wait for it")
            }
            _ => format!("{waiting} wait for {who}, which no agent watches"),
        },
        HangKind::Deadlock => {
            format!("{waiting} wait for {who}, waiting in another communicator: they wait for each other")
        }
        HangKind::Inside => {
            format!("all came to collective {} ({}) and none is done", autopsy.seq, autopsy.op)
        }
    };
    let place = autopsy.culprits.iter().find_map(|suspect| line_to_look_at(&suspect.stack));
    let place = place.map(|place| format!("; it is at {place}")).unwrap_or_default();
    format!("{sentence}, for {seconds} s{place}")
}

fn names(ranks: impl Iterator<Item = u32>) -> String {
    const NAMED: usize = 8;
    let ranks: Vec<u32> = ranks.collect();
    let listed: Vec<String> = ranks.iter().take(NAMED).map(ToString::to_string).collect();
    let more = if ranks.len() > NAMED { format!(" and {} more", ranks.len() - NAMED) } else { String::new() };
    format!("rank{} {}{more}", plural(ranks.len()), listed.join(", "))
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_stack_the_programs_own_line_is_looked_at() {
        let stack = [
            "clock_nanosleep (libc.so.6)",
            "/usr/lib/python3.12/threading.py:355 Condition.wait",
            "/job/train.py:104 Trainer.wait_for_checkpoint",
            "Py_RunMain (libpython3.12.so)",
        ];
        let lines = |stack: &[&str]| stack.iter().map(|line| (*line).to_string()).collect::<Vec<_>>();
        assert_eq!(line_to_look_at(&lines(&stack)).unwrap(), stack[2]);
        assert_eq!(line_to_look_at(&lines(&stack[..2])).unwrap(), stack[1]);
        assert_eq!(line_to_look_at(&lines(&stack[..1])).unwrap(), stack[0]);
        assert_eq!(line_to_look_at(&lines(&[stack[0], stack[3]])).unwrap(), stack[3]);
        assert_eq!(line_to_look_at(&[]), None);
    }
}
