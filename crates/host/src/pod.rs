//! The names of a pod: from what the kubelet leaves on the node, else from what the pod itself has. The API server is
//! never asked: that would be a connection to somewhere, and the node's runtime knows the same (see `cri`).

use crate::container::fill;
use crate::environment::Environment;
use crate::root::{Inside, word};
use gpuwhy_model::Container;
use std::collections::BTreeMap;

/// Labels read of a pod.
const MAX_LABELS: usize = 64;
/// The longest a host's name may be: pods with longer names have it cut.
const MAX_HOSTNAME: usize = 63;

const PODINFO: &str = "etc/podinfo";
const NAME: &[&str] = &["name", "podname", "pod_name", "pod-name"];
const NAMESPACE: &[&str] = &["namespace", "podnamespace", "pod_namespace", "pod-namespace"];
const UID: &[&str] = &["uid", "poduid", "pod_uid", "pod-uid"];

/// The kubelet's folders of logs carry all names: `NAMESPACE_POD_UID`, and `POD_NAMESPACE_CONTAINER-ID.log`.
pub(crate) fn take_logs(container: &mut Container, host: &Inside) {
    if let Some(uid) = container.pod_uid.clone()
        && (container.pod.is_none() || container.namespace.is_none())
    {
        let ending = format!("_{uid}");
        let names = host.names("var/log/pods");
        let found = names.iter().find_map(|name| name.strip_suffix(&ending)?.split_once('_'));
        if let Some((namespace, pod)) = found {
            fill(&mut container.namespace, word(namespace));
            fill(&mut container.pod, word(pod));
        }
    }
    if container.container_id.is_empty() || (container.pod.is_some() && container.name.is_some()) {
        return;
    }
    let ending = format!("-{}.log", container.container_id);
    for name in host.names("var/log/containers") {
        let Some(name) = name.strip_suffix(&ending) else { continue };
        if let [pod, namespace, of] = name.splitn(3, '_').collect::<Vec<_>>().as_slice() {
            fill(&mut container.pod, word(pod));
            fill(&mut container.namespace, word(namespace));
            fill(&mut container.name, word(of));
        }
        return;
    }
}

/// What the pod says of itself: files of the downward API, variables, its service account, its host name. `node` is the
/// node's own name, which a pod on the node's network has too.
pub(crate) fn take_own_words(
    container: &mut Container,
    inside: &Inside,
    environment: &Environment,
    node: &str,
) {
    let file = |names: &[&str]| names.iter().find_map(|name| inside.word(&format!("{PODINFO}/{name}")));
    let (file_uid, own_uid) = (file(UID), environment.word(&["POD_UID", "MY_POD_UID"]));
    // Words about another pod were inherited, or are lies.
    let is_other = |uid: &Option<String>| {
        uid.as_ref().zip(container.pod_uid.as_ref()).is_some_and(|(message, known)| message != known)
    };
    let (ignore_files, ignore_variables) = (is_other(&file_uid), is_other(&own_uid));
    if !ignore_files {
        fill(&mut container.pod_uid, file_uid);
        fill(&mut container.pod, file(NAME));
        fill(&mut container.namespace, file(NAMESPACE));
        if let Some(text) = inside.text(&format!("{PODINFO}/labels")) {
            // The pod's labels, unlike its containers', name the job it is of.
            container.labels.extend(inside.reader().read(move || labels(&text)).unwrap_or_default());
        }
    }
    if !ignore_variables {
        fill(&mut container.pod_uid, own_uid);
        fill(&mut container.pod, environment.word(&["POD_NAME", "MY_POD_NAME"]));
        fill(&mut container.namespace, environment.word(&["POD_NAMESPACE", "MY_POD_NAMESPACE"]));
    }
    fill(&mut container.namespace, inside.word("var/run/secrets/kubernetes.io/serviceaccount/namespace"));
    let node_name = environment.word(&["NODE_NAME", "MY_NODE_NAME"]);
    // A container without a pod is called by its id.
    let id = container.container_id.clone();
    let is_own = |name: &String| {
        let is_others = name == node || Some(name) == node_name.as_ref() || name == "localhost";
        !is_others && name.len() < MAX_HOSTNAME && !id.starts_with(name.as_str())
    };
    let hostname = inside.word("etc/hostname").or_else(|| environment.word(&["HOSTNAME"]));
    fill(&mut container.pod, hostname.filter(is_own));
}

/// `name="value"` a line, quoted as Go does.
fn labels(text: &str) -> BTreeMap<String, String> {
    let pair = |line: &str| {
        let (name, value) = line.split_once('=')?;
        // JSON's quotes are Go's but for rare escapes; what is neither is taken as it is.
        let value = serde_json::from_str(value).unwrap_or_else(|_| value.trim_matches('"').to_string());
        Some((word(name)?, word(&value)?))
    };
    text.lines().filter_map(pair).take(MAX_LABELS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_unquoted() {
        let read =
            labels("job-name=\"train\"\nodd=\"a\\\"b\\\\\"\nbroken=\"x\n=\"y\"\nnothing\nempty=\"\"\n");
        let expected = [("broken", "x"), ("job-name", "train"), ("odd", "a\"b\\")];
        assert_eq!(read, expected.map(|(name, value)| (name.to_string(), value.to_string())).into());
    }
}
