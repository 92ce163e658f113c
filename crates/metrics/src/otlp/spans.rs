//! Slow and failed calls as spans, with what their time was spent on. They wait here until they are sent, as their
//! stacks are named a little later than they come.

use super::Request;
use super::attributes::{Resource, real, scope, text, whole};
use super::json::JsonSpans;
use crate::ids;
use crate::owners::Labels;
use crate::state::is_slow;
use gpuwhy_model::{Batch, Call, Cause, Frame, NcclCall, OpId, OpInfo, Part, Stack};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Slow calls that wait; beyond, the oldest are given up and counted.
const MAX_WAITING: usize = 4096;
/// Spans in a request.
const MAX_PER_REQUEST: usize = 512;
/// Stacks remembered.
const MAX_STACKS: usize = 16_384;
/// Frames told of a stack.
const MAX_FRAMES: usize = 32;

#[derive(Debug)]
pub struct Spans {
    host: String,
    ops: HashMap<OpId, OpInfo>,
    waiting: VecDeque<Slow>,
    most_waiting: usize,
    stacks: HashMap<i64, StackText>,
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
            most_waiting: MAX_WAITING,
            stacks: HashMap::new(),
            given_up: 0,
        }
    }

    /// None is given up: whoever asks drains them in time.
    pub(crate) fn keep_all(&mut self) {
        self.most_waiting = usize::MAX;
    }

    pub(crate) fn take(&mut self, batch: &Batch, owner: impl Fn(u32) -> Labels) {
        if self.stacks.len() > MAX_STACKS {
            self.stacks.clear();
        }
        self.stacks.extend(batch.stacks.iter().map(|stack| (stack.stack_id, StackText::of(stack))));
        let calls = batch.calls.iter().map(|call| (call, None));
        let reported = |nccl: &NcclCall| Some((nccl.rank, nccl.seq, nccl.comm_id_hash));
        let collectives = batch.nccl_calls.iter().map(|nccl| (&nccl.call, reported(nccl)));
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
    fn next_request(&mut self, resource: &Resource) -> Option<Request> {
        let spans: Vec<Span> = self.oldest().iter().map(|slow| self.span(slow)).collect();
        (!spans.is_empty()).then(|| request(resource, spans))
    }

    /// The same as a line of JSON, and how many they are. Made without the messages in between, which take longer than all
    /// the rest of writing a trace.
    pub(crate) fn next_line(
        &mut self,
        resource: &Resource,
    ) -> Result<Option<(Vec<u8>, u64)>, serde_json::Error> {
        let oldest = self.oldest();
        if oldest.is_empty() {
            return Ok(None);
        }
        let mut json = JsonSpans::begin(resource)?;
        for slow in &oldest {
            let call = &slow.call;
            let op = self.ops.get(&call.op);
            let name = op.map_or("", |op| &op.name);
            let times = (call.start_ns, call.start_ns + call.duration_ns);
            json.span(ids::of_call(&self.host, call.pid, call.tid, call.start_ns), name, times);
            self.emit(slow, op, &mut json);
            json.end_span(failure(call).as_deref());
        }
        Ok(Some((json.end(), oldest.len() as u64)))
    }

    fn oldest(&mut self) -> Vec<Slow> {
        let count = self.waiting.len().min(MAX_PER_REQUEST);
        self.waiting.drain(..count).collect()
    }

    fn span(&self, slow: &Slow) -> Span {
        let call = &slow.call;
        let op = self.ops.get(&call.op);
        let (trace_id, span_id) = ids::of_call(&self.host, call.pid, call.tid, call.start_ns);
        let mut attributes = Vec::new();
        self.emit(slow, op, &mut attributes);
        Span {
            trace_id: trace_id.to_vec(),
            span_id: span_id.to_vec(),
            name: op.map_or_else(String::new, |op| op.name.clone()),
            kind: SpanKind::Internal as i32,
            start_time_unix_nano: call.start_ns,
            end_time_unix_nano: call.start_ns + call.duration_ns,
            attributes,
            status: failure(call).map(|message| Status { message, code: StatusCode::Error as i32 }),
            ..Span::default()
        }
    }

    fn emit(&self, slow: &Slow, op: Option<&OpInfo>, to: &mut impl Pairs) {
        let call = &slow.call;
        to.whole("process.pid", call.pid.into());
        to.whole("thread.id", call.tid.into());
        to.text("gpuwhy.kept", call.kept.name());
        to.whole("gpuwhy.return", call.ret.into());
        if let Some(op) = op {
            to.text("gpuwhy.layer", op.layer.name());
        }
        for (name, value) in
            crate::table::OWNER.iter().zip(&slow.owner).filter(|(_, value)| !value.is_empty())
        {
            match value.parse() {
                Ok(rank) if *name == "rank" => to.whole(name, rank),
                _ => to.text(name, value),
            }
        }
        if call.bytes > 0 {
            to.whole("gpuwhy.bytes", call.bytes as i64);
        }
        if call.stream > 0 {
            to.text("gpuwhy.stream", &format!("{:#x}", call.stream));
        }
        if let Some(gpu) = call.device {
            to.whole("gpuwhy.gpu", gpu.into());
        }
        if let Some((rank, seq, communicator)) = slow.collective {
            if let Some(rank) = rank {
                to.whole("gpuwhy.collective.rank", rank.into());
            }
            if let Some(seq) = seq {
                to.whole("gpuwhy.collective.seq", seq as i64);
            }
            if let Some(hash) = communicator {
                to.text("gpuwhy.collective.comm_id_hash", &format!("{hash:#x}"));
            }
        }
        let causes = causes(op, call);
        let largest = causes.iter().max_by_key(|(_, ns)| **ns).map(|(cause, _)| *cause);
        if let Some(cause) = largest {
            to.text("gpuwhy.cause", cause.name());
        }
        for (cause, ns) in causes {
            to.real(&format!("gpuwhy.cause.{}", cause.name()), ns as f64 / 1e9);
        }
        if let Some(stack_id) = call.stack_id {
            to.whole("gpuwhy.stack_id", stack_id);
            if let Some(stack) = self.stacks.get(&stack_id).filter(|stack| !stack.lines.is_empty()) {
                to.stack("code.stacktrace", stack);
            }
        }
    }
}

