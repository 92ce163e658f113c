//! Every reason for which a thread is held up, provoked by a program that does just that, and measured against what
//! it took: by the program's own clock, or by a second witness in the kernel.

use crate::cgroup::Cgroup;
use crate::ftrace::{Ftrace, INTERRUPTS, Is, RECLAIMS, SCHEDULER};
use crate::support::{Gated, Running, Trace, ahead_of_others, alone, can_trace, sim, simwork, skip};
use gpuwhy_model::Reason;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

const PARTNER: &str = "simwork-partner";
const PERCENT: f64 = 5.0;
/// What one of two who look at the same tracepoint takes of the other's time.
const WITNESS_NS: i64 = 300;

/// Nanoseconds of all launches in a column.
fn launches(trace: &Trace, column: &str) -> i64 {
    trace.number(&format!("SELECT sum({column}) FROM call_stats WHERE op = 'cuLaunchKernel'"))
}

/// Nanoseconds of launches billed to a cause, and to somebody.
fn attributed(trace: &Trace, cause: &str, by_comm: &str) -> i64 {
    trace.number(&format!(
        "SELECT sum(ns) FROM blame WHERE op = 'cuLaunchKernel' AND cause = '{cause}' AND by_comm = '{by_comm}'"
    ))
}

fn assert_close(what: &str, measured: i64, truth: i64, percent: f64) {
    let off = 100.0 * (measured - truth) as f64 / truth as f64;
    eprintln!("{what}: {:.3} ms of {:.3} ms, {off:+.2}%", measured as f64 / 1e6, truth as f64 / 1e6);
    assert!(truth > 10_000_000, "{what}: only {truth} ns were there to measure");
    assert!(off.abs() <= percent, "{what}: measured {measured} ns, really {truth} ns: {off:+.2}%");
}

/// Whatever the calls were held up by, the parts are their duration, and the reasons are the part that was blocked.
fn assert_parts_sum(trace: &Trace) {
    let reasons = Reason::ALL.map(|reason| format!("ifnull({}, 0)", reason.column())).join(" + ");
    let wrong = format!(
        "SELECT group_concat(op || ': ' || sum_ns || ' is not ' || oncpu_ns || ' + ' || runq_ns || ' + ' || blocked_ns) \
         FROM call_stats WHERE oncpu_ns + runq_ns + blocked_ns <> sum_ns OR blocked_ns <> {reasons} OR oncpu_ns < 0"
    );
    assert_eq!(trace.text(&wrong), "", "the parts of these do not sum to the whole");
    assert!(trace.number("SELECT count(*) FROM call_stats") > 0, "there are sums to look at");
}

/// What of the truth was the reason's: the wait for a CPU after it is not, nor is what the thread ran, unless its reason
/// is one that runs. The kernel accounts for both by itself.
fn held(truth: &Value) -> i64 {
    let number = |name: &str| truth[name].as_i64().unwrap();
    number("held_ns") - number("ready_ns") - number("ran_ns")
}

fn held_or_running(truth: &Value) -> i64 {
    held(truth) + truth["ran_ns"].as_i64().unwrap()
}

/// The reason's column has the time, and the others next to nothing.
fn assert_held_by(trace: &Trace, reason: &str, column: &str, truth: i64, percent: f64) {
    assert_parts_sum(trace);
    let measured = launches(trace, column);
    eprintln!("{reason}: on the CPU {}, ready {}", launches(trace, "oncpu_ns"), launches(trace, "runq_ns"));
    assert_close(reason, measured, truth, percent);
    let others = launches(trace, "blocked_ns") - measured;
    assert!(others * 20 < truth, "{reason}: {others} ns of {truth} ns went to other reasons");
}

/// Traces launches that are held up for one reason, which has all of their time; their trace and truth.
fn hold(reason: &str, column: &str, more: &[&str]) -> (Trace, Value) {
    let (trace, truth) = traced(reason, more);
    assert_held_by(&trace, reason, column, held(&truth), PERCENT + stolen_percent(&truth));
    (trace, truth)
}

