//! What waits to be sent, in memory or on disk.

use super::queue::{Outgoing, Queue};
use super::spool::Spool;
use crate::otlp::Request;

#[derive(Debug)]
pub(super) enum Line {
    Memory(Queue),
    Disk(Spool),
}

impl Line {
    pub(super) fn put(&self, request: &Request) {
        match self {
            Line::Memory(queue) => queue.put(request),
            Line::Disk(spool) => spool.put(request),
        }
    }

    /// No more will come.
    pub(super) fn close(&self) {
        match self {
            Line::Memory(queue) => queue.close(),
            Line::Disk(spool) => spool.close(),
        }
    }

    /// The oldest, once there is one; nothing when it is closed and empty.
    pub(super) async fn next(&self) -> Option<Outgoing> {
        match self {
            Line::Memory(queue) => queue.next().await,
            Line::Disk(spool) => spool.next().await,
        }
    }

    /// It was taken or refused.
    pub(super) fn done(&self, outgoing: &Outgoing) {
        if let Line::Disk(spool) = self {
            spool.done(outgoing.number);
        }
    }

    /// Time is over. What is on disk stays there for the next agent.
    pub(super) fn leave(&self, outgoing: &Outgoing) {
        if let Line::Memory(queue) = self {
            queue.give_up_one(outgoing);
        }
    }

    /// All that still waits in memory is given up.
    pub(super) fn give_up(&self) {
        if let Line::Memory(queue) = self {
            queue.give_up();
        }
    }
}
