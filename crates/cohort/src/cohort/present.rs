//! The ranks heard of lately, side by side: what each told at about the same time is a column.

use super::Signal;
use super::job::Who;
use super::member::Member;
use super::meter::STRETCHES;
use crate::collectives::Anchor;
use crate::robust::median;
use std::collections::{BTreeMap, BTreeSet};

/// (place in the group, value) of those that have one.
type Column = Vec<(usize, f64)>;

/// Ranks are named by their places here.
pub(super) struct Present<'a> {
    pub whos: Vec<&'a Who>,
    pub members: Vec<&'a Member>,
    pub now_ns: u64,
    pub stale_ns: u64,
}

impl<'a> Present<'a> {
    /// And the places of all of them.
    pub(super) fn of(
        members: &'a BTreeMap<Who, Member>,
        now_ns: u64,
        stale_ns: u64,
    ) -> (Present<'a>, Vec<usize>) {
        let fresh = members.iter().filter(|(_, member)| now_ns.saturating_sub(member.seen_ns) <= stale_ns);
        let (whos, members): (Vec<_>, Vec<_>) = fresh.unzip();
        let all = (0..whos.len()).collect();
        (Present { whos, members, now_ns, stale_ns }, all)
    }

    pub(super) fn recent(&self, rank: usize, signal: Signal) -> Option<f64> {
        self.members[rank].recent(signal, self.now_ns, self.stale_ns)
    }

    pub(super) fn recents(&self, ranks: &[usize], signal: Signal) -> Vec<(usize, f64)> {
        ranks.iter().filter_map(|rank| Some((*rank, self.recent(*rank, signal)?))).collect()
    }

    pub(super) fn median(&self, ranks: &[usize], signal: Signal) -> Option<f64> {
        median(&mut self.recents(ranks, signal).into_iter().map(|(_, value)| value).collect::<Vec<f64>>())
    }

    /// What a rank told of a signal, the newest first.
    pub(super) fn newest(&self, rank: usize, signal: Signal) -> Vec<f64> {
        self.members[rank].newest(signal, self.now_ns, self.stale_ns)
    }

    /// The signals that some of them have told.
    pub(super) fn reported(&self, group: &[usize], is_wanted: impl Fn(Signal) -> bool) -> BTreeSet<Signal> {
        let all = group.iter().flat_map(|rank| self.members[*rank].signals.keys().copied());
        all.filter(|signal| is_wanted(*signal)).collect()
    }

    /// What agents tell, push by push: the newest values of all ranks are lined up, then the ones before, and so on.
    pub(super) fn lined_up(
        &self,
        group: &[usize],
        signal: Signal,
        value: impl Fn(f64) -> f64,
    ) -> Vec<Column> {
        let reported = |rank: &usize| self.newest(*rank, signal).into_iter().map(&value).collect();
        side_by_side(group.iter().map(reported))
    }

    /// Those of a group that meet each other.
    pub(super) fn meeting(&self, group: &[usize]) -> impl Iterator<Item = Vec<usize>> + use<> {
        let mut meeting: BTreeMap<Anchor, Vec<usize>> = BTreeMap::new();
        for rank in group {
            if let Some(anchor) = self.members[*rank].meter.anchor() {
                meeting.entry(anchor).or_default().push(*rank);
            }
        }
        meeting.into_values().filter(|ranks| ranks.len() >= 3)
    }

    /// Own shares by stretch, the newest first.
    pub(super) fn stretches(&self, ranks: &[usize]) -> Vec<Column> {
        let meters: Vec<_> = ranks.iter().map(|rank| &self.members[*rank].meter).collect();
        let end = meters.iter().map(|meter| meter.end()).max().unwrap_or(0);
        let own = |stretch: u64| {
            let each = meters.iter().enumerate();
            each.filter_map(|(at, meter)| Some((at, meter.own(stretch)?))).collect()
        };
        (end.saturating_sub(STRETCHES as u64)..end).rev().map(own).collect()
    }
}

/// Of each rank in turn, its values: the first ones, the second ones and so on.
pub(super) fn side_by_side(ranks: impl Iterator<Item = Vec<f64>>) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    for (at, values) in ranks.enumerate() {
        for (column, value) in values.into_iter().enumerate() {
            if columns.len() <= column {
                columns.push(Vec::new());
            }
            columns[column].push((at, value));
        }
    }
    columns
}

/// Differences from the column's median, of columns that at least three have a value in.
pub(super) fn differences(columns: Vec<Column>, fewest: usize) -> Vec<Column> {
    columns
        .into_iter()
        .filter(|column| column.len() >= fewest.max(3))
        .filter_map(|column| {
            let middle = median(&mut column.iter().map(|(_, value)| *value).collect::<Vec<f64>>())?;
            Some(column.into_iter().map(|(rank, value)| (rank, value - middle)).collect())
        })
        .collect()
}

pub(super) fn by_rank(columns: &[Column], ranks: usize) -> Vec<Vec<f64>> {
    let mut series = vec![Vec::new(); ranks];
    for (rank, difference) in columns.iter().flatten() {
        series[*rank].push(*difference);
    }
    series
}
