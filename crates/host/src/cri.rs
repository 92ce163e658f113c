//! The word of a Kubernetes node's container runtime, over its socket on this host (CRI, gRPC): the names and the labels
//! of a pod as the API server has them, without a connection to anywhere.

use crate::container::{fill, sanitize};
use crate::owner::is_id;
use crate::root::{Inside, word};
use gpuwhy_model::Container;
use hyper_util::rt::TokioIo;
use prost::Message;
use std::collections::HashMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};

/// For both questions together.
const PATIENCE: Duration = Duration::from_millis(500);
const MAX_BYTES: usize = 1 << 20;
/// Where runtimes listen, and what they are called in `containers.runtime`.
const SOCKETS: &[(&str, &str)] = &[
    ("run/containerd/containerd.sock", "containerd"),
    ("run/crio/crio.sock", "cri-o"),
    ("run/k3s/containerd/containerd.sock", "containerd"),
    ("run/k0s/containerd.sock", "containerd"),
    ("var/snap/microk8s/common/run/containerd.sock", "containerd"),
    ("run/cri-dockerd.sock", "docker"),
];

/// What the node's runtime says of a container of a pod. What is known stays; the pod's labels name the job it is of.
pub(crate) fn take(container: &mut Container, host: &Inside) {
    let is_theirs =
        container.pod_uid.is_some() || matches!(container.runtime.as_deref(), Some("containerd" | "cri-o"));
    // Files tell the labels of a container, which are always the same few; those of the pod name its job.
    let has_own_labels = container.labels.keys().any(|name| !name.starts_with("io.kubernetes."));
    let is_complete = container.name.is_some() && container.pod.is_some() && has_own_labels;
    // Nothing but an id may get into the question.
    if !is_theirs || is_complete || !is_id(&container.container_id) {
        return;
    }
    for (socket, runtime) in SOCKETS {
        let id = container.container_id.clone();
        if let Ok(stream) = UnixStream::connect(host.shown().join(socket))
            && let Some(reported) = host.reader().read(move || ask(stream, &id)).flatten()
        {
            return reported.fill(container, runtime);
        }
    }
}

/// What was told of a container, and of its pod where the runtime knows it.
#[derive(Debug)]
struct Reported {
    container: ContainerEntry,
    pod: Option<SandboxEntry>,
}

impl Reported {
    fn fill(self, container: &mut Container, runtime: &str) {
        let label = |name: &str| word(self.container.labels.get(name)?);
        let of_pod = self.pod.as_ref().and_then(|pod| pod.metadata.as_ref());
        let named = self.container.metadata.as_ref().and_then(|metadata| word(&metadata.name));
        let image = self.container.image.as_ref().and_then(|image| {
            // The one that was asked for says more than a digest.
            word(&image.user_specified_image).or_else(|| word(&image.image))
        });
        container.runtime.get_or_insert_with(|| runtime.to_string());
        fill(&mut container.name, named.or_else(|| label("io.kubernetes.container.name")));
        fill(&mut container.image, image);
        let pod = of_pod.and_then(|pod| word(&pod.name)).or_else(|| label("io.kubernetes.pod.name"));
        fill(&mut container.pod, pod);
        let namespace =
            of_pod.and_then(|pod| word(&pod.namespace)).or_else(|| label("io.kubernetes.pod.namespace"));
        fill(&mut container.namespace, namespace);
        let uid = of_pod.and_then(|pod| word(&pod.uid)).or_else(|| label("io.kubernetes.pod.uid"));
        fill(&mut container.pod_uid, uid);
        let mut labels = self.container.labels;
        labels.extend(self.pod.map(|pod| pod.labels).unwrap_or_default());
        container.labels.extend(sanitize(labels.iter().map(|(name, value)| (name.as_str(), value.as_str()))));
    }
}

