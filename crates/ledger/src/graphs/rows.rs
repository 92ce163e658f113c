//! The rows of one process's graphs, and which of them a handle of an executable means when.

use super::contents::Contents;
use super::row::Row;
use super::share::share;
use crate::counter::Counter;
use crate::table::Table;
use crate::timeline::{LATE_NS, Span};
use gpuwhy_model::{Facts, Graph, LaunchCount};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Graphs and executables remembered of a process; an inference server has one for each batch size.
pub(super) const MAX_GRAPHS: usize = 4_096;
/// Launches are counted by window: the last ones of an executable are told after its end.
pub(super) const LINGER_NS: u64 = 2 * LATE_NS;

#[derive(Debug)]
pub(super) struct Rows {
    pid: u32,
    rows: Table<u64, Row>,
    next_id: u64,
    /// Rows by the handle of their executable, in the order they came.
    execs: HashMap<u64, Vec<u64>>,
    /// Launches by executable, when they were last read.
    readings: Table<u64, Reading>,
    /// Rows of executables without a graph are told apart by their time alone.
    last_unknown_ns: u64,
    changed: BTreeSet<u64>,
}

#[derive(Debug, Default)]
struct Reading {
    counter: Counter,
    time_ns: u64,
}

impl Rows {
    pub(super) fn new(pid: u32) -> Self {
        Rows {
            pid,
            rows: Table::new(MAX_GRAPHS),
            next_id: 0,
            execs: HashMap::new(),
            readings: Table::new(MAX_GRAPHS),
            last_unknown_ns: 0,
            changed: BTreeSet::new(),
        }
    }

    pub(super) fn get(&self, id: u64) -> Option<&Row> {
        self.rows.get(&id)
    }

