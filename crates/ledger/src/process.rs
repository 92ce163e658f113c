//! One process, as far as the ledger follows it, from its first traced call to its end.

use crate::captures::Captures;
use crate::coldstart::ColdStarts;
use crate::graphs::{Graphs, Kind};
use crate::kernels::Kernels;
use crate::memory::Memory;
use crate::names::Names;
use crate::ops::Op;
use crate::pending::Pending;
use gpuwhy_model::{Call, Facts, Family, LaunchCount, MemoryKind, Role};

/// What became of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    Done,
    /// What it is about is not known: perhaps that record is late.
    NotYet,
    /// No memory for the program.
    NoMemory,
}

#[derive(Debug)]
pub(crate) struct Process {
    captures: Captures,
    pub(crate) kernels: Kernels,
    pub(crate) graphs: Graphs,
    pub(crate) memory: Memory,
    pub(crate) pending: Pending,
    cold_starts: ColdStarts,
}

impl Process {
    pub(crate) fn new(pid: u32) -> Self {
        Process {
            captures: Captures::default(),
            kernels: Kernels::new(pid),
            graphs: Graphs::new(pid),
            memory: Memory::new(pid),
            pending: Pending::new(pid),
            cold_starts: ColdStarts::default(),
        }
    }

    /// Takes a call for the first time, or again after it could not be understood.
    pub(crate) fn take(&mut self, call: &Call, op: &Op, names: &mut Names) -> Taken {
        // Registering returns nothing.
        if call.ret != 0 && op.role != Role::Register {
            return self.take_failed(call, op);
        }
        match op.role {
            Role::Launch | Role::GraphLaunch | Role::Submit => self.take_launch(call, op, names),
            Role::CaptureBegin => {
                if let Some(capture) = self.captures.begin(call) {
                    self.graphs.capture_begun_late(&capture);
                }
            }
            Role::CaptureEnd => self.end_capture(call),
            Role::GraphCreate => self.graphs.created(call),
            Role::GraphClone => self.graphs.cloned(call),
            Role::GraphInstantiate => self.graphs.instantiated(call),
            Role::GraphUpdate => self.graphs.updated(call),
            Role::GraphAddKernel => {
                self.kernels.used(call.handle, call.start_ns);
                return self.graphs.added(call, Kind::Kernel);
            }
            Role::GraphAddCopy => return self.graphs.added(call, Kind::Copy),
            Role::GraphAddSet => return self.graphs.added(call, Kind::Set),
            Role::GraphAddHost => return self.graphs.added(call, Kind::Host),
            Role::GraphAddChild => return self.graphs.added(call, Kind::Graph),
            Role::GraphDestroy => return self.graphs.graph_destroyed(call),
            Role::ExecDestroy => return self.graphs.exec_destroyed(call),
            Role::AllocDevice | Role::AllocManaged | Role::AllocHost | Role::RegisterHost => {
                let capture = self.captures.of(call);
                self.memory.allocated(call, kind_of(op.role), capture.as_ref());
            }
            Role::UnregisterHost | Role::Free => return self.memory.freed(call),
            Role::PhysicalCreate => {
                let capture = self.captures.of(call);
                self.memory.physical_created(call, capture.as_ref());
            }
            Role::PhysicalMap => return self.memory.physical_mapped(call),
            Role::PhysicalUnmap => self.memory.physical_unmapped(call),
            Role::PhysicalRelease => return self.memory.physical_released(call),
            Role::PhysicalRetain => return self.memory.physical_retained(call),
            Role::ModuleLoad => self.kernels.module_loaded(call),
            Role::FunctionName | Role::Register => self.kernels.named(call, names),
            Role::KernelFunction => self.kernels.function_of_kernel(call),
            _ => {}
        }
        Taken::Done
    }

    /// What was slow because it was the first, once its names are known.
    pub(crate) fn note_cold_start(&mut self, call: &Call, op: &Op, facts: &mut Facts) {
        self.cold_starts.note(call, op, &self.kernels, facts);
    }

    pub(crate) fn knows(&self, count: &LaunchCount) -> bool {
        if count.graph { self.graphs.knows_exec(count.handle) } else { self.kernels.knows(count.handle) }
    }

    pub(crate) fn launched(&mut self, count: &LaunchCount) {
        if count.graph {
            self.graphs.launched(count);
        } else {
            self.kernels.launched(count);
        }
    }

    /// It ended; what it had is given back. May be said again after late records.
    pub(crate) fn close(&mut self, at_ns: u64) {
        self.graphs.close(at_ns);
        self.memory.close(at_ns);
    }

    /// Says what has changed since it last did, and forgets what is over.
    pub(crate) fn emit(&mut self, facts: &mut Facts, newest_ns: u64) {
        self.kernels.emit(facts);
        self.graphs.emit(facts);
        self.memory.emit(facts);
        self.graphs.forget(newest_ns);
        self.captures.forget(newest_ns);
    }

    fn take_launch(&mut self, call: &Call, op: &Op, names: &mut Names) {
        // The first launch of a kernel brings the name that the driver has for it.
        if let (Role::Launch, Some(name)) = (op.role, &call.name) {
            self.kernels.named_elsewhere(call.handle, &names.of(name), call.start_ns);
        }
        if call.capture == 0 {
            return;
        }
        let kind = match (op.role, op.family) {
            (Role::Launch, _) => Kind::Kernel,
            (Role::GraphLaunch, _) => Kind::Graph,
            (_, Family::Copy) => Kind::Copy,
            (_, Family::Set) => Kind::Set,
            _ => Kind::Host,
        };
        if kind == Kind::Kernel {
            self.kernels.used(call.handle, call.start_ns);
        }
        self.graphs.node(call, kind);
    }

    fn take_failed(&mut self, call: &Call, op: &Op) -> Taken {
        match op.role {
            Role::AllocDevice | Role::AllocManaged | Role::AllocHost | Role::PhysicalCreate => {
                self.memory.failed(call, kind_of(op.role));
                return Taken::NoMemory;
            }
            // It is over, whatever came of it.
            Role::CaptureEnd => self.end_capture(call),
            _ => {}
        }
        Taken::Done
    }

    fn end_capture(&mut self, call: &Call) {
        let capture = self.captures.end(call);
        self.graphs.capture_ended(call, &capture);
        self.memory.capture_ended(&capture);
    }
}

fn kind_of(role: Role) -> MemoryKind {
    match role {
        Role::AllocManaged => MemoryKind::Managed,
        Role::AllocHost => MemoryKind::Host,
        Role::RegisterHost => MemoryKind::Registered,
        _ => MemoryKind::Device,
    }
}
