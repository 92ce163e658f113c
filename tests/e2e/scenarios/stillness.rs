//! A host on which nothing else happens, as far as that can be had.

use rustix::thread::CpuSet;
use std::fs;

/// What else runs on this host shall have no part in what is measured, nor shall the tracer, which is not built for speed here:
/// workloads and what is set on them go before all others until this is dropped, and the tracer leaves the first CPU alone.
/// Among each other they are as they would be without. Not farther before others than this: the kernel has work to do, too.
pub(super) struct Stillness {
    group: String,
    cpus: CpuSet,
}

/// Sessions are weighed against each other before their processes are, where the kernel groups them.
const GROUP: &str = "/proc/self/autogroup";

impl Stillness {
    pub(super) fn keep() -> Stillness {
        let group = fs::read_to_string(GROUP).unwrap_or_default();
        let _ = fs::write(GROUP, "-10");
        let _ = rustix::process::setpriority_process(None, -10);
        let cpus = rustix::thread::sched_getaffinity(None).unwrap();
        let mut others = cpus;
        others.unset(0);
        if others.count() > 0 {
            rustix::thread::sched_setaffinity(None, &others).unwrap();
        }
        Stillness { group, cpus }
    }
}

/// What is started meanwhile may run on every CPU.
pub(super) fn everywhere<T>(start: impl FnOnce() -> T) -> T {
    let before = rustix::thread::sched_getaffinity(None).unwrap();
    let mut all = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|cpu| all.set(cpu));
    rustix::thread::sched_setaffinity(None, &all).unwrap();
    let started = start();
    rustix::thread::sched_setaffinity(None, &before).unwrap();
    started
}

impl Drop for Stillness {
    fn drop(&mut self) {
        let _ = fs::write(GROUP, self.group.rsplit(' ').next().unwrap_or("0").trim());
        let _ = rustix::process::setpriority_process(None, 0);
        let _ = rustix::thread::sched_setaffinity(None, &self.cpus);
    }
}
