//! Whose a number is, as labels: the process's name, its rank and its pod. Processes of the same name, rank and pod are
//! one owner, so that a job that starts over goes on with its series. There are at most [`MAX_OWNERS`]: beyond, an owner
//! whose processes have all ended makes room, and where there is none the newcomer is [`OTHER`].

use crate::OTHER;
use crate::points::{Text, clean};
use gpuwhy_model::Process;
use std::collections::{HashMap, HashSet, VecDeque};

/// Owners told apart.
pub(crate) const MAX_OWNERS: usize = 64;
/// Ended processes remembered: their last numbers may still come.
const MAX_DEAD: usize = 1024;

/// Process, rank and pod.
pub(crate) type Labels = [Text; 3];

#[derive(Debug, Default)]
pub(crate) struct Owners {
    by_pid: HashMap<u32, Labels>,
    owners: HashMap<Labels, Owner>,
    dead: VecDeque<u32>,
}

#[derive(Debug, Default)]
struct Owner {
    living: HashSet<u32>,
    /// When the last of them ended.
    ended_ns: u64,
}

impl Owners {
    /// Takes what is known of a process now. The owner that made room for it, if one had to.
    pub(crate) fn see(&mut self, process: &Process) -> Option<Labels> {
        let is_dead = self.dead.contains(&process.pid);
        match process.end_ns {
            // Names that were found after its end change nothing.
            Some(_) if is_dead => return None,
            // The number was given to another.
            None if is_dead => self.dead.retain(|pid| *pid != process.pid),
            _ => {}
        }
        let evicted = self.admit(process);
        if let Some(end_ns) = process.end_ns {
            self.end(process.pid, end_ns);
        }
        evicted
    }

    fn admit(&mut self, process: &Process) -> Option<Labels> {
        let labels = labels_of(process);
        let before = self.by_pid.get(&process.pid);
        if before == Some(&labels) && self.owners.contains_key(&labels) {
            self.owners.entry(labels).or_default().living.insert(process.pid);
            return None;
        }
        // It has got a rank or a name: what it did so far stays with whom it was.
        if let Some(owner) = before.cloned().and_then(|before| self.owners.get_mut(&before)) {
            owner.living.remove(&process.pid);
        }
        let known = self.owners.contains_key(&labels);
        let evicted = if known || self.owners.len() < MAX_OWNERS { None } else { self.make_room() };
        let labels = if known || self.owners.len() < MAX_OWNERS { labels } else { other() };
        self.by_pid.insert(process.pid, labels.clone());
        if labels != other() {
            self.owners.entry(labels).or_default().living.insert(process.pid);
        }
        evicted
    }

    /// Whose the numbers of a process are.
    pub(crate) fn of(&self, pid: u32) -> Labels {
        self.by_pid.get(&pid).cloned().unwrap_or_else(|| ["unknown".into(), "".into(), "".into()])
    }

    pub(crate) fn living(&self) -> usize {
        self.by_pid.len() - self.dead.len()
    }

    fn end(&mut self, pid: u32, end_ns: u64) {
        let owner = self.by_pid.get(&pid).and_then(|labels| self.owners.get_mut(labels));
        if let Some(owner) = owner {
            owner.living.remove(&pid);
            owner.ended_ns = owner.ended_ns.max(end_ns);
        }
        self.dead.push_back(pid);
        if self.dead.len() > MAX_DEAD
            && let Some(oldest) = self.dead.pop_front()
        {
            self.by_pid.remove(&oldest);
        }
    }

    /// Forgets the owner that has been gone for longest.
    fn make_room(&mut self) -> Option<Labels> {
        let gone = self.owners.iter().filter(|(_, owner)| owner.living.is_empty());
        let oldest = gone.min_by_key(|(_, owner)| owner.ended_ns).map(|(labels, _)| labels.clone())?;
        self.owners.remove(&oldest);
        for labels in self.by_pid.values_mut().filter(|labels| **labels == oldest) {
            *labels = other();
        }
        Some(oldest)
    }
}

/// Whose it is where there were too many.
pub(crate) fn other() -> Labels {
    [OTHER.into(), "".into(), "".into()]
}

fn labels_of(process: &Process) -> Labels {
    let pod = match (&process.namespace, &process.pod) {
        (Some(namespace), Some(pod)) => format!("{namespace}/{pod}"),
        (None, Some(pod)) => pod.clone(),
        (_, None) => String::new(),
    };
    [clean(&process.comm), process.rank.map_or_else(String::new, |rank| rank.to_string()).into(), clean(&pod)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, comm: &str) -> Process {
        Process { pid, comm: comm.into(), ..Process::default() }
    }

    #[test]
    fn processes_of_one_name_and_rank_are_one_owner() {
        let mut owners = Owners::default();
        owners.see(&process(1, "python3"));
        owners.see(&Process { rank: Some(3), ..process(2, "python3") });
        owners.see(&process(3, "python3"));
        assert_eq!(owners.of(1), owners.of(3));
        assert_eq!(&*owners.of(2)[1], "3");
        assert_eq!((owners.owners.len(), owners.living()), (2, 3));
        // Its pod's name comes later.
        let named = Process { pod: Some("p".into()), namespace: Some("n".into()), ..process(1, "python3") };
        owners.see(&named);
        assert_eq!(&*owners.of(1)[2], "n/p");
        assert_eq!(&*owners.of(99)[0], "unknown");
    }

    #[test]
    fn beyond_the_cap_the_ended_make_room_and_the_rest_is_other() {
        let mut owners = Owners::default();
        for pid in 0..MAX_OWNERS as u32 {
            assert_eq!(owners.see(&process(pid, &format!("p{pid}"))), None);
        }
        assert_eq!(owners.see(&process(1000, "late")), None);
        assert_eq!(owners.of(1000), other());
        owners.see(&Process { end_ns: Some(9), ..process(7, "p7") });
        owners.see(&Process { end_ns: Some(5), ..process(8, "p8") });
        let evicted = owners.see(&process(1001, "later")).unwrap();
        assert_eq!(&*evicted[0], "p8");
        assert_eq!(&*owners.of(1001)[0], "later");
        assert_eq!(owners.of(8), other(), "what still comes of it");
        assert_eq!(owners.owners.len(), MAX_OWNERS);
    }

    #[test]
    fn the_ended_are_forgotten_in_the_end() {
        let mut owners = Owners::default();
        for pid in 0..3 * MAX_DEAD as u32 {
            owners.see(&process(pid, "short"));
            owners.see(&Process { end_ns: Some(1), ..process(pid, "short") });
        }
        assert_eq!((owners.by_pid.len(), owners.living()), (MAX_DEAD, 0));
        // A number that is given again is alive again.
        owners.see(&process(3 * MAX_DEAD as u32 - 1, "new"));
        assert_eq!((&*owners.of(3 * MAX_DEAD as u32 - 1)[0], owners.living()), ("new", 1));
    }
}
