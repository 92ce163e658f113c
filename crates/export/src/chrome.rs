//! The trace event format of Chrome, as JSON: one event a line. Times are microseconds since the start of what is
//! exported, which is in `otherData`: as unix time they would not fit a JSON number to the nanosecond.

use crate::about::About;
use crate::json::{Commas, string};
use crate::stacks::Stacks;
use crate::timeline::{Arg, Kind, Sink, Slice, Track, walk};
use crate::{ExportError, Exported, Source};
use std::collections::HashMap;
use std::io::Write;

/// Numbers of tracks that are no threads begin above those of any thread.
const NO_THREAD: u64 = 1 << 33;

pub(crate) fn write(source: &Source<'_>, out: &mut dyn Write) -> Result<Exported, ExportError> {
    let about = About::of(source)?;
    out.write_all(b"{\"displayTimeUnit\":\"ns\",\"otherData\":")?;
    serde_json::to_writer(&mut *out, &about)?;
    out.write_all(b",\"traceEvents\":[\n")?;
    let mut chrome = Chrome {
        source,
        out,
        start_ns: about.start_ns,
        commas: Commas::default(),
        places: HashMap::new(),
        stacks: Stacks::default(),
        numbers: HashMap::new(),
        frames: HashMap::new(),
        stack_frames: Vec::new(),
    };
    let exported = walk(source, &about, &mut chrome)?;
    let frames = chrome.stack_frames;
    out.write_all(b"\n],\"stackFrames\":{")?;
    let mut commas = Commas::default();
    for (at, (name, parent)) in frames.iter().enumerate() {
        commas.next(out, ",\n")?;
        write!(out, "\"{}\":{{\"name\":", at + 1)?;
        string(out, name)?;
        if *parent > 0 {
            write!(out, ",\"parent\":\"{parent}\"")?;
        }
        out.write_all(b"}")?;
    }
    out.write_all(b"}}\n")?;
    Ok(exported)
}

struct Chrome<'a> {
    source: &'a Source<'a>,
    out: &'a mut dyn Write,
    start_ns: u64,
    commas: Commas,
    /// Process and thread of a track.
    places: HashMap<u64, (u32, u64)>,
    stacks: Stacks,
    /// The frame a stack ends in.
    numbers: HashMap<i64, usize>,
    /// The number of a frame by its parent and name: stacks share what they begin with.
    frames: HashMap<(usize, String), usize>,
    /// Name and parent of each frame, numbered from 1; 0 is no parent.
    stack_frames: Vec<(String, usize)>,
}

impl Chrome<'_> {
    /// The beginning of an event, up to its time.
    fn begin(&mut self, phase: char, track: u64, time_ns: u64) -> Result<(), ExportError> {
        let (pid, tid) = self.places.get(&track).copied().unwrap_or_default();
        self.commas.next(self.out, ",\n")?;
        // Before the start is what an export of a part shows of findings.
        let (sign, ns) = match time_ns.checked_sub(self.start_ns) {
            Some(ns) => ("", ns),
            None => ("-", self.start_ns - time_ns),
        };
        Ok(write!(
            self.out,
            "{{\"ph\":\"{phase}\",\"pid\":{pid},\"tid\":{tid},\"ts\":{sign}{}.{:03}",
            ns / 1000,
            ns % 1000
        )?)
    }

    fn named(&mut self, name: &str, category: &str) -> Result<(), ExportError> {
        self.out.write_all(b",\"name\":")?;
        string(self.out, name)?;
        self.out.write_all(b",\"cat\":")?;
        Ok(string(self.out, category)?)
    }

    fn metadata(&mut self, what: &str, pid: u32, tid: u64, name: &str) -> Result<(), ExportError> {
        self.commas.next(self.out, ",\n")?;
        write!(
            self.out,
            "{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},\"name\":\"{what}\",\"args\":{{\"name\":"
        )?;
        string(self.out, name)?;
        Ok(self.out.write_all(b"}}")?)
    }

    /// An arrow's beginning (`s`) or its end (`f`), bound to the slice it is in.
    fn flow(&mut self, phase: char, track: u64, time_ns: u64, flow: u64) -> Result<(), ExportError> {
        self.begin(phase, track, time_ns)?;
        let bound = if phase == 'f' { ",\"bp\":\"e\"" } else { "" };
        Ok(write!(self.out, ",\"name\":\"cause\",\"cat\":\"flow\",\"id\":{flow}{bound}}}")?)
    }

    fn stack(&mut self, stack_id: i64) -> Result<usize, ExportError> {
        if let Some(number) = self.numbers.get(&stack_id) {
            return Ok(*number);
        }
        let mut parent = 0;
        for frame in self.stacks.frames(self.source, stack_id)?.iter() {
            let name = match frame.line {
                0 => frame.function.clone(),
                line => format!("{} ({}:{line})", frame.function, frame.file),
            };
            parent = *self.frames.entry((parent, name)).or_insert_with_key(|(parent, name)| {
                self.stack_frames.push((name.clone(), *parent));
                self.stack_frames.len()
            });
        }
        self.numbers.insert(stack_id, parent);
        Ok(parent)
    }
}

