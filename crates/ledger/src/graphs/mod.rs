//! The graphs of one process: captured or built, made executable, launched, updated, destroyed. Handles are used
//! again by the library, so each call is about the graph that had the handle when the call began.

mod contents;
mod row;
mod rows;
mod share;

use crate::captures::Capture;
use crate::process::Taken;
use crate::table::Table;
use crate::timeline::{LATE_NS, Span};
pub(crate) use contents::Kind;
use contents::{Contents, Node};
use gpuwhy_model::{Call, Facts, Graph, LaunchCount};
use row::Row;
use rows::{MAX_GRAPHS, Rows};
use std::sync::Arc;

const MAX_CAPTURES: usize = 1_024;
/// Nodes remembered of a process, over all its graphs: some 20 MB. The contents of the oldest graphs go first; their
/// rows have been told.
const MAX_KEPT_NODES: usize = 262_144;

#[derive(Debug)]
pub(crate) struct Graphs {
    pid: u32,
    rows: Rows,
    /// Graphs by handle.
    made: Table<u64, Made>,
    /// Rows of executables whose graph was not known, by the graph's handle.
    orphans: Table<u64, u64>,
    /// Nodes by the number of their capture.
    captured: Table<u64, Captured>,
}

/// A graph that the program holds.
#[derive(Debug)]
struct Made {
    row: u64,
    made: Span,
    destroyed_ns: Option<u64>,
    captured: bool,
    /// It has been made executable: its row has contents of its own from then on.
    instantiated: bool,
    contents: Option<Arc<Contents>>,
}

#[derive(Debug, Default)]
struct Captured {
    nodes: Contents,
    outcome: Outcome,
}

#[derive(Debug, Default, Clone, Copy)]
enum Outcome {
    #[default]
    Open,
    Failed,
    Row(u64),
}

impl Graphs {
    pub(crate) fn new(pid: u32) -> Self {
        Graphs {
            pid,
            rows: Rows::new(pid),
            made: Table::new(MAX_GRAPHS),
            orphans: Table::new(MAX_GRAPHS),
            captured: Table::new(MAX_CAPTURES),
        }
    }

    pub(crate) fn knows_exec(&self, exec: u64) -> bool {
        self.rows.knows_exec(exec)
    }

    /// A call became a node of its capture. Its record may come after that of the capture's end.
    pub(crate) fn node(&mut self, call: &Call, kind: Kind) {
        let launched = (kind == Kind::Graph).then(|| self.rows.exec_at(call.handle, call.start_ns)).flatten();
        let inside = launched.and_then(|row| self.rows.get(row)?.contents.clone());
        let node = Node::new(kind, call);
        let captured = self.captured.get_or_insert_with(call.capture, Captured::default);
        match captured.outcome {
            Outcome::Open => {
                captured.nodes.insert(node, inside.as_deref());
            }
            Outcome::Failed => {}
            Outcome::Row(row) => self.add_late(row, node, inside.as_deref()),
        }
    }

    pub(crate) fn capture_ended(&mut self, call: &Call, capture: &Capture) {
        // Without a number the kernel saw no begin, and no nodes.
        let contents = (capture.number != 0).then(|| {
            let captured = self.captured.get_or_insert_with(capture.number, Captured::default);
            captured.outcome = Outcome::Failed;
            Arc::new(std::mem::take(&mut captured.nodes))
        });
        if capture.graph == 0 {
            return;
        }
        let id = match self.captured_into(capture) {
            Some(row) => {
                for node in contents.iter().flat_map(|contents| contents.listed()) {
                    self.add_late(row, *node, None);
                }
                row
            }
            None => {
                let mut graph = self.graph(call);
                graph.created_ns = capture.begin.map_or(call.start_ns, |begin| begin.start_ns);
                graph.stack_id = call.stack_id.or(capture.stack_id);
                self.make(graph, Span::of(call), contents, true)
            }
        };
        if let Some(row) = self.rows.change(id) {
            let durations = [row.graph.capture_ns, capture.duration_ns()];
            row.graph.capture_ns = durations.into_iter().flatten().reduce(u64::saturating_add);
            row.shows_nodes = true;
        }
        if let Some(captured) = self.captured.get_mut(&capture.number) {
            captured.outcome = Outcome::Row(id);
        }
    }

    /// Its begin came after its end.
    pub(crate) fn capture_begun_late(&mut self, capture: &Capture) {
        let outcome = self.captured.get(&capture.number).map(|captured| captured.outcome);
        if let Some(Outcome::Row(row)) = outcome
            && let Some(row) = self.rows.change(row)
        {
            row.graph.capture_ns = capture.duration_ns();
        }
    }

    pub(crate) fn created(&mut self, call: &Call) {
        self.make(self.graph(call), Span::of(call), Some(Arc::default()), false);
    }

    pub(crate) fn cloned(&mut self, call: &Call) {
        let contents = self.contents_at(call.aux, call.start_ns);
        self.make(self.graph(call), Span::of(call), contents, false);
    }

