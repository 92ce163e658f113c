//! What a process or a container may write to harm who reads it.

use crate::host::{Host, id};
use std::os::unix::fs::symlink;

const UID: &str = "0a1b2c3d-1111-2222-3333-444455556666";

#[test]
fn links_do_not_lead_out_of_a_container() {
    let host = Host::new();
    host.write("secret", "of-the-host");
    host.process(10, &format!("/kubepods/pod{UID}/{}", id('a')), "");
    std::fs::create_dir_all(host.path("proc/10/root/etc/podinfo")).unwrap();
    symlink("../../../../../secret", host.path("proc/10/root/etc/podinfo/name")).unwrap();
    symlink(host.path("secret"), host.path("proc/10/root/etc/hostname")).unwrap();
    assert_eq!(host.whole(10).tenant, format!("pod:{UID}"));
    host.write("proc/10/root/secret", "its-own");
    assert_eq!(host.whole(10).tenant, "its-own");
}

#[test]
fn garbage_is_skipped() {
    let host = Host::new();
    let garbage: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    let deep = "[".repeat(500_000);
    for (pid, text) in
        [(10, garbage.as_slice()), (11, deep.as_bytes()), (12, b"{\"Name\":7,\"Config\":[]}"), (13, b"null")]
    {
        let digit = char::from_digit(pid, 16).unwrap();
        host.process(
            pid,
            &format!("/docker/{}", id(digit)),
            "POD_NAME=\x1b[31m KUBERNETES_SERVICE_HOST=1 RANK=\u{fffd}",
        );
        host.write(&format!("var/lib/docker/containers/{}/config.v2.json", id(digit)), text);
        host.write(&format!("proc/{pid}/root/etc/podinfo/labels"), text);
        host.write(&format!("proc/{pid}/root/etc/podinfo/namespace"), text);
        let process = host.whole(pid);
        assert!(!process.tenant.chars().any(char::is_control), "{:?}", process.tenant);
        assert!(process.tenant.len() < 5000);
    }
    for (name, text) in [("stat", &b"x"[..]), ("stat", b"1 (a) S"), ("stat", b"")] {
        host.write(&format!("proc/10/{name}"), text);
        assert!(gpuwhy_host::describe_at(&host.root(), 10).is_none());
    }
    host.process(10, &"/\u{1b}]0;x\u{7}/..".repeat(500), "");
    assert!(!host.whole(10).tenant.contains('\u{1b}'));
    host.write("proc/10/environ", vec![b'A'; 3 << 20]);
    host.write("proc/10/cgroup", vec![b':'; 3 << 20]);
    assert_eq!(host.whole(10).rank, None);
}

/// A number that was given to another process in between gets nothing of that one's.
#[test]
fn a_number_that_was_used_again_is_not_mixed_up() {
    let host = Host::new();
    host.process(10, &format!("/kubepods/pod{UID}/{}", id('a')), "");
    let mut first = host.describe(10);
    first.start_ns -= 60_000_000_000;
    host.write("proc/10/root/etc/hostname", "of-the-second");
    host.lookup().complete(&mut first);
    assert_eq!(first.tenant, format!("pod:{UID}"));
    assert_eq!(host.whole(10).tenant, "of-the-second");
}
