//! Paths of cgroups as they are found in the wild.

use gpuwhy_host::Owner;

const POD: &str = "0a1b2c3d-1111-2222-3333-444455556666";
const POD_: &str = "0a1b2c3d_1111_2222_3333_444455556666";
const TASK: &str = "0123456789abcdef0123456789abcdef";

fn is_somebodys(owner: &Owner) -> bool {
    owner.container_id.is_some() || owner.pod_uid.is_some() || owner.job_id.is_some()
}

fn id() -> String {
    "0123456789abcdef".repeat(4)
}

#[test]
fn containers_are_told_by_their_cgroup() {
    let (id, other) = (id(), "f".repeat(64));
    let static_pod = "c".repeat(32);
    let docker = Some("docker");
    let containerd = Some("containerd");
    let (burstable, besteffort, guaranteed) = (Some("burstable"), Some("besteffort"), Some("guaranteed"));
    for (path, runtime, pod, qos) in [
        // Docker: systemd and cgroupfs drivers, rootless, in a container itself.
        (format!("/system.slice/docker-{id}.scope"), docker, None, None),
        (format!("/docker/{id}"), docker, None, None),
        (
            format!("/user.slice/user-1000.slice/user@1000.service/user.slice/docker-{id}.scope"),
            docker,
            None,
            None,
        ),
        (format!("/docker/{other}/docker/{id}"), docker, None, None),
        (format!("/system.slice/docker-{other}.scope/docker/{id}/init"), docker, None, None),
        (format!("/../{id}"), None, None, None),
        (format!("/../../system.slice/docker-{id}.scope"), docker, None, None),
        // containerd by nerdctl and ctr.
        (format!("/system.slice/nerdctl-{id}.scope"), containerd, None, None),
        (
            format!("/user.slice/user-1000.slice/user@1000.service/user.slice/nerdctl-{id}.scope"),
            containerd,
            None,
            None,
        ),
        (format!("/default/{id}"), containerd, None, None),
        // Podman: rootful, rootless, with its split cgroups, without systemd.
        (format!("/machine.slice/libpod-{id}.scope"), Some("podman"), None, None),
        (format!("/machine.slice/libpod-{id}.scope/container"), Some("podman"), None, None),
        (
            format!("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{id}.scope/container"),
            Some("podman"),
            None,
            None,
        ),
        (format!("/system.slice/train.service/libpod-payload-{id}"), Some("podman"), None, None),
        (format!("/libpod_parent/libpod-{id}"), Some("podman"), None, None),
        // Kubernetes: systemd driver with containerd, CRI-O and Docker.
        (
            format!(
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{POD_}.slice/cri-containerd-{id}.scope"
            ),
            containerd,
            Some(POD),
            burstable,
        ),
        (
            format!("/kubepods.slice/kubepods-pod{POD_}.slice/crio-{id}.scope"),
            Some("cri-o"),
            Some(POD),
            guaranteed,
        ),
        (
            format!("/kubepods.slice/kubepods-pod{POD_}.slice/crio-{id}.scope/container"),
            Some("cri-o"),
            Some(POD),
            guaranteed,
        ),
        (
            format!(
                "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{POD_}.slice/docker-{id}.scope"
            ),
            docker,
            Some(POD),
            besteffort,
        ),
        // cgroupfs driver.
        (format!("/kubepods/burstable/pod{POD}/{id}"), None, Some(POD), burstable),
        (format!("/kubepods/besteffort/pod{POD}/{id}"), None, Some(POD), besteffort),
        (format!("/kubepods/pod{POD}/{id}"), None, Some(POD), guaranteed),
        (format!("/kubepods/burstable/pod{POD}/crio-{id}"), Some("cri-o"), Some(POD), burstable),
        (format!("/kubepods/burstable/pod{static_pod}/{id}"), None, Some(static_pod.as_str()), burstable),
        // systemd's notation without systemd.
        (
            format!(
                "/system.slice/containerd.service/kubepods-burstable-pod{POD_}.slice:cri-containerd:{id}"
            ),
            containerd,
            Some(POD),
            burstable,
        ),
        // A cluster in a container: kind, and what a sidecar sees.
        (
            format!(
                "/system.slice/docker-{other}.scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/\
                 kubelet-kubepods-burstable-pod{POD_}.slice/cri-containerd-{id}.scope"
            ),
            containerd,
            Some(POD),
            burstable,
        ),
        (format!("/docker/{other}/kubelet/kubepods/burstable/pod{POD}/{id}"), None, Some(POD), burstable),
        (format!("/../cri-containerd-{id}.scope"), containerd, None, None),
        (
            format!("/../../kubepods-burstable-pod{POD_}.slice/cri-containerd-{id}.scope"),
            containerd,
            Some(POD),
            burstable,
        ),
        (format!("/ecs/{TASK}/{id}"), docker, None, None),
    ] {
        let owner = Owner::of(&path);
        assert_eq!(owner.container_id.as_deref(), Some(id.as_str()), "{path}");
        assert_eq!((owner.runtime, owner.pod_uid.as_deref(), owner.qos), (runtime, pod, qos), "{path}");
        assert_eq!(owner.unit, None, "{path}");
    }
    // The pod's own folder, a monitor beside its container.
    let pod = Owner::of(&format!("/kubepods.slice/kubepods-pod{POD_}.slice/crio-conmon-{id}.scope"));
    assert_eq!((pod.container_id, pod.pod_uid.as_deref()), (None, Some(POD)));
    assert_eq!(Owner::of(&format!("/machine.slice/libpod-conmon-{id}.scope")).container_id, None);
}

