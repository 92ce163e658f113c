//! Whose a process is, in one word: what a table about neighbours shows.

use crate::Owner;
use crate::owner::is_id;
use gpuwhy_model::Process;

/// Batch systems that give out the node; others run on what somebody was given.
const OWNERS: &[&str] = &["slurm", "pbs", "lsf", "flux"];

/// The pod, else the job, else the container, else what the cgroup says, else the user.
pub(crate) fn tenant(process: &Process, user: impl FnOnce() -> String) -> String {
    let container = process.container.as_ref();
    if let Some(pod) = &process.pod {
        return match &process.namespace {
            Some(namespace) => format!("{namespace}/{pod}"),
            None => pod.clone(),
        };
    }
    if let Some(uid) = container.and_then(|container| container.pod_uid.as_ref()) {
        return format!("pod:{uid}");
    }
    if let (Some(system), Some(id)) = (&process.job_system, &process.job_id)
        && OWNERS.contains(&system.as_str())
    {
        return format!("{system}:{id}");
    }
    if let Some(container) = container {
        return container.name.clone().unwrap_or_else(|| short(&container.container_id));
    }
    Some(tenant_of_cgroup(&process.cgroup)).filter(|tenant| !tenant.is_empty()).unwrap_or_else(user)
}

/// As far as the path of a cgroup tells: for neighbours that are not traced. Empty for the root cgroup, in which
/// everybody may be. A pod is told by its UID, `pod:UID`; [`Lookup::tenant_of_cgroup`](crate::Lookup) finds its name.
pub fn tenant_of_cgroup(path: &str) -> String {
    let owner = Owner::of(path);
    if let Some(uid) = owner.pod_uid {
        return format!("pod:{uid}");
    }
    if let (Some(system), Some(id)) = (owner.job_system, owner.job_id) {
        return format!("{system}:{id}");
    }
    if let Some(id) = owner.container_id {
        return short(&id);
    }
    if let Some(unit) = owner.unit {
        return unit;
    }
    if let Some(user) = owner.user {
        return format!("user-{user}.slice");
    }
    let path = crate::root::word(path).unwrap_or_default();
    if path.split('/').all(|part| part.is_empty() || part == "..") { String::new() } else { path }
}

/// As runtimes show ids.
fn short(id: &str) -> String {
    if is_id(id) { id[..12].to_string() } else { id.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_model::Container;

    #[test]
    fn a_path_tells_whose_it_is() {
        let id = "0123456789abcdef".repeat(4);
        let uid = "0a1b2c3d-1111-2222-3333-444455556666";
        for (path, tenant) in [
            (format!("/kubepods/burstable/pod{uid}/{id}"), format!("pod:{uid}")),
            ("/system.slice/slurmstepd.scope/job_42/step_0/user/task_0".into(), "slurm:42".into()),
            (format!("/system.slice/docker-{id}.scope"), "0123456789ab".into()),
            ("/lxc/web".into(), "web".into()),
            ("/system.slice/sshd.service".into(), "sshd.service".into()),
            ("/user.slice/user-1000.slice/session-3.scope".into(), "user-1000.slice".into()),
            ("/batch/jobs/7".into(), "/batch/jobs/7".into()),
            ("/../..".into(), String::new()),
            ("/".into(), String::new()),
            (String::new(), String::new()),
        ] {
            assert_eq!(tenant_of_cgroup(&path), tenant, "{path}");
        }
    }

    #[test]
    fn the_narrowest_owner_is_the_tenant() {
        let user = || "ada".to_string();
        let mut process = Process { cgroup: "/".into(), ..Process::default() };
        assert_eq!(tenant(&process, user), "ada");
        process.cgroup = "/system.slice/train.service".into();
        assert_eq!(tenant(&process, user), "train.service");
        process.container = Some(Container { container_id: "a".repeat(64), ..Container::default() });
        assert_eq!(tenant(&process, user), "aaaaaaaaaaaa");
        process.container.as_mut().unwrap().name = Some("web".into());
        assert_eq!(tenant(&process, user), "web");
        (process.job_system, process.job_id) = (Some("ray".into()), Some("1".into()));
        assert_eq!(tenant(&process, user), "web");
        process.job_system = Some("slurm".into());
        assert_eq!(tenant(&process, user), "slurm:1");
        process.pod = Some("p".into());
        assert_eq!(tenant(&process, user), "p");
        process.namespace = Some("n".into());
        assert_eq!(tenant(&process, user), "n/p");
    }
}
