//! Slow and failed calls as spans, with what their time was spent on. They wait here until they are sent, as their
//! stacks are named a little later than they come.

use super::Request;
use super::attributes::{Resource, real, scope, text, whole};
use crate::ids;
use crate::owners::Labels;
use crate::state::is_slow;
use gpuwhy_model::{Batch, Call, Cause, Frame, NcclCall, OpId, OpInfo, Part, Stack};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Slow calls that wait; beyond, the oldest are given up and counted.
const MOST_WAITING: usize = 4096;
/// Spans in a request.
const MOST_IN_REQUEST: usize = 512;
/// Stacks remembered.
const MOST_STACKS: usize = 16_384;
/// Frames told of a stack.
const MOST_FRAMES: usize = 32;

#[derive(Debug)]
pub struct Spans {
    host: String,
    ops: HashMap<OpId, OpInfo>,
    waiting: VecDeque<Slow>,
    most_waiting: usize,
    stacks: HashMap<i64, String>,
    given_up: u64,
}

#[derive(Debug)]
struct Slow {
    call: Call,
    owner: Labels,
    /// Rank, sequence number and communicator of a collective.
    collective: Option<(Option<i32>, Option<u64>, Option<u64>)>,
}

impl Spans {
    pub(crate) fn new(host: &str, ops: &[OpInfo]) -> Spans {
        Spans {
            host: host.into(),
            ops: ops.iter().map(|op| (op.id, op.clone())).collect(),
            waiting: VecDeque::new(),
            most_waiting: MOST_WAITING,
            stacks: HashMap::new(),
            given_up: 0,
        }
    }

    /// None is given up: whoever asks drains them in time.
    pub(crate) fn keep_all(&mut self) {
        self.most_waiting = usize::MAX;
    }

    pub(crate) fn take(&mut self, batch: &Batch, owner: impl Fn(u32) -> Labels) {
        if self.stacks.len() > MOST_STACKS {
            self.stacks.clear();
        }
        self.stacks.extend(batch.stacks.iter().map(|stack| (stack.stack_id, lines(stack))));
        let calls = batch.calls.iter().map(|call| (call, None));
        let told = |nccl: &NcclCall| Some((nccl.rank, nccl.seq, nccl.comm_id_hash));
        let collectives = batch.nccl_calls.iter().map(|nccl| (&nccl.call, told(nccl)));
        for (call, collective) in calls.chain(collectives).filter(|(call, _)| is_slow(call)) {
            self.waiting.push_back(Slow { call: call.clone(), owner: owner(call.pid), collective });
        }
        let surplus = self.waiting.len().saturating_sub(self.most_waiting);
        self.waiting.drain(..surplus);
        self.given_up += surplus as u64;
    }

    /// How many have been given up since it was last asked.
    pub fn given_up(&mut self) -> u64 {
        std::mem::take(&mut self.given_up)
    }

    /// All that wait, in as many requests as it takes.
    pub fn drain(&mut self, resource: &Resource) -> Vec<Request> {
        std::iter::from_fn(|| self.next_request(resource)).collect()
    }

    /// The oldest that wait, as many as go into one. A span has its stack in words: all at once may be gigabytes.
    pub(crate) fn next_request(&mut self, resource: &Resource) -> Option<Request> {
        let count = self.waiting.len().min(MOST_IN_REQUEST);
        let oldest: Vec<Slow> = self.waiting.drain(..count).collect();
        let spans: Vec<Span> = oldest.iter().map(|slow| self.span(slow)).collect();
        (!spans.is_empty()).then(|| request(resource, spans))
    }