/// What a hypervisor took meanwhile, which the kernel's accounts of a thread leave out, of what the thread was held up.
fn stolen_percent(truth: &Value) -> f64 {
    100.0 * truth["stolen_ns"].as_f64().unwrap() / held(truth) as f64
}

fn traced(reason: &str, more: &[&str]) -> (Trace, Value) {
    traced_with(&[], reason, more)
}

fn traced_with(flags: &[&str], reason: &str, more: &[&str]) -> (Trace, Value) {
    let trace = Trace::new();
    let words = [&["hold", "--for", reason, "--ms", "20", "--rounds", "25"], more].concat();
    let words = unhindered(&words);
    let stolen_before = stolen_ns();
    let mut truth = trace.of_command(flags, &words.iter().map(OsStr::new).collect::<Vec<_>>());
    truth["stolen_ns"] = (stolen_ns() - stolen_before).into();
    assert_eq!(trace.count_of("cuLaunchKernel"), 25, "{reason}: every launch is counted");
    (trace, truth)
}

/// Time in which the host of this virtual machine ran something else on one of its CPUs.
fn stolen_ns() -> u64 {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let ticks: u64 = stat.split_whitespace().nth(8).unwrap().parse().unwrap();
    ticks * 10_000_000
}

/// The partner that ended the waits is named for nearly all of them.
fn assert_partner_named(trace: &Trace, cause: &str, truth: &Value) {
    let by_partner = attributed(trace, cause, PARTNER);
    let all = held(truth);
    assert!(by_partner * 100 >= all * 90, "{by_partner} of {all} ns of {cause} are the partner's");
    let by = format!("SELECT DISTINCT by_pid FROM blame WHERE by_comm = '{PARTNER}' AND cause = '{cause}'");
    assert_eq!(trace.number(&by), truth["pid"].as_i64().unwrap(), "the partner is of the same process");
}

#[test]
fn sleep_is_the_threads_own() {
    if !can_trace("sleep_is_the_threads_own") {
        return;
    }
    let (trace, truth) = hold("sleep", "sleep_ns", &[]);
    let asleep =
        "SELECT sum(ns) FROM blame WHERE op = 'cuLaunchKernel' AND cause = 'self.sleep' AND by_pid IS NULL";
    assert_close("self.sleep in blame", trace.number(asleep), held(&truth), PERCENT);
}

#[test]
fn a_futex_names_who_released_it() {
    if !can_trace("a_futex_names_who_released_it") {
        return;
    }
    let (trace, truth) = hold("futex", "futex_ns", &[]);
    assert_partner_named(&trace, "lock.futex", &truth);
    let reported = format!(
        "SELECT count(*) FROM sched_events WHERE event = 'futex' AND by_comm = '{PARTNER}' AND address LIKE '0x%' \
         AND op = 'cuLaunchKernel'"
    );
    assert!(trace.number(&reported) >= 20, "the waits are told of one by one");
}

#[test]
fn a_file_lock_is_the_files_with_its_path() {
    if !can_trace("a_file_lock_is_the_files_with_its_path") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("locked").display().to_string();
    let (trace, truth) = hold("flock", "file_ns", &["--file", &file]);
    assert_partner_named(&trace, "io.file", &truth);
    let reported = format!(
        "SELECT count(*) FROM io_events WHERE event = 'file' AND file = '{file}' AND by_comm = '{PARTNER}' \
         AND fd >= 0 AND inode > 0"
    );
    assert!(trace.number(&reported) >= 20, "the waits are told of with the file's path");
}

