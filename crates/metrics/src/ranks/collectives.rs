//! Collectives that are to be told: each when it is done, or once before that where it takes long.

use gpuwhy_model::{Collective, CollectiveWait};
use std::collections::{BTreeMap, HashMap};

/// Of a process, so many wait to be done or told; beyond, the oldest is told as it is.
const MAX_PENDING: usize = 20_000;
/// A report has so many of a process at most.
const MAX_REPORTED: usize = 2_000;
/// One that is not done after this is told without its end.
const LONG_NS: u64 = 1_500_000_000;

/// A collective and, where it is known, when it was done.
#[derive(Debug, Clone)]
pub(super) struct Arrival {
    pub(super) collective: Collective,
    pub(super) done_ns: Option<u64>,
    reported: bool,
}

/// By process, then by time and thread.
#[derive(Debug, Default)]
pub(super) struct Pending(HashMap<u32, BTreeMap<(u64, u32), Arrival>>);

impl Pending {
    pub(super) fn take(&mut self, collective: &Collective) {
        // Messages have no number by which ranks could be joined, but tell who is in a pipeline with whom, and waits in it.
        let is_message = matches!(collective.event.as_str(), "SEND" | "RECV");
        if collective.comm_id_hash.is_none() || (collective.seq.is_none() && !is_message) {
            return;
        }
        let call = &collective.call;
        let of_process = self.0.entry(call.pid).or_default();
        let arrival = Arrival { collective: collective.clone(), done_ns: None, reported: false };
        of_process.insert((call.start_ns, call.tid), arrival);
        while of_process.len() > MAX_PENDING {
            of_process.pop_first();
        }
    }

    pub(super) fn complete(&mut self, wait: &CollectiveWait) {
        let of_process = self.0.get_mut(&wait.pid);
        if let Some(arrival) = of_process.and_then(|all| all.get_mut(&(wait.start_ns, wait.tid))) {
            arrival.done_ns = Some(wait.completed_ns);
        }
    }

    pub(super) fn forget(&mut self, pid: u32) {
        self.0.remove(&pid);
    }

    /// What is to be told of a process now. Of very many, every second, third, ... by their number, so that all ranks leave
    /// out the same; those that are not done are never left out.
    pub(super) fn reported(&mut self, pid: u32, now_ns: u64) -> Vec<Arrival> {
        let Some(all) = self.0.get_mut(&pid) else { return Vec::new() };
        let mut reported: Vec<Arrival> = Vec::new();
        all.retain(|_, arrival| {
            let is_long = !arrival.reported && arrival.collective.call.start_ns + LONG_NS < now_ns;
            if arrival.done_ns.is_some() || is_long {
                arrival.reported = true;
                reported.push(arrival.clone());
            }
            arrival.done_ns.is_none()
        });
        // Nobody waits for some streams: that a later one is done says that earlier ones are.
        if let Some(newest) = reported.iter().filter(|arrival| arrival.done_ns.is_some()).map(start_of).max()
        {
            all.retain(|(start_ns, _), arrival| !arrival.reported || *start_ns > newest);
        }
        let every = (reported.len() / MAX_REPORTED) as u64 + 1;
        reported
            .retain(|arrival| arrival.done_ns.is_none() || arrival.collective.seq.unwrap_or(0) % every == 0);
        reported
    }
}

fn start_of(arrival: &Arrival) -> u64 {
    arrival.collective.call.start_ns
}
