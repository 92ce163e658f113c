//! A row of `graphs`: a graph with its executable, or with none yet. A graph instantiated twice is two rows.

use super::contents::{Contents, Node};
use crate::timeline::Span;
use gpuwhy_model::{Facts, Graph, GraphNode};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) graph: Graph,
    /// Nothing where it was made before the trace, or was forgotten since.
    pub(crate) contents: Option<Arc<Contents>>,
    /// The call that made the executable, where it was seen.
    pub(crate) instantiated: Option<Span>,
    /// Its nodes are told from the end of its capture on, or when it becomes executable.
    pub(crate) shows_nodes: bool,
    /// So many nodes were told, and from this one on they have changed.
    reported: usize,
    changed_from: usize,
    replaced: Vec<GraphNode>,
}

impl Row {
    pub(crate) fn new(graph: Graph, contents: Option<Arc<Contents>>) -> Self {
        let mut row = Row {
            graph,
            contents,
            instantiated: None,
            shows_nodes: false,
            reported: 0,
            changed_from: 0,
            replaced: Vec::new(),
        };
        row.count_nodes();
        row
    }

    /// From when on the executable could be launched; always where it was made before the trace.
    pub(crate) fn executable_from_ns(&self) -> u64 {
        self.instantiated.map_or(0, |span| span.end_ns)
    }

    pub(crate) fn was_executable_at(&self, at_ns: u64) -> bool {
        self.graph.exec.is_some()
            && self.executable_from_ns() <= at_ns
            && self.graph.destroyed_ns.is_none_or(|destroyed_ns| at_ns <= destroyed_ns)
    }

    pub(crate) fn insert(&mut self, node: Node, inside: Option<&Contents>) {
        if let Some(contents) = &mut self.contents {
            let at = Arc::make_mut(contents).insert(node, inside);
            self.changed_from = self.changed_from.min(at);
            self.count_nodes();
        }
    }

    /// The contents are others from now on.
    pub(crate) fn replace(&mut self, contents: Option<Arc<Contents>>) {
        let old = std::mem::replace(&mut self.contents, contents);
        let listed = self.contents.as_ref().map_or(0, |contents| contents.listed().len());
        let gone = old.iter().flat_map(|old| old.listed()).enumerate().take(self.reported).skip(listed);
        self.replaced.extend(gone.map(|(number, node)| node.fact(&self.graph, number, true)));
        self.reported = self.reported.min(listed);
        self.changed_from = 0;
        self.graph.nodes = None;
        self.graph.kernels = None;
        self.count_nodes();
    }

    pub(crate) fn emit(&mut self, facts: &mut Facts) {
        facts.graphs.push(self.graph.clone());
        facts.graph_nodes.append(&mut self.replaced);
        if !self.shows_nodes {
            return;
        }
        let listed = self.contents.as_ref().map_or(&[][..], |contents| contents.listed());
        let new = listed.iter().enumerate().skip(self.changed_from);
        facts.graph_nodes.extend(new.map(|(number, node)| node.fact(&self.graph, number, false)));
        self.reported = self.reported.max(listed.len());
        self.changed_from = listed.len();
    }

    fn count_nodes(&mut self) {
        if let Some(contents) = &self.contents {
            self.graph.nodes = Some(contents.count());
            self.graph.kernels = Some(contents.kernels());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::contents::Kind;
    use super::*;
    use crate::testing::handle;

    fn contents(handles: &[u64]) -> Option<Arc<Contents>> {
        let mut contents = Contents::default();
        for (i, handle_) in handles.iter().enumerate() {
            let call = handle("cuLaunchKernel", i as u64 + 2, *handle_);
            contents.insert(Node::new(Kind::Kernel, &call), None);
        }
        Some(Arc::new(contents))
    }

    fn reported(row: &mut Row) -> Vec<(u32, u64, bool)> {
        let mut facts = Facts::default();
        row.emit(&mut facts);
        facts.graph_nodes.iter().map(|node| (node.node, node.handle, node.replaced)).collect()
    }

    #[test]
    fn an_update_replaces_nodes_and_marks_those_beyond() {
        let mut row = Row::new(Graph::default(), contents(&[1, 2, 3]));
        assert!(reported(&mut row).is_empty());
        row.shows_nodes = true;
        assert_eq!(reported(&mut row), [(0, 1, false), (1, 2, false), (2, 3, false)]);
        assert!(reported(&mut row).is_empty());
        row.replace(contents(&[4]));
        assert_eq!(reported(&mut row), [(1, 2, true), (2, 3, true), (0, 4, false)]);
        row.replace(None);
        assert_eq!(reported(&mut row), [(0, 4, true)]);
        assert_eq!(row.graph.nodes, None);
    }

    #[test]
    fn what_was_never_told_needs_no_correction() {
        let mut row = Row::new(Graph::default(), contents(&[1, 2, 3]));
        row.shows_nodes = true;
        row.replace(contents(&[4]));
        assert_eq!(reported(&mut row), [(0, 4, false)]);
    }

    #[test]
    fn a_late_node_moves_those_behind_it() {
        let mut row = Row::new(Graph::default(), contents(&[1, 3]));
        row.shows_nodes = true;
        reported(&mut row);
        row.insert(Node::new(Kind::Kernel, &handle("cuLaunchKernel", 2, 2)), None);
        assert_eq!(reported(&mut row), [(1, 2, false), (2, 3, false)]);
    }
}
