//! Ranks of communicators that no call told: those split off another, and those older than the trace. The library has
//! them in its own struct.

use gpuwhy_model::{InFlight, NcclCall};
use gpuwhy_probes::{CommunicatorLayout, Engine, word_at};
use std::collections::HashMap;

/// More ranks than any job has: then it was not the number of ranks.
const MAX_RANKS: i32 = 1 << 22;
/// Communicators remembered; beyond it all are forgotten and read anew.
const MAX: usize = 65_536;

#[derive(Debug, Default)]
pub(crate) struct Communicators {
    /// By library number; nothing where it could not be read off the code, or did not fit.
    layouts: HashMap<u16, Option<CommunicatorLayout>>,
    /// Rank and number of ranks, by the kernel's number.
    ranks: HashMap<u64, (i32, i32)>,
    /// Whether one was met that was made unseen, and whether that was told.
    has_unseen: bool,
    is_reported: bool,
}

impl Communicators {
    /// Fills in the ranks that calls lack, and checks what is read against those that calls have.
    pub(crate) fn complete(&mut self, calls: &mut [NcclCall], engine: &Engine) {
        if self.ranks.len() > MAX {
            self.ranks.clear();
        }
        for call in calls.iter_mut().filter(|call| call.communicator != 0) {
            self.has_unseen |= call.comm_id_hash.is_none();
            let library = call.call.library;
            let layout = self.layouts.entry(library).or_insert_with(|| engine.communicator_layout(library));
            match call.rank.zip(call.nranks) {
                Some(reported) if self.ranks.insert(call.communicator, reported).is_none() => {
                    let read = layout.and_then(|layout| ranks_at(call, layout));
                    if read.is_some_and(|read| read != reported) {
                        *layout = None;
                    }
                }
                Some(_) => {}
                None => {
                    let read = || ranks_at(call, (*layout)?);
                    if let Some(ranks) = self.ranks.get(&call.communicator).copied().or_else(read) {
                        self.ranks.insert(call.communicator, ranks);
                        (call.rank, call.nranks) = (Some(ranks.0), Some(ranks.1));
                    }
                }
            }
        }
    }

    /// True once, when a communicator was met that was made unseen.
    pub(crate) fn has_news(&mut self) -> bool {
        self.has_unseen && !std::mem::replace(&mut self.is_reported, self.has_unseen)
    }

    /// The same for calls that have not returned.
    pub(crate) fn complete_in_flight(&self, calls: &mut [InFlight]) {
        for call in calls.iter_mut().filter(|call| call.rank.is_none()) {
            if let Some((rank, nranks)) = self.ranks.get(&call.communicator) {
                (call.rank, call.nranks) = (Some(*rank), Some(*nranks));
            }
        }
    }
}

fn ranks_at(call: &NcclCall, layout: CommunicatorLayout) -> Option<(i32, i32)> {
    let field = |offset: u32| {
        let address = call.call.handle.checked_add(offset.into())?;
        word_at(call.call.pid, address).map(|word| word as i32)
    };
    let (rank, nranks) = (field(layout.rank)?, field(layout.nranks)?);
    (rank >= 0 && rank < nranks && nranks < MAX_RANKS).then_some((rank, nranks))
}