/// Whichever system call it is read by.
#[test]
fn a_socket_names_the_peer_and_the_connection() {
    if !can_trace("a_socket_names_the_peer_and_the_connection") {
        return;
    }
    for how in ["socket", "socket-read"] {
        let (trace, truth) = hold(how, "socket_ns", &[]);
        assert_partner_named(&trace, "net.wait", &truth);
        let reported = format!(
            "SELECT count(*) FROM net_events WHERE event = 'socket' AND protocol = 'tcp' AND saddr = '127.0.0.1' \
             AND daddr = '127.0.0.1' AND sport > 0 AND dport > 0 AND sport <> dport AND state = 'ESTABLISHED' \
             AND by_comm = '{PARTNER}'"
        );
        assert!(trace.number(&reported) >= 20, "{how}: the waits are told of with the connection");
    }
}

#[test]
fn a_pipe_is_a_file() {
    if !can_trace("a_pipe_is_a_file") {
        return;
    }
    let (trace, truth) = hold("pipe", "file_ns", &[]);
    assert_partner_named(&trace, "io.file", &truth);
}

#[test]
fn poll_names_who_made_it_ready() {
    if !can_trace("poll_names_who_made_it_ready") {
        return;
    }
    let (trace, truth) = hold("poll", "poll_ns", &[]);
    assert_partner_named(&trace, "net.wait", &truth);
    let reported = format!("SELECT count(*) FROM net_events WHERE event = 'poll' AND by_comm = '{PARTNER}'");
    assert!(trace.number(&reported) >= 20, "the waits are told of one by one");
}

#[test]
fn an_ioctl_is_the_drivers() {
    if !can_trace("an_ioctl_is_the_drivers") {
        return;
    }
    let (trace, _) = hold("ioctl", "ioctl_ns", &[]);
    let reported = "SELECT count(*) FROM io_events WHERE event = 'ioctl' AND file LIKE '/dev/%' AND fd >= 0";
    assert!(trace.number(reported) >= 20, "the waits are told of with the device");
}

#[test]
fn a_page_that_must_be_awaited_is_a_fault() {
    if !can_trace("a_page_that_must_be_awaited_is_a_fault") {
        return;
    }
    let (trace, _) = hold("fault", "fault_ns", &[]);
    let reported = "SELECT count(*) FROM mem_events WHERE event = 'fault' AND address LIKE '0x%000'";
    assert!(trace.number(reported) >= 20, "the waits are told of with the page's address");
}

/// Nothing blocks here: the kernel clears pages in the thread's own time.
#[test]
fn memory_touched_for_the_first_time_is_a_fault() {
    const TEST: &str = "memory_touched_for_the_first_time_is_a_fault";
    if !can_trace(TEST) {
        return;
    }
    let pages = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    if pages.is_empty() || pages.contains("[never]") {
        // Small pages are cleared in less time than it takes to enter and leave the kernel for each.
        return skip(TEST, "there are no large pages");
    }
    let _turn = alone();
    // A machine that has just built has few whole blocks for large pages; without them it would be small ones again.
    for file in ["/proc/sys/vm/drop_caches", "/proc/sys/vm/compact_memory"] {
        fs::write(file, "1").unwrap();
    }
    // Stacks of samples make such a thread run up to 40 ms longer now and then, on the CPU: it is the clock that is tried here.
    let (trace, truth) = traced_with(&["--stacks", "off"], "fresh", &["--megabytes", "64"]);
    let truth = held_or_running(&truth);
    assert_held_by(&trace, "fresh", "fault_ns", truth, PERCENT);
    let attributed = "SELECT sum(ns) FROM blame WHERE op = 'cuLaunchKernel' AND cause = 'mem.fault'";
    assert_close("mem.fault in blame", trace.number(attributed), truth, PERCENT);
}

/// The block device that a folder is on, by name, and the number of the disk, which is what a limit is set on.
pub(crate) fn device_below(folder: &Path) -> Option<(String, String)> {
    let device = fs::metadata(folder).ok()?.dev();
    let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let known = fs::canonicalize(format!("/sys/dev/block/{number}")).ok()?;
    let name = known.file_name()?.to_str()?.to_string();
    let disk = if known.join("partition").exists() { known.parent()? } else { &known };
    Some((name, fs::read_to_string(disk.join("dev")).ok()?.trim().to_string()))
}

