//! Processes and libraries are found by themselves: several copies, late ones, by process, by cgroup, by command.

use crate::support::{Gated, Running, Trace, alone, can_trace, done, gpuwhy, sim, simwork, truth};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A second copy of the simulated libraries: other files, other inodes.
fn another_copy() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy_libraries(folder.path());
    folder
}

fn copy_libraries(to: &Path) {
    for file in gpuwhy_simgpu::FILES {
        std::fs::copy(sim().join(file.name), to.join(file.name)).unwrap();
    }
}

#[test]
fn two_copies_of_a_library_and_a_late_process_are_traced() {
    if !can_trace("two_copies_of_a_library_and_a_late_process_are_traced") {
        return;
    }
    let _turn = alone();
    let other = another_copy();
    let trace = Trace::new();
    let words = ["launch", "--launches", "5000", "--via", "runtime", "--sync-every", "100"];
    let early = Gated::start(&simwork(), &words);
    let mut running = Running::start(&trace, &[]);
    // Another copy, and another version of the runtime, mapped while the trace runs.
    let late = Gated::start(&other.path().join(gpuwhy_simgpu::WORKLOAD_CUDA_13), &words);
    let file = other.path().join("libcudart.so.13").display().to_string();
    running.until("probe", |probe| probe["file"] == file.as_str() && probe["state"] == "attached");
    running.until("probe", |probe| {
        let file = probe["file"].as_str().unwrap();
        file.starts_with(other.path().to_str().unwrap())
            && file.ends_with("libcuda.so.1")
            && probe["state"] == "attached"
    });
    let (early_pid, late_pid) = (u64::from(early.pid()), u64::from(late.pid()));
    early.finish();
    late.finish();
    running.until_called(early_pid, "cuLaunchKernel", 5000);
    running.until_called(late_pid, "cuLaunchKernel", 5000);
    running.stop();
    for pid in [early_pid, late_pid] {
        for (op, count) in [("cuLaunchKernel", 5000), ("cudaStreamSynchronize", 50)] {
            assert_eq!(
                trace.number(&format!("SELECT sum(count) FROM call_stats WHERE pid = {pid} AND op = '{op}'")),
                count,
                "{pid} {op}"
            );
        }
        assert_eq!(
            trace.text(&format!("SELECT comm FROM processes WHERE pid = {pid}")),
            if pid == late_pid { "simwork13" } else { "simwork" }
        );
    }
}

#[test]
fn a_deleted_library_is_traced_through_its_mapping() {
    if !can_trace("a_deleted_library_is_traced_through_its_mapping") {
        return;
    }
    let other = another_copy();
    let trace = Trace::new();
    let gated = Gated::start(
        &other.path().join(gpuwhy_simgpu::WORKLOAD),
        &["launch", "--launches", "1000", "--via", "driver"],
    );
    std::fs::remove_file(other.path().join("libcuda.so.1")).unwrap();
    let mut running = Running::start(&trace, &["--pid", &gated.pid().to_string()]);
    let pid = u64::from(gated.pid());
    gated.finish();
    running.until_called(pid, "cuLaunchKernel", 1000);
    running.stop();
    assert_eq!(trace.count_of("cuLaunchKernel"), 1000);
}

#[test]
fn a_copy_in_a_container_is_traced() {
    if !can_trace("a_copy_in_a_container_is_traced") {
        return;
    }
    let _turn = alone();
    let trace = Trace::new();
    // What makes a container here is its own view of the file system: the library's path is nothing to us outside.
    let script =
        format!("mount -t tmpfs tmpfs /mnt && cp {}/* /mnt/ && exec /mnt/simwork \"$@\"", sim().display());
    let words = ["--mount", "sh", "-c", &script, "sh", "launch", "--launches", "2000", "--via", "driver"];
    let gated = Gated::start(Path::new("unshare"), &words);
    let pid = u64::from(gated.pid());
    assert!(!Path::new("/mnt/libcuda.so.1").exists());
    let mut running = Running::start(&trace, &[]);
    gated.finish();
    running.until_called(pid, "cuLaunchKernel", 2000);
    running.stop();
    assert_eq!(
        trace.number(&format!(
            "SELECT sum(count) FROM call_stats WHERE pid = {pid} AND op = 'cuLaunchKernel'"
        )),
        2000
    );
    assert!(
        trace.number(
            "SELECT count(*) FROM probes WHERE file LIKE '%/mnt/libcuda.so.1' AND state = 'attached'"
        ) > 0
    );
}

