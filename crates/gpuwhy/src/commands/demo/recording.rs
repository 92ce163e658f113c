//! A recording to embed: it names the demo's own processes and nothing else of the machine it was made on.

use super::Failed;
use flate2::Compression;
use flate2::write::GzEncoder;
use gpuwhy_model::{Batch, Recording};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

/// The parent of all kernel threads.
const KTHREADD: u32 = 2;
const OTHER: &str = "other";

/// `own` are processes of the demo that were not traced: this one, and the one that does harm.
pub(crate) fn write(path: &Path, mut recording: Recording, folder: &Path, own: &[u32]) -> Result<(), Failed> {
    let release = gpuwhy_host::kernel_release();
    recording.about = format!("a run on Linux {}", release.split('-').next().unwrap_or_default());
    let traced = recording.batches.iter().flat_map(|batch| batch.processes.iter().map(|process| process.pid));
    let own: HashSet<u32> = traced.chain(own.iter().copied()).collect();
    let mut known: HashMap<u32, bool> = HashMap::new();
    for batch in &mut recording.batches {
        let may_be_named =
            |pid| *known.entry(pid).or_insert_with(|| own.contains(&pid) || is_kernel_thread(pid));
        rename_others(batch, may_be_named);
        forget_paths(batch, &folder.display().to_string());
    }
    let mut encoder = GzEncoder::new(fs::File::create(path)?, Compression::best());
    serde_json::to_writer(&mut encoder, &recording)?;
    encoder.finish()?;
    Ok(())
}

/// One that is gone is taken for a program.
fn is_kernel_thread(pid: u32) -> bool {
    pid == KTHREADD || gpuwhy_host::describe(pid).is_some_and(|process| process.parent_pid == KTHREADD)
}

fn rename_others(batch: &mut Batch, mut may_be_named: impl FnMut(u32) -> bool) {
    for wait in batch.waits.iter_mut().filter(|wait| wait.by_pid != 0) {
        if !may_be_named(wait.by_pid) {
            wait.by_comm = OTHER.into();
        }
    }
    for wait in batch.wait_events.iter_mut().filter(|wait| wait.by_pid != 0) {
        if !may_be_named(wait.by_pid) {
            wait.by_comm = OTHER.into();
        }
    }
    for other in &mut batch.neighbours {
        if !may_be_named(other.pid) {
            other.comm = OTHER.into();
        }
        (other.cgroup, other.tenant) = (String::new(), String::new());
    }
}

fn forget_paths(batch: &mut Batch, folder: &str) {
    let below = format!("{folder}/");
    for process in &mut batch.processes {
        process.cmdline = process.cmdline.replace(&below, "").replace(folder, ".");
        process.exe = file_name(&process.exe);
        process.cgroup = "/".into();
        process.container_id = None;
        process.container = None;
        (process.pod, process.namespace, process.unit) = (None, None, None);
        (process.job_system, process.job_id, process.job_step) = (None, None, None);
        (process.job_name, process.job_user, process.job_queue) = (None, None, None);
        (process.cpus_allowed, process.mems_allowed) = (None, None);
        process.tenant = String::new();
    }
    for wait in &mut batch.wait_events {
        if let Some(path) = wait.file.as_mut().and_then(|file| file.path.as_mut()) {
            *path = file_name(path);
        }
    }
    for frame in batch.stacks.iter_mut().flat_map(|stack| &mut stack.frames) {
        frame.module = file_name(&frame.module);
        frame.file = frame.file.as_deref().map(file_name);
    }
    for library in &mut batch.libraries {
        library.file = file_name(&library.file);
    }
}

fn file_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_model::{OpId, Part, Process, Wait};

    #[test]
    fn others_have_no_name_and_paths_no_folder() {
        let wait = |by_pid, by_comm: &str| Wait {
            window_start_ns: 0,
            pid: 7,
            tid: 7,
            op: OpId(1),
            part: Part::Runnable,
            by_pid,
            by_tid: by_pid,
            by_comm: by_comm.into(),
            by_cgroup_id: 0,
            ns: 1,
            count: 1,
        };
        let process = Process {
            cmdline: "env FOLDER=/tmp/x1 /tmp/x1/simwork train".into(),
            exe: "/tmp/x1/simwork".into(),
            ..Process::default()
        };
        let mut batch = Batch {
            waits: vec![wait(7, "simwork"), wait(8, "secret"), wait(0, "")],
            processes: vec![process],
            ..Batch::default()
        };
        rename_others(&mut batch, |pid| pid == 7);
        forget_paths(&mut batch, "/tmp/x1");
        let names: Vec<&str> = batch.waits.iter().map(|wait| wait.by_comm.as_str()).collect();
        assert_eq!(names, ["simwork", "other", ""]);
        assert_eq!(
            (batch.processes[0].cmdline.as_str(), batch.processes[0].exe.as_str()),
            ("env FOLDER=. simwork train", "simwork")
        );
    }
}
