//! All that is known of all processes.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use crate::frame::{Frame, Module, Registers, Swapped, Unwound};
use crate::images::{ImageId, Images};
use crate::limits::Limits;
use crate::names::Line;
use crate::opener::{Answer, Opener, Question, answer};
use crate::process::{Kind, Process, Seen};
use crate::recent::Recent;
use crate::stack::Stack;
use crate::vdso::{Vdso, own_vdso};
use crate::walk::{Place, Step};

/// Unwinds and names. All caches are in here, and bounded.
pub struct Symbols {
    processes: HashMap<u32, Process>,
    images: Images,
    opener: Opener,
    vdso: Option<Vdso>,
    lines: Recent<(ImageId, u64), Rc<[Line]>>,
    turn: u64,
    limits: Limits,
}

impl fmt::Debug for Symbols {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Symbols").field("processes", &self.processes.len()).finish_non_exhaustive()
    }
}

impl Symbols {
    /// Opens by itself what it needs.
    pub fn new(limits: Limits) -> Symbols {
        Symbols::asking(limits, own_vdso(), answer)
    }

    /// Has others open what it needs, by [`answer`]; or nobody, where it names what others have met. `vdso` is this
    /// process's own.
    pub fn asking(
        limits: Limits,
        vdso: Option<Vec<u8>>,
        ask: impl FnMut(Question) -> Answer + 'static,
    ) -> Symbols {
        Symbols {
            processes: HashMap::new(),
            images: Images::new(limits.clone()),
            opener: Opener::new(ask),
            vdso: vdso.and_then(Vdso::of),
            lines: Recent::new(limits.addresses),
            turn: 0,
            limits,
        }
    }

    /// Reads a process's mappings and opens the files it executes while it lives, so that it can be symbolised after its
    /// end. Files that are known already are not opened again. To be called again when the process maps something else.
    pub fn see(&mut self, pid: u32) {
        self.make_room(pid);
        self.turn += 1;
        let process = self.processes.entry(pid).or_default();
        process.used = self.turn;
        process.see(pid, &mut self.images, &mut self.opener);
        if process.mappings.is_empty() {
            self.processes.remove(&pid);
        }
    }

    /// The same with what was opened ahead for it.
    pub fn see_with(&mut self, pid: u32, ahead: Answer) {
        self.opener.take_ahead(ahead);
        self.see(pid);
        self.opener.take_ahead(Answer::default());
    }

    /// Which processes it knows.
    pub fn processes(&self) -> impl Iterator<Item = u32> {
        self.processes.keys().copied()
    }

    /// What was met of a process, for a [`Symbols`] in another thread.
    pub fn seen(&self, pid: u32) -> Option<Seen> {
        self.processes.get(&pid)?.seen(&self.images)
    }

    /// Takes over what another has met: the process itself is not looked at.
    pub fn take(&mut self, pid: u32, seen: Seen) {
        self.make_room(pid);
        self.turn += 1;
        let process = self.processes.entry(pid).or_default();
        process.used = self.turn;
        process.take(seen, &mut self.images);
    }

    /// A process that was forked has its parent's mappings until it makes others; it may end before it can be met.
    pub fn inherit(&mut self, parent: u32, child: u32) {
        let Some(mut process) = self.processes.get(&parent).map(Process::of_child) else { return };
        self.make_room(child);
        self.turn += 1;
        process.used = self.turn;
        self.processes.insert(child, process);
    }

    fn make_room(&mut self, pid: u32) {
        if !self.processes.contains_key(&pid) && self.processes.len() >= self.limits.processes.max(1) {
            let oldest = self.processes.iter().min_by_key(|(_, process)| process.used).map(|(pid, _)| *pid);
            if let Some(oldest) = oldest {
                self.forget(oldest);
            }
        }
    }

    /// The process has ended and its records are through.
    pub fn forget(&mut self, pid: u32) {
        if self.processes.remove(&pid).is_none() {
            return;
        }
        let in_use: HashSet<ImageId> = self
            .processes
            .values()
            .flat_map(|process| &process.mappings)
            .filter_map(|mapping| if let Kind::File(id) = mapping.kind { id } else { None })
            .collect();
        self.images.drop_idle(&in_use);
    }

    /// Frees symbols and lines that nobody asked for lately. Names that were found stay known.
    pub fn drop_unused(&mut self) {
        self.images.drop_names();
    }

    /// Follows the stack from the registers up to where the thread started. `stack` is a copy of the memory at
    /// `registers.sp` and above.
    pub fn unwind(
        &mut self,
        pid: u32,
        registers: Registers,
        stack: &[u8],
        swapped: &[Swapped],
        most_frames: usize,
    ) -> Unwound {
        let stack = Stack { start: registers.sp, bytes: stack, swapped };
        let mut place = Place::new(registers);
        let mut unwound = Unwound::default();
        while unwound.addresses.len() < most_frames {
            unwound.addresses.push(place.ip);
            unwound.stack_pointers.push(place.sp());
            match self.step(pid, &mut place, &stack) {
                Step::Caller => {}
                Step::Outermost => {
                    unwound.complete = true;
                    break;
                }
                Step::Lost => break,
            }
            // What is not code was no return address.
            let is_code = self.mapping(pid, place.lookup()).is_some_and(|(kind, ..)| kind != Kind::Uprobes);
            if !is_code {
                break;
            }
        }
        unwound
    }

