//! `timeline`: what happened when, by thread, stream and rank, thinned out so that an answer has a size of its own,
//! whatever the trace's.

mod marks;
mod thin;
mod tracks;

use crate::QueryError;
use crate::since::{nothing, selection, span};
use gpuwhy_model::{Cause, Coverage, Severity};
use gpuwhy_store::Reader;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thin::Thinner;

const SLICES: usize = 200;
const MAX_SLICES: usize = 2_000;
const TRACKS: usize = 40;
const MAX_TRACKS: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TimelineRequest {
    /// Only this process.
    pub pid: Option<u32>,
    /// Only the last so long, as `90s` or `5m`, back from the newest event.
    pub since: Option<String>,
    /// From this time on, unix time in nanoseconds.
    pub from_ns: Option<u64>,
    /// Until this time, unix time in nanoseconds.
    pub to_ns: Option<u64>,
    /// The time is divided into so many steps (200); a track has a slice for each step in which something happened, and one for
    /// each call that is longer than a step.
    pub slices: Option<usize>,
    /// At most so many tracks (40), those with most time.
    pub tracks: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Timeline {
    /// The time that is shown, unix time in nanoseconds.
    pub start_ns: u64,
    pub end_ns: u64,
    /// What is shorter than this is summed up in one slice a step.
    pub step_ns: u64,
    /// There are more kept calls in this time than were read: those of threads are a sample, sums of processes are exact.
    pub sampled: bool,
    pub tracks: Vec<Track>,
    pub findings: Vec<FindingMark>,
    /// There are more tracks than were asked for.
    pub truncated: bool,
    pub coverage: Coverage,
}

/// What the slices of a track are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TrackKind {
    /// Steps, epochs and requests that somebody marked.
    Annotation,
    /// All calls of a process, from exact sums over windows of half a second.
    Process,
    /// Kept calls of a thread.
    Thread,
    /// Waits of a thread of a millisecond and more.
    Waits,
    /// The time in which a stream had work.
    Stream,
    /// Collectives of a rank.
    Rank,
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Track {
    pub kind: TrackKind,
    pub name: String,
    pub pid: Option<u32>,
    pub tid: Option<u32>,
    pub rank: Option<i32>,
    /// The stream's handle; null for the default stream.
    pub stream: Option<String>,
    /// In order of time.
    pub slices: Vec<Slice>,
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Slice {
    pub start_ns: u64,
    pub end_ns: u64,
    /// The operation, or the one with most time where several are summed up.
    pub name: String,
    /// How many calls, waits or pieces of work it is.
    pub count: u64,
    /// Their durations, summed; of a stream: it was busy at least so long.
    pub busy_ns: u64,
    /// The longest of them; of a stream: it was busy at most so long.
    pub longest_ns: u64,
    /// How many of them failed.
    #[serde(skip_serializing_if = "is_zero")]
    pub errors: u64,
    /// Where their time went, most first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blame: Vec<SliceBlame>,
    /// The stack of the longest of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack_id: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SliceBlame {
    pub class: Cause,
    pub ns: u64,
}

/// A finding and when it was.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FindingMark {
    pub id: String,
    pub severity: Severity,
    pub title: String,
    pub op: Option<String>,
    pub pid: Option<u32>,
    pub start_ns: u64,
    pub end_ns: u64,
    /// The largest of its causes.
    pub class: Option<Cause>,
    /// How the program is built, where that is all there is to it.
    pub by_design: Option<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Annotations and processes first, then threads, their waits, streams and ranks; of each kind those with most time.
pub fn timeline(reader: &Reader, request: &TimelineRequest) -> Result<Timeline, QueryError> {
    let span = span(reader, request.since.as_deref(), request.from_ns, request.to_ns)?;
    let slices = request.slices.unwrap_or(SLICES).clamp(1, MAX_SLICES) as u64;
    let mut thinner = Thinner::new(span, slices);
    let all = tracks::read(reader, request.pid, &mut thinner)?;
    let step_ns = thinner.step_ns();
    let mut tracks = thinner.tracks(&tracks::names(reader)?);
    if tracks.is_empty() {
        let selection = selection(None, request.pid, request.since.as_deref());
        return Err(nothing(reader, "events in that time", &selection)?);
    }
    let most = request.tracks.unwrap_or(TRACKS).clamp(1, MAX_TRACKS);
    let truncated = tracks.len() > most;
    tracks.truncate(most);
    Ok(Timeline {
        start_ns: span.start_ns,
        end_ns: span.end_ns,
        step_ns,
        sampled: !all,
        tracks,
        findings: marks::read(reader, request.pid, span, all)?,
        truncated,
        coverage: reader.coverage(Some(span.start_ns))?,
    })
}
