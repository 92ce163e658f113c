//! Whose a cgroup is, by its path alone: every container runtime, batch system and service manager names its cgroups
//! in a way of its own.

use crate::root::word;

/// What a path says; the innermost container where they are nested.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Owner {
    pub container_id: Option<String>,
    /// `docker`, `containerd`, `cri-o`, `podman`, `lxc`, `nspawn`, `libvirt`, `ecs` or `mesos`; unknown where a path has
    /// only the id.
    pub runtime: Option<&'static str>,
    pub pod_uid: Option<String>,
    /// `guaranteed`, `burstable` or `besteffort`.
    pub qos: Option<&'static str>,
    /// `slurm`, `pbs` or `lsf`.
    pub job_system: Option<&'static str>,
    pub job_id: Option<String>,
    pub job_step: Option<String>,
    pub job_uid: Option<u32>,
    pub ecs_task: Option<String>,
    /// The service or scope of systemd.
    pub unit: Option<String>,
    /// The user whose slice it is in.
    pub user: Option<u32>,
}

impl Owner {
    pub fn of(path: &str) -> Owner {
        let mut owner = Owner::default();
        let mut before: Vec<&str> = Vec::new();
        // Seen from inside a container, what lies outside begins with `..`.
        for part in path.split('/').filter(|part| !part.is_empty() && *part != "..") {
            owner.take(part, &before);
            before.push(part);
        }
        owner
    }

    /// What another hierarchy's path knows more.
    pub(crate) fn complete(&mut self, other: Owner) {
        if self.container_id.is_none() {
            (self.container_id, self.runtime) = (other.container_id, other.runtime);
        }
        if self.pod_uid.is_none() {
            (self.pod_uid, self.qos) = (other.pod_uid, other.qos);
        }
        if self.job_id.is_none() {
            (self.job_system, self.job_id) = (other.job_system, other.job_id);
            (self.job_step, self.job_uid) = (other.job_step, other.job_uid);
        }
        self.ecs_task = self.ecs_task.take().or(other.ecs_task);
        self.unit = self.unit.take().or(other.unit);
        self.user = self.user.or(other.user);
    }

    /// It belongs to somebody in particular.
    pub(crate) fn is_known(&self) -> bool {
        self.container_id.is_some() || self.pod_uid.is_some() || self.job_id.is_some()
    }

    fn take(&mut self, part: &str, before: &[&str]) {
        let pod = pod_uid(part, before);
        if let Some(uid) = &pod {
            self.qos = Some(qos(part, before));
            self.pod_uid = Some(uid.clone());
            // What was around the pod is the node it runs on, not its own.
            (self.container_id, self.runtime, self.unit) = (None, None, None);
        }
        // `kubepods-podUID.slice:cri-containerd:ID` is both.
        if let Some((id, runtime)) = container(part, before) {
            (self.container_id, self.runtime, self.unit) = (Some(id), runtime, None);
            return;
        }
        if pod.is_some() {
            return;
        }
        self.take_job(part, before);
        if let Some(task) = ecs_task(part, before) {
            self.ecs_task = Some(task);
        }
        if let Some(user) = part.strip_prefix("user-").and_then(|part| part.strip_suffix(".slice")) {
            self.user = user.parse().ok().or(self.user);
        }
        let is_unit = part.ends_with(".service") || (part.ends_with(".scope") && part != "init.scope");
        if is_unit && self.container_id.is_none() && self.pod_uid.is_none() && !is_session(part) {
            self.unit = word(&unescaped(part));
        }
    }

    fn take_job(&mut self, part: &str, before: &[&str]) {
        if before.iter().any(|part| is_slurm(part)) {
            if let Some(id) = part.strip_prefix("job_").filter(|id| starts_with_digit(id)) {
                (self.job_system, self.job_id) = (Some("slurm"), Some(id.to_string()));
            } else if let Some(step) = part.strip_prefix("step_").filter(|step| is_plain(step)) {
                self.job_step = Some(step.to_string());
            } else if let Some(uid) = part.strip_prefix("uid_").and_then(|uid| uid.parse().ok()) {
                self.job_uid = Some(uid);
            }
            return;
        }
        let pbs = part.strip_prefix("pbspro-").or_else(|| part.strip_prefix("pbs_jobs-"));
        let pbs = pbs.and_then(|part| part.strip_suffix(".slice")).or_else(|| {
            let is_job = matches!(
                before,
                [.., "pbs_jobs.service" | "pbspro.service", "jobid"] | [.., "pbspro" | "pbs_jobs"]
            );
            is_job.then_some(part)
        });
        if let Some(id) = pbs.filter(|id| starts_with_digit(id)) {
            (self.job_system, self.job_id) = (Some("pbs"), word(&unescaped(id)));
        }
        // `lsf/CLUSTER/job.123.4567.1600000000`
        if matches!(before, [.., "lsf", _])
            && let Some(id) = part.strip_prefix("job.").and_then(|rest| rest.split('.').next())
            && starts_with_digit(id)
        {
            (self.job_system, self.job_id) = (Some("lsf"), Some(id.to_string()));
        }
    }
}

/// `slurm` and `slurm_NODE` of the old hierarchies, `slurmstepd.scope` and `NODE_slurmstepd.scope` of the new one.
fn is_slurm(part: &str) -> bool {
    part == "slurm"
        || part.starts_with("slurm_")
        || part == "slurmstepd.scope"
        || part.ends_with("_slurmstepd.scope")
}