#[test]
fn containers_with_names_instead_of_ids() {
    for (path, runtime, name) in [
        ("/lxc/web", "lxc", "web"),
        ("/lxc.payload.web/system.slice/nginx.service", "lxc", "web"),
        ("/lxc.payload/web", "lxc", "web"),
        ("/machine.slice/machine-debian\\x2d12.scope/payload", "nspawn", "debian-12"),
        ("/machine.slice/systemd-nspawn@build.service/payload", "nspawn", "build"),
        ("/machine.slice/machine-qemu\\x2d3\\x2dgpu\\x2dvm.scope/libvirt/emulator", "libvirt", "gpu-vm"),
        ("/mesos/2b1c", "mesos", "2b1c"),
    ] {
        let path = path.replace("\\\\", "\\");
        let owner = Owner::of(&path);
        assert_eq!((owner.runtime, owner.container_id.as_deref()), (Some(runtime), Some(name)), "{path}");
    }
}

#[test]
fn jobs_are_told_by_their_cgroup() {
    for (path, system, job, step, uid) in [
        ("/slurm/uid_1000/job_42/step_0/task_0", "slurm", "42", Some("0"), Some(1000)),
        ("/slurm_node7/uid_1000/job_42/step_batch", "slurm", "42", Some("batch"), Some(1000)),
        ("/slurm/uid_0/job_42", "slurm", "42", None, Some(0)),
        (
            "/system.slice/slurmstepd.scope/job_42/step_extern/user/task_special",
            "slurm",
            "42",
            Some("extern"),
            None,
        ),
        ("/system.slice/node7_slurmstepd.scope/job_42/step_3/user/task_1", "slurm", "42", Some("3"), None),
        ("/../../slurmstepd.scope/job_42/step_0/slurm", "slurm", "42", Some("0"), None),
        ("/pbs_jobs.service/jobid/1234.head", "pbs", "1234.head", None, None),
        ("/pbspro.slice/pbspro-1234.head.slice", "pbs", "1234.head", None, None),
        ("/pbspro/1234.head", "pbs", "1234.head", None, None),
        ("/lsf/cluster1/job.77.4242.1600000000", "lsf", "77", None, None),
    ] {
        let owner = Owner::of(path);
        assert_eq!((owner.job_system, owner.job_id.as_deref()), (Some(system), Some(job)), "{path}");
        assert_eq!((owner.job_step.as_deref(), owner.job_uid), (step, uid), "{path}");
        assert_eq!(owner.container_id, None, "{path}");
    }
    // A container that a job started is in both.
    let both =
        Owner::of(&format!("/system.slice/slurmstepd.scope/job_42/step_0/user/task_0/libpod-{}.scope", id()));
    assert_eq!((both.job_id.as_deref(), both.runtime), (Some("42"), Some("podman")));
    for (path, task, container) in [
        (format!("/ecs/{TASK}/{}", id()), TASK, id()),
        (format!("/ecs/gpu-cluster/{TASK}/{}", id()), TASK, id()),
        (format!("/ecs/{TASK}/{TASK}-1234567890"), TASK, format!("{TASK}-1234567890")),
        (format!("/ecs/{POD}/{}", id()), POD, id()),
        (format!("/ecstasks.slice/ecstasks-{TASK}.slice/docker-{}.scope", id()), TASK, id()),
    ] {
        let owner = Owner::of(&path);
        assert_eq!((owner.ecs_task.as_deref(), owner.container_id), (Some(task), Some(container)), "{path}");
    }
}

#[test]
fn units_and_users() {
    for (path, unit, user) in [
        ("/system.slice/nvidia-persistenced.service", Some("nvidia-persistenced.service"), None),
        ("/system.slice/system-getty.slice/getty@tty1.service", Some("getty@tty1.service"), None),
        ("/user.slice/user-1000.slice/session-3.scope", None, Some(1000)),
        (
            "/user.slice/user-1000.slice/user@1000.service/app.slice/app-code\\x2d1.scope",
            Some("app-code-1.scope"),
            Some(1000),
        ),
        ("/init.scope", None, None),
        ("/", None, None),
        ("", None, None),
    ] {
        let path = path.replace("\\\\", "\\");
        let owner = Owner::of(&path);
        assert_eq!((owner.unit.as_deref(), owner.user), (unit, user), "{path}");
        assert!(!is_somebodys(&owner), "{path}");
    }
}

#[test]
fn paths_anybody_could_have_made_up_are_not_believed() {
    for path in [
        "/job_42/step_0",
        "/mine/uid_0/job_1",
        "/podabc/x",
        "/kubepods/podnot-a-uid/x",
        "/user.slice/user-x.slice",
        "/slurm/job_../step_",
        "/docker/short",
        "/..",
        "/../..",
        "///",
        "/machine.slice/machine-.scope",
        "/\\xzz.service/\\x2",
        "/job.7.8.9",
    ] {
        assert!(!is_somebodys(&Owner::of(path)), "{path}");
    }
}