    fn step(&mut self, pid: u32, place: &mut Place, stack: &Stack<'_>) -> Step {
        let lookup = place.lookup();
        let Some((kind, offset, size)) = self.mapping(pid, lookup) else {
            return place.step_by_frame_pointer(stack);
        };
        let row = match kind {
            Kind::Uprobes => return Step::Lost,
            Kind::File(Some(id)) => {
                self.address_in(id, offset).and_then(|address| self.images.row(id, address))
            }
            Kind::Vdso => {
                let vdso = self.vdso.as_ref().filter(|vdso| vdso.fits(size));
                vdso.and_then(|vdso| vdso.row(offset, &mut self.images.context)).map(Rc::new)
            }
            Kind::File(None) | Kind::Anonymous => None,
        };
        match row {
            Some(row) => place.step(&row, stack),
            None => place.step_by_frame_pointer(stack),
        }
    }

    /// One list per address: the innermost inlined function first. The first address is an instruction pointer, the others
    /// are return addresses: they are named for the call before them.
    pub fn frames(&mut self, pid: u32, addresses: &[u64]) -> Vec<Vec<Frame>> {
        let lookups = addresses.iter().enumerate().map(|(at, address)| (*address, at > 0));
        lookups.map(|(address, is_return)| self.frames_at(pid, address, is_return)).collect()
    }

    /// The functions at one address, innermost first; never none.
    pub fn frames_at(&mut self, pid: u32, address: u64, is_return: bool) -> Vec<Frame> {
        let lookup = address.wrapping_sub(u64::from(is_return));
        let frame = |module: &str, line: Option<&Line>| Frame {
            function: line.and_then(|line| line.function.clone()),
            file: line.and_then(|line| line.file.clone()),
            line: line.and_then(|line| line.line),
            module: module.to_string(),
            address,
            inlined: line.is_some_and(|line| line.inlined),
        };
        let Some((kind, offset, size)) = self.mapping(pid, lookup) else {
            return vec![frame("[unknown]", None)];
        };
        let is_elf = |id| self.images.get(id).is_some_and(|image| image.opened.layout.is_some());
        let lines = match kind {
            Kind::File(Some(id)) if is_elf(id) => self.lines_in(id, offset),
            Kind::File(_) | Kind::Anonymous => {
                if let Some(function) = self.jit_function(pid, lookup) {
                    let line = Line { function: Some(function), file: None, line: None, inlined: false };
                    return vec![frame("perf-map", Some(&line))];
                }
                Rc::default()
            }
            Kind::Vdso => {
                let vdso = self.vdso.as_ref().filter(|vdso| vdso.fits(size));
                vdso.map(|vdso| vdso.at(offset)).unwrap_or_default()
            }
            Kind::Uprobes => Rc::default(),
        };
        let module = self.name(pid, lookup);
        if lines.is_empty() {
            return vec![frame(&module, None)];
        }
        lines.iter().map(|line| frame(&module, Some(line))).collect()
    }

    /// Which executable mapping an address is in.
    pub fn module_of(&mut self, pid: u32, address: u64) -> Option<Module> {
        let (kind, file_offset, _) = self.mapping(pid, address)?;
        let id = if let Kind::File(id) = kind { id } else { None };
        Some(Module {
            path: self.name(pid, address).to_string(),
            file_offset,
            build_id: id.and_then(|id| self.images.get(id)).and_then(|image| image.opened.build_id()),
        })
    }

    /// What is mapped at an address, the offset in its file, and the size of the mapping. An address that is not known makes
    /// the process be looked at again, at most every so often.
    fn mapping(&mut self, pid: u32, address: u64) -> Option<(Kind, u64, u64)> {
        let known = self.processes.get(&pid).and_then(|process| process.at(address));
        if known.is_none()
            && self.processes.get(&pid).is_none_or(|process| process.is_stale(self.limits.reread_after))
        {
            self.see(pid);
        }
        let process = self.processes.get_mut(&pid)?;
        self.turn += 1;
        process.used = self.turn;
        let at = process.at(address)?;
        let mapping = &mut process.mappings[at];
        // Dropped to make room for others.
        if let Kind::File(Some(id)) = mapping.kind
            && !self.images.contains(id)
        {
            let file = self.opener.mapped(pid, vec![mapping.line.clone()]).pop().flatten();
            let files = vec![(mapping.line.path.as_str(), file)];
            mapping.kind = Kind::File(self.images.open(pid, files, &mut self.opener).pop().flatten());
        }
        Some((mapping.kind, mapping.file_offset(address), mapping.line.end - mapping.line.start))
    }

    fn name(&self, pid: u32, address: u64) -> Arc<str> {
        let process = self.processes.get(&pid);
        let mapping = process.and_then(|process| Some(&process.mappings[process.at(address)?]));
        mapping.map_or_else(|| "[unknown]".into(), |mapping| Arc::clone(&mapping.name))
    }

    fn address_in(&self, id: ImageId, offset: u64) -> Option<u64> {
        self.images.get(id)?.opened.layout.as_ref()?.address_of(offset)
    }

    fn lines_in(&mut self, id: ImageId, offset: u64) -> Rc<[Line]> {
        let Some(address) = self.address_in(id, offset) else { return Rc::default() };
        if let Some(lines) = self.lines.get(&(id, address)) {
            return lines;
        }
        let lines = self.images.lines_at(id, address).unwrap_or_default();
        self.lines.insert((id, address), Rc::clone(&lines));
        lines
    }

    fn jit_function(&mut self, pid: u32, address: u64) -> Option<String> {
        let process = self.processes.get_mut(&pid)?;
        if process.perf_map.at(address).is_none() && process.is_stale(self.limits.reread_after) {
            process.see(pid, &mut self.images, &mut self.opener);
        }
        process.perf_map.at(address).map(str::to_string)
    }
}
