//! Whose processes are: ranks, jobs and containers as they become known.

use crate::made::{START, lines, writer};
use gpuwhy_model::{Batch, Container, Facts, Process};
use gpuwhy_store::Reader;
use std::collections::BTreeMap;

fn batch(processes: Vec<Process>) -> Batch {
    Batch { processes, ..Batch::default() }
}

fn container() -> Container {
    Container {
        container_id: "a".repeat(64),
        runtime: Some("containerd".into()),
        name: Some("worker".into()),
        image: Some("img:1".into()),
        pod: Some("train-0".into()),
        namespace: Some("ml".into()),
        pod_uid: Some("uid".into()),
        qos: Some("burstable".into()),
        labels: BTreeMap::from([("team".into(), "vision".into())]),
    }
}

fn process(pid: u32) -> Process {
    Process {
        pid,
        start_ns: START + u64::from(pid),
        exe: "/bin/x".into(),
        cgroup: "/pod".into(),
        container_id: Some("a".repeat(64)),
        rank: Some(1),
        local_rank: Some(1),
        world_size: Some(2),
        local_world_size: Some(2),
        node_rank: Some(0),
        rank_source: Some("slurm".into()),
        job_system: Some("slurm".into()),
        job_id: Some("42".into()),
        job_step: Some("0".into()),
        job_name: Some("train".into()),
        job_user: Some("ada".into()),
        job_queue: Some("gpu".into()),
        pod: Some("train-0".into()),
        namespace: Some("ml".into()),
        unit: Some("x.service".into()),
        tenant: "ml/train-0".into(),
        cpus_allowed: Some("0-3".into()),
        mems_allowed: Some("0".into()),
        container: Some(container()),
        ..Process::default()
    }
}

#[test]
fn all_that_is_known_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let mut writer = writer(&path);
    writer.write(&batch(vec![process(10)]), &Facts::default()).unwrap();
    writer.finish(5).unwrap();
    assert_eq!(Reader::open(&path).unwrap().processes().unwrap(), [process(10)]);
}

/// A rank of one source never stays beside the size, or the place, of another.
#[test]
fn what_belongs_together_is_replaced_together() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let mut writer = writer(&path);
    let base = Process { pid: 10, start_ns: START + 10, ..Process::default() };
    let ranked = Process {
        rank: Some(11),
        world_size: Some(16),
        rank_source: Some("communicator".into()),
        ..base.clone()
    };
    let of_job = Process { job_system: Some("kubernetes".into()), job_id: Some("j".into()), ..base.clone() };
    let ended = Process { end_ns: Some(START + 99), ..base };
    writer.write(&batch(vec![process(10), ranked, of_job, ended]), &Facts::default()).unwrap();
    writer.finish(5).unwrap();
    let reader = Reader::open(&path).unwrap();
    let ranks =
        "SELECT rank, local_rank, world_size, local_world_size, node_rank, rank_source FROM processes";
    assert_eq!(lines(&reader, ranks), ["11|-|16|-|-|communicator"]);
    let job = "SELECT job_system, job_id, job_step, job_name, job_user, job_queue FROM processes";
    assert_eq!(lines(&reader, job), ["kubernetes|j|-|-|-|-"]);
    assert_eq!(lines(&reader, "SELECT tenant, pod, end_ns FROM processes"), ["ml/train-0|train-0|+99"]);
}

#[test]
fn a_container_lasts_as_long_as_its_processes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let mut writer = writer(&path);
    let mut times = |processes: Vec<Process>| {
        writer.write(&batch(processes), &Facts::default()).unwrap();
        writer.commit().unwrap();
        lines(
            &Reader::open(&path).unwrap(),
            "SELECT first_seen_ns, last_seen_ns, name, labels FROM containers",
        )
    };
    let ended = |pid, end| Process { end_ns: Some(START + end), ..process(pid) };
    let rest = "worker|{\"team\":\"vision\"}";
    // What was known of it stays when a later row knows less.
    let unnamed = Container { container_id: "a".repeat(64), ..Container::default() };
    let second = Process { container: Some(unnamed), ..process(20) };
    assert_eq!(times(vec![process(30)]), [format!("+30|-|{rest}")]);
    assert_eq!(times(vec![second]), [format!("+20|-|{rest}")]);
    assert_eq!(times(vec![ended(20, 500)]), [format!("+20|-|{rest}")]);
    assert_eq!(times(vec![ended(30, 400)]), [format!("+20|+500|{rest}")]);
    // A pod's process outside its containers has no row here.
    let outside = Container { container_id: String::new(), ..container() };
    assert_eq!(times(vec![Process { container_id: None, container: Some(outside), ..process(40) }]).len(), 1);
}