#[test]
fn only_the_process_asked_for_is_traced() {
    if !can_trace("only_the_process_asked_for_is_traced") {
        return;
    }
    let trace = Trace::new();
    let words = ["launch", "--launches", "3000", "--via", "driver"];
    let wanted = Gated::start(&simwork(), &words);
    let other = Gated::start(&simwork(), &words);
    let mut running = Running::start(&trace, &["--pid", &wanted.pid().to_string()]);
    let pid = u64::from(wanted.pid());
    other.finish();
    wanted.finish();
    running.until_called(pid, "cuLaunchKernel", 3000);
    running.stop();
    assert_eq!(trace.count_of("cuLaunchKernel"), 3000);
    assert_eq!(trace.number("SELECT count(DISTINCT pid) FROM call_stats"), 1);
}

#[test]
fn processes_are_traced_by_the_name_of_their_program() {
    if !can_trace("processes_are_traced_by_the_name_of_their_program") {
        return;
    }
    let trace = Trace::new();
    let words = ["launch", "--launches", "100"];
    // A link has its own name on the command line; nothing else on this host has it.
    let name = format!("trainer-{}", std::process::id());
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join(&name);
    std::os::unix::fs::symlink(simwork(), &program).unwrap();
    let wanted = [Gated::start(&program, &words), Gated::start(&program, &words)];
    let other = Gated::start(&simwork(), &words);
    let mut running = Running::start(&trace, &["--pid", &name]);
    let mut pids: Vec<i64> = wanted.iter().map(|gated| i64::from(gated.pid())).collect();
    let numbers: Vec<u32> = wanted.iter().map(Gated::pid).collect();
    other.finish();
    wanted.into_iter().for_each(|gated| drop(gated.finish()));
    running.until_ended(&numbers);
    running.stop();
    pids.sort_unstable();
    let traced = "SELECT group_concat(pid || ' ' || n, ', ') FROM (SELECT pid, sum(count) AS n FROM call_stats \
                  WHERE op = 'cuLaunchKernel' GROUP BY pid ORDER BY pid)";
    assert_eq!(trace.text(traced), format!("{} 100, {} 100", pids[0], pids[1]));
}

#[test]
fn a_command_is_traced_from_its_first_call_with_its_children() {
    if !can_trace("a_command_is_traced_from_its_first_call_with_its_children") {
        return;
    }
    let trace = Trace::new();
    let script = format!(
        "{0} launch --launches 700 --via driver & {0} launch --launches 800 --via driver; wait; exec {0} launch --launches 500 --via driver",
        simwork().display()
    );
    trace.of_command(&[], &[OsStr::new("sh"), OsStr::new("-c"), OsStr::new(&script)]);
    assert_eq!(trace.count_of("cuLaunchKernel"), 2000);
    assert_eq!(trace.number("SELECT count(DISTINCT pid) FROM call_stats"), 3);
}

#[test]
fn a_library_nobody_could_foresee_is_traced_late_and_that_is_said() {
    if !can_trace("a_library_nobody_could_foresee_is_traced_late_and_that_is_said") {
        return;
    }
    let other = another_copy();
    // The path is put together only when it runs.
    let program = format!(
        "cd {}; cd ..; P=simw; exec ./{}/${{P}}ork \"$@\"",
        other.path().display(),
        other.path().file_name().unwrap().display()
    );
    std::fs::create_dir(other.path().join("scripts")).unwrap();
    let script = other.path().join("scripts/run.sh");
    std::fs::write(&script, program).unwrap();
    let trace = Trace::new();
    let words = ["launch", "--launches", "200", "--via", "driver", "--gap-us", "5000"];
    let all: Vec<&OsStr> =
        ["sh".as_ref(), script.as_os_str()].into_iter().chain(words.iter().map(OsStr::new)).collect();
    trace.of_command(&[], &all);
    let seen = trace.count_of("cuLaunchKernel");
    assert!((100..=200).contains(&seen), "{seen} of 200 launches over a second were seen");
    let message =
        trace.text("SELECT reason FROM probes WHERE state = 'degraded' AND file LIKE '%libcuda.so.1'");
    assert!(message.contains("calls it made before that were not seen"), "{message}");
}

