//! Names that take a while to find: of containers, pods and jobs. To be asked from a thread that may wait, since files of
//! a container may lie on a disk that does not answer.

use crate::environment::Environment;
use crate::job::{take_ecs, take_labels};
use crate::owner::is_id;
use crate::process::start_ticks;
use crate::tenant::tenant;
use crate::users::{user, user_name};
use crate::{Owner, Root, container, cri, pod, tenant_of_cgroup};
use gpuwhy_confine::Parser;
use gpuwhy_model::{Container, Process};
use std::collections::HashMap;

/// Containers and cgroups remembered; beyond it all are forgotten and looked for anew.
const MAX: usize = 4096;

/// The kernel tells start times by a clock that is set now and then, in whole seconds.
const CLOCK_STEP_NS: u64 = 2_000_000_000;

/// Finds names, and remembers those of containers.
#[derive(Debug, Default)]
pub struct Lookup {
    root: Root,
    /// What the host's files say, by id.
    containers: HashMap<String, Container>,
    tenants: HashMap<String, String>,
}

impl Lookup {
    pub fn new(root: Root) -> Lookup {
        Lookup { root, ..Lookup::default() }
    }

    /// Reads what it finds in that thread, which has to be one that may talk.
    pub fn reading_in(parser: Parser, root: Root) -> Lookup {
        Lookup::new(root.reading_in(parser))
    }

    /// Fills in what [`describe`](crate::describe) left open. What the host says goes before what the process says of
    /// itself. A process that is gone, or whose number another has by now, gets what the host says.
    pub fn complete(&mut self, process: &mut Process) {
        let hosts = self.root.hosts();
        let start = self.root.start_of(process.pid);
        let described = start.is_some_and(|start| start.abs_diff(process.start_ns) < CLOCK_STEP_NS);
        if let Some(mut container) = process.container.take() {
            self.take_hosts_word(&mut container, &process.cgroup);
            if described {
                let before = start_ticks(&self.root, process.pid);
                let mut message = container.clone();
                let environment = Environment::of(&self.root, process.pid);
                let inside = self.root.inside(process.pid);
                let is_pod =
                    container.pod_uid.is_some() || environment.get("KUBERNETES_SERVICE_HOST").is_some();
                let mut with_job = process.clone();
                if let Some(inside) = &inside {
                    if is_pod {
                        let node = self.root.text("proc/sys/kernel/hostname").unwrap_or_default();
                        pod::take_own_words(&mut message, inside, &environment, node.trim());
                    }
                    with_job.container = Some(message);
                    let _ = take_ecs(&mut with_job, &environment, inside);
                    message = with_job.container.take().unwrap_or_default();
                }
                // The number may have been given to another between the first word and the last.
                if before.is_some() && start_ticks(&self.root, process.pid) == before {
                    (*process, container) = (with_job, message);
                }
            }
            take_labels(process, &container.labels);
            process.pod = container.pod.clone().or(process.pod.take());
            process.namespace = container.namespace.clone().or(process.namespace.take());
            process.container = Some(container);
        }
        process.tenant = tenant(process, || user_name(&hosts, process.uid));
    }

    /// Whose a cgroup is, by name where the host's files tell: the same word as for a process in it.
    pub fn tenant_of_cgroup(&mut self, path: &str) -> String {
        if let Some(known) = self.tenants.get(path) {
            return known.clone();
        }
        let owner = Owner::of(path);
        let mut process = Process {
            cgroup: path.to_string(),
            job_system: owner.job_system.map(str::to_string),
            job_id: owner.job_id.clone(),
            container: owner.container(),
            ..Process::default()
        };
        if let Some(mut container) = process.container.take() {
            self.take_hosts_word(&mut container, path);
            (process.pod, process.namespace) = (container.pod.clone(), container.namespace.clone());
            process.container = Some(container);
        }
        let found = tenant(&process, || tenant_of_cgroup(path));
        if self.tenants.len() >= MAX {
            self.tenants.clear();
        }
        self.tenants.insert(path.to_string(), found.clone());
        found
    }

    fn take_hosts_word(&mut self, container: &mut Container, cgroup: &str) {
        // Names are only unique within a runtime; ids are.
        let is_unique = is_id(&container.container_id);
        if let Some(known) = self.containers.get(&container.container_id) {
            *container = known.clone();
            return;
        }
        let hosts = self.root.hosts();
        let owner = Owner::of(cgroup);
        let home = owner.user.and_then(|uid| user(&hosts, uid)).map(|user| user.home);
        for host in &hosts {
            container::take_files(container, host, home.as_deref());
            pod::take_logs(container, host);
        }
        for host in &hosts {
            cri::take(container, host);
            container::take_socket(container, host);
        }
        if container.name.is_some() && is_unique {
            if self.containers.len() >= MAX {
                self.containers.clear();
            }
            self.containers.insert(container.container_id.clone(), container.clone());
        }
    }
}
