//! Whose a traced process is: its rank by its communicator, its container by its cgroup.

use crate::cgroup::Cgroup;
use crate::collectives::Ranks;
use crate::support::{Gated, Running, Trace, alone, can_trace, simwork, skip};
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

#[test]
fn ranks_that_no_launcher_told_are_the_communicators() {
    if !can_trace("ranks_that_no_launcher_told_are_the_communicators") {
        return;
    }
    let _turn = alone();
    let trace = Trace::new();
    let ranks = Ranks::start(4, &["--iters", "4", "--split", "2"], |_| Vec::new());
    let running = Running::start(&trace, &[]);
    let truths = ranks.finish();
    running.stop();
    let db = trace.db();
    for (rank, truth) in truths.iter().enumerate() {
        let row: (i64, i64, String) = db
            .query_row(
                "SELECT rank, world_size, rank_source FROM processes WHERE pid = ?",
                [truth["pid"].as_i64().unwrap()],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )
            .unwrap();
        assert_eq!(row, (rank as i64, 4, "communicator".to_string()));
    }
}

#[test]
fn a_process_that_is_all_ranks_is_none_of_them() {
    if !can_trace("a_process_that_is_all_ranks_is_none_of_them") {
        return;
    }
    let trace = Trace::new();
    trace.of_simwork(&[], &["nccl-all", "--ranks", "4", "--iters", "5"]);
    let several =
        "SELECT count(*) FROM processes WHERE rank_source = 'several' AND rank IS NULL AND world_size = 4";
    assert_eq!(trace.number(several), 1);
}

#[test]
fn the_container_of_a_command_is_in_the_file() {
    const TEST: &str = "the_container_of_a_command_is_in_the_file";
    if !can_trace(TEST) {
        return;
    }
    let id = "c0ffee00".repeat(8);
    let Some(cgroup) = Cgroup::make(&format!("docker/{id}")) else {
        return skip(TEST, "no cgroup could be made");
    };
    let trace = Trace::new();
    let join = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", cgroup.folder.display());
    let work = simwork();
    let words: [&OsStr; 9] = [
        "env".as_ref(),
        "RANK=1".as_ref(),
        "WORLD_SIZE=2".as_ref(),
        "SLURM_JOB_ID=42".as_ref(),
        "sh".as_ref(),
        "-c".as_ref(),
        join.as_ref(),
        "sh".as_ref(),
        work.as_os_str(),
    ];
    let mut words = words.to_vec();
    words.extend(["train", "--steps", "20"].map(OsStr::new));
    trace.of_command(&[], &words);
    let process = "SELECT container_id || ' ' || rank || '/' || world_size || ' ' || rank_source || ' ' || job_system || \
                   job_id || ' ' || tenant || ' ' || (cpus_allowed IS NOT NULL) FROM processes WHERE container_id IS NOT NULL";
    assert_eq!(trace.text(process), format!("{id} 1/2 torchrun slurm42 slurm:42 1"));
    let container =
        "SELECT container_id || ' ' || runtime || ' ' || (first_seen_ns < last_seen_ns) FROM containers";
    assert_eq!(trace.text(container), format!("{id} docker 1"));
}

