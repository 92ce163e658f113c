//! The captures of one process, from begin to end. While a thread captures, what it allocates is for the graph.

use crate::timeline::{LATE_NS, Span};
use gpuwhy_model::Call;

/// As many as are ever open at once, and more.
const MAX_CAPTURES: usize = 1_024;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Capture {
    /// The ledger's own number of it.
    pub(crate) id: u64,
    /// The kernel's; 0 where it is not known yet.
    pub(crate) number: u64,
    tid: u32,
    stream: u64,
    pub(crate) begin: Option<Span>,
    pub(crate) end: Option<Span>,
    /// What came of it; 0 while it is open, and where it failed.
    pub(crate) graph: u64,
    /// Of the call that began it.
    pub(crate) stack_id: Option<i64>,
}

impl Capture {
    pub(crate) fn duration_ns(&self) -> Option<u64> {
        Some(self.end?.end_ns.saturating_sub(self.begin?.start_ns))
    }

    /// What memory allocated during it is marked with.
    pub(crate) fn pool(&self) -> String {
        match self.graph {
            0 => format!("capture:{}", self.number),
            graph => format!("graph:{graph:#x}"),
        }
    }

    fn is_number(&self, number: u64) -> bool {
        number != 0 && self.number == number
    }

    fn lasted_at(&self, at_ns: u64) -> bool {
        self.begin.is_some_and(|begin| begin.end_ns <= at_ns)
            && self.end.is_none_or(|end| at_ns <= end.end_ns)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Captures {
    /// In the order they came.
    captures: Vec<Capture>,
    next_id: u64,
}

impl Captures {
    /// A capture begins. Returned is one that has ended already: this record was late.
    pub(crate) fn begin(&mut self, call: &Call) -> Option<Capture> {
        let span = Span::of(call);
        let late = self.captures.iter_mut().find(|capture| {
            capture.begin.is_none()
                && (capture.is_number(call.capture)
                    || (capture.stream == call.stream
                        && capture.end.is_some_and(|end| end.start_ns >= span.end_ns)))
        });
        if let Some(capture) = late {
            capture.begin = Some(span);
            capture.stack_id = call.stack_id;
            return capture.end.map(|_| *capture);
        }
        // A stream is captured once at a time: the end of an open one was lost.
        for capture in self.captures.iter_mut().filter(|capture| capture.end.is_none()) {
            if capture.stream == call.stream
                && capture.begin.is_some_and(|begin| begin.end_ns <= span.start_ns)
            {
                capture.end = Some(span);
            }
        }
        let new = self.add(call.capture, call);
        new.begin = Some(span);
        new.stack_id = call.stack_id;
        None
    }

    /// A capture ends, in a graph if it went well.
    pub(crate) fn end(&mut self, call: &Call) -> Capture {
        let span = Span::of(call);
        let open = |capture: &Capture| {
            capture.end.is_none() && capture.begin.is_none_or(|begin| begin.end_ns <= span.start_ns)
        };
        let found = self
            .captures
            .iter()
            .position(|capture| open(capture) && capture.is_number(call.capture))
            .or_else(|| {
                // Without a number the stream tells.
                let unnumbered = |capture: &Capture| capture.number == 0 || call.capture == 0;
                self.captures.iter().rposition(|capture| {
                    open(capture) && unnumbered(capture) && capture.stream == call.stream
                })
            });
        let capture = match found {
            Some(at) => &mut self.captures[at],
            None => self.add(call.capture, call),
        };
        capture.end = Some(span);
        if call.capture != 0 {
            capture.number = call.capture;
        }
        capture.graph = if call.ret == 0 { call.handle } else { 0 };
        *capture
    }

    /// The capture during which a call was made: by its number, or by its thread.
    pub(crate) fn of(&mut self, call: &Call) -> Option<Capture> {
        if call.capture != 0 {
            if let Some(known) = self.captures.iter().find(|capture| capture.is_number(call.capture)) {
                return Some(*known);
            }
            return Some(*self.add(call.capture, call));
        }
        let at_ns = Span::of(call).end_ns;
        self.captures
            .iter()
            .rev()
            .find(|capture| capture.tid == call.tid && capture.lasted_at(at_ns))
            .copied()
    }

    /// Nothing of those that ended so long ago is still to come.
    pub(crate) fn forget(&mut self, newest_ns: u64) {
        self.captures
            .retain(|capture| capture.end.is_none_or(|end| end.end_ns.saturating_add(LATE_NS) >= newest_ns));
    }

    fn add(&mut self, number: u64, call: &Call) -> &mut Capture {
        if self.captures.len() == MAX_CAPTURES {
            self.captures.remove(0);
        }
        self.next_id += 1;
        self.captures.push(Capture {
            id: self.next_id,
            number,
            tid: call.tid,
            stream: call.stream,
            begin: None,
            end: None,
            graph: 0,
            stack_id: None,
        });
        let last = self.captures.len() - 1;
        &mut self.captures[last]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{call, handle};

    fn begin(number: u64, stream: u64, end_ns: u64) -> Call {
        Call { capture: number, stream, ..call("cudaStreamBeginCapture", end_ns) }
    }

    fn end(number: u64, stream: u64, end_ns: u64, graph: u64) -> Call {
        Call { capture: number, stream, ..handle("cudaStreamEndCapture", end_ns, graph) }
    }

    #[test]
    fn a_capture_lasts_from_begin_to_end() {
        let mut captures = Captures::default();
        assert!(captures.begin(&begin(1, 0x10, 100)).is_none());
        assert!(captures.begin(&begin(2, 0x20, 110)).is_none());
        let ended = captures.end(&end(1, 0x10, 200, 0xa));
        assert_eq!((ended.duration_ns(), ended.graph), (Some(101), 0xa));
        assert_eq!(captures.end(&Call { ret: 901, ..end(2, 0x20, 210, 0xb) }).graph, 0);
    }

    #[test]
    fn the_stream_tells_where_there_is_no_number() {
        let mut captures = Captures::default();
        captures.begin(&begin(0, 0x10, 100));
        captures.begin(&begin(0, 0x20, 110));
        let ended = captures.end(&end(5, 0x10, 200, 0xa));
        assert_eq!((ended.number, ended.duration_ns()), (5, Some(101)));
    }

    #[test]
    fn a_begin_may_come_after_the_end() {
        let mut captures = Captures::default();
        let ended = captures.end(&end(1, 0x10, 200, 0xa));
        assert_eq!(ended.duration_ns(), None);
        let late = captures.begin(&begin(1, 0x10, 100)).unwrap();
        assert_eq!((late.id, late.duration_ns()), (ended.id, Some(101)));
    }

    #[test]
    fn calls_belong_to_the_capture_of_their_thread() {
        let mut captures = Captures::default();
        captures.begin(&begin(1, 0x10, 100));
        assert_eq!(captures.of(&call("cudaMalloc", 150)).unwrap().pool(), "capture:1");
        assert!(captures.of(&Call { tid: 8, ..call("cudaMalloc", 150) }).is_none());
        assert!(captures.of(&Call { tid: 8, capture: 1, ..call("cudaMalloc", 150) }).is_some());
        captures.end(&end(1, 0x10, 200, 0xa));
        assert_eq!(captures.of(&call("cudaMalloc", 160)).unwrap().pool(), "graph:0xa");
        assert!(captures.of(&call("cudaMalloc", 300)).is_none());
        captures.forget(200 + LATE_NS + 1);
        assert!(captures.of(&call("cudaMalloc", 160)).is_none());
    }

    #[test]
    fn an_end_that_was_lost_does_not_go_on_for_ever() {
        let mut captures = Captures::default();
        captures.begin(&begin(1, 0x10, 100));
        captures.begin(&begin(2, 0x10, 300));
        captures.end(&end(2, 0x10, 400, 0xa));
        assert!(captures.of(&call("cudaMalloc", 500)).is_none());
    }
}
