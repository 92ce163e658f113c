//! The classes of causes users read, and what a part of a call's time means as one.

use crate::{Family, OpInfo, Part, Reason};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! causes {
    ($($variant:ident $name:literal $about:literal,)*) => {
        /// What a call's time was spent on, or lost to.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum Cause { $(#[doc = $about] #[serde(rename = $name)] $variant,)* }

        impl Cause {
            pub const ALL: &'static [Cause] = &[$(Cause::$variant,)*];

            /// The stable name, as in SQL, JSON and MCP answers.
            pub fn name(self) -> &'static str {
                match self { $(Cause::$variant => $name,)* }
            }

            pub fn about(self) -> &'static str {
                match self { $(Cause::$variant => $about,)* }
            }
        }
    };
}

causes! {
    CpuSelf "cpu.self" "the thread itself was computing",
    SelfSleep "self.sleep" "the program put itself to sleep",
    CpuPreempted "cpu.preempted" "runnable, but another task had the CPU",
    CpuThrottled "cpu.throttled" "runnable, but the cgroup's CPU quota was used up",
    CpuInterrupt "cpu.interrupt" "the CPU served interrupts",
    NumaRemote "numa.remote" "far from its GPU or its memory",
    LockFutex "lock.futex" "waiting for a lock",
    PythonGil "python.gil" "waiting for Python's global interpreter lock",
    MemFault "mem.fault" "waiting for a page",
    MemReclaim "mem.reclaim" "the kernel had to free memory first",
    MemOom "mem.oom" "out of host memory",
    IoBlock "io.block" "waiting for a disk",
    IoFile "io.file" "waiting in a file, pipe or device read or write",
    NetTcp "net.tcp" "TCP retransmits",
    NetWait "net.wait" "waiting for a peer over a socket",
    RdmaFabric "rdma.fabric" "errors on the fabric",
    GpuWait "gpu.wait" "waiting for queued GPU work",
    GpuAlloc "gpu.alloc" "allocator calls that synchronise or thrash",
    GpuColdstart "gpu.coldstart" "context, module load, JIT, first launch",
    GpuThrottle "gpu.throttle" "the GPU lowered its clocks",
    GpuError "gpu.error" "Xid or error returns",
    GpuMemory "gpu.memory" "out of device memory, leak, fragmentation",
    CopyPcie "copy.pcie" "copies over PCIe dominate",
    LaunchBound "launch.bound" "the CPU cannot launch fast enough",
    GraphRecapture "graph.recapture" "graphs captured again and again",
    DriverContention "driver.contention" "another process in the driver",
    RankStraggler "rank.straggler" "a rank arrives late at its collectives",
    RankHang "rank.hang" "a rank is missing at a collective or calls another one",
    PythonGc "python.gc" "Python collected garbage",
    ProcWait "proc.wait" "waiting for a child process",
    Unknown "unknown" "not explained by anything observed",
}

impl Cause {
    /// Something took the time from the thread; the others are what it does by itself, or by what its program is.
    pub fn is_taken(self) -> bool {
        !matches!(
            self,
            Cause::CpuSelf
                | Cause::SelfSleep
                | Cause::NetWait
                | Cause::GpuWait
                | Cause::GpuColdstart
                | Cause::CopyPcie
                | Cause::LaunchBound
                | Cause::PythonGc
                | Cause::ProcWait
                | Cause::Unknown
        )
    }

    /// It says why, not only where.
    pub fn explains(self) -> bool {
        !matches!(self, Cause::CpuSelf | Cause::Unknown)
    }

    /// What a part of a call's time is, from that part alone. `by_pid` is who was behind a wait, 0 for nobody.
    pub fn of_part(op: Option<&OpInfo>, part: Part, by_pid: u32) -> Cause {
        let waits_for_gpu = op.is_some_and(|op| op.waits_for_gpu);
        // What the allocator waits for is the allocator's doing.
        let allocates = op.is_some_and(|op| matches!(op.family, Family::Alloc | Family::Free));
        match part {
            Part::OnCpu if waits_for_gpu && allocates => Cause::GpuAlloc,
            Part::Blocked(Reason::Poll | Reason::Ioctl) if allocates => Cause::GpuAlloc,
            // A thread that waits for the GPU spins by default: its CPU time is the wait.
            Part::OnCpu if waits_for_gpu => Cause::GpuWait,
            Part::OnCpu => Cause::CpuSelf,
            // An idle CPU kept nobody from running: the wait is wake-up latency or a quota, not a neighbour.
            Part::Runnable if by_pid == 0 => Cause::Unknown,
            Part::Runnable => Cause::CpuPreempted,
            // The driver waits for the GPU in poll or ioctl when told not to spin.
            Part::Blocked(Reason::Poll | Reason::Ioctl) if waits_for_gpu => Cause::GpuWait,
            Part::Blocked(Reason::Futex) => Cause::LockFutex,
            Part::Blocked(Reason::BlockIo) => Cause::IoBlock,
            Part::Blocked(Reason::File) => Cause::IoFile,
            Part::Blocked(Reason::Socket) => Cause::NetWait,
            Part::Blocked(Reason::Fault) => Cause::MemFault,
            // Whoever wakes it is its peer, over a socket or a pipe.
            Part::Blocked(Reason::Poll) => Cause::NetWait,
            Part::Blocked(Reason::Sleep) => Cause::SelfSleep,
            Part::Blocked(Reason::Gil) => Cause::PythonGil,
            Part::Blocked(Reason::Reclaim) => Cause::MemReclaim,
            Part::Blocked(Reason::Throttled) => Cause::CpuThrottled,
            Part::Blocked(Reason::Interrupt) => Cause::CpuInterrupt,
            Part::Blocked(Reason::Ioctl | Reason::Other) => Cause::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Layer, OpId};

    fn op(family: Family, waits_for_gpu: bool) -> OpInfo {
        OpInfo {
            id: OpId(1),
            name: "x".into(),
            layer: Layer::Cuda,
            family,
            waits_for_gpu,
            role: crate::Role::None,
        }
    }

    #[test]
    fn a_spinning_sync_waits_for_the_gpu_and_a_launch_computes() {
        assert_eq!(Cause::of_part(Some(&op(Family::Sync, true)), Part::OnCpu, 0), Cause::GpuWait);
        assert_eq!(Cause::of_part(Some(&op(Family::Launch, false)), Part::OnCpu, 0), Cause::CpuSelf);
    }

    #[test]
    fn an_idle_cpu_preempts_nobody() {
        let launch = op(Family::Launch, false);
        assert_eq!(Cause::of_part(Some(&launch), Part::Runnable, 0), Cause::Unknown);
        assert_eq!(Cause::of_part(Some(&launch), Part::Runnable, 7), Cause::CpuPreempted);
    }

    #[test]
    fn names_are_what_serde_writes() {
        for cause in Cause::ALL {
            assert_eq!(serde_json::to_string(cause).unwrap(), format!("\"{}\"", cause.name()));
        }
    }
}
