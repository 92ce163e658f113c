//! Where threads run and where their memory lies: threads are asked of the kernel now and then, and what has changed is
//! told; a process's memory is added up in a thread of its own, as the kernel takes its time over that.

use gpuwhy_confine::{Parser, Purpose, live};
use gpuwhy_host::numa;
use gpuwhy_model::{MemoryPlace, ThreadPlace};
use gpuwhy_proc::{distrust, is_trusted};
use std::collections::HashMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};

const NAME: &str = "gpuwhy-places";
/// Reads what the first one opens: names of files are in it, which anybody may choose.
const PARSER: &str = "gpuwhy-maps";
/// Processes whose memory is looked at in one go.
const MAX_PROCESSES: usize = 64;

/// A process, and the GPU it uses.
type Asked = (u32, Option<u16>);

#[derive(Debug)]
pub(crate) struct Places {
    threads: HashMap<(u32, u32), ThreadPlace>,
    requests: Option<Sender<Vec<Asked>>>,
    answers: Receiver<MemoryPlace>,
}

impl Places {
    /// `now_ns` is the records' clock.
    pub(crate) fn start(now_ns: impl Fn() -> u64 + Send + 'static) -> Self {
        let (requests, inbox) = channel::<Vec<Asked>>();
        let (outbox, answers) = channel();
        let spawned = std::thread::Builder::new().name(NAME.into()).spawn(move || {
            let parser = Parser::start(PARSER, Purpose::Parse);
            live(NAME, &Purpose::Look, || {
                for (pid, gpu) in inbox.iter().flatten() {
                    if let Some(place) = look(pid, gpu, now_ns(), &parser)
                        && outbox.send(place).is_err()
                    {
                        return;
                    }
                }
            });
        });
        Places { threads: HashMap::new(), requests: spawned.is_ok().then_some(requests), answers }
    }

    /// Those that have changed.
    pub(crate) fn changed(&mut self, places: Vec<ThreadPlace>) -> Vec<ThreadPlace> {
        let known = std::mem::take(&mut self.threads);
        let changed = places.iter().filter(|place| known.get(&(place.pid, place.tid)) != Some(place));
        let changed = changed.copied().collect();
        self.threads = places.into_iter().map(|place| ((place.pid, place.tid), place)).collect();
        changed
    }

    /// Asks where these processes' memory is, with the GPU each uses.
    pub(crate) fn ask(&mut self, processes: impl Iterator<Item = Asked>) {
        if let Some(requests) = &self.requests {
            // A thread that is gone gives no answers; there is then nothing to say.
            let _ = requests.send(processes.take(MAX_PROCESSES).collect());
        }
    }

    pub(crate) fn answers(&mut self) -> Vec<MemoryPlace> {
        self.answers.try_iter().collect()
    }
}

fn look(pid: u32, gpu: Option<u16>, time_ns: u64, parser: &Parser) -> Option<MemoryPlace> {
    let maps = is_trusted(pid).then(|| numa::open_memory_maps(pid))??;
    let Some(nodes) = parser.parse(move || numa::nodes_of_maps(maps)) else {
        distrust(pid);
        return None;
    };
    let nodes: Vec<(u32, u64)> = nodes?.into_iter().collect();
    let bus_ids = numa::gpu_bus_ids(Path::new("/"));
    let bus_id = gpu.and_then(|gpu| bus_ids.get(usize::from(gpu)));
    Some(MemoryPlace { time_ns, pid, nodes, gpu, gpu_node: bus_id.and_then(|bus_id| numa::gpu_node(bus_id)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_are_told() {
        let mut places = Places::start(|| 0);
        let here = ThreadPlace { pid: 1, tid: 2, cpu: 0, node: 0, migrations: 0, node_migrations: 0 };
        let there = ThreadPlace { cpu: 1, migrations: 1, ..here };
        assert_eq!(places.changed(vec![here]), vec![here]);
        assert_eq!(places.changed(vec![here]), Vec::new());
        assert_eq!(places.changed(vec![there]), vec![there]);
    }
}