#[test]
fn a_slow_disk_is_block_io() {
    const TEST: &str = "a_slow_disk_is_block_io";
    const BYTES_PER_SECOND: u32 = 2 << 20;
    if !can_trace(TEST) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some((device, disk)) = device_below(folder.path()) else {
        return skip(TEST, "temporary files are on no disk");
    };
    let Some(cgroup) = Cgroup::with("blkio") else {
        return skip(TEST, "no cgroup could be made that limits disks");
    };
    let file = folder.path().join("data");
    fs::write(&file, vec![b'x'; 1 << 20]).unwrap();
    assert!(Command::new("sync").arg(&file).status().unwrap().success(), "the file is on the disk");
    cgroup.set(
        ("blkio.throttle.read_bps_device", &format!("{disk} {BYTES_PER_SECOND}")),
        ("io.max", &format!("{disk} rbps={BYTES_PER_SECOND}")),
    );
    let trace = Trace::new();
    let words = ["hold", "--for", "block", "--rounds", "25", "--file", &file.display().to_string()];
    let truth = trace_gated(&trace, &unhindered(&words), |pid| cgroup.enter(pid));
    let percent = PERCENT + stolen_percent(&truth);
    assert_held_by(&trace, "block", "block_io_ns", held(&truth), percent);
    let cause = "SELECT sum(ns) FROM blame WHERE op = 'cuLaunchKernel' AND cause = 'io.block'";
    assert_close("io.block in blame", trace.number(cause), held(&truth), percent);
    // The limit lets some reads through at once and holds up others for longer.
    let reported =
        format!("SELECT sum(duration_ns) FROM io_events WHERE event = 'block_io' AND device = '{device}'");
    let waits = trace.text(
        "SELECT group_concat(ifnull(device, '?') || ' ' || (duration_ns / 1000), ', ') FROM io_events WHERE event = 'block_io'",
    );
    eprintln!("{} of {}: {waits}", trace.number(&reported), held(&truth));
    assert!(
        trace.number(&reported) * 100 >= held(&truth) * 90,
        "waits are recorded with their device: {waits}"
    );
    let with_path = format!("{reported} AND file = '{}' AND fd >= 0 AND inode > 0", file.display());
    assert!(trace.number(&with_path) > 0, "the waits are told of with the file's path");
}

/// The words of a workload that runs ahead of others.
fn unhindered(words: &[&str]) -> Vec<String> {
    let program = simwork().display().to_string();
    let all = ahead_of_others().iter().copied().chain([program.as_str()]).chain(words.iter().copied());
    all.map(String::from).collect()
}

/// The same for one that needs to be as everybody else.
fn plain(words: &[&str]) -> Vec<String> {
    let program = simwork().display().to_string();
    std::iter::once(program.as_str()).chain(words.iter().copied()).map(String::from).collect()
}

/// Traces a workload from before its first counted call; what is to be done with it goes before that.
fn trace_gated(trace: &Trace, words: &[String], prepare: impl FnOnce(u32)) -> Value {
    let more: Vec<&str> = words[1..].iter().map(String::as_str).collect();
    let gated = Gated::start(Path::new(&words[0]), &more);
    let pid = gated.pid();
    let mut running = Running::start(trace, &["--pid", &pid.to_string()]);
    prepare(pid);
    let stolen_before = stolen_ns();
    let mut truth = gated.finish();
    truth["stolen_ns"] = (stolen_ns() - stolen_before).into();
    running.until_ended(&[pid]);
    running.stop();
    truth
}

/// The group's own account of how long its quota kept it from running.
fn throttled_ns(cgroup: &Cgroup) -> i64 {
    if cgroup.unified {
        return cgroup.number_in("cpu.stat", "throttled_usec") * 1000;
    }
    cgroup.number_in("cpu.stat", "throttled_time")
}

