//! Rank and world size as the launchers hand them down in the environment.

use std::collections::HashMap;
use std::fs;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rank {
    pub rank: Option<i32>,
    pub local_rank: Option<i32>,
    pub world_size: Option<i32>,
}

/// Names by launcher, most specific first: torchrun, Slurm, Open MPI, MVAPICH, PMIx and PMI.
const RANK: &[&str] =
    &["RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"];
const LOCAL_RANK: &[&str] = &[
    "LOCAL_RANK",
    "SLURM_LOCALID",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
];
const WORLD_SIZE: &[&str] =
    &["WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "PMI_SIZE"];

/// Of a process, from the environment it was started with.
pub fn rank_of(pid: u32) -> Rank {
    from_environment(&fs::read(format!("/proc/{pid}/environ")).unwrap_or_default())
}

fn from_environment(bytes: &[u8]) -> Rank {
    let variables: HashMap<&str, &str> = bytes
        .split(|byte| *byte == 0)
        .filter_map(|entry| std::str::from_utf8(entry).ok()?.split_once('='))
        .collect();
    let first = |names: &[&str]| names.iter().find_map(|name| variables.get(name)?.parse().ok());
    Rank { rank: first(RANK), local_rank: first(LOCAL_RANK), world_size: first(WORLD_SIZE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_are_understood() {
        let torchrun = from_environment(b"PATH=/bin\0RANK=3\0LOCAL_RANK=1\0WORLD_SIZE=8\0SLURM_PROCID=0\0");
        assert_eq!(torchrun, Rank { rank: Some(3), local_rank: Some(1), world_size: Some(8) });
        assert_eq!(from_environment(b"SLURM_PROCID=5\0SLURM_NTASKS=16\0").rank, Some(5));
        assert_eq!(from_environment(b"RANK=\xff\0").rank, None);
        assert_eq!(from_environment(b""), Rank::default());
    }
}
