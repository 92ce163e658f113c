//! Rank and world size as the launchers hand them down in the environment.

use crate::environment::Environment;

/// More ranks than any job has: then it was not the number of ranks.
const MAX_RANKS: i32 = 1 << 22;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rank {
    pub rank: Option<i32>,
    pub local_rank: Option<i32>,
    pub world_size: Option<i32>,
    /// Ranks on this node.
    pub local_world_size: Option<i32>,
    /// The node's number in the job.
    pub node_rank: Option<i32>,
    /// Who said so.
    pub source: Option<&'static str>,
}

/// The names one launcher uses. Rank and size are only ever taken from the same one.
struct Launcher {
    name: &'static str,
    rank: &'static [&'static str],
    size: &'static [&'static str],
    local_rank: &'static [&'static str],
    local_size: &'static [&'static str],
    node: &'static [&'static str],
}

/// Those that run inside others first: torchrun is started by srun, `mpirun` in a Slurm job, never the other way round.
const LAUNCHERS: &[Launcher] = &[
    Launcher {
        name: "torchrun",
        rank: &["RANK"],
        size: &["WORLD_SIZE"],
        local_rank: &["LOCAL_RANK"],
        local_size: &["LOCAL_WORLD_SIZE"],
        node: &["GROUP_RANK", "NODE_RANK"],
    },
    Launcher {
        name: "horovod",
        rank: &["HOROVOD_RANK"],
        size: &["HOROVOD_SIZE"],
        local_rank: &["HOROVOD_LOCAL_RANK"],
        local_size: &["HOROVOD_LOCAL_SIZE"],
        node: &["HOROVOD_CROSS_RANK"],
    },
    Launcher {
        name: "openmpi",
        rank: &["OMPI_COMM_WORLD_RANK"],
        size: &["OMPI_COMM_WORLD_SIZE"],
        local_rank: &["OMPI_COMM_WORLD_LOCAL_RANK"],
        local_size: &["OMPI_COMM_WORLD_LOCAL_SIZE"],
        node: &[],
    },
    Launcher {
        name: "mvapich",
        rank: &["MV2_COMM_WORLD_RANK", "MVP_COMM_WORLD_RANK"],
        size: &["MV2_COMM_WORLD_SIZE", "MVP_COMM_WORLD_SIZE"],
        local_rank: &["MV2_COMM_WORLD_LOCAL_RANK", "MVP_COMM_WORLD_LOCAL_RANK"],
        local_size: &["MV2_COMM_WORLD_LOCAL_SIZE", "MVP_COMM_WORLD_LOCAL_SIZE"],
        node: &[],
    },
    Launcher {
        name: "flux",
        rank: &["FLUX_TASK_RANK"],
        size: &["FLUX_JOB_SIZE"],
        local_rank: &["FLUX_TASK_LOCAL_ID"],
        local_size: &[],
        node: &[],
    },
    Launcher {
        name: "jsrun",
        rank: &["JSM_NAMESPACE_RANK"],
        size: &["JSM_NAMESPACE_SIZE"],
        local_rank: &["JSM_NAMESPACE_LOCAL_RANK"],
        local_size: &["JSM_NAMESPACE_LOCAL_SIZE"],
        node: &[],
    },
    // MPICH, Intel MPI, and Slurm's own imitation of them.
    Launcher {
        name: "pmi",
        rank: &["PMI_RANK"],
        size: &["PMI_SIZE"],
        local_rank: &["MPI_LOCALRANKID", "PMI_LOCAL_RANK"],
        local_size: &["MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"],
        node: &[],
    },
    Launcher {
        name: "slurm",
        rank: &["SLURM_PROCID"],
        size: &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"],
        local_rank: &["SLURM_LOCALID"],
        local_size: &[],
        node: &["SLURM_NODEID"],
    },
    // These do not tell how many there are.
    Launcher { name: "pmix", rank: &["PMIX_RANK"], size: &[], local_rank: &[], local_size: &[], node: &[] },
    Launcher {
        name: "pals",
        rank: &["PALS_RANKID"],
        size: &[],
        local_rank: &["PALS_LOCAL_RANKID"],
        local_size: &[],
        node: &["PALS_NODEID"],
    },
    Launcher { name: "alps", rank: &["ALPS_APP_PE"], size: &[], local_rank: &[], local_size: &[], node: &[] },
];

impl Rank {
    /// One launcher's word: the first that knows rank and size, else the first that knows a rank.
    pub(crate) fn of(environment: &Environment) -> Rank {
        let message: Vec<Rank> =
            LAUNCHERS.iter().filter_map(|launcher| launcher.message(environment)).collect();
        let whole = message.iter().find(|rank| rank.world_size.is_some());
        let Some(chosen) = whole.or(message.first()) else { return Rank::default() };
        // srun speaks PMI too, but then knows more: its own words are better where they say the same.
        let slurm = message.iter().find(|rank| rank.source == Some("slurm"));
        let by_srun = slurm.filter(|slurm| {
            chosen.source == Some("pmi") && (slurm.rank, slurm.world_size) == (chosen.rank, chosen.world_size)
        });
        *by_srun.unwrap_or(chosen)
    }
}

