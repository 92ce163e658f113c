//! Names and images, by the files of each runtime.

use crate::host::{Host, id, of};
use gpuwhy_host::tenant_of_cgroup;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;

#[test]
fn docker_tells_name_image_and_labels() {
    let host = Host::new();
    let config =
        r#"{"ID":"x","Name":"/trainer","Config":{"Image":"pytorch:2","Labels":{"team":"vision","n":5}}}"#;
    host.write(&format!("var/lib/docker/containers/{}/config.v2.json", id('a')), config);
    host.process(10, &format!("/system.slice/docker-{}.scope", id('a')), "");
    let process = host.whole(10);
    assert_eq!(of(&process), [Some("docker"), Some("trainer"), Some("pytorch:2"), None, None]);
    assert_eq!(process.container.as_ref().unwrap().labels["team"], "vision");
    assert_eq!(
        (process.tenant.as_str(), process.container_id.as_deref()),
        ("trainer", Some(id('a').as_str()))
    );
    assert_eq!((process.cpus_allowed.as_deref(), process.mems_allowed.as_deref()), (Some("0-3"), Some("0")));
    // Before anybody has looked it is known by its number.
    assert_eq!(host.describe(10).tenant, "aaaaaaaaaaaa");
    // Another folder for its data.
    host.write("etc/docker/daemon.json", r#"{"data-root": "/data/docker"}"#);
    host.write(
        &format!("data/docker/containers/{}/config.v2.json", id('b')),
        config.replace("trainer", "server"),
    );
    host.process(11, &format!("/docker/{}", id('b')), "");
    assert_eq!(host.whole(11).tenant, "server");
}

#[test]
fn docker_of_a_user_keeps_its_files_at_home() {
    let host = Host::new();
    host.write("etc/passwd", "ada:x:1000:1000::/home/ada:/bin/sh\n");
    host.write(
        &format!("home/ada/.local/share/docker/containers/{}/config.v2.json", id('a')),
        r#"{"Name":"/mine","Config":{"Image":"x"}}"#,
    );
    host.process(
        10,
        &format!("/user.slice/user-1000.slice/user@1000.service/user.slice/docker-{}.scope", id('a')),
        "",
    );
    assert_eq!(host.whole(10).tenant, "mine");
}

#[test]
fn containerd_tells_in_its_bundle() {
    let host = Host::new();
    let bundle = |namespace: &str, id: &str, annotations: &str| {
        host.write(
            &format!("run/containerd/io.containerd.runtime.v2.task/{namespace}/{id}/config.json"),
            format!(r#"{{"ociVersion":"1","annotations":{{{annotations}}}}}"#),
        );
    };
    bundle(
        "k8s.io",
        &id('a'),
        r#""io.kubernetes.cri.container-name":"worker","io.kubernetes.cri.image-name":"img:1","io.kubernetes.cri.sandbox-name":"train-0",
           "io.kubernetes.cri.sandbox-namespace":"ml","io.kubernetes.cri.container-type":"container""#,
    );
    bundle("default", &id('b'), r#""nerdctl/name":"box""#);
    let uid = "0a1b2c3d-1111-2222-3333-444455556666";
    host.process(10, &format!("/kubepods/burstable/pod{uid}/{}", id('a')), "");
    host.process(11, &format!("/system.slice/nerdctl-{}.scope", id('b')), "");
    let pod = host.whole(10);
    assert_eq!(of(&pod), [Some("containerd"), Some("worker"), Some("img:1"), Some("train-0"), Some("ml")]);
    assert_eq!(
        (pod.tenant.as_str(), pod.pod.as_deref(), pod.namespace.as_deref()),
        ("ml/train-0", Some("train-0"), Some("ml"))
    );
    let container = pod.container.unwrap();
    assert_eq!((container.pod_uid.as_deref(), container.qos.as_deref()), (Some(uid), Some("burstable")));
    assert_eq!(host.whole(11).tenant, "box");
}

#[test]
fn podman_and_cri_o_share_a_store() {
    let host = Host::new();
    host.write(
        &format!("run/containers/storage/overlay-containers/{}/userdata/config.json", id('a')),
        r#"{"annotations":{"io.container.manager":"cri-o","io.kubernetes.pod.name":"p","io.kubernetes.pod.namespace":"n",
            "io.kubernetes.container.name":"c","io.kubernetes.cri-o.ImageName":"i","io.kubernetes.cri-o.Labels":"{\"app\":\"x\"}"}}"#,
    );
    host.write(
        "var/lib/containers/storage/overlay-containers/containers.json",
        format!(
            r#"[{{"id":"{}","names":["pod"],"metadata":"{{\"image-name\":\"ubi:9\"}}"}},7,{{}}]"#,
            id('b')
        ),
    );
    host.write("etc/passwd", "ada:x:1000:1000::/home/ada:/bin/sh\n");
    host.write(
        "home/ada/.local/share/containers/storage/overlay-containers/containers.json",
        format!(r#"[{{"id":"{}","names":["mine"],"metadata":"no json"}}]"#, id('c')),
    );
    host.process(10, &format!("/kubepods/pod{}/{}", "1".repeat(32), id('a')), "");
    host.process(11, &format!("/machine.slice/libpod-{}.scope/container", id('b')), "");
    let rootless = "/user.slice/user-1000.slice/user@1000.service/user.slice";
    host.process(12, &format!("{rootless}/libpod-{}.scope", id('c')), "");
    let crio = host.whole(10);
    assert_eq!(of(&crio), [Some("cri-o"), Some("c"), Some("i"), Some("p"), Some("n")]);
    assert_eq!(crio.container.unwrap().labels["app"], "x");
    assert_eq!(of(&host.whole(11)), [Some("podman"), Some("pod"), Some("ubi:9"), None, None]);
    assert_eq!(of(&host.whole(12)), [Some("podman"), Some("mine"), None, None, None]);
}

#[test]
fn the_daemon_is_asked_where_files_do_not_tell() {
    let host = Host::new();
    std::fs::create_dir_all(host.path("run")).unwrap();
    let listener = UnixListener::bind(host.path("run/docker.sock")).unwrap();
    let daemon = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = [0; 512];
        let _ = stream.read(&mut asked).unwrap();
        stream
            .write_all(
                b"HTTP/1.0 200 OK\r\n\r\n{\"Name\":\"/asked\",\"Config\":{\"Image\":\"i\",\"Labels\":null}}",
            )
            .unwrap();
    });
    host.process(10, &format!("/docker/{}", id('a')), "");
    assert_eq!(of(&host.whole(10)), [Some("docker"), Some("asked"), Some("i"), None, None]);
    daemon.join().unwrap();
}