fn ask(stream: UnixStream, id: &str) -> Option<Reported> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().ok()?;
    let answer = async { tokio::time::timeout(PATIENCE, ask_both(stream, id)).await.ok()? };
    runtime.block_on(answer)
}

async fn ask_both(stream: UnixStream, id: &str) -> Option<Reported> {
    stream.set_nonblocking(true).ok()?;
    let mut stream = Some(tokio::net::UnixStream::from_std(stream).ok()?);
    // There is this connection alone: when it breaks there is no other.
    let connect = tower::service_fn(move |_| {
        let stream = stream.take().map(TokioIo::new);
        std::future::ready(stream.ok_or(io::Error::from(io::ErrorKind::BrokenPipe)))
    });
    // The name is part of the question, and nobody looks it up.
    let channel = Endpoint::from_static("http://localhost").connect_with_connector(connect).await.ok()?;
    let asked = ById { filter: Some(Filter { id: id.to_string() }) };
    let containers: Containers = call(&channel, "ListContainers", asked).await?;
    let container = containers.containers.into_iter().find(|entry| entry.id == id)?;
    let sandbox = container.pod_sandbox_id.clone();
    let asked = ById { filter: Some(Filter { id: sandbox.clone() }) };
    let sandboxes: Option<Sandboxes> = call(&channel, "ListPodSandbox", asked).await;
    let pod = sandboxes.and_then(|reported| reported.items.into_iter().find(|entry| entry.id == sandbox));
    Some(Reported { container, pod })
}

/// By the version runtimes have spoken since 2021, else by the one before it: what is read here is the same in both.
async fn call<A>(channel: &Channel, method: &str, asked: ById) -> Option<A>
where
    A: Message + Default + 'static,
{
    for version in ["v1", "v1alpha2"] {
        let mut client = Grpc::new(channel.clone()).max_decoding_message_size(MAX_BYTES);
        client.ready().await.ok()?;
        let path = format!("/runtime.{version}.RuntimeService/{method}").parse().ok()?;
        let codec = tonic_prost::ProstCodec::<ById, A>::default();
        match client.unary(tonic::Request::new(asked.clone()), path, codec).await {
            Ok(answer) => return Some(answer.into_inner()),
            Err(status) if status.code() == tonic::Code::Unimplemented => {}
            Err(_) => return None,
        }
    }
    None
}

/// `ListContainersRequest` and `ListPodSandboxRequest`: the id has the same place in both.
#[derive(Clone, PartialEq, Message)]
struct ById {
    #[prost(message, optional, tag = "1")]
    filter: Option<Filter>,
}

#[derive(Clone, PartialEq, Message)]
struct Filter {
    #[prost(string, tag = "1")]
    id: String,
}

#[derive(Clone, PartialEq, Message)]
struct Containers {
    #[prost(message, repeated, tag = "1")]
    containers: Vec<ContainerEntry>,
}

#[derive(Clone, PartialEq, Message)]
struct ContainerEntry {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, tag = "2")]
    pod_sandbox_id: String,
    #[prost(message, optional, tag = "3")]
    metadata: Option<ContainerMetadata>,
    #[prost(message, optional, tag = "4")]
    image: Option<Image>,
    #[prost(map = "string, string", tag = "8")]
    labels: HashMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
struct ContainerMetadata {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct Image {
    #[prost(string, tag = "1")]
    image: String,
    #[prost(string, tag = "18")]
    user_specified_image: String,
}

#[derive(Clone, PartialEq, Message)]
struct Sandboxes {
    #[prost(message, repeated, tag = "1")]
    items: Vec<SandboxEntry>,
}

#[derive(Clone, PartialEq, Message)]
struct SandboxEntry {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(message, optional, tag = "2")]
    metadata: Option<SandboxMetadata>,
    #[prost(map = "string, string", tag = "5")]
    labels: HashMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
struct SandboxMetadata {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    uid: String,
    #[prost(string, tag = "3")]
    namespace: String,
}