impl Sink for Chrome<'_> {
    fn track(&mut self, track: &Track) -> Result<(), ExportError> {
        let pid = track.pid.unwrap_or(0);
        let tid = match track.kind {
            Kind::Thread(tid) => tid.into(),
            Kind::Process { .. } => 0,
            Kind::Plain | Kind::Counter { .. } => NO_THREAD + track.id,
        };
        self.places.insert(track.id, (pid, tid));
        match track.kind {
            Kind::Process { .. } => self.metadata("process_name", pid, 0, &track.name),
            Kind::Counter { .. } => Ok(()),
            Kind::Thread(_) | Kind::Plain => self.metadata("thread_name", pid, tid, &track.name),
        }
    }

    fn slice(&mut self, slice: &Slice<'_>) -> Result<(), ExportError> {
        let stack = slice.stack_id.map(|stack_id| self.stack(stack_id)).transpose()?;
        self.begin(if slice.end_ns.is_some() { 'X' } else { 'i' }, slice.track, slice.start_ns)?;
        match slice.end_ns {
            Some(end_ns) => {
                let ns = end_ns.saturating_sub(slice.start_ns);
                write!(self.out, ",\"dur\":{}.{:03}", ns / 1000, ns % 1000)?;
            }
            None => self.out.write_all(b",\"s\":\"t\"")?,
        }
        self.named(slice.name, slice.category)?;
        if let Some(stack) = stack.filter(|stack| *stack > 0) {
            write!(self.out, ",\"sf\":{stack}")?;
        }
        self.out.write_all(b",\"args\":{")?;
        let mut commas = Commas::default();
        for (name, arg) in slice.args {
            commas.next(self.out, ",")?;
            string(self.out, name)?;
            self.out.write_all(b":")?;
            match arg {
                Arg::Integer(number) => write!(self.out, "{number}")?,
                // Infinite numbers are none in JSON.
                Arg::Real(number) => serde_json::to_writer(&mut *self.out, number)?,
                Arg::Hex(number) => write!(self.out, "\"{number:#x}\"")?,
                Arg::Text(text) => string(self.out, text)?,
            }
        }
        self.out.write_all(b"}}")?;
        if let Some(flow) = slice.flow_out {
            self.flow('s', slice.track, slice.start_ns, flow)?;
        }
        if let Some(flow) = slice.flow_in {
            self.flow('f', slice.track, slice.start_ns, flow)?;
        }
        Ok(())
    }

    fn counter(&mut self, track: &Track, time_ns: u64, value: f64) -> Result<(), ExportError> {
        self.begin('C', track.id, time_ns)?;
        // Counters are told apart by process and name alone.
        let parent = track.parent.filter(|_| track.pid.is_none()).map(|parent| format!("{parent}: "));
        self.named(&format!("{}{}", parent.unwrap_or_default(), track.name), "counter")?;
        self.out.write_all(b",\"args\":{\"value\":")?;
        serde_json::to_writer(&mut *self.out, &value)?;
        Ok(self.out.write_all(b"}}")?)
    }
}