/// Names that only the container's own files have, found while the command runs.
#[test]
fn the_pod_of_a_command_is_named() {
    const TEST: &str = "the_pod_of_a_command_is_named";
    if !can_trace(TEST) {
        return;
    }
    let (id, uid) = ("beef0000".repeat(8), "0a1b2c3d-1111-2222-3333-444455556666");
    let Some(cgroup) = Cgroup::make(&format!("kubepods/burstable/pod{uid}/{id}")) else {
        return skip(TEST, "no cgroup could be made");
    };
    if !Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|status| status.success()) {
        return skip(TEST, "no mount namespace could be made");
    }
    let etc = tempfile::tempdir().unwrap();
    std::fs::create_dir(etc.path().join("podinfo")).unwrap();
    for (name, text) in
        [("podinfo/namespace", "ml"), ("podinfo/labels", "job-name=\"train\"\n"), ("hostname", "train-0\n")]
    {
        std::fs::write(etc.path().join(name), text).unwrap();
    }
    let trace = Trace::new();
    let join = format!(
        "echo $$ > {}/cgroup.procs && mount --bind {} /etc && exec \"$@\"",
        cgroup.folder.display(),
        etc.path().display()
    );
    let work = simwork();
    let mut words: Vec<&OsStr> =
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", &join, "sh"].map(OsStr::new).to_vec();
    words.push(work.as_os_str());
    words.extend(["train", "--steps", "0", "--seconds", "2"].map(OsStr::new));
    trace.of_command(&[], &words);
    let process = "SELECT group_concat(DISTINCT tenant || ' ' || namespace || ' ' || pod || ' ' || job_system || ' ' || job_id) \
                   FROM processes WHERE container_id IS NOT NULL";
    assert_eq!(trace.text(process), "ml/train-0 ml train-0 kubernetes train");
    let container = "SELECT pod_uid || ' ' || qos || ' ' || pod || ' ' || labels FROM containers";
    assert_eq!(trace.text(container), format!("{uid} burstable train-0 {{\"job-name\":\"train\"}}"));
}

/// A program at one path is two programs where that path is another folder in each of two containers.
#[test]
fn two_containers_with_the_same_paths_are_not_mixed_up() {
    const TEST: &str = "two_containers_with_the_same_paths_are_not_mixed_up";
    if !can_trace(TEST) {
        return;
    }
    let _turn = alone();
    if !Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|status| status.success()) {
        return skip(TEST, "no mount namespace could be made");
    }
    let ids = ["aaaa0000".repeat(8), "bbbb1111".repeat(8)];
    let Some(cgroups) =
        ids.iter().map(|id| Cgroup::make(&format!("docker/{id}"))).collect::<Option<Vec<_>>>()
    else {
        return skip(TEST, "no cgroup could be made");
    };
    let place = tempfile::tempdir().unwrap();
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let started: Vec<Gated> = (0..2)
        .map(|number| {
            gpuwhy_simgpu::unpack(folders[number].path()).unwrap();
            let join = format!(
                "echo $$ > {}/cgroup.procs && mount --bind {} {} && exec \"$@\"",
                cgroups[number].folder.display(),
                folders[number].path().display(),
                place.path().display()
            );
            let work = place.path().join(gpuwhy_simgpu::WORKLOAD).display().to_string();
            // Launches that are slow, and so have their stacks kept; for so long that the program can be looked at.
            let (ms, rounds) = ("5", (200 + number).to_string());
            let words =
                ["--mount", "--propagation", "private", "sh", "-c", &join, "sh", &work, "hold", "--ms", ms];
            Gated::start(Path::new("unshare"), &[&words[..], &["--rounds", &rounds]].concat())
        })
        .collect();
    let pids: Vec<u32> = started.iter().map(Gated::pid).collect();
    let trace = Trace::new();
    let mut running = Running::start(&trace, &[]);
    started.into_iter().for_each(|gated| drop(gated.finish()));
    running.until_ended(&pids);
    running.stop();
    let library = place.path().join("libcuda.so.1");
    let files = format!("SELECT count(*) FROM libraries WHERE file = '{}'", library.display());
    // Two files with one name; that both are probed is told by the counts below.
    assert_eq!(trace.number(&files), 1, "the library has the path its processes see");
    for (number, pid) in pids.iter().enumerate() {
        let container = trace.text(&format!("SELECT container_id FROM processes WHERE pid = {pid}"));
        assert_eq!(container, ids[number], "the container of process {pid}");
        let launches =
            format!("SELECT sum(count) FROM call_stats WHERE pid = {pid} AND op = 'cuLaunchKernel'");
        assert_eq!(trace.number(&launches), 200 + number as i64, "the launches of process {pid}");
        let frames = format!(
            "SELECT group_concat(DISTINCT f.function) FROM cuda_events c JOIN frames f USING (stack_id) \
             WHERE c.pid = {pid} AND c.op = 'cuLaunchKernel' AND f.module = '{}'",
            place.path().join(gpuwhy_simgpu::WORKLOAD).display()
        );
        let named = trace.text(&frames);
        assert!(named.contains("command_hold"), "functions of process {pid} by the program it sees: {named}");
    }
}
