//! Ranks of communicators that no call told: those split off another. The library has them in its own struct.

use gpuwhy_ledger::Ledger;
use gpuwhy_model::NcclCall;
use gpuwhy_probes::{CommunicatorLayout, Engine, word_at};
use std::collections::HashMap;

/// More ranks than any job has: then it was not the number of ranks.
const MOST_RANKS: i32 = 1 << 22;

#[derive(Debug, Default)]
pub(crate) struct Communicators {
    /// By library number; nothing where it could not be read off the code, or did not fit.
    layouts: HashMap<u16, Option<CommunicatorLayout>>,
    /// The library each process calls.
    libraries: HashMap<u32, u16>,
}

impl Communicators {
    /// Remembers who uses which library, and checks the layout against ranks that calls told.
    pub(crate) fn take(&mut self, calls: &[NcclCall], engine: &Engine) {
        for call in calls {
            let library = call.call.library;
            self.libraries.insert(call.call.pid, library);
            let layout = self.layouts.entry(library).or_insert_with(|| engine.communicator_layout(library));
            let told = call.rank.zip(call.nranks).filter(|_| call.call.ret == 0 && call.seq == Some(1));
            let read = |layout: &CommunicatorLayout| ranks_at(call.call.pid, call.call.handle, *layout);
            if let (Some(told), Some(read)) = (told, layout.as_ref().and_then(read))
                && told != read
            {
                *layout = None;
            }
        }
    }

    /// Tells the ledger the ranks it lacks.
    pub(crate) fn find(&self, ledger: &mut Ledger) {
        for (communicator, pid, handle) in ledger.unknown_communicators() {
            let layout = self.libraries.get(&pid).and_then(|library| *self.layouts.get(library)?);
            if let Some((rank, nranks)) = layout.and_then(|layout| ranks_at(pid, handle, layout)) {
                ledger.learn(communicator, rank, nranks);
            }
        }
    }

    pub(crate) fn forget(&mut self, pid: u32) {
        self.libraries.remove(&pid);
    }
}

fn ranks_at(pid: u32, communicator: u64, layout: CommunicatorLayout) -> Option<(i32, i32)> {
    let field = |offset: u32| word_at(pid, communicator.checked_add(offset.into())?).map(|word| word as i32);
    let (rank, nranks) = (field(layout.rank)?, field(layout.nranks)?);
    (rank >= 0 && rank < nranks && nranks < MOST_RANKS).then_some((rank, nranks))
}