#[test]
fn a_command_in_a_virtual_environment_is_traced_from_its_first_call() {
    if !can_trace("a_command_in_a_virtual_environment_is_traced_from_its_first_call") {
        return;
    }
    let venv = tempfile::tempdir().unwrap();
    let wheel = venv.path().join("lib/python3.12/site-packages/nvidia/cu13/lib");
    std::fs::create_dir_all(&wheel).unwrap();
    copy_libraries(&wheel);
    let trace = Trace::new();
    let output = gpuwhy()
        .args(["trace", "--out"])
        .arg(trace.file())
        .arg("--")
        .arg(wheel.join(gpuwhy_simgpu::WORKLOAD))
        .args(["launch", "--launches", "4000", "--via", "runtime"])
        .env("VIRTUAL_ENV", venv.path())
        .output()
        .unwrap();
    truth(&done(output));
    assert_eq!(trace.count_of("cuLaunchKernel"), 4000);
}

/// Somewhere to make a cgroup: the unified hierarchy, or the old one of a controller.
fn cgroup_roots() -> Vec<PathBuf> {
    ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/pids"]
        .iter()
        .map(PathBuf::from)
        .filter(|root| root.join("cgroup.procs").exists())
        .collect()
}

struct Cgroup(PathBuf);

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn only_the_cgroup_asked_for_is_traced() {
    if !can_trace("only_the_cgroup_asked_for_is_traced") {
        return;
    }
    let mut tried = 0;
    for root in cgroup_roots() {
        let group = Cgroup(root.join(format!("gpuwhy-test-{}", std::process::id())));
        if std::fs::create_dir(&group.0).is_err() {
            continue;
        }
        tried += 1;
        let trace = Trace::new();
        let words = ["launch", "--launches", "3000", "--via", "driver"];
        let inside = Gated::start(&simwork(), &words);
        let outside = Gated::start(&simwork(), &words);
        std::fs::write(group.0.join("cgroup.procs"), inside.pid().to_string()).unwrap();
        let mut running = Running::start(&trace, &["--cgroup", group.0.to_str().unwrap()]);
        let pid = u64::from(inside.pid());
        outside.finish();
        inside.finish();
        running.until_called(pid, "cuLaunchKernel", 3000);
        running.stop();
        assert_eq!(trace.count_of("cuLaunchKernel"), 3000, "{}", root.display());
        assert_eq!(trace.number("SELECT count(DISTINCT pid) FROM call_stats"), 1);
    }
    if tried == 0 {
        crate::support::skip("only_the_cgroup_asked_for_is_traced", "no cgroup can be made here");
    }
}

#[test]
fn a_python_program_is_found_by_itself() {
    if !can_trace("a_python_program_is_found_by_itself") {
        return;
    }
    if Command::new("python3").arg("--version").output().is_err() {
        crate::support::skip("a_python_program_is_found_by_itself", "there is no python3");
        return;
    }
    let _turn = alone();
    let trace = Trace::new();
    let mut running = Running::start(&trace, &[]);
    let gated = Gated::start(
        &sim().join(gpuwhy_simgpu::WORKLOAD_PYTHON),
        &["train", "--steps", "20", "--launches-per-step", "50"],
    );
    let pid = u64::from(gated.pid());
    running.until_attached(&sim().join("libcuda.so.1"));
    gated.finish();
    running.until_called(pid, "cuLaunchKernel", 1000);
    running.stop();
    assert_eq!(
        trace.number(&format!(
            "SELECT sum(count) FROM call_stats WHERE pid = {pid} AND op = 'cuLaunchKernel'"
        )),
        1000
    );
    assert!(trace.text(&format!("SELECT cmdline FROM processes WHERE pid = {pid}")).contains("simwork.py"));
}
