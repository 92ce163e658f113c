//! What a graph is made of: its nodes in the order of their calls, those of graphs inside it spelled out.

use gpuwhy_model::{Call, Direction, Graph, GraphNode, OpId};

/// Nodes listed of one graph; more are only counted. Real ones have hundreds, some a few thousand.
const MAX_NODES: usize = 65_536;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Kernel,
    Copy,
    Set,
    Host,
    Graph,
    Collective,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Kernel => "kernel",
            Kind::Copy => "copy",
            Kind::Set => "set",
            Kind::Host => "host",
            Kind::Graph => "graph",
            Kind::Collective => "collective",
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Node {
    start_ns: u64,
    kind: Kind,
    op: OpId,
    handle: u64,
    bytes: u64,
    direction: Option<Direction>,
    stack_id: Option<i64>,
}

impl Node {
    pub(crate) fn new(kind: Kind, call: &Call) -> Self {
        Node {
            start_ns: call.start_ns,
            kind,
            op: call.op,
            handle: call.handle,
            bytes: call.bytes,
            direction: call.direction,
            stack_id: call.stack_id,
        }
    }

    pub(crate) fn fact(&self, graph: &Graph, number: usize, replaced: bool) -> GraphNode {
        GraphNode {
            pid: graph.pid,
            graph: graph.graph,
            created_ns: graph.created_ns,
            node: number as u32,
            kind: self.kind.name().into(),
            op: self.op,
            handle: self.handle,
            bytes: self.bytes,
            direction: self.direction,
            stack_id: self.stack_id,
            replaced,
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Contents {
    nodes: Vec<Node>,
    kernels: u64,
    /// Nodes that found no room in the list.
    unlisted: u64,
}

impl Contents {
    pub(crate) fn listed(&self) -> &[Node] {
        &self.nodes
    }

    pub(crate) fn count(&self) -> u64 {
        self.unlisted.saturating_add(self.nodes.len() as u64)
    }

    pub(crate) fn kernels(&self) -> u64 {
        self.kernels
    }

    /// Puts a node where its time says, and what is inside it behind it. From which number on the list is new.
    pub(crate) fn insert(&mut self, node: Node, inside: Option<&Contents>) -> usize {
        let kernels = u64::from(node.kind == Kind::Kernel) + inside.map_or(0, Contents::kernels);
        self.kernels = self.kernels.saturating_add(kernels);
        let at = self.nodes.partition_point(|known| known.start_ns <= node.start_ns);
        let room = MAX_NODES - self.nodes.len();
        let moved = |inner: &Node| Node { start_ns: node.start_ns, ..*inner };
        let inner = inside.into_iter().flat_map(Contents::listed).map(moved);
        let before = self.nodes.len();
        self.nodes.splice(at..at, std::iter::once(node).chain(inner).take(room));
        let listed = (self.nodes.len() - before) as u64;
        let count = inside.map_or(0, Contents::count).saturating_add(1);
        self.unlisted = self.unlisted.saturating_add(count - listed);
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::handle;

    fn node(kind: Kind, handle_: u64, start_ns: u64) -> Node {
        Node::new(kind, &handle("cuLaunchKernel", start_ns + 1, handle_))
    }

    fn handles(contents: &Contents) -> Vec<u64> {
        contents.listed().iter().map(|node| node.handle).collect()
    }

    #[test]
    fn nodes_are_in_the_order_of_their_calls() {
        let mut contents = Contents::default();
        assert_eq!(contents.insert(node(Kind::Kernel, 1, 10), None), 0);
        assert_eq!(contents.insert(node(Kind::Copy, 3, 30), None), 1);
        assert_eq!(contents.insert(node(Kind::Kernel, 2, 20), None), 1);
        assert_eq!(handles(&contents), [1, 2, 3]);
        assert_eq!((contents.count(), contents.kernels()), (3, 2));
    }

    #[test]
    fn a_graph_inside_is_spelled_out() {
        let mut inner = Contents::default();
        inner.insert(node(Kind::Kernel, 11, 1), None);
        inner.insert(node(Kind::Kernel, 12, 2), None);
        let mut contents = Contents::default();
        contents.insert(node(Kind::Kernel, 1, 10), None);
        contents.insert(node(Kind::Kernel, 3, 30), None);
        contents.insert(node(Kind::Graph, 2, 20), Some(&inner));
        assert_eq!(handles(&contents), [1, 2, 11, 12, 3]);
        assert_eq!((contents.count(), contents.kernels()), (5, 4));
    }

    /// Forty levels of two copies each would be a million million nodes.
    #[test]
    fn graphs_in_graphs_do_not_explode() {
        let mut contents = Contents::default();
        contents.insert(node(Kind::Kernel, 1, 1), None);
        for level in 2..42 {
            let inner = contents.clone();
            contents = Contents::default();
            contents.insert(node(Kind::Graph, level, 1), Some(&inner));
            contents.insert(node(Kind::Graph, level, 2), Some(&inner));
        }
        assert_eq!(contents.listed().len(), MAX_NODES);
        assert_eq!(contents.kernels(), 1 << 40);
        assert_eq!(contents.count(), (1 << 40) + (1 << 41) - 2);
    }
}
