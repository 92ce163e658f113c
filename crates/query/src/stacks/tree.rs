//! Stacks merged into a tree, outermost frames first.

use super::{StackFrame, StackFrames};
use crate::QueryError;
use crate::evidence::row::Row;
use gpuwhy_store::Reader;
use std::cmp::Reverse;
use std::collections::HashMap;

/// What tells frames of the same caller apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) kind: String,
    function: String,
    file: Option<String>,
    line: Option<u64>,
    module: Option<String>,
}

impl Place {
    /// One that is a word and no place in the code.
    pub(super) fn word(kind: &str, function: impl Into<String>) -> Place {
        Place { kind: kind.into(), function: function.into(), file: None, line: None, module: None }
    }
}

/// A stack, outermost first.
pub(super) fn places(reader: &Reader, stack_id: i64, wanted: StackFrames) -> Result<Vec<Place>, QueryError> {
    let mut places = Vec::new();
    let sql = "SELECT kind, function, file, line, module, address FROM frames WHERE stack_id = ?1 ORDER BY depth DESC LIMIT 512";
    reader.select_each(sql, &[stack_id.into()], |row| {
        let row = Row::of(row);
        let kind = row.text(0);
        let fits = match wanted {
            StackFrames::All | StackFrames::Own => true,
            StackFrames::Python => kind == "python",
            StackFrames::Native => kind != "python",
        };
        if fits {
            // Lines of native functions would tell calls of one function apart by where it went on.
            let line = if kind == "python" { row.maybe(3) } else { None };
            places.push(Place {
                function: row.maybe_text(1).or_else(|| row.maybe_text(5)).unwrap_or_default(),
                file: row.maybe_text(2),
                line,
                module: row.maybe_text(4).filter(|module| !module.is_empty()),
                kind,
            });
        }
    })?;
    if wanted == StackFrames::Own && places.iter().any(|place| place.kind == "python") {
        places.retain(|place| place.kind == "python");
    }
    Ok(places)
}

#[derive(Debug, Default)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    children: HashMap<(Option<usize>, Place), usize>,
}

#[derive(Debug)]
struct Node {
    parent: Option<usize>,
    place: Place,
    depth: usize,
    value: f64,
    count: f64,
    own: f64,
}

impl Tree {
    pub(super) fn add<'a>(&mut self, places: impl Iterator<Item = &'a Place>, (value, count): (f64, f64)) {
        let mut parent = None;
        for (depth, place) in places.enumerate() {
            let nodes = &mut self.nodes;
            let at = *self.children.entry((parent, place.clone())).or_insert_with(|| {
                nodes.push(Node { parent, place: place.clone(), depth, value: 0.0, count: 0.0, own: 0.0 });
                nodes.len() - 1
            });
            if let Some(node) = self.nodes.get_mut(at) {
                node.value += value;
                node.count += count;
            }
            parent = Some(at);
        }
        if let Some(node) = parent.and_then(|at| self.nodes.get_mut(at)) {
            node.own += value;
        }
    }

    /// The heaviest; whether there are more. A frame is never heavier than the one that called it.
    pub(super) fn frames(self, most: usize) -> (Vec<StackFrame>, bool) {
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        let nodes = &self.nodes;
        order.sort_by_key(|at| nodes.get(*at).map(|node| (Reverse(node.value as u64), node.depth, *at)));
        let cut = order.len() > most;
        order.truncate(most);
        let ids: HashMap<usize, u32> = order.iter().copied().zip(0..).collect();
        let frames = order.iter().filter_map(|at| nodes.get(*at)).zip(0..).map(|(node, id)| StackFrame {
            id,
            parent: node.parent.and_then(|parent| ids.get(&parent).copied()),
            kind: node.place.kind.clone(),
            function: node.place.function.clone(),
            file: node.place.file.clone(),
            line: node.place.line,
            module: node.place.module.clone(),
            value: node.value as u64,
            count: node.count.round() as u64,
            own: node.own as u64,
        });
        (frames.collect(), cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(function: &str) -> Place {
        Place::word("native", function)
    }

    #[test]
    fn stacks_with_the_same_begin_share_it_and_values_add_up() {
        let mut tree = Tree::default();
        let (main, a, b) = (place("main"), place("a"), place("b"));
        tree.add([&main, &a, &place("launch")].into_iter(), (30.0, 3.0));
        tree.add([&main, &b, &place("launch")].into_iter(), (60.0, 1.0));
        tree.add([&main, &a, &place("copy")].into_iter(), (10.0, 1.0));
        let (frames, cut) = tree.frames(100);
        let reported: Vec<(u32, Option<u32>, &str, u64, u64)> = frames
            .iter()
            .map(|frame| (frame.id, frame.parent, frame.function.as_str(), frame.value, frame.own))
            .collect();
        assert_eq!(
            reported,
            [
                (0, None, "main", 100, 0),
                (1, Some(0), "b", 60, 0),
                (2, Some(1), "launch", 60, 60),
                (3, Some(0), "a", 40, 0),
                (4, Some(3), "launch", 30, 30),
                (5, Some(3), "copy", 10, 10),
            ]
        );
        assert!(!cut);
    }

    #[test]
    fn a_tree_that_is_cut_short_is_still_a_tree() {
        let mut tree = Tree::default();
        for leaf in 0..50 {
            let stack = [place("main"), place(&format!("f{leaf}")), place("x")];
            tree.add(stack.iter(), (f64::from(leaf), 1.0));
        }
        let (frames, cut) = tree.frames(7);
        assert!(cut);
        assert_eq!(frames.len(), 7);
        for (at, frame) in frames.iter().enumerate() {
            assert!(frame.parent.is_none_or(|parent| (parent as usize) < at), "{frame:?}");
        }
    }
}
