//! The container a process is in, by the files that runtimes mount into it: where a cgroup namespace hides the path.

use crate::Owner;
use crate::owner::is_id;

/// Files that are mounted into containers and nowhere else.
const POINTS: &[&str] = &["/etc/hostname", "/etc/hosts", "/etc/resolv.conf", "/dev/termination-log"];

/// Fills in what `/proc/PID/mountinfo` tells. The mounted file's own path comes from the host and has the ids in it:
/// `/var/lib/docker/containers/ID/hostname`, `/var/lib/kubelet/pods/UID/etc-hosts`.
pub(crate) fn take(owner: &mut Owner, mountinfo: &str) {
    for line in mountinfo.lines() {
        let mut fields = line.split(' ').skip(3);
        let (Some(source), Some(point)) = (fields.next(), fields.next()) else { continue };
        if !POINTS.contains(&point) {
            continue;
        }
        let parts: Vec<&str> = source.split('/').collect();
        for pair in parts.windows(2) {
            match pair {
                ["containers", id] if is_id(id) && owner.container_id.is_none() => {
                    (owner.container_id, owner.runtime) = (Some((*id).to_string()), Some("docker"));
                }
                ["overlay-containers", id] if is_id(id) && owner.container_id.is_none() => {
                    owner.container_id = Some((*id).to_string());
                }
                ["pods", uid] if owner.pod_uid.is_none() => {
                    // The kubelet's folders are named as the cgroups are.
                    owner.pod_uid = Owner::of(&format!("/kubepods/pod{uid}")).pod_uid;
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounted_files_tell_the_container() {
        let id = "b".repeat(64);
        let of = |text: &str| {
            let mut owner = Owner::default();
            take(&mut owner, text);
            (owner.container_id, owner.runtime, owner.pod_uid)
        };
        let docker = format!(
            "630 610 8:1 /var/lib/docker/containers/{id}/hostname /etc/hostname rw - ext4 /dev/sda1 rw"
        );
        assert_eq!(of(&docker), (Some(id.clone()), Some("docker"), None));
        let podman =
            format!("1 2 0:9 /containers/overlay-containers/{id}/userdata/hosts /etc/hosts rw - tmpfs t rw");
        assert_eq!(of(&podman), (Some(id.clone()), None, None));
        let uid = "0a1b2c3d-1111-2222-3333-444455556666";
        let pod = format!("1 2 8:1 /var/lib/kubelet/pods/{uid}/etc-hosts /etc/hosts rw - ext4 /dev/sda1 rw");
        assert_eq!(of(&pod), (None, None, Some(uid.into())));
        // Mounted elsewhere it is a file like any other; an application container has the host's own.
        for line in [
            format!("1 2 8:1 /var/lib/docker/containers/{id}/hostname /mnt/x rw - ext4 d rw"),
            "1 2 8:1 /etc/hosts /etc/hosts rw - ext4 d rw".into(),
            "1 2 8:1 /pods/x /etc/hosts rw - ext4 d rw".into(),
            "nonsense".into(),
        ] {
            assert_eq!(of(&line), (None, None, None), "{line}");
        }
    }
}