    /// A node is added to the graph `aux`; the child graph `handle` with all that is in it.
    pub(crate) fn added(&mut self, call: &Call, kind: Kind) -> Taken {
        let inside = (kind == Kind::Graph).then(|| self.contents_at(call.handle, call.start_ns)).flatten();
        let Some(made) = self.made_at(call.aux, call.start_ns) else { return Taken::NotYet };
        let row = made.row;
        self.add(call.aux, row, Span::of(call).end_ns, Node::new(kind, call), inside.as_deref());
        Taken::Done
    }

    pub(crate) fn instantiated(&mut self, call: &Call) {
        let (span, exec) = (Span::of(call), call.handle);
        if exec == 0 {
            return;
        }
        let (ended_ns, launches) = self.rows.displace(exec, span);
        let id = self.row_to_instantiate(call, span);
        let Some(row) = self.rows.change(id) else { return };
        row.instantiated = Some(span);
        row.shows_nodes = true;
        row.graph.exec = Some(exec);
        row.graph.instantiate_ns = Some(span.duration_ns());
        row.graph.stack_id = row.graph.stack_id.or(call.stack_id);
        // The graph may have been destroyed meanwhile: from here on its executable counts.
        row.graph.destroyed_ns = ended_ns;
        row.graph.launches += launches.count;
        row.graph.launch_ns += launches.sum_ns;
        self.rows.link(exec, id);
    }

    /// The executable does from now on what the graph `aux` says.
    pub(crate) fn updated(&mut self, call: &Call) {
        let contents = self.contents_at(call.aux, call.start_ns);
        let id = match self.rows.exec_at(call.handle, call.start_ns) {
            Some(id) => id,
            None if call.handle == 0 || self.rows.live_exec(call.handle).is_some() => return,
            None => self.rows.add_unknown(call.handle, call.start_ns),
        };
        if let Some(row) = self.rows.change(id) {
            row.graph.updates += 1;
            row.shows_nodes = true;
            row.replace(contents);
        }
    }

    pub(crate) fn graph_destroyed(&mut self, call: &Call) -> Taken {
        let Some(made) = self.made_at(call.handle, call.start_ns) else { return Taken::NotYet };
        let end_ns = Span::of(call).end_ns;
        made.destroyed_ns = Some(end_ns);
        let (id, instantiated) = (made.row, made.instantiated);
        if !instantiated && let Some(row) = self.rows.change(id) {
            row.graph.destroyed_ns = Some(end_ns);
        }
        Taken::Done
    }

    pub(crate) fn exec_destroyed(&mut self, call: &Call) -> Taken {
        let Some(id) = self.rows.exec_at(call.handle, call.start_ns) else { return Taken::NotYet };
        if let Some(row) = self.rows.change(id) {
            row.graph.destroyed_ns = Some(Span::of(call).end_ns.max(row.graph.created_ns));
        }
        Taken::Done
    }

    pub(crate) fn launched(&mut self, count: &LaunchCount) {
        self.rows.launched(count);
    }

    /// The process ended, and all of its graphs with it.
    pub(crate) fn close(&mut self, at_ns: u64) {
        self.rows.close(at_ns);
    }

    pub(crate) fn emit(&mut self, facts: &mut Facts) {
        self.rows.emit(facts);
    }

    /// Forgets what nothing more can come of.
    pub(crate) fn forget(&mut self, newest_ns: u64) {
        self.rows.forget(newest_ns);
        let over = |at_ns: u64| at_ns.saturating_add(LATE_NS) < newest_ns;
        self.made.retain(|_, made| !made.destroyed_ns.is_some_and(over));
        self.shed();
    }

    /// Keeps the nodes of all graphs together below their limit.
    fn shed(&mut self) {
        let listed =
            |contents: &Option<Arc<Contents>>| contents.as_ref().map_or(0, |kept| kept.listed().len());
        let in_rows: usize = self.rows.iter().map(|(_, row)| listed(&row.contents)).sum();
        let in_graphs: usize = self.made.values().map(|made| listed(&made.contents)).sum();
        let in_captures: usize = self.captured.values().map(|captured| captured.nodes.listed().len()).sum();
        let mut excess = (in_rows + in_graphs + in_captures).saturating_sub(MAX_KEPT_NODES);
        if excess == 0 {
            return;
        }
        let mut shed = |contents: Option<Arc<Contents>>| {
            excess = excess.saturating_sub(listed(&contents));
            excess > 0
        };
        let rows: Vec<u64> = self.rows.iter().map(|(id, _)| id).collect();
        let graphs: Vec<u64> = self.made.keys().copied().collect();
        let captures: Vec<u64> = self.captured.keys().copied().collect();
        let more = rows.into_iter().all(|id| shed(self.rows.forget_contents(id)))
            && graphs
                .into_iter()
                .all(|graph| shed(self.made.get_mut(&graph).and_then(|made| made.contents.take())));
        if more {
            let nodes = |captured: Captured| Arc::new(captured.nodes);
            captures.into_iter().all(|number| shed(self.captured.remove(&number).map(nodes)));
        }
    }