fn is_session(part: &str) -> bool {
    part.starts_with("session-") && part.ends_with(".scope")
}

/// Names that runtimes put before the id, with a dash or a colon after them.
const PREFIXES: &[(&str, &str)] = &[
    ("cri-containerd", "containerd"),
    ("nerdctl", "containerd"),
    ("containerd", "containerd"),
    ("docker", "docker"),
    ("crio", "cri-o"),
    ("libpod-payload", "podman"),
    ("libpod", "podman"),
];

/// The container that a part of a path names, and its runtime where that is known.
fn container(part: &str, before: &[&str]) -> Option<(String, Option<&'static str>)> {
    let bare = part.strip_suffix(".scope").unwrap_or(part);
    let above = before.last().copied().unwrap_or_default();
    if is_id(bare) {
        let runtime = match above {
            "docker" | "moby" => Some("docker"),
            "libpod_parent" => Some("podman"),
            // Namespaces of containerd; its clients use them as folders.
            "default" | "k8s.io" | "buildkit" => Some("containerd"),
            _ if before.iter().any(|part| is_ecs(part)) => Some("docker"),
            _ => None,
        };
        return Some((bare.to_string(), runtime));
    }
    if let Some((head, id)) = bare.rsplit_once(['-', ':'])
        && is_id(id)
    {
        // `kubepods-pod1.slice:cri-containerd:ID` is what becomes of systemd's notation without systemd.
        let head = head.rsplit(':').next().unwrap_or(head);
        let known = PREFIXES.iter().find(|(prefix, _)| *prefix == head);
        // The monitor of a container is not in it.
        return (!head.ends_with("conmon")).then(|| (id.to_string(), known.map(|(_, runtime)| *runtime)));
    }
    // Fargate: the task's id and a number.
    if before.iter().any(|part| is_ecs(part))
        && let Some((task, number)) = bare.split_once('-')
        && is_hex(task, 32)
        && number.bytes().all(|byte| byte.is_ascii_digit())
    {
        return Some((bare.to_string(), Some("ecs")));
    }
    let named = |name: &str, runtime| Some((word(&unescaped(name))?, Some(runtime)));
    if let Some(name) = part.strip_prefix("lxc.payload.").or_else(|| part.strip_prefix("lxc.payload/")) {
        return named(name, "lxc");
    }
    match above {
        "lxc" | "lxc.payload" => return named(part, "lxc"),
        "mesos" => return named(part, "mesos"),
        _ => {}
    }
    if let Some(machine) = part.strip_prefix("machine-").and_then(|part| part.strip_suffix(".scope")) {
        return match unescaped(machine).strip_prefix("qemu-") {
            Some(name) => named(name.split_once('-').map_or(name, |(_, name)| name), "libvirt"),
            None => named(machine, "nspawn"),
        };
    }
    let nspawn = part.strip_prefix("systemd-nspawn@").and_then(|part| part.strip_suffix(".service"));
    nspawn.and_then(|name| named(name, "nspawn"))
}

/// The pod that a part of a path names, below whatever the cluster's tool puts around it.
fn pod_uid(part: &str, before: &[&str]) -> Option<String> {
    let by_systemd = || {
        let (head, uid) = part.split_once(".slice")?.0.rsplit_once("-pod")?;
        head.contains("kubepods").then_some(uid)
    };
    let plain = || {
        let below = before.iter().rev().take(2).any(|part| part.ends_with("kubepods"));
        part.strip_prefix("pod").filter(|_| below)
    };
    let uid = by_systemd().or_else(plain)?.replace('_', "-");
    let dashed = uid.len() == 36 && uid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    (dashed || is_hex(&uid, 32)).then_some(uid)
}

fn qos(part: &str, before: &[&str]) -> &'static str {
    let below = before.last().copied().unwrap_or_default();
    let says = |word: &str| part.contains(&format!("-{word}-")) || below == word;
    match () {
        () if says("burstable") => "burstable",
        () if says("besteffort") => "besteffort",
        () => "guaranteed",
    }
}

fn is_ecs(part: &str) -> bool {
    part == "ecs" || part == "ecs.slice" || part == "ecstasks.slice"
}

/// `/ecs/TASK/CONTAINER`, `/ecs/CLUSTER/TASK/CONTAINER`, `/ecstasks.slice/ecstasks-TASK.slice/...`
fn ecs_task(part: &str, before: &[&str]) -> Option<String> {
    if !before.iter().any(|part| is_ecs(part)) {
        return None;
    }
    let bare = part.strip_suffix(".slice").unwrap_or(part);
    let bare = bare.strip_prefix("ecstasks-").or_else(|| bare.strip_prefix("ecs-")).unwrap_or(bare);
    let uuid = bare.len() == 36 && bare.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    (is_hex(bare, 32) || uuid).then(|| bare.to_string())
}

pub(crate) fn is_id(text: &str) -> bool {
    is_hex(text, 64)
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit()) && is_plain(text)
}

fn is_plain(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+[]\\".contains(&byte);
    !text.is_empty() && text.bytes().all(plain)
}

/// systemd writes what may not be in the name of a unit as `\x2d`.
fn unescaped(text: &str) -> String {
    let mut parts = text.split("\\x");
    let mut whole = parts.next().unwrap_or_default().to_string();
    for part in parts {
        match part.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(u8::is_ascii) {
            Some(byte) => {
                whole.push(char::from(byte));
                whole.push_str(&part[2..]);
            }
            None => {
                whole.push_str("\\x");
                whole.push_str(part);
            }
        }
    }
    whole
}
