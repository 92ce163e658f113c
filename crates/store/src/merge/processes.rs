//! Whose process numbers are whose: the same number on two nodes is two processes.

use super::MergeError;
use crate::Reader;
use crate::schema::TABLES;
use std::collections::{HashMap, HashSet};

/// Numbers that are given anew differ by a multiple of this: more than any kernel has, and easy to take off again.
const STEP: i64 = 10_000_000;

/// A process number must fit the model's.
const LARGEST: i64 = u32::MAX as i64;

/// Starts of one process as two files tell them lie closer together than this.
const SAME_START_NS: i64 = 1_000_000_000;

/// What is known of the processes of a file, or of all that were merged so far.
#[derive(Debug, Default)]
pub(super) struct Processes {
    used: HashSet<i64>,
    /// Of those that were traced: host and start.
    starts: HashMap<i64, Vec<(String, i64)>>,
    /// From when until when, by host.
    sessions: Vec<(String, i64, i64)>,
}

/// What to add to a number, and to which ones.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Shift {
    pub(super) by: i64,
    pub(super) pids: HashSet<i64>,
}

impl Shift {
    pub(super) fn of(&self, pid: i64) -> i64 {
        if self.pids.contains(&pid) { pid.saturating_add(self.by) } else { pid }
    }

    /// A thread's number goes with that of its process.
    pub(super) fn thread(&self, pid: i64, tid: i64) -> i64 {
        if self.pids.contains(&pid) { tid.saturating_add(self.by) } else { tid }
    }
}

impl Processes {
    pub(super) fn of(reader: &Reader, clock_shift_ns: i64) -> Result<Processes, MergeError> {
        let mut processes = Processes::default();
        for table in TABLES {
            for column in ["pid", "by_pid", "parent_pid"].into_iter().filter(|column| table.has(column)) {
                let sql = format!("SELECT DISTINCT {column} FROM {}", table.name);
                reader.stream::<MergeError>(&sql, &[], |record| {
                    processes.used.extend(record.integer(0).filter(|pid| *pid > 0));
                    Ok(())
                })?;
            }
        }
        let sql = "SELECT p.pid, s.host, p.start_ns FROM processes p LEFT JOIN sessions s ON s.session_id = p.session_id";
        reader.stream::<MergeError>(sql, &[], |record| {
            let host = record.text(1).unwrap_or_default().into_owned();
            let start_ns = record.integer(2).unwrap_or(0).saturating_add(clock_shift_ns);
            processes.starts.entry(record.integer(0).unwrap_or(0)).or_default().push((host, start_ns));
            Ok(())
        })?;
        let newest = reader.newest_ns()?.unwrap_or(0) as i64;
        for session in reader.sessions()? {
            let start = session.info.start_ns as i64;
            let end = session.end_ns.map_or(newest, |ns| ns as i64).max(start);
            processes.sessions.push((
                session.info.host,
                start.saturating_add(clock_shift_ns),
                end.saturating_add(clock_shift_ns),
            ));
        }
        Ok(processes)
    }

    /// Which numbers of `new` mean other processes here, and what to add to them so that nothing does.
    pub(super) fn shift(&self, new: &Processes) -> Result<Shift, MergeError> {
        let at_once = new.sessions.iter().any(|(host, start, end)| {
            self.sessions.iter().any(|(other, from, to)| other == host && from <= end && start <= to)
        });
        let pids: HashSet<i64> = new
            .used
            .intersection(&self.used)
            .copied()
            .filter(|pid| at_once || !self.is_same(new, *pid))
            .collect();
        if pids.is_empty() {
            return Ok(Shift::default());
        }
        let largest = pids.iter().max().copied().unwrap_or(0);
        let mut by = STEP;
        while largest.saturating_add(by) <= LARGEST {
            if !pids.iter().any(|pid| self.used.contains(&(pid + by)) || new.used.contains(&(pid + by))) {
                return Ok(Shift { by, pids });
            }
            by += STEP;
        }
        Err(MergeError::Crowded)
    }

    /// The same process, traced twice on its host: by when it started, or of one that was only met, by the host.
    fn is_same(&self, new: &Processes, pid: i64) -> bool {
        match (self.starts.get(&pid), new.starts.get(&pid)) {
            (Some(mine), Some(theirs)) => theirs.iter().any(|(host, start)| {
                mine.iter().any(|(other, at)| {
                    other == host && at.saturating_sub(*start).saturating_abs() < SAME_START_NS
                })
            }),
            _ => {
                let hosts = |of: &Processes| {
                    of.sessions.iter().map(|(host, ..)| host.clone()).collect::<HashSet<_>>()
                };
                hosts(self) == hosts(new)
            }
        }
    }

    /// What was merged counts from now on.
    pub(super) fn add(&mut self, new: Processes, shift: &Shift) {
        self.used.extend(new.used.iter().map(|pid| shift.of(*pid)));
        for (pid, starts) in new.starts {
            self.starts.entry(shift.of(pid)).or_default().extend(starts);
        }
        self.sessions.extend(new.sessions);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: &str, from: i64, to: i64, pids: &[(i64, i64)]) -> Processes {
        Processes {
            used: pids.iter().map(|(pid, _)| *pid).collect(),
            starts: pids.iter().map(|(pid, start)| (*pid, vec![(host.to_string(), *start)])).collect(),
            sessions: vec![(host.to_string(), from, to)],
        }
    }

    #[test]
    fn a_number_that_two_nodes_use_is_given_anew_and_others_stay() {
        let a = node("a", 0, 10, &[(1, 0), (2, 0)]);
        let shift = a.shift(&node("b", 0, 10, &[(2, 0), (3, 0)])).unwrap();
        assert_eq!(shift, Shift { by: STEP, pids: [2].into() });
        assert_eq!((shift.of(2), shift.of(3), shift.thread(2, 9)), (STEP + 2, 3, STEP + 9));
    }

    #[test]
    fn one_process_traced_twice_stays_one() {
        let hour = 3_600_000_000_000;
        let a = node("a", 0, 10, &[(2, 500)]);
        assert_eq!(a.shift(&node("a", hour, hour + 10, &[(2, 900)])).unwrap(), Shift::default());
        let reused = a.shift(&node("a", hour, hour + 10, &[(2, hour)])).unwrap();
        assert_eq!(reused.pids, [2].into());
        let at_once = a.shift(&node("a", 5, 20, &[(2, 500)])).unwrap();
        assert_eq!(at_once.pids, [2].into(), "both counted the same calls");
    }

    #[test]
    fn every_further_node_gets_numbers_that_are_free() {
        let mut all = node("a", 0, 10, &[(2, 0)]);
        for step in 1..=5 {
            let new = node(&format!("n{step}"), 0, 10, &[(2, 0)]);
            let shift = all.shift(&new).unwrap();
            assert_eq!(shift.by, step * STEP);
            all.add(new, &shift);
        }
        assert_eq!(all.used.len(), 6);
    }
}