    fn span(&self, slow: &Slow) -> Span {
        let call = &slow.call;
        let op = self.ops.get(&call.op);
        let (trace_id, span_id) = ids::of_call(&self.host, call.pid, call.tid, call.start_ns);
        let failed = call.kept == gpuwhy_model::Kept::Error;
        let status = failed
            .then(|| Status { message: format!("returned {}", call.ret), code: StatusCode::Error as i32 });
        Span {
            trace_id: trace_id.to_vec(),
            span_id: span_id.to_vec(),
            name: op.map_or_else(String::new, |op| op.name.clone()),
            kind: SpanKind::Internal as i32,
            start_time_unix_nano: call.start_ns,
            end_time_unix_nano: call.start_ns + call.duration_ns,
            attributes: self.attributes(slow, op),
            status,
            ..Span::default()
        }
    }

    fn attributes(&self, slow: &Slow, op: Option<&OpInfo>) -> Vec<KeyValue> {
        let call = &slow.call;
        let mut pairs = vec![
            whole("process.pid", call.pid.into()),
            whole("thread.id", call.tid.into()),
            text("gpuwhy.kept", call.kept.name()),
            whole("gpuwhy.return", call.ret.into()),
        ];
        pairs.extend(op.map(|op| text("gpuwhy.layer", op.layer.name())));
        for (name, value) in
            crate::table::OWNER.iter().zip(&slow.owner).filter(|(_, value)| !value.is_empty())
        {
            pairs.push(match value.parse() {
                Ok(rank) if *name == "rank" => whole(name, rank),
                _ => text(name, &**value),
            });
        }
        if call.bytes > 0 {
            pairs.push(whole("gpuwhy.bytes", call.bytes as i64));
        }
        if call.stream > 0 {
            pairs.push(text("gpuwhy.stream", format!("{:#x}", call.stream)));
        }
        pairs.extend(call.device.map(|gpu| whole("gpuwhy.gpu", gpu.into())));
        if let Some((rank, seq, communicator)) = slow.collective {
            pairs.extend(rank.map(|rank| whole("gpuwhy.collective.rank", rank.into())));
            pairs.extend(seq.map(|seq| whole("gpuwhy.collective.seq", seq as i64)));
            pairs.extend(
                communicator.map(|hash| text("gpuwhy.collective.comm_id_hash", format!("{hash:#x}"))),
            );
        }
        let causes = causes(op, call);
        let largest = causes.iter().max_by_key(|(_, ns)| **ns).map(|(cause, _)| *cause);
        pairs.extend(largest.map(|cause| text("gpuwhy.cause", cause.name())));
        for (cause, ns) in causes {
            pairs.push(real(&format!("gpuwhy.cause.{}", cause.name()), ns as f64 / 1e9));
        }
        if let Some(stack_id) = call.stack_id {
            pairs.push(whole("gpuwhy.stack_id", stack_id));
            let lines = self.stacks.get(&stack_id).filter(|lines| !lines.is_empty());
            pairs.extend(lines.map(|lines| text("code.stacktrace", lines.clone())));
        }
        pairs
    }
}

/// What the call's time is as causes; they sum to its duration. Who had the CPU is not told by call; somebody had.
fn causes(op: Option<&OpInfo>, call: &Call) -> BTreeMap<Cause, u64> {
    let mut causes = BTreeMap::new();
    for (part, ns) in call.blame.parts() {
        let by = u32::from(part == Part::Runnable);
        *causes.entry(Cause::of_part(op, part, by)).or_default() += ns;
    }
    causes
}

fn request(resource: &Resource, spans: Vec<Span>) -> Request {
    Request::Traces(ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: resource.get(),
            scope_spans: vec![ScopeSpans { scope: scope(), spans, ..ScopeSpans::default() }],
            ..ResourceSpans::default()
        }],
    })
}

/// Innermost first, a line each.
fn lines(stack: &Stack) -> String {
    let named = stack.frames.iter().filter(|frame| frame.function.is_some()).take(MOST_FRAMES);
    named.map(line).collect::<Vec<_>>().join("\n")
}

fn line(frame: &Frame) -> String {
    let function = frame.function.as_deref().unwrap_or("?");
    let place = frame.file.as_deref().unwrap_or(&frame.module);
    match frame.line {
        Some(line) => format!("{function} ({place}:{line})"),
        None => format!("{function} ({place})"),
    }
}