/// Takes what is told of a call, one pair after the other.
pub(super) trait Pairs {
    fn text(&mut self, key: &str, value: &str);
    fn whole(&mut self, key: &str, value: i64);
    fn real(&mut self, key: &str, value: f64);
    fn stack(&mut self, key: &str, value: &StackText);
}

impl Pairs for Vec<KeyValue> {
    fn text(&mut self, key: &str, value: &str) {
        self.push(text(key, value));
    }

    fn whole(&mut self, key: &str, value: i64) {
        self.push(whole(key, value));
    }

    fn real(&mut self, key: &str, value: f64) {
        self.push(real(key, value));
    }

    fn stack(&mut self, key: &str, value: &StackText) {
        self.push(text(key, &*value.lines));
    }
}

/// A stack in words, innermost first, a line each. Many calls have the same.
#[derive(Debug)]
pub(super) struct StackText {
    lines: String,
    /// The same as JSON, once somebody wanted it so.
    json: OnceCell<String>,
}

impl StackText {
    fn of(stack: &Stack) -> StackText {
        let named = stack.frames.iter().filter(|frame| frame.function.is_some()).take(MAX_FRAMES);
        StackText { lines: named.map(line).collect::<Vec<_>>().join("\n"), json: OnceCell::new() }
    }

    pub(super) fn json(&self) -> &str {
        self.json.get_or_init(|| serde_json::Value::from(&*self.lines).to_string())
    }
}

/// What a failed call returned.
fn failure(call: &Call) -> Option<String> {
    (call.kept == gpuwhy_model::Kept::Error).then(|| format!("returned {}", call.ret))
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

fn line(frame: &Frame) -> String {
    let function = frame.function.as_deref().unwrap_or("?");
    let place = frame.file.as_deref().unwrap_or(&frame.module);
    match frame.line {
        Some(line) => format!("{function} ({place}:{line})"),
        None => format!("{function} ({place})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_model::{Blame, Family, Kept, Layer, Role};

    /// Plain ones, and what JSON, people and programs may stumble over.
    fn slow(number: u64) -> Call {
        let odd = number % 2 == 1;
        Call {
            op: OpId(number as u16 % 3),
            pid: 42,
            tid: 43,
            start_ns: 1_790_000_000_000_000_000 + number,
            duration_ns: 1_000_000_007,
            kept: if odd { Kept::Error } else { Kept::Slow },
            ret: if odd { -2 } else { 0 },
            bytes: if odd { u64::MAX / 2 } else { 0 },
            stream: number,
            device: odd.then_some(3),
            stack_id: Some(number as i64 % 3),
            blame: Blame { oncpu_ns: 1_000_000_000, runq_ns: 7, ..Blame::default() },
            ..Call::default()
        }
    }

    fn spans() -> Spans {
        let op = |id, name: &str| OpInfo {
            id: OpId(id),
            name: name.into(),
            layer: Layer::Cuda,
            family: Family::Alloc,
            waits_for_gpu: false,
            role: Role::default(),
        };
        let mut spans = Spans::new("node \"7\"", &[op(0, "cudaMalloc"), op(1, "odd \u{202e}\\\"\n\0name")]);
        let frame = |function: &str| Frame {
            function: Some(function.into()),
            file: Some("/srv/\"x\"\u{7}.py".into()),
            line: Some(7),
            ..Frame::default()
        };
        let stack =
            Stack { stack_id: 1, frames: vec![frame("inner\n"), frame("outer\u{2028}")], ..Stack::default() };
        let batch = Batch { calls: (0..1200).map(slow).collect(), stacks: vec![stack], ..Batch::default() };
        let nccl = NcclCall {
            call: slow(1),
            rank: Some(5),
            seq: Some(9),
            comm_id_hash: Some(255),
            ..NcclCall::default()
        };
        let batch = Batch { nccl_calls: vec![nccl], ..batch };
        spans.take(&batch, |_| ["job \"x\"".into(), "7".into(), "".into()]);
        spans
    }

    #[test]
    fn lines_of_json_are_the_requests_that_would_be_pushed() {
        let resource = Resource::new("node \"7\"", &[("team".into(), "a\nb".into())]);
        let pushed = spans().drain(&resource);
        assert_eq!(pushed.iter().map(Request::items).collect::<Vec<_>>(), [512, 512, 177]);
        let mut lines = spans();
        for request in pushed {
            let (line, items) = lines.next_line(&resource).unwrap().unwrap();
            assert_eq!((items, line.iter().filter(|byte| **byte == b'\n').count()), (request.items(), 1));
            assert_eq!(Request::Traces(serde_json::from_slice(&line).unwrap()), request);
        }
        assert!(lines.next_line(&resource).unwrap().is_none());
    }
}
