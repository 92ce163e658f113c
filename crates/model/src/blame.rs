//! The blame clock's words: where the time of a call went, and who was behind each wait.

use crate::{Cause, OpId};
use serde::{Deserialize, Serialize};

/// What had a thread that neither ran its own code nor waited for a CPU: something it waited for, or the kernel at
/// work in its time. The order is that of `enum reason` in `bpf/blame.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    Futex,
    BlockIo,
    File,
    Socket,
    Poll,
    Ioctl,
    Fault,
    Sleep,
    Other,
    /// Python's global interpreter lock.
    Gil,
    /// The kernel freeing memory, or moving it together.
    Reclaim,
    /// Its cgroup's CPU quota was used up.
    Throttled,
    Interrupt,
}

/// The list of reasons and all that follows from their names.
macro_rules! reasons {
    ($($reason:ident = $name:literal,)*) => {
        impl Reason {
            pub const ALL: [Reason; Reason::COUNT] = [$(Reason::$reason,)*];
            pub const COUNT: usize = [$($name,)*].len();

            pub const fn name(self) -> &'static str {
                match self { $(Reason::$reason => $name,)* }
            }

            /// What its time is called where the parts of calls lie side by side, as in the columns of a trace.
            pub const fn column(self) -> &'static str {
                match self { $(Reason::$reason => concat!($name, "_ns"),)* }
            }
        }
    };
}

reasons! {
    Futex = "futex",
    BlockIo = "block_io",
    File = "file",
    Socket = "socket",
    Poll = "poll",
    Ioctl = "ioctl",
    Fault = "fault",
    Sleep = "sleep",
    Other = "other",
    Gil = "gil",
    Reclaim = "reclaim",
    Throttled = "throttled",
    Interrupt = "interrupt",
}

/// One part of a call's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    OnCpu,
    /// Ready to run while something else had the CPU.
    Runnable,
    Blocked(Reason),
}

impl Part {
    /// As in SQL.
    pub const fn name(self) -> &'static str {
        match self {
            Part::OnCpu => "on_cpu",
            Part::Runnable => "runnable",
            Part::Blocked(reason) => reason.name(),
        }
    }

    pub fn of_name(name: &str) -> Option<Part> {
        let blocked = Reason::ALL.into_iter().map(Part::Blocked);
        [Part::OnCpu, Part::Runnable].into_iter().chain(blocked).find(|part| part.name() == name)
    }
}

/// The time of one call, or of many, split into its parts. The parts sum to the duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Blame {
    pub oncpu_ns: u64,
    pub runq_ns: u64,
    /// By [`Reason`], in its order.
    #[serde(with = "by_reason")]
    pub blocked_ns: [u64; Reason::COUNT],
}

impl Blame {
    pub fn blocked_total_ns(&self) -> u64 {
        self.blocked_ns.iter().sum()
    }

    pub fn total_ns(&self) -> u64 {
        self.oncpu_ns + self.runq_ns + self.blocked_total_ns()
    }

    /// Of so many times as many calls.
    pub fn scaled(&self, factor: f64) -> Blame {
        let scaled = |ns: u64| (ns as f64 * factor).round() as u64;
        Blame {
            oncpu_ns: scaled(self.oncpu_ns),
            runq_ns: scaled(self.runq_ns),
            blocked_ns: self.blocked_ns.map(scaled),
        }
    }

    pub fn add(&mut self, other: &Blame) {
        self.oncpu_ns = self.oncpu_ns.saturating_add(other.oncpu_ns);
        self.runq_ns = self.runq_ns.saturating_add(other.runq_ns);
        for (mine, theirs) in self.blocked_ns.iter_mut().zip(other.blocked_ns) {
            *mine = mine.saturating_add(theirs);
        }
    }

    /// The parts that are not zero.
    pub fn parts(&self) -> impl Iterator<Item = (Part, u64)> + '_ {
        [(Part::OnCpu, self.oncpu_ns), (Part::Runnable, self.runq_ns)]
            .into_iter()
            .chain(Reason::ALL.into_iter().zip(self.blocked_ns).map(|(r, ns)| (Part::Blocked(r), ns)))
            .filter(|(_, ns)| *ns > 0)
    }
}

/// Time one thread spent waiting, by who was behind it, summed in the kernel over one window: the task that
/// had the CPU while the thread was runnable, or the task that woke it when it was blocked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    pub window_start_ns: u64,
    pub pid: u32,
    pub tid: u32,
    /// The call the thread was in; [`OpId::NONE`] between calls.
    pub op: OpId,
    pub part: Part,
    /// 0 where nobody could be named: an idle CPU, an interrupt, a timer.
    pub by_pid: u32,
    pub by_tid: u32,
    pub by_comm: String,
    /// The cgroup of whoever was behind it; 0 where unknown.
    #[serde(default)]
    pub by_cgroup_id: u64,
    pub ns: u64,
    pub count: u64,
}

/// A row of the `blame` table: time of one operation on one thread, billed to a cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlameRow {
    pub window_start_ns: u64,
    pub pid: u32,
    pub tid: u32,
    pub op: OpId,
    pub cause: Cause,
    pub by_pid: u32,
    pub by_tid: u32,
    pub by_comm: String,
    pub by_cgroup_id: u64,
    pub ns: u64,
    pub count: u64,
}

/// Recordings made before a reason was known are shorter.
mod by_reason {
    use super::Reason;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(ns: &[u64; Reason::COUNT], to: S) -> Result<S::Ok, S::Error> {
        ns.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<[u64; Reason::COUNT], D::Error> {
        let known: Vec<u64> = Vec::deserialize(from)?;
        let mut ns = [0; Reason::COUNT];
        for (ns, known) in ns.iter_mut().zip(known) {
            *ns = known;
        }
        Ok(ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_total() {
        let mut blame = Blame { oncpu_ns: 5, runq_ns: 7, ..Blame::default() };
        blame.blocked_ns[Reason::Fault as usize] = 11;
        assert_eq!(blame.parts().map(|(_, ns)| ns).sum::<u64>(), blame.total_ns());
        assert_eq!(blame.parts().last(), Some((Part::Blocked(Reason::Fault), 11)));
    }

    #[test]
    fn reasons_are_numbered_in_their_order() {
        for (i, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, i);
        }
    }
}
