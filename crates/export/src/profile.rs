//! Kept calls, and what threads did between calls, summed by thread, stack and cause: what every profile is made of.

use crate::names::Names;
use crate::source::Meter;
use crate::stacks::{Frame, Stacks};
use crate::{ExportError, Exported, Source};
use gpuwhy_model::{Blame, Call, Cause, OpId, OpInfo, Reason};
use std::collections::HashMap;

/// What a line of a profile is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    /// Number of the operation's name, or of what the thread did between calls.
    op: usize,
    pub(crate) cause: Cause,
    stack_id: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sums {
    /// A call is counted where most of its time went; what is between calls is none.
    pub(crate) calls: u64,
    pub(crate) ns: u64,
}

#[derive(Debug)]
pub(crate) struct Profile {
    pub(crate) names: Names,
    pub(crate) exported: Exported,
    ops: Vec<String>,
    /// Most time first; what is equal in an order of its own.
    samples: Vec<(Key, Sums)>,
}

impl Profile {
    pub(crate) fn of(source: &Source<'_>) -> Result<Profile, ExportError> {
        let mut gather = Gather {
            names: Names::of(source)?,
            meter: source.meter(),
            blame: source.reader.origin().has_blame(),
            numbers: HashMap::new(),
            by_id: HashMap::new(),
            ops: Vec::new(),
            infos: Vec::new(),
            sums: HashMap::new(),
        };
        gather.calls(source)?;
        gather.collectives(source)?;
        gather.between_calls(source)?;
        let Gather { names, meter, ops, sums, .. } = gather;
        let mut samples: Vec<(Key, Sums)> = sums.into_iter().collect();
        samples.sort_by(|(a, of_a), (b, of_b)| {
            let order = |key: &Key| (key.pid, key.tid, key.cause, key.stack_id);
            of_b.ns
                .cmp(&of_a.ns)
                .then_with(|| order(a).cmp(&order(b)))
                .then_with(|| ops[a.op].cmp(&ops[b.op]))
        });
        Ok(Profile { names, exported: meter.exported(), ops, samples })
    }

    pub(crate) fn op(&self, key: &Key) -> &str {
        &self.ops[key.op]
    }

    pub(crate) fn samples(&self) -> &[(Key, Sums)] {
        &self.samples
    }

    /// The processes that have samples, in order.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let mut pids: Vec<u32> = self.samples.iter().map(|(key, _)| key.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// The thread's frames, outermost first, and the operation itself, or what it did between calls.
    pub(crate) fn frames(
        &self,
        source: &Source<'_>,
        stacks: &mut Stacks,
        key: &Key,
    ) -> Result<Vec<Frame>, ExportError> {
        let mut frames = match key.stack_id {
            Some(stack_id) => stacks.frames(source, stack_id)?.to_vec(),
            None => Vec::new(),
        };
        if frames.is_empty() {
            frames.push(Frame::word("(no stack)"));
        }
        frames.push(Frame::word(self.op(key)));
        Ok(frames)
    }
}

struct Gather<'a> {
    names: Names,
    meter: Meter<'a>,
    /// Whether calls say where their time went.
    blame: bool,
    /// Places of operations in the two lists below, by name and by the file's number.
    numbers: HashMap<String, usize>,
    by_id: HashMap<OpId, usize>,
    ops: Vec<String>,
    infos: Vec<Option<OpInfo>>,
    sums: HashMap<Key, Sums>,
}

impl Gather<'_> {
    fn calls(&mut self, source: &Source<'_>) -> Result<(), ExportError> {
        source.reader.stream_calls(&source.filter, |call: Call| -> Result<(), ExportError> {
            self.meter.row()?;
            let op = match self.by_id.get(&call.op) {
                Some(number) => *number,
                None => {
                    let name = self.names.op_name(call.op).to_string();
                    let number = self.number(&name);
                    self.by_id.insert(call.op, number);
                    number
                }
            };
            let key =
                Key { pid: call.pid, tid: call.tid, op, cause: Cause::Unknown, stack_id: call.stack_id };
            self.add(key, call.duration_ns, &call.blame);
            Ok(())
        })
    }

    fn collectives(&mut self, source: &Source<'_>) -> Result<(), ExportError> {
        let (clause, values) = source.filter.clause("timestamp_ns");
        let parts: String = Reason::ALL.iter().map(|reason| format!(", {}", reason.column())).collect();
        let sql = format!(
            "SELECT pid, function, op, duration_ns, stack_id, tid, oncpu_ns, runq_ns{parts} FROM nccl_events{clause}"
        );
        source.reader.stream::<ExportError>(&sql, &values, |record| {
            self.meter.row()?;
            let number = |at: usize| record.integer(at).unwrap_or(0).max(0) as u64;
            let function = record.text(1).or_else(|| record.text(2)).unwrap_or_default();
            let mut blame = Blame { oncpu_ns: number(6), runq_ns: number(7), ..Blame::default() };
            for (at, ns) in blame.blocked_ns.iter_mut().enumerate() {
                *ns = number(8 + at);
            }
            let key = Key {
                pid: number(0) as u32,
                tid: number(5) as u32,
                op: self.number(&crate::text::name(&function)),
                cause: Cause::Unknown,
                stack_id: record.integer(4),
            };
            self.add(key, number(3), &blame);
            Ok(())
        })
    }

    /// Waits are clocked one by one; their lines, and the code that ran, are sampled.
    fn between_calls(&mut self, source: &Source<'_>) -> Result<(), ExportError> {
        let meter = &self.meter;
        let filter = &source.filter;
        let between = gpuwhy_query::between_calls(source.reader, filter, &|_, _| 0, &mut || meter.row())?;
        for one in between {
            let op = self.number(&one.what);
            let key = Key { pid: one.pid, tid: one.tid, op, cause: one.cause, stack_id: one.stack_id };
            self.sums.entry(key).or_default().ns += one.ns;
        }
        Ok(())
    }

    fn number(&mut self, op: &str) -> usize {
        if let Some(number) = self.numbers.get(op) {
            return *number;
        }
        self.ops.push(op.to_string());
        self.infos.push(self.names.op_named(op).cloned());
        self.numbers.insert(op.to_string(), self.ops.len() - 1);
        self.ops.len() - 1
    }

    /// Each part of the time under its cause, what no part tells of as unknown: the sum is the duration.
    fn add(&mut self, key: Key, duration_ns: u64, blame: &Blame) {
        let op = self.infos[key.op].as_ref();
        let mut left = duration_ns;
        let mut largest = (0, Cause::Unknown);
        if self.blame {
            for (part, ns) in blame.parts() {
                // Somebody else had the CPU; who, is in `blame`.
                let cause = Cause::of_part(op, part, 1);
                let ns = ns.min(left);
                left -= ns;
                self.sums.entry(Key { cause, ..key }).or_default().ns += ns;
                largest = largest.max((ns, cause));
            }
        }
        if left > 0 {
            self.sums.entry(key).or_default().ns += left;
            largest = largest.max((left, Cause::Unknown));
        }
        self.sums.entry(Key { cause: largest.1, ..key }).or_default().calls += 1;
    }
}