    fn graph(&self, call: &Call) -> Graph {
        Graph {
            pid: self.pid,
            graph: call.handle,
            created_ns: call.start_ns,
            stack_id: call.stack_id,
            ..Graph::default()
        }
    }

    /// A new graph with a row, unless its executable has one already; the row.
    fn make(&mut self, graph: Graph, span: Span, contents: Option<Arc<Contents>>, captured: bool) -> u64 {
        let handle = graph.graph;
        let mut made = Made {
            row: 0,
            made: span,
            destroyed_ns: None,
            captured,
            instantiated: false,
            contents: contents.clone(),
        };
        if let Some(row) = self.adopt(handle, span, &contents) {
            made.row = row;
            made.instantiated = true;
            self.made.insert(handle, made);
            return row;
        }
        made.contents = None;
        made.row = self.rows.add(Row::new(graph, contents));
        let row = made.row;
        let old = self.made.get(&handle).map(|old| (old.made, old.row, old.instantiated, old.destroyed_ns));
        match old {
            // A late record: another graph has the handle by now.
            Some((newer, ..)) if newer.start_ns >= span.end_ns => {
                if let Some(row) = self.rows.change(row) {
                    row.graph.destroyed_ns = Some(newer.start_ns);
                }
                return row;
            }
            // The old one must have been destroyed, though nobody told.
            Some((_, old_row, false, None)) => {
                if let Some(old_row) = self.rows.change(old_row) {
                    old_row.graph.destroyed_ns = Some(span.start_ns);
                }
            }
            _ => {}
        }
        self.made.insert(handle, made);
        row
    }

    /// The row of an executable that was made of this graph, where that record came first.
    fn adopt(&mut self, graph: u64, span: Span, contents: &Option<Arc<Contents>>) -> Option<u64> {
        let id = *self.orphans.get(&graph)?;
        let instantiated = self.rows.get(id)?.instantiated?;
        let gap_ns = instantiated.start_ns.checked_sub(span.end_ns)?;
        if gap_ns > LATE_NS {
            return None;
        }
        self.orphans.remove(&graph);
        let row = self.rows.change(id)?;
        row.replace(contents.clone());
        Some(id)
    }

    /// The row of the graph that was captured into, where the program had made it before.
    fn captured_into(&mut self, capture: &Capture) -> Option<u64> {
        let begin_ns = capture.begin?.start_ns;
        let made = self.made_at(capture.graph, begin_ns)?;
        (!made.captured && !made.instantiated).then_some(made.row)
    }

    fn row_to_instantiate(&mut self, call: &Call, span: Span) -> u64 {
        let mut graph =
            Graph { pid: self.pid, graph: call.aux, created_ns: span.start_ns, ..Graph::default() };
        graph.stack_id = call.stack_id;
        let first = self.made_at(call.aux, span.start_ns).map(|made| {
            let first = !std::mem::replace(&mut made.instantiated, true);
            (first, made.row, made.contents.clone())
        });
        match first {
            Some((true, row, _)) if self.rows.get(row).is_some() => {
                let contents = self.rows.get(row).and_then(|row| row.contents.clone());
                if let Some(made) = self.made.get_mut(&call.aux) {
                    made.contents = contents;
                }
                row
            }
            Some((_, _, contents)) => self.rows.add(Row::new(graph, contents)),
            None => {
                let row = self.rows.add(Row::new(graph, None));
                self.orphans.insert(call.aux, row);
                row
            }
        }
    }

    /// Adds a node to a row's graph, whose record may come after the executable was made.
    fn add_late(&mut self, row: u64, node: Node, inside: Option<&Contents>) {
        let handle = self.rows.get(row).map_or(0, |row| row.graph.graph);
        self.add(handle, row, 0, node, inside);
    }

    /// Adds a node to a graph; to its row as well, unless the executable was made before.
    fn add(&mut self, handle: u64, id: u64, at_ns: u64, node: Node, inside: Option<&Contents>) {
        let made = self.made.get_mut(&handle).filter(|made| made.row == id);
        if let Some(contents) = made.and_then(|made| made.contents.as_mut()) {
            Arc::make_mut(contents).insert(node, inside);
        }
        if let Some(row) = self.rows.change(id)
            && row.instantiated.is_none_or(|instantiated| at_ns <= instantiated.start_ns)
        {
            row.insert(node, inside);
        }
    }

    fn made_at(&mut self, graph: u64, at_ns: u64) -> Option<&mut Made> {
        self.made.get_mut(&graph).filter(|made| {
            made.made.end_ns <= at_ns && made.destroyed_ns.is_none_or(|destroyed_ns| at_ns <= destroyed_ns)
        })
    }

    fn contents_at(&mut self, graph: u64, at_ns: u64) -> Option<Arc<Contents>> {
        let made = self.made_at(graph, at_ns)?;
        if made.instantiated {
            return made.contents.clone();
        }
        let row = made.row;
        self.rows.get(row)?.contents.clone()
    }
}

#[cfg(test)]
mod tests;
