//! What runtimes keep on disk about a container: its name, image, labels, and the pod it is part of. Files first, for
//! they need no daemon; then the daemons of this host, over their sockets. Nothing on the network is asked.

use crate::owner::is_id;
use crate::root::{Inside, Reader, word};
use crate::socket::inspect;
use gpuwhy_model::Container;
use serde_json::Value;
use std::collections::BTreeMap;

/// Labels kept of a container.
const MAX_LABELS: usize = 64;
/// Folders in which containerd keeps what it runs: its own, and those of clusters that bring their own.
const CONTAINERD: &[&str] = &[
    "run/containerd",
    "run/k3s/containerd",
    "run/k0s/containerd",
    "var/snap/microk8s/common/run/containerd",
];
const SOCKETS: &[&str] = &["run/docker.sock", "var/run/docker.sock", "run/podman/podman.sock"];
/// Where Podman and CRI-O keep containers, below a home folder or the host's.
const STORAGE: &[&str] = &["run/containers/storage", "var/lib/containers/storage"];
const DRIVERS: &[&str] = &["overlay-containers", "vfs-containers", "btrfs-containers"];

/// Fills in what the host's files say. `home` is that of the user whose slice the container is in.
pub(crate) fn take_files(container: &mut Container, host: &Inside, home: Option<&str>) {
    if !is_id(&container.container_id) {
        return;
    }
    let home = home.map(|home| home.trim_matches('/')).filter(|home| !home.is_empty());
    docker(container, host, home);
    if container.name.is_none() {
        containerd(container, host);
    }
    if container.name.is_none() {
        storage(container, host, home);
    }
}

/// The daemon's word, for those its files did not tell of.
pub(crate) fn take_socket(container: &mut Container, host: &Inside) {
    let is_theirs = matches!(container.runtime.as_deref(), None | Some("docker" | "podman"));
    if container.name.is_some() || container.pod_uid.is_some() || !is_theirs {
        return;
    }
    for socket in SOCKETS {
        if let Some(reported) = inspect(&host.shown().join(socket), &container.container_id, host.reader()) {
            let runtime = if socket.contains("podman") { "podman" } else { "docker" };
            return take_docker(container, &reported, runtime, host.reader());
        }
    }
}

fn docker(container: &mut Container, host: &Inside, home: Option<&str>) {
    let elsewhere = host.json("etc/docker/daemon.json").and_then(|settings| {
        let root = settings.get("data-root").or_else(|| settings.get("graph"))?;
        root.as_str().map(str::to_string)
    });
    let of_user = home.map(|home| format!("{home}/.local/share/docker"));
    let roots = elsewhere.into_iter().chain(["var/lib/docker".to_string()]).chain(of_user);
    for root in roots {
        if let Some(reported) =
            host.json(&format!("{root}/containers/{}/config.v2.json", container.container_id))
        {
            return take_docker(container, &reported, "docker", host.reader());
        }
    }
}

fn take_docker(container: &mut Container, reported: &Value, runtime: &str, reader: &Reader) {
    container.runtime.get_or_insert_with(|| runtime.to_string());
    let name =
        reported.get("Name").and_then(Value::as_str).and_then(|name| word(name.trim_start_matches('/')));
    let config = reported.get("Config");
    let image = config.and_then(|config| word(config.get("Image")?.as_str()?));
    if let Some(labels) = config.and_then(|config| config.get("Labels")) {
        // Kubernetes over Docker says in labels what others say in annotations.
        take_annotations(container, labels, reader);
        container.labels = sanitize_json(labels);
    }
    fill(&mut container.name, name);
    fill(&mut container.image, image);
}

fn containerd(container: &mut Container, host: &Inside) {
    for folder in CONTAINERD {
        let tasks = format!("{folder}/io.containerd.runtime.v2.task");
        for namespace in host.names(&tasks) {
            let path = format!("{tasks}/{namespace}/{}/config.json", container.container_id);
            let Some(bundle) = host.json(&path) else { continue };
            // Docker runs its containers by containerd, in a namespace of its own.
            let runtime = if namespace == "moby" { "docker" } else { "containerd" };
            container.runtime.get_or_insert_with(|| runtime.to_string());
            if let Some(annotations) = bundle.get("annotations") {
                take_annotations(container, annotations, host.reader());
            }
            return;
        }
    }
}

