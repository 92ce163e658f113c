//! Rank and size of a process: what it was started with, and what its communicators say, which is the truth.

use gpuwhy_model::Process;

#[derive(Debug, Default)]
pub(crate) struct Ranks {
    reported: Reported,
    largest: Option<Largest>,
}

/// What the launcher's variables say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Reported {
    rank: Option<i32>,
    local_rank: Option<i32>,
    world_size: Option<i32>,
    local_world_size: Option<i32>,
    node_rank: Option<i32>,
    source: Option<String>,
}

/// The largest communicator it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Largest {
    nranks: i32,
    /// Nothing where it has several ranks of that size: one process with many GPUs is all ranks at once.
    rank: Option<i32>,
}

impl Ranks {
    pub(crate) fn of(process: &Process) -> Ranks {
        let reported = Reported {
            rank: process.rank,
            local_rank: process.local_rank,
            world_size: process.world_size,
            local_world_size: process.local_world_size,
            node_rank: process.node_rank,
            source: process.rank_source.clone(),
        };
        Ranks { reported, largest: None }
    }

    /// It takes part in a communicator; whether that tells something new. One of a single rank tells nothing.
    pub(crate) fn take(&mut self, rank: i32, nranks: i32) -> bool {
        if nranks < 2 || !(0..nranks).contains(&rank) {
            return false;
        }
        let now = match self.largest {
            Some(known) if known.nranks > nranks => known,
            Some(known) if known.nranks == nranks => {
                Largest { nranks, rank: known.rank.filter(|own| *own == rank) }
            }
            _ => Largest { nranks, rank: Some(rank) },
        };
        self.largest.replace(now) != Some(now)
    }

    pub(crate) fn put(&self, process: &mut Process) {
        let reported = match self.by_communicator() {
            Some(reported) => reported,
            None => self.reported.clone(),
        };
        process.rank = reported.rank;
        process.local_rank = reported.local_rank;
        process.world_size = reported.world_size;
        process.local_world_size = reported.local_world_size;
        process.node_rank = reported.node_rank;
        process.rank_source = reported.source;
    }

    /// Nothing where the launcher has said the same, or speaks of a larger job of which this is a part.
    fn by_communicator(&self) -> Option<Reported> {
        let largest = self.largest?;
        let Some(rank) = largest.rank else {
            let several = Reported {
                world_size: Some(largest.nranks),
                source: Some("several".into()),
                ..Reported::default()
            };
            return self.reported.rank.is_none().then_some(several);
        };
        let reported = &self.reported;
        let same = reported.rank == Some(rank);
        if reported.world_size.is_some_and(|size| size > largest.nranks || (same && size == largest.nranks)) {
            return None;
        }
        // Its place on the node is that of the rank the launcher gave it.
        let place = if same { reported.clone() } else { Reported::default() };
        Some(Reported {
            rank: Some(rank),
            world_size: Some(largest.nranks),
            source: Some("communicator".into()),
            ..place
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(rank: i32, size: i32) -> Process {
        Process {
            rank: Some(rank),
            local_rank: Some(1),
            world_size: Some(size),
            rank_source: Some("slurm".into()),
            ..Process::default()
        }
    }

    /// After taking part in these communicators.
    fn after(
        mut process: Process,
        communicators: &[(i32, i32)],
    ) -> (Option<i32>, Option<i32>, Option<i32>, String) {
        let mut ranks = Ranks::of(&process);
        for (rank, nranks) in communicators {
            ranks.take(*rank, *nranks);
        }
        ranks.put(&mut process);
        (process.rank, process.world_size, process.local_rank, process.rank_source.unwrap_or_default())
    }

    #[test]
    fn the_largest_communicator_is_the_truth() {
        let nothing = Process::default;
        assert_eq!(
            after(nothing(), &[(1, 2), (5, 8), (0, 4)]),
            (Some(5), Some(8), None, "communicator".into())
        );
        assert_eq!(after(nothing(), &[(0, 1)]), (None, None, None, String::new()));
        assert_eq!(after(nothing(), &[(9, 8), (-1, 8)]), (None, None, None, String::new()));
        // srun started one process a node, which started one a GPU.
        assert_eq!(after(reported(1, 2), &[(11, 16)]), (Some(11), Some(16), None, "communicator".into()));
        assert_eq!(after(reported(3, 8), &[(5, 8)]), (Some(5), Some(8), None, "communicator".into()));
        assert_eq!(after(reported(3, 8), &[(3, 8)]), (Some(3), Some(8), Some(1), "slurm".into()));
        // A part of the job.
        assert_eq!(after(reported(3, 8), &[(1, 2)]), (Some(3), Some(8), Some(1), "slurm".into()));
        let rank_only = Process { world_size: None, ..reported(3, 8) };
        assert_eq!(after(rank_only, &[(3, 8)]), (Some(3), Some(8), Some(1), "communicator".into()));
    }

    #[test]
    fn one_process_with_all_ranks_is_none_of_them() {
        let all = [(0, 4), (1, 4), (2, 4), (3, 4)];
        assert_eq!(after(Process::default(), &all), (None, Some(4), None, "several".into()));
        assert_eq!(after(reported(1, 2), &all), (Some(1), Some(2), Some(1), "slurm".into()));
    }

    #[test]
    fn only_news_is_told() {
        let mut ranks = Ranks::default();
        assert!(ranks.take(0, 2) && !ranks.take(0, 2));
        assert!(ranks.take(1, 2) && !ranks.take(0, 2), "several stays several");
        assert!(ranks.take(3, 4) && !ranks.take(0, 2) && !ranks.take(0, 1));
    }
}
