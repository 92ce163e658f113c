//! Names of pods, from the node and from the pod.

use crate::host::{Host, id, of};

const UID: &str = "0a1b2c3d-1111-2222-3333-444455556666";
const OTHER: &str = "ffffffff-1111-2222-3333-444455556666";

fn cgroup(digit: char) -> String {
    let uid = UID.replace('-', "_");
    format!(
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid}.slice/cri-containerd-{}.scope",
        id(digit)
    )
}

#[test]
fn the_kubelets_logs_name_pod_and_container() {
    let host = Host::new();
    host.write(&format!("var/log/pods/ml_train-0_{UID}/worker/0.log"), "");
    host.write(&format!("var/log/pods/other_else_{OTHER}/worker/0.log"), "");
    host.write(&format!("var/log/containers/train-0_ml_worker-{}.log", id('a')), "");
    // What the pod claims to be does not matter then.
    host.process(10, &cgroup('a'), "POD_NAME=liar POD_NAMESPACE=kube-system");
    assert_eq!(of(&host.whole(10)), [Some("containerd"), Some("worker"), None, Some("train-0"), Some("ml")]);
    assert_eq!(host.whole(10).tenant, "ml/train-0");
    assert_eq!(host.describe(10).tenant, format!("pod:{UID}"));
}

#[test]
fn the_downward_api_names_it_where_the_node_does_not() {
    let host = Host::new();
    host.process(10, &cgroup('a'), "TORCHELASTIC_RUN_ID=x");
    let file = |name: &str, text: &str| host.write(&format!("proc/10/root/etc/podinfo/{name}"), text);
    file("name", "train-0");
    file("namespace", "ml\n");
    file("uid", UID);
    file("labels", "app=\"x\"\nbatch.kubernetes.io/job-name=\"train\"\n");
    let process = host.whole(10);
    assert_eq!((process.tenant.as_str(), process.job_id.as_deref()), ("ml/train-0", Some("train")));
    assert_eq!(process.job_system.as_deref(), Some("kubernetes"));
    assert_eq!(process.container.unwrap().labels["app"], "x");
    // Of another pod: inherited, copied, or a lie.
    file("uid", OTHER);
    assert_eq!(host.whole(10).tenant, format!("pod:{UID}"));
}

#[test]
fn variables_service_account_and_host_name_are_the_last_resort() {
    let host = Host::new();
    host.process(10, &cgroup('a'), &format!("POD_NAME=train-1 POD_NAMESPACE=ml POD_UID={UID}"));
    assert_eq!(host.whole(10).tenant, "ml/train-1");
    host.process(10, &cgroup('a'), &format!("POD_NAME=train-1 POD_NAMESPACE=ml POD_UID={OTHER}"));
    assert_eq!(host.whole(10).tenant, format!("pod:{UID}"));
    host.process(11, &cgroup('a'), "");
    host.write("proc/11/root/run/secrets/kubernetes.io/serviceaccount/namespace", "ml");
    std::fs::create_dir_all(host.path("proc/11/root/var")).unwrap();
    std::os::unix::fs::symlink("/run", host.path("proc/11/root/var/run")).unwrap();
    host.write("proc/11/root/etc/hostname", "train-2\n");
    assert_eq!(host.whole(11).tenant, "ml/train-2");
    // A pod on the node's network has the node's name.
    host.write("proc/11/root/etc/hostname", "node-1\n");
    assert_eq!(host.whole(11).tenant, format!("pod:{UID}"));
    host.process(12, &cgroup('a'), "NODE_NAME=gpu-7 HOSTNAME=gpu-7");
    assert_eq!(host.whole(12).tenant, format!("pod:{UID}"));
    host.process(13, &cgroup('a'), "NODE_NAME=gpu-7 HOSTNAME=train-3");
    assert_eq!(host.whole(13).tenant, "train-3");
    // Nor is the short id that a container is called by the name of a pod.
    host.process(
        15,
        &format!("/docker/{}", id('a')),
        "KUBERNETES_SERVICE_HOST=10.0.0.1 HOSTNAME=aaaaaaaaaaaa",
    );
    assert_eq!(host.whole(15).pod, None);
    // Words of a process that is in no pod are not asked for.
    host.process(14, "/system.slice/x.service", "POD_NAME=train-4 POD_NAMESPACE=ml");
    assert_eq!(host.whole(14).tenant, "x.service");
}

#[test]
fn a_container_with_the_agent_in_it_is_known_by_its_mounts() {
    let host = Host::new();
    host.process(10, "/", "");
    host.write(
        "proc/10/mountinfo",
        format!("1 2 8:1 /var/lib/docker/containers/{}/hostname /etc/hostname rw - ext4 d rw\n", id('a')),
    );
    let process = host.describe(10);
    assert_eq!((process.container_id, process.tenant.as_str()), (Some(id('a')), "aaaaaaaaaaaa"));
    host.process(11, "/../..", "");
    host.write(
        "proc/11/mountinfo",
        format!("1 2 8:1 /var/lib/kubelet/pods/{UID}/etc-hosts /etc/hosts rw - ext4 d rw\n"),
    );
    assert_eq!(host.describe(11).tenant, format!("pod:{UID}"));
}