impl Launcher {
    fn message(&self, environment: &Environment) -> Option<Rank> {
        let rank = environment.number(self.rank).filter(|rank| (0..MAX_RANKS).contains(rank))?;
        let world_size = environment.number(self.size).filter(|size| (1..MAX_RANKS).contains(size));
        if world_size.is_some_and(|size| rank >= size)
            || (self.name == "slurm" && is_batch_script(environment))
        {
            return None;
        }
        let small = |names| environment.number(names).filter(|number| (0..MAX_RANKS).contains(number));
        Some(Rank {
            rank: Some(rank),
            local_rank: small(self.local_rank),
            world_size,
            local_world_size: small(self.local_size),
            node_rank: small(self.node),
            source: Some(self.name),
        })
    }
}

/// A job's script has a rank 0 of all tasks in its environment although it is none of them: it is in no step.
fn is_batch_script(environment: &Environment) -> bool {
    let has = |name| environment.get(name).is_some();
    (has("SLURM_JOB_ID") || has("SLURM_JOBID")) && !has("SLURM_STEP_ID") && !has("SLURM_STEPID")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &str) -> Rank {
        Rank::of(&Environment::parse(variables.replace(' ', "\0").as_bytes()))
    }

    fn short(variables: &str) -> (Option<&'static str>, Option<i32>, Option<i32>, Option<i32>) {
        let rank = of(variables);
        (rank.source, rank.rank, rank.local_rank, rank.world_size)
    }

    #[test]
    fn launchers_are_understood() {
        for (variables, source, rank, local, size) in [
            ("PATH=/bin RANK=3 LOCAL_RANK=1 WORLD_SIZE=8", "torchrun", 3, Some(1), Some(8)),
            ("SLURM_PROCID=5 SLURM_NTASKS=16 SLURM_LOCALID=1", "slurm", 5, Some(1), Some(16)),
            ("SLURM_PROCID=5 SLURM_NPROCS=16", "slurm", 5, None, Some(16)),
            (
                "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=0 PMIX_RANK=2",
                "openmpi",
                2,
                Some(0),
                Some(4),
            ),
            ("PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1", "pmi", 1, Some(1), Some(2)),
            (
                "MV2_COMM_WORLD_RANK=7 MV2_COMM_WORLD_SIZE=8 MV2_COMM_WORLD_LOCAL_RANK=3",
                "mvapich",
                7,
                Some(3),
                Some(8),
            ),
            ("FLUX_TASK_RANK=4 FLUX_JOB_SIZE=6 FLUX_TASK_LOCAL_ID=0", "flux", 4, Some(0), Some(6)),
            (
                "JSM_NAMESPACE_RANK=9 JSM_NAMESPACE_SIZE=12 JSM_NAMESPACE_LOCAL_RANK=3",
                "jsrun",
                9,
                Some(3),
                Some(12),
            ),
            ("HOROVOD_RANK=1 HOROVOD_SIZE=2 HOROVOD_LOCAL_RANK=1", "horovod", 1, Some(1), Some(2)),
            ("PMIX_RANK=6", "pmix", 6, None, None),
            ("ALPS_APP_PE=11", "alps", 11, None, None),
            ("PALS_RANKID=11 PALS_LOCAL_RANKID=3", "pals", 11, Some(3), None),
        ] {
            assert_eq!(short(variables), (Some(source), Some(rank), local, size), "{variables}");
        }
        let whole = of("RANK=9 LOCAL_RANK=1 WORLD_SIZE=16 LOCAL_WORLD_SIZE=8 GROUP_RANK=1");
        assert_eq!((whole.local_world_size, whole.node_rank), (Some(8), Some(1)));
    }

    #[test]
    fn rank_and_size_are_of_one_launcher() {
        let slurm =
            "SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=0 SLURM_NODEID=1 SLURM_STEP_ID=0 SLURM_JOB_ID=7";
        let torchrun = of(&format!("{slurm} RANK=11 WORLD_SIZE=16 LOCAL_RANK=3"));
        assert_eq!(
            (torchrun.source, torchrun.rank, torchrun.world_size),
            (Some("torchrun"), Some(11), Some(16))
        );
        assert_eq!(torchrun.node_rank, None, "the node's number is Slurm's, not torchrun's");
        // Half of a pair does not win over a whole one.
        assert_eq!(short(&format!("{slurm} RANK=11")), (Some("slurm"), Some(1), Some(0), Some(2)));
        assert_eq!(short(&format!("{slurm} WORLD_SIZE=16")), (Some("slurm"), Some(1), Some(0), Some(2)));
        assert_eq!(short("RANK=4 SLURM_NTASKS=16"), (Some("torchrun"), Some(4), None, None));
        // Hydra starts its proxies by srun: the numbers of those are not the ranks.
        assert_eq!(short(&format!("{slurm} PMI_RANK=6 PMI_SIZE=8")), (Some("pmi"), Some(6), None, Some(8)));
        assert_eq!(
            short(&format!("{slurm} PMI_RANK=1 PMI_SIZE=2")),
            (Some("slurm"), Some(1), Some(0), Some(2))
        );
    }

    #[test]
    fn what_cannot_be_is_not_believed() {
        for variables in [
            "",
            "RANK=8 WORLD_SIZE=8",
            "RANK=-1 WORLD_SIZE=8",
            "RANK=99999999999 WORLD_SIZE=8",
            "RANK=x WORLD_SIZE=y",
            "RANK=4194304",
            "LOCAL_RANK=1 WORLD_SIZE=8",
            "SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NTASKS=16 SLURM_LOCALID=0",
        ] {
            assert_eq!(of(variables), Rank::default(), "{variables}");
        }
        assert_eq!(Rank::of(&Environment::parse(b"RANK=\xff\0")), Rank::default());
        assert_eq!(short("RANK=0 WORLD_SIZE=1"), (Some("torchrun"), Some(0), None, Some(1)));
    }
}
