//! What the data of an Ingero file cannot support, a sentence each; what matters most comes first.

use super::kinds::{SCHED_SWITCH, TCP};
use super::shape::Shape;

/// The newest version whose columns are known here.
const KNOWN: (u32, u32) = (0, 10);

pub(super) fn of(shape: &Shape) -> Vec<String> {
    let has_scheduler = shape.has_kind(SCHED_SWITCH);
    let mut notes = vec![
        "stored rows are a biased sample: all calls of a session's first ten seconds, then synchronisations, calls slower \
         than three times the median, and few of each stack; p50 and p99 are of stored rows, not of the run"
            .to_string(),
    ];
    let mut note = |holds: bool, words: &str| {
        if holds {
            notes.push(words.into());
        }
    };
    note(
        shape.has_sums(),
        "counts, sums, shortest and longest are Ingero's over all calls, minute by minute; errors and bytes are of stored \
         rows",
    );
    note(
        !shape.has_sums(),
        "Ingero's sums over all calls are empty: counts and sums are of stored rows, too",
    );
    note(
        has_scheduler,
        "there is no blame clock: off-CPU time is what scheduler rows inside a call's time say; they do not say whether \
         the thread waited or was kept from running, nor who ran instead",
    );
    note(
        has_scheduler,
        "scheduler rows are of main threads and of what was started while it was traced; of other threads it is not known \
         when they were off the CPU",
    );
    note(
        !has_scheduler,
        "there is no blame clock, and there are no scheduler rows: whether a thread was on the CPU in its calls is not known",
    );
    note(true, "what Ingero lost was not written down: losses are not known");
    note(
        shape.kinds.iter().any(|(source, _)| matches!(source, 3 | 5 | 7)),
        "scheduler, disk and socket rows have the time of their end; starts are computed from it",
    );
    note(
        shape.has_kind((1, 3)) && shape.has_kind((4, 1)),
        "a launch through the runtime is there twice, as cudaLaunchKernel and as the cuLaunchKernel within it; the two do \
         not add up",
    );
    note(
        true,
        "there are no collectives, streams, kernel names, GPU counters or device memory in it; ranks are those that processes \
         were started with",
    );
    note(
        shape.has_stacks,
        "Python frames have no line: the number in the file is where the function begins; native names are as linked",
    );
    note(
        shape.has_chains,
        "its causal_chains are no findings here: they tell what happened in the same seconds, not what was the cause",
    );
    note(
        shape.kinds.iter().any(|(source, _)| *source == TCP),
        "retransmits do not say whose they are: Ingero stored who happened to run then",
    );
    note(
        shape.is_merged,
        "it holds several nodes, but process names go by pid alone: a name may be another node's",
    );
    note(
        !shape.has("events", "cgroup_id"),
        "it is older than Ingero's cgroup column: nothing tells containers apart",
    );
    let unknown: Vec<String> =
        shape.unknown().iter().map(|(source, op)| format!("source {source} op {op}")).collect();
    note(
        !unknown.is_empty(),
        &format!("rows of kinds that are not known here are only in main.events: {}", unknown.join(", ")),
    );
    note(
        version(&shape.schema).is_some_and(|version| version > KNOWN),
        &format!(
            "its schema {} is newer than those known here (up to {}.{}): what is new in it is left out",
            shape.schema, KNOWN.0, KNOWN.1
        ),
    );
    notes
}

fn version(schema: &str) -> Option<(u32, u32)> {
    let (major, minor) = schema.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}