    /// Oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Row)> {
        self.rows.iter().map(|(id, row)| (*id, row))
    }

    pub(super) fn knows_exec(&self, exec: u64) -> bool {
        self.execs.contains_key(&exec)
    }

    pub(super) fn add(&mut self, row: Row) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        if let Some((forgotten, row)) = self.rows.insert(id, row) {
            self.unlink(forgotten, &row);
        }
        self.changed.insert(id);
        id
    }

    /// A row that will be told again.
    pub(super) fn change(&mut self, id: u64) -> Option<&mut Row> {
        let row = self.rows.get_mut(&id)?;
        self.changed.insert(id);
        Some(row)
    }

    /// A row got its executable.
    pub(super) fn link(&mut self, exec: u64, id: u64) {
        self.execs.entry(exec).or_default().push(id);
    }

    /// The nodes of a row are not remembered any more.
    pub(super) fn forget_contents(&mut self, id: u64) -> Option<Arc<Contents>> {
        self.rows.get_mut(&id)?.contents.take()
    }

    /// A row for an executable that was made before the trace.
    pub(super) fn add_unknown(&mut self, exec: u64, at_ns: u64) -> u64 {
        let created_ns = at_ns.max(self.last_unknown_ns.saturating_add(1));
        self.last_unknown_ns = created_ns;
        let graph = Graph { pid: self.pid, exec: Some(exec), created_ns, ..Graph::default() };
        let id = self.add(Row::new(graph, None));
        self.link(exec, id);
        id
    }

    /// Another executable gets the handle. When that one ended, if it is the older, and the launches that were
    /// counted before its record came.
    pub(super) fn displace(&mut self, exec: u64, span: Span) -> (Option<u64>, Counter) {
        let nothing = (None, Counter::default());
        let Some(id) = self.live_exec(exec) else { return nothing };
        let Some(row) = self.change(id) else { return nothing };
        match row.instantiated {
            Some(newer) if newer.end_ns >= span.end_ns => return (Some(newer.start_ns), Counter::default()),
            None if row.graph.created_ns >= span.end_ns => {}
            _ => {
                row.graph.destroyed_ns = Some(span.end_ns.max(row.graph.created_ns));
                return nothing;
            }
        }
        // It was seen to be launched before it was seen to be made: no graph from before the trace after all.
        let launches = Counter {
            count: std::mem::take(&mut row.graph.launches),
            sum_ns: std::mem::take(&mut row.graph.launch_ns),
        };
        row.graph.destroyed_ns = Some(row.graph.created_ns);
        (None, launches)
    }

    /// The count goes to those that had the handle since it was last read, by the time they had it.
    pub(super) fn launched(&mut self, count: &LaunchCount) {
        let reading = self.readings.get_or_insert_with(count.handle, Reading::default);
        let since_ns = std::mem::replace(&mut reading.time_ns, count.time_ns);
        let rise = reading.counter.rise_to(Counter { count: count.count, sum_ns: count.sum_ns });
        let ids = self.execs.get(&count.handle).map_or(&[][..], Vec::as_slice);
        let (mut launched, mut weights) = (Vec::new(), Vec::new());
        for id in ids {
            let Some(row) = self.rows.get(id) else { continue };
            let from_ns = row.executable_from_ns().max(since_ns);
            let to_ns = row.graph.destroyed_ns.unwrap_or(count.time_ns).min(count.time_ns);
            if from_ns <= to_ns {
                launched.push(*id);
                weights.push((to_ns - from_ns).max(1));
            }
        }
        if launched.is_empty() && rise.count > 0 {
            // The count was read a moment before or after its time.
            let latest = ids.last().copied();
            launched.push(latest.unwrap_or_else(|| self.add_unknown(count.handle, count.time_ns)));
            weights.push(1);
        }
        let shares = share(rise.count, &weights).into_iter().zip(share(rise.sum_ns, &weights));
        for (id, (launches, launch_ns)) in launched.into_iter().zip(shares) {
            if (launches, launch_ns) != (0, 0)
                && let Some(row) = self.change(id)
            {
                row.graph.launches = row.graph.launches.saturating_add(launches);
                row.graph.launch_ns = row.graph.launch_ns.saturating_add(launch_ns);
            }
        }
    }

    pub(super) fn close(&mut self, at_ns: u64) {
        let open = |(id, row): (&u64, &Row)| row.graph.destroyed_ns.is_none().then_some(*id);
        let open: Vec<u64> = self.rows.iter().filter_map(open).collect();
        for id in open {
            if let Some(row) = self.change(id) {
                row.graph.destroyed_ns = Some(at_ns.max(row.graph.created_ns));
            }
        }
    }

    pub(super) fn emit(&mut self, facts: &mut Facts) {
        for id in std::mem::take(&mut self.changed) {
            if let Some(row) = self.rows.get_mut(&id) {
                row.emit(facts);
            }
        }
    }

    /// Forgets those that ended long ago.
    pub(super) fn forget(&mut self, newest_ns: u64) {
        let over = |row: &Row| {
            row.graph.destroyed_ns.is_some_and(|at_ns| at_ns.saturating_add(LINGER_NS) < newest_ns)
        };
        let ended: Vec<u64> = self.iter().filter_map(|(id, row)| over(row).then_some(id)).collect();
        for id in ended {
            if let Some(row) = self.rows.remove(&id) {
                self.unlink(id, &row);
            }
        }
    }

    /// The row whose executable had the handle then.
    pub(super) fn exec_at(&self, exec: u64, at_ns: u64) -> Option<u64> {
        let executable = |id: &&u64| self.rows.get(*id).is_some_and(|row| row.was_executable_at(at_ns));
        self.execs.get(&exec)?.iter().rev().find(executable).copied()
    }

    pub(super) fn live_exec(&self, exec: u64) -> Option<u64> {
        let live = |id: &&u64| self.rows.get(*id).is_some_and(|row| row.graph.destroyed_ns.is_none());
        self.execs.get(&exec)?.iter().rev().find(live).copied()
    }

    fn unlink(&mut self, id: u64, row: &Row) {
        self.changed.remove(&id);
        let Some(exec) = row.graph.exec else { return };
        if let Some(rows) = self.execs.get_mut(&exec) {
            rows.retain(|row| *row != id);
            if rows.is_empty() {
                self.execs.remove(&exec);
            }
        }
    }
}
