//! Hosts where much comes and goes: processes, threads and cgroups by the thousand, and an agent that stays small.
//! `GPUWHY_SCALE` makes it longer: 3 is ten thousand processes in a minute, and as many threads and cgroups more.

use crate::cgroup::Cgroup;
use crate::support::{Gated, Running, Trace, alone, can_trace, done, sim, simwork, skip, truth};
use std::fs;
use std::process::{Command, Stdio};

fn scale() -> u64 {
    std::env::var("GPUWHY_SCALE").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// What the agent takes.
#[derive(Debug)]
struct Use {
    resident_kb: i64,
    files: usize,
}

impl Use {
    fn of(running: &Running) -> Use {
        let pid = running.child.id();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        Use {
            resident_kb: resident.trim().trim_end_matches(" kB").parse().unwrap(),
            files: fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count(),
        }
    }

    /// It may take a little more than before, for a window's sums or for a look at a process; and more for each library
    /// of somebody else's that turned up meanwhile, which is read and probed as ours are.
    fn assert_like(&self, before: &Use, trace: &Trace) {
        const MORE_KB: i64 = 60 * 1024;
        // Probes of the collective library are loaded in the background, which is some 60 maps, programs and links.
        const MORE_FILES: usize = 96;
        let foreign = format!("SELECT count(*) FROM libraries WHERE file NOT LIKE '{}/%'", sim().display());
        let foreign = trace.number(&foreign);
        eprintln!("the agent: {before:?} before, {self:?} after, {foreign} libraries of others");
        assert!(
            self.resident_kb < before.resident_kb + MORE_KB * (1 + foreign),
            "memory grows: {before:?} before, {self:?} after, {foreign} libraries of others"
        );
        assert!(
            self.files <= before.files + MORE_FILES + 64 * foreign as usize,
            "files stay open: {before:?} before, {self:?} after, {foreign} libraries of others"
        );
    }
}

/// One that launches while others come and go, and must be counted exactly all the while.
fn steady() -> Gated {
    Gated::start(&simwork(), &["launch", "--via", "driver", "--launches", "0", "--hz", "200"])
}

/// Stops it; its launches, all of which are in the file.
fn assert_counted(trace: &Trace, pid: u32, truth: &serde_json::Value) {
    let counted = format!("SELECT sum(count) FROM call_stats WHERE pid = {pid} AND op = 'cuLaunchKernel'");
    let launches = truth["ops"]["cuLaunchKernel"].as_i64().unwrap();
    assert!(launches > 0, "it launched: {truth}");
    assert_eq!(trace.number(&counted), launches, "every launch of process {pid} is counted");
    let once = format!("SELECT count(*) FROM processes WHERE pid = {pid} AND end_ns IS NOT NULL");
    assert_eq!(trace.number(&once), 1, "process {pid} was seen, and seen to end");
}

#[test]
fn ten_thousand_processes_a_minute() {
    const TEST: &str = "ten_thousand_processes_a_minute";
    const PER_SECOND: u64 = 10_000 / 60 + 1;
    const CALLING_EVERY: u64 = 20;
    if !can_trace(TEST) {
        return;
    }
    let _turn = alone();
    let processes = 3000 * scale();
    let trace = Trace::new();
    let mut running = Running::start(&trace, &[]);
    let steadies = [steady(), steady(), steady()];
    running.until_attached(&sim().join("libcuda.so.1"));
    let pids = steadies.each_ref().map(Gated::pid);
    for steady in &steadies {
        steady.open();
    }
    for pid in pids {
        running.until_called(pid.into(), "cuLaunchKernel", 100);
    }
    let before = Use::of(&running);
    let words = ["many", "--program", "/bin/true", "--launches", "2"];
    let numbers = [
        ("--processes", processes),
        ("--hz", PER_SECOND),
        ("--calling-every", CALLING_EVERY),
        ("--together", 8),
    ];
    let numbers = numbers.map(|(name, number)| format!("{name}={number}"));
    let many = truth(&done(Command::new(simwork()).args(words).args(numbers).output().unwrap()));
    let after = Use::of(&running);
    for pid in pids {
        crate::support::signal(pid, "TERM");
    }
    let truths = steadies.map(Gated::finish);
    running.until_ended(&pids);
    running.stop();
    after.assert_like(&before, &trace);
    for (pid, truth) in pids.iter().zip(&truths) {
        assert_counted(&trace, *pid, truth);
    }
    // And so is every one of those that lived for a moment.
    let launches =
        [&many["ops"], &many["children"]["ops"]].map(|ops| ops["cuLaunchKernel"].as_i64().unwrap());
    let of_many = format!(
        "SELECT sum(count) FROM call_stats WHERE op = 'cuLaunchKernel' AND pid NOT IN ({}, {}, {})",
        pids[0], pids[1], pids[2]
    );
    assert_eq!(trace.number(&of_many), launches[0] + launches[1], "launches of {processes} processes");
    let seconds = many["elapsed_ns"].as_u64().unwrap() / 1_000_000_000;
    eprintln!("{processes} processes in {seconds} s");
}

#[test]
fn thousands_of_threads_in_one_process() {
    const TEST: &str = "thousands_of_threads_in_one_process";
    const LAUNCHES: u64 = 5;
    if !can_trace(TEST) {
        return;
    }
    let _turn = alone();
    let threads = 2000 * scale();
    let trace = Trace::new();
    let gated = Gated::start(
        &simwork(),
        &["threads", "--n", &threads.to_string(), "--launches", &LAUNCHES.to_string()],
    );
    let pid = gated.pid();
    let mut running = Running::start(&trace, &["--pid", &pid.to_string()]);
    let before = Use::of(&running);
    let truth = gated.finish();
    running.until_ended(&[pid]);
    let after = Use::of(&running);
    running.stop();
    after.assert_like(&before, &trace);
    assert_eq!(truth["ops"]["cuLaunchKernel"], threads * LAUNCHES, "it launched as told");
    assert_counted(&trace, pid, &truth);
    let attributed = "SELECT count(DISTINCT tid) FROM blame WHERE op = 'cuLaunchKernel'";
    assert_eq!(trace.number(attributed), threads as i64, "every thread has its own bill");
}

/// A process in a cgroup that lives as long as the process.
fn live_in_a_cgroup(number: u64) -> Option<(Cgroup, String, i64)> {
    let id = format!("{number:064x}");
    let cgroup = Cgroup::make(&format!("docker/{id}"))?;
    let join = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", cgroup.folder.display());
    let mut command = Command::new("sh");
    command.args(["-c", &join, "sh"]).arg(simwork()).args(["launch", "--via", "driver", "--launches", "3"]);
    let truth = truth(&done(command.stdin(Stdio::null()).output().unwrap()));
    Some((cgroup, id, truth["pid"].as_i64().unwrap()))
}

#[test]
fn containers_that_come_and_go() {
    const TEST: &str = "containers_that_come_and_go";
    if !can_trace(TEST) {
        return;
    }
    let _turn = alone();
    let trace = Trace::new();
    let mut running = Running::start(&trace, &[]);
    let steady = steady();
    let pid = steady.pid();
    running.until_attached(&sim().join("libcuda.so.1"));
    steady.open();
    running.until_called(pid.into(), "cuLaunchKernel", 100);
    let before = Use::of(&running);
    let mut lived = Vec::new();
    for number in 1..=200 * scale() {
        let Some((cgroup, id, pid)) = live_in_a_cgroup(number) else {
            return skip(TEST, "no cgroup could be made");
        };
        drop(cgroup);
        lived.push((id, pid));
    }
    let after = Use::of(&running);
    crate::support::signal(pid, "TERM");
    let truth = steady.finish();
    running.until_ended(&[pid]);
    running.stop();
    after.assert_like(&before, &trace);
    assert_counted(&trace, pid, &truth);
    let own = format!("SELECT ifnull(container_id, '') FROM processes WHERE pid = {pid}");
    assert!(!lived.iter().any(|(id, _)| *id == trace.text(&own)), "the steady one is in none of them");
    let mut known = 0;
    for (id, pid) in &lived {
        let rows = format!("SELECT sum(count) FROM call_stats WHERE pid = {pid} AND op = 'cuLaunchKernel'");
        assert_eq!(trace.number(&rows), 3, "launches of process {pid}");
        let container = trace.text(&format!("SELECT container_id FROM processes WHERE pid = {pid}"));
        // One that ended before it could be looked at has no name, but never another's.
        assert!(
            container.is_empty() || container == *id,
            "process {pid} of {id} is said to be of {container}"
        );
        known += usize::from(container == *id);
    }
    eprintln!("{known} of {} containers were known in time", lived.len());
}
