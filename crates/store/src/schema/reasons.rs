//! The columns that split the blocked part of a call by reason: what the model's reasons are called, and what they mean.

use super::{Column, int};
use gpuwhy_model::Reason;

/// Those that the first files had.
pub(super) const FIRST: [Column; Reason::Other as usize + 1] = columns(0);
/// Those that were added since: they are the last of their tables, as all that is new, and a new reason joins them.
pub(super) const LATER: [Column; Reason::COUNT - FIRST.len()] = columns(FIRST.len());

const fn columns<const N: usize>(from: usize) -> [Column; N] {
    let mut columns = [column(Reason::ALL[from]); N];
    let mut at = 0;
    while at < N {
        columns[at] = column(Reason::ALL[from + at]);
        at += 1;
    }
    columns
}

const fn column(reason: Reason) -> Column {
    let about = match reason {
        Reason::Futex => "blocked on a lock",
        Reason::BlockIo => "blocked on a disk",
        Reason::File => "blocked reading or writing a file, pipe or device",
        Reason::Socket => "blocked on a socket",
        Reason::Poll => "blocked in poll, select or epoll",
        Reason::Ioctl => "blocked in a driver's ioctl",
        Reason::Fault => "in page faults, waiting or being served",
        Reason::Sleep => "asleep by its own wish",
        Reason::Other => "blocked for another reason",
        Reason::Gil => "blocked on Python's global interpreter lock",
        Reason::Reclaim => "the kernel freed or compacted memory in its time",
        Reason::Throttled => "runnable, but the cgroup's CPU quota was used up; no part of `runq_ns`",
        Reason::Interrupt => "the CPU served interrupts in its time",
    };
    int(reason.column(), "ns", about)
}