#[test]
fn neighbours_are_named_as_those_who_are_traced() {
    let host = Host::new();
    let uid = "0a1b2c3d-1111-2222-3333-444455556666";
    let cgroup = format!("/kubepods/pod{uid}/{}", id('a'));
    host.write(&format!("var/log/pods/ml_train-0_{uid}/worker/0.log"), "");
    host.process(10, &cgroup, "");
    let mut lookup = host.lookup();
    assert_eq!(tenant_of_cgroup(&cgroup), format!("pod:{uid}"));
    for path in [cgroup.as_str(), &format!("/kubepods/pod{uid}/{}", id('b'))] {
        assert_eq!(lookup.tenant_of_cgroup(path), "ml/train-0");
    }
    assert_eq!(host.whole(10).tenant, "ml/train-0");
    assert_eq!(lookup.tenant_of_cgroup("/system.slice/sshd.service"), "sshd.service");
    assert_eq!(lookup.tenant_of_cgroup("/"), "");
}

#[test]
fn jobs_come_from_cgroup_environment_and_the_ecs_agents_file() {
    let host = Host::new();
    host.write("etc/passwd", "ada:x:1000:1000::/home/ada:/bin/sh\n");
    let slurm = "SLURM_JOB_ID=42 SLURM_JOB_NAME=train SLURM_JOB_PARTITION=gpu SLURM_STEP_ID=0 SLURM_PROCID=3 SLURM_NTASKS=8";
    host.process(10, "/slurm/uid_1000/job_42/step_0/task_3", slurm);
    let process = host.whole(10);
    assert_eq!(
        [
            process.job_system,
            process.job_id,
            process.job_step,
            process.job_name,
            process.job_user,
            process.job_queue
        ]
        .map(Option::unwrap),
        ["slurm", "42", "0", "train", "ada", "gpu"]
    );
    assert_eq!(
        (process.rank, process.world_size, process.rank_source.as_deref()),
        (Some(3), Some(8), Some("slurm"))
    );
    assert_eq!(process.tenant, "slurm:42");
    let task = "0123456789abcdef0123456789abcdef";
    host.process(
        11,
        &format!("/ecs/{task}/{}", id('a')),
        "ECS_CONTAINER_METADATA_FILE=/opt/ecs/metadata/x.json",
    );
    host.write(
        "proc/11/root/opt/ecs/metadata/x.json",
        format!(
            r#"{{"Cluster":"gpus","TaskARN":"arn:x:task/gpus/{task}","ContainerID":"{}","ContainerName":"main","ImageName":"i",
                "TaskDefinitionFamily":"train"}}"#,
            id('a')
        ),
    );
    let process = host.whole(11);
    assert_eq!(
        [&process.job_system, &process.job_id, &process.job_name, &process.job_queue]
            .map(|text| text.as_deref().unwrap()),
        ["ecs", task, "train", "gpus"]
    );
    assert_eq!(process.tenant, "main");
}