/// Podman and CRI-O use one store; a bundle's annotations say whose it is.
fn storage(container: &mut Container, host: &Inside, home: Option<&str>) {
    let of_user = home.map(|home| format!("{home}/.local/share/containers/storage"));
    let stores: Vec<String> = STORAGE.iter().map(ToString::to_string).chain(of_user).collect();
    for (store, driver) in stores.iter().flat_map(|store| DRIVERS.iter().map(move |driver| (store, driver))) {
        let path = format!("{store}/{driver}/{}/userdata/config.json", container.container_id);
        if let Some(bundle) = host.json(&path)
            && let Some(annotations) = bundle.get("annotations")
        {
            take_annotations(container, annotations, host.reader());
        }
        if container.name.is_none() {
            let _ =
                take_list(container, host.json(&format!("{store}/{driver}/containers.json")), host.reader());
        }
        if container.name.is_some() {
            return;
        }
    }
}

/// The store's list of containers: `[{"id": ..., "names": [...], "metadata": "{\"image-name\": ...}"}]`.
fn take_list(container: &mut Container, list: Option<Value>, reader: &Reader) -> Option<()> {
    let list = list?;
    let is_it = |entry: &&Value| entry.get("id").and_then(Value::as_str) == Some(&container.container_id);
    let entry = list.as_array()?.iter().find(is_it)?;
    let metadata = entry.get("metadata").and_then(Value::as_str).unwrap_or_default();
    let metadata = reader.json(metadata.to_string()).unwrap_or_default();
    let first = entry.get("names").and_then(|names| word(names.get(0)?.as_str()?));
    let of = |name: &str| word(metadata.get(name)?.as_str()?);
    fill(&mut container.name, first.or_else(|| of("name")));
    fill(&mut container.image, of("image-name"));
    container.runtime.get_or_insert_with(|| "podman".to_string());
    Some(())
}

/// What the runtimes of Kubernetes and others write beside what is to be run.
fn take_annotations(container: &mut Container, annotations: &Value, reader: &Reader) {
    let of = |names: &[&str]| names.iter().find_map(|name| word(annotations.get(*name)?.as_str()?));
    fill(
        &mut container.name,
        of(&["io.kubernetes.cri.container-name", "io.kubernetes.container.name", "nerdctl/name"]),
    );
    fill(
        &mut container.image,
        of(&[
            "io.kubernetes.cri.image-name",
            "io.kubernetes.cri-o.ImageName",
            "io.kubernetes.cri-o.UserRequestedImage",
        ]),
    );
    fill(&mut container.pod, of(&["io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"]));
    fill(
        &mut container.namespace,
        of(&["io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace"]),
    );
    fill(&mut container.pod_uid, of(&["io.kubernetes.cri.sandbox-uid", "io.kubernetes.pod.uid"]));
    match of(&["io.container.manager"]).as_deref() {
        Some("libpod") => container.runtime = Some("podman".into()),
        Some("cri-o") => container.runtime = Some("cri-o".into()),
        _ => {}
    }
    let labels = of_labels(annotations, reader);
    if container.labels.is_empty() {
        container.labels = labels;
    }
    // The container that only holds a pod's namespaces has no name.
    let kind = of(&["io.kubernetes.cri.container-type", "io.kubernetes.cri-o.ContainerType"]);
    if kind.as_deref() == Some("sandbox") {
        fill(&mut container.name, Some("POD".into()));
    }
}

/// CRI-O writes them as JSON in one annotation.
fn of_labels(annotations: &Value, reader: &Reader) -> BTreeMap<String, String> {
    let text = annotations.get("io.kubernetes.cri-o.Labels").and_then(Value::as_str).unwrap_or_default();
    reader.json(text.to_string()).map(|labels| sanitize_json(&labels)).unwrap_or_default()
}

fn sanitize_json(labels: &Value) -> BTreeMap<String, String> {
    let pairs = labels.as_object().into_iter().flatten();
    sanitize(pairs.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?))))
}

/// Labels are anybody's words: not too many, and each of them one word.
pub(crate) fn sanitize<'a>(labels: impl Iterator<Item = (&'a str, &'a str)>) -> BTreeMap<String, String> {
    labels.filter_map(|(name, value)| Some((word(name)?, word(value)?))).take(MAX_LABELS).collect()
}

/// What is known stays.
pub(crate) fn fill(place: &mut Option<String>, value: Option<String>) {
    if place.is_none() {
        *place = value;
    }
}
