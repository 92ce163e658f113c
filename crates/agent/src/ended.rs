//! Processes that ended: records of theirs may still come for a while.

/// Batches after a process's end in which they may.
const BATCHES_AFTER_END: u32 = 8;

#[derive(Debug, Default)]
pub(crate) struct Ended {
    /// With how many batches ago that was.
    pids: Vec<(u32, u32)>,
}

impl Ended {
    pub(crate) fn add(&mut self, pid: u32) {
        self.pids.push((pid, 0));
    }

    /// A process has the number that lives.
    pub(crate) fn remove(&mut self, pid: u32) {
        self.pids.retain(|(ended, _)| *ended != pid);
    }

    /// A batch comes: those whose last records were in the ones before.
    pub(crate) fn pass(&mut self) -> Vec<u32> {
        let (gone, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.pids).into_iter().partition(|(_, age)| *age >= BATCHES_AFTER_END);
        self.pids = kept.into_iter().map(|(pid, age)| (pid, age + 1)).collect();
        gone.into_iter().map(|(pid, _)| pid).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_gone_some_batches_after_its_end_unless_its_number_lives() {
        let mut ended = Ended::default();
        ended.add(1);
        ended.add(2);
        for _ in 0..BATCHES_AFTER_END {
            assert_eq!(ended.pass(), Vec::<u32>::new());
        }
        ended.remove(2);
        assert_eq!(ended.pass(), [1]);
        assert_eq!(ended.pass(), Vec::<u32>::new());
    }
}