#[test]
fn a_cpu_quota_is_told_from_a_busy_cpu() {
    const TEST: &str = "a_cpu_quota_is_told_from_a_busy_cpu";
    if !can_trace(TEST) {
        return;
    }
    let _turn = alone();
    let Some(cgroup) = Cgroup::with("cpu") else {
        return skip(TEST, "no cgroup could be made that has a CPU quota");
    };
    cgroup.set(("cpu.cfs_period_us", "100000"), ("cpu.max", "20000 100000"));
    if !cgroup.unified {
        cgroup.set(("cpu.cfs_quota_us", "20000"), ("", ""));
    }
    let trace = Trace::new();
    // Nearly all of its time is inside launches, and so is what the quota takes from it. On one CPU, as a group's
    // account is the sum over all.
    let words = ["hold", "--for", "spin", "--ms", "100", "--rounds", "20", "--cpu", "0"];
    trace_gated(&trace, &plain(&words), |pid| cgroup.enter(pid));
    let really = throttled_ns(&cgroup);
    assert_parts_sum(&trace);
    assert_close("quota", launches(&trace, "throttled_ns"), really, PERCENT);
    let attributed = "SELECT sum(ns) FROM blame WHERE op = 'cuLaunchKernel' AND cause = 'cpu.throttled'";
    assert_close("cpu.throttled in blame", trace.number(attributed), really, PERCENT);
    let reported = "SELECT sum(duration_ns) FROM sched_events WHERE event = 'throttled'";
    // So many waits of a thread are told of in a window, and those for busy neighbours are among them.
    assert!(trace.number(reported) * 2 > really, "the waits are told of one by one");
}

#[test]
fn freeing_memory_at_a_limit_is_reclaim() {
    const TEST: &str = "freeing_memory_at_a_limit_is_reclaim";
    if !can_trace(TEST) {
        return;
    }
    let _turn = alone();
    let Some(cgroup) = Cgroup::with("memory") else {
        return skip(TEST, "no cgroup could be made that limits memory");
    };
    const LIMIT: &str = "25165824";
    cgroup.set(("memory.limit_in_bytes", LIMIT), ("memory.max", LIMIT));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data");
    fs::write(&file, vec![b'x'; 64 << 20]).unwrap();
    // What is not written yet cannot be dropped from the cache.
    assert!(Command::new("sync").arg(&file).status().unwrap().success(), "the file is on the disk");
    let trace = Trace::new();
    let words = ["hold", "--for", "reread", "--rounds", "60", "--file", &file.display().to_string()];
    let mut witness = None;
    trace_gated(&trace, &unhindered(&words), |pid| {
        witness = Ftrace::start(&[&RECLAIMS[..], &SCHEDULER, &INTERRUPTS].concat(), pid);
        cgroup.enter(pid);
    });
    let Some(witness) = witness else {
        return skip(TEST, "there is no tracefs for a second witness");
    };
    let mut really = 0;
    witness.replay(|moment, ns| {
        // Neighbours that took the CPU in the middle of it are billed for that themselves, and so are interrupts.
        if moment.reclaims > 0 && moment.is != Is::Ready && moment.interrupt.is_none() {
            really += ns as i64;
        }
    });
    assert_parts_sum(&trace);
    assert_close("reclaim", launches(&trace, "reclaim_ns"), really, PERCENT);
    let attributed = "SELECT sum(ns) FROM blame WHERE op = 'cuLaunchKernel' AND cause = 'mem.reclaim'";
    assert_close("mem.reclaim in blame", trace.number(attributed), really, PERCENT);
}

/// Packets that arrive over the loopback are handled on the first CPU, until it is dropped.
struct Steered {
    before: String,
}

impl Steered {
    const FILE: &str = "/sys/class/net/lo/queues/rx-0/rps_cpus";

    fn to_cpu_0() -> Option<Steered> {
        let before = fs::read_to_string(Self::FILE).ok()?;
        fs::write(Self::FILE, "1").ok()?;
        Some(Steered { before })
    }
}

impl Drop for Steered {
    fn drop(&mut self) {
        let _ = fs::write(Self::FILE, self.before.trim());
    }
}

