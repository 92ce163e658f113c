//! The word of a node's runtime, told over a socket as gRPC has it, byte by byte.

use crate::host::{Host, id, of};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

const UID: &str = "0a1b2c3d-1111-2222-3333-444455556666";

/// A field of a protobuf message that is text or a message itself.
fn field(number: u32, value: impl AsRef<[u8]>) -> Vec<u8> {
    let varint = |mut number: usize| {
        let mut bytes = Vec::new();
        while number >= 0x80 {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
        bytes
    };
    let value = value.as_ref();
    [varint((number << 3 | 2) as usize), varint(value.len()), value.to_vec()].concat()
}

fn label(number: u32, name: &str, value: &str) -> Vec<u8> {
    field(number, [field(1, name), field(2, value)].concat())
}

/// One container in one pod, as `ListContainers` and `ListPodSandbox` tell of them.
fn answer(method: &str) -> Vec<u8> {
    let container = [
        field(1, id('a')),
        field(2, id('b')),
        field(3, [field(1, "worker"), vec![0x10, 3]].concat()),
        field(4, [field(1, "sha256:1234"), field(18, "train:2")].concat()),
        // When it was made, and in what state it is.
        vec![0x30, 1, 0x38, 0x80, 0x01],
        label(8, "io.kubernetes.pod.name", "train-0"),
        label(9, "an", "annotation"),
    ];
    let pod = [
        field(1, id('b')),
        field(2, [field(1, "train-0"), field(2, UID), field(3, "ml")].concat()),
        label(5, "batch.kubernetes.io/job-name", "llm"),
        label(5, "team", "vision\u{1b}[2J\nroot"),
    ];
    match method {
        "ListContainers" => field(1, container.concat()),
        "ListPodSandbox" => field(1, pod.concat()),
        _ => Vec::new(),
    }
}

type Calls = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// Listens at a path; an old one knows the old version alone, a dumb one says nothing. What it is asked comes back.
fn runtime(host: &Host, socket: &str, version: &'static str, talks: bool) -> Calls {
    let calls = Calls::default();
    let path = host.path(socket);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let listener = std::os::unix::net::UnixListener::bind(path).unwrap();
    listener.set_nonblocking(true).unwrap();
    let asked = calls.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::UnixListener::from_std(listener).unwrap();
            let mut held = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                if !talks {
                    held.push(stream);
                    continue;
                }
                let asked = asked.clone();
                let served = service_fn(move |request| serve(request, version, asked.clone()));
                let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                tokio::spawn(connection.serve_connection(TokioIo::new(stream), served));
            }
        });
    });
    calls
}

async fn serve(
    request: Request<Incoming>,
    version: &str,
    calls: Calls,
) -> Result<Response<impl Body<Data = Bytes, Error = Infallible>>, Infallible> {
    let path = request.uri().path().to_string();
    let message = request.into_body().collect().await.unwrap().to_bytes();
    calls.lock().unwrap().push((path.clone(), message.slice(5..).to_vec()));
    let known = path.strip_prefix(&format!("/runtime.{version}.RuntimeService/"));
    let reported = known.map(answer).map(|reported| {
        let length = (reported.len() as u32).to_be_bytes();
        [&[0], &length[..], &reported].concat()
    });
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", if known.is_some() { "0" } else { "12" }.parse().unwrap());
    let body =
        Full::new(Bytes::from(reported.unwrap_or_default())).with_trailers(async { Some(Ok(trailers)) });
    Ok(Response::builder().header("content-type", "application/grpc").body(body).unwrap())
}

fn cgroup() -> String {
    format!("/kubepods/burstable/pod{UID}/{}", id('a'))
}

#[test]
fn the_runtime_of_a_node_tells_the_pod_and_its_labels() {
    for (socket, version, name) in
        [("run/containerd/containerd.sock", "v1", "containerd"), ("run/crio/crio.sock", "v1alpha2", "cri-o")]
    {
        let host = Host::new();
        let calls = runtime(&host, socket, version, true);
        host.process(10, &cgroup(), "POD_NAME=liar POD_NAMESPACE=kube-system");
        let process = host.whole(10);
        assert_eq!(
            of(&process),
            [Some(name), Some("worker"), Some("train:2"), Some("train-0"), Some("ml")],
            "{version}"
        );
        assert_eq!((process.tenant.as_str(), process.job_id.as_deref()), ("ml/train-0", Some("llm")));
        let labels = process.container.unwrap().labels;
        assert_eq!(labels["team"], "vision[2J", "one word, and nothing that moves a cursor");
        let calls = calls.lock().unwrap();
        let (path, asked) = calls.iter().rfind(|(path, _)| path.ends_with("ListContainers")).unwrap();
        assert_eq!(path, &format!("/runtime.{version}.RuntimeService/ListContainers"));
        assert_eq!(asked, &field(1, field(1, id('a'))), "only the one is asked for");
    }
}

#[test]
fn what_the_files_say_stays_and_is_completed() {
    let host = Host::new();
    runtime(&host, "run/containerd/containerd.sock", "v1", true);
    host.write(&format!("var/log/containers/train-9_lab_own-{}.log", id('a')), "");
    host.process(10, &cgroup(), "");
    let process = host.whole(10);
    assert_eq!(
        of(&process),
        [Some("containerd"), Some("own"), Some("train:2"), Some("train-9"), Some("lab")]
    );
    assert_eq!(process.job_id.as_deref(), Some("llm"));
}

#[test]
fn a_runtime_that_does_not_know_or_does_not_answer_is_passed_over() {
    let host = Host::new();
    runtime(&host, "run/containerd/containerd.sock", "v7", true);
    runtime(&host, "run/crio/crio.sock", "v1", false);
    host.write("run/cri-dockerd.sock", "no socket");
    host.process(10, &cgroup(), "");
    let begin = std::time::Instant::now();
    assert_eq!(host.whole(10).tenant, format!("pod:{UID}"));
    assert!(begin.elapsed() < std::time::Duration::from_secs(5));
    // And nobody asks about a container that no cluster runs.
    let calls = runtime(&host, "run/k3s/containerd/containerd.sock", "v1", true);
    host.process(11, &format!("/docker/{}", id('a')), "");
    assert_eq!(host.whole(11).tenant, "a".repeat(12));
    assert!(calls.lock().unwrap().is_empty());
}
