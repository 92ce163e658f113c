//! Communicators whose rank the kernel could not tell: those split from another learn theirs later.

use crate::collectives::went_well;
use crate::table::Table;
use gpuwhy_model::{InFlight, NcclCall};

const MAX_COMMUNICATORS: usize = 16_384;

#[derive(Debug)]
pub(crate) struct Communicators {
    known: Table<u64, Communicator>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Communicator {
    pid: u32,
    handle: u64,
    first_ns: u64,
    rank: Option<i32>,
    nranks: Option<i32>,
    destroyed: bool,
}

impl Communicators {
    pub(crate) fn new() -> Self {
        Communicators { known: Table::new(MAX_COMMUNICATORS) }
    }

    /// Rank and number of ranks: the kernel's, or what was learned.
    pub(crate) fn ranks_of(&self, nccl: &NcclCall) -> (Option<i32>, Option<i32>) {
        self.ranks(nccl.communicator, nccl.rank, nccl.nranks)
    }

    pub(crate) fn ranks_in_flight(&self, call: &InFlight) -> (Option<i32>, Option<i32>) {
        self.ranks(call.communicator, call.rank, call.nranks)
    }

    pub(crate) fn seen(&mut self, nccl: &NcclCall, event: &str) {
        let call = &nccl.call;
        if nccl.communicator == 0 || call.handle == 0 || !went_well(call.ret) {
            return;
        }
        let known = self.known.get_or_insert_with(nccl.communicator, Communicator::default);
        if known.handle == 0 {
            (known.pid, known.handle, known.first_ns) = (call.pid, call.handle, call.start_ns);
        }
        known.rank = known.rank.or(nccl.rank);
        known.nranks = known.nranks.or(nccl.nranks);
        known.destroyed |= matches!(event, "COMM_DESTROY" | "COMM_ABORT");
    }

    pub(crate) fn learn(&mut self, communicator: u64, rank: i32, nranks: i32) {
        let known = self.known.get_or_insert_with(communicator, Communicator::default);
        known.rank = Some(rank);
        known.nranks = Some(nranks);
    }

    /// Number, process and handle of those whose rank nobody has told.
    pub(crate) fn unknown(&self) -> Vec<(u64, u32, u64)> {
        let unknown = |known: &Communicator| {
            !known.destroyed && known.handle != 0 && (known.rank.is_none() || known.nranks.is_none())
        };
        let with_number = |(number, known): (&u64, &Communicator)| {
            unknown(known).then_some((*number, known.pid, known.handle))
        };
        self.known.iter().filter_map(with_number).collect()
    }

    pub(crate) fn process_ended(&mut self, pid: u32, at_ns: u64) {
        self.known.retain(|_, known| known.pid != pid || known.first_ns > at_ns);
    }

    fn ranks(&self, number: u64, rank: Option<i32>, nranks: Option<i32>) -> (Option<i32>, Option<i32>) {
        let known = self.known.get(&number).copied().filter(|_| number != 0).unwrap_or_default();
        (rank.or(known.rank), nranks.or(known.nranks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{PID, nccl};

    #[test]
    fn ranks_are_learned() {
        let mut communicators = Communicators::new();
        let split = NcclCall { communicator: 5, rank: None, nranks: None, ..nccl("ncclAllReduce", 9) };
        communicators.seen(&split, "ALL_REDUCE");
        communicators.seen(&nccl("ncclAllReduce", 9), "ALL_REDUCE");
        assert_eq!(communicators.unknown(), [(5, PID, 0xc0)]);
        assert_eq!(communicators.ranks_of(&split), (None, None));
        communicators.learn(5, 3, 8);
        assert!(communicators.unknown().is_empty());
        assert_eq!(communicators.ranks_of(&split), (Some(3), Some(8)));
        assert_eq!(communicators.ranks_of(&NcclCall { rank: Some(1), ..split }), (Some(1), Some(8)));
    }

    #[test]
    fn nobody_asks_for_what_is_gone() {
        let mut communicators = Communicators::new();
        let number =
            |communicator| NcclCall { communicator, rank: None, ..nccl("ncclCommSplit", 100 * communicator) };
        for communicator in [0, 1, 2, 3] {
            communicators.seen(&number(communicator.max(1)), "COMM_SPLIT");
        }
        communicators.seen(&number(1), "COMM_DESTROY");
        communicators.process_ended(PID, 250);
        assert_eq!(communicators.unknown(), [(3, PID, 0xc0)]);
    }
}