/// Sends to a socket that nobody reads, from the second CPU, until told to stop.
fn flood(stop: &AtomicBool) {
    let mut second = rustix::thread::CpuSet::new();
    second.set(1);
    rustix::thread::sched_setaffinity(None, &second).unwrap();
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    while !stop.load(Ordering::Relaxed) {
        let _ = sender.send(&[0; 64]);
    }
}

#[test]
fn packets_for_others_are_an_interruption() {
    const TEST: &str = "packets_for_others_are_an_interruption";
    if !can_trace(TEST) {
        return;
    }
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return skip(TEST, "there is one CPU only");
    }
    let _turn = alone();
    let Some(_steered) = Steered::to_cpu_0() else {
        return skip(TEST, "packets cannot be steered to a CPU");
    };
    let trace = Trace::new();
    let stop = AtomicBool::new(false);
    let mut witness = None;
    std::thread::scope(|scope| {
        let words = ["hold", "--for", "spin", "--ms", "100", "--rounds", "25", "--cpu", "0"];
        trace_gated(&trace, &plain(&words), |pid| {
            witness = Ftrace::start(&[&SCHEDULER[..], &INTERRUPTS].concat(), pid);
            scope.spawn(|| flood(&stop));
        });
        stop.store(true, Ordering::Relaxed);
    });
    let Some(witness) = witness else {
        return skip(TEST, "there is no tracefs for a second witness");
    };
    let (mut really, mut all, mut parts) = (0, 0, 0);
    witness.replay(|moment, ns| {
        // Only what interrupted the thread: the kernel has threads of its own for packets that are too many.
        if moment.is == Is::Running && moment.interrupt.is_some() {
            all += ns as i64;
            parts += 1;
            if moment.interrupt.as_ref().is_some_and(|name| name.contains("NET_RX")) {
                really += ns as i64;
            }
        }
    });
    assert_parts_sum(&trace);
    let by_packets = "SELECT sum(ns) FROM blame WHERE cause = 'cpu.interrupt' AND by_comm = 'softirq NET_RX'";
    // Both witnesses stand at the same tracepoints: one of them measures what the other takes there, too.
    let own_percent = 100.0 * (parts * WITNESS_NS) as f64 / really as f64;
    eprintln!("{parts} parts of {} ns each, {own_percent:.1}% of them for the other witness", all / parts);
    assert_close("softirq NET_RX", trace.number(by_packets), really, PERCENT + own_percent);
    assert_close("interrupts", launches(&trace, "interrupt_ns"), all, PERCENT + own_percent);
}

#[test]
fn the_gil_names_the_thread_that_has_it() {
    const TEST: &str = "the_gil_names_the_thread_that_has_it";
    if !can_trace(TEST) {
        return;
    }
    let _turn = alone();
    if Command::new("python3").arg("--version").output().is_err() {
        return skip(TEST, "there is no python3");
    }
    let trace = Trace::new();
    let script = sim().join(gpuwhy_simgpu::WORKLOAD_PYTHON);
    // Whoever looks has found the interpreter by the time that the gate is opened.
    let words = [&script.display().to_string(), "gil-in-call", "--steps", "25"].map(String::from);
    let truth = trace_gated(&trace, &words, |_| {});
    let really = truth["waited_ns"].as_i64().unwrap() - truth["ready_ns"].as_i64().unwrap();
    assert_parts_sum(&trace);
    assert_close("gil", launches(&trace, "gil_ns"), really, PERCENT);
    let others = launches(&trace, "blocked_ns - gil_ns - sleep_ns");
    assert!(others * 20 < really, "gil: {others} ns of {really} ns went to other reasons");
    let by_holder = format!(
        "SELECT sum(ns) FROM blame WHERE op = 'cuLaunchKernel' AND cause = 'python.gil' AND by_pid = {} AND by_tid = {}",
        truth["pid"], truth["holder_tid"]
    );
    assert_close("python.gil of its holder", trace.number(&by_holder), really, PERCENT);
}
