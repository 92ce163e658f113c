//! The kernel's own tracer as a second witness: what happened to one thread, in a trace instance of the test's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The interrupts that the probes tell apart.
pub(crate) const INTERRUPTS: [&str; 6] = [
    "irq/irq_handler_entry",
    "irq/irq_handler_exit",
    "irq/softirq_entry",
    "irq/softirq_exit",
    "irq_vectors/local_timer_entry",
    "irq_vectors/local_timer_exit",
];
pub(crate) const RECLAIMS: [&str; 6] = [
    "vmscan/mm_vmscan_memcg_reclaim_begin",
    "vmscan/mm_vmscan_memcg_reclaim_end",
    "vmscan/mm_vmscan_direct_reclaim_begin",
    "vmscan/mm_vmscan_direct_reclaim_end",
    "compaction/mm_compaction_begin",
    "compaction/mm_compaction_end",
];
pub(crate) const SCHEDULER: [&str; 2] = ["sched/sched_switch", "sched/sched_waking"];

pub(crate) struct Ftrace {
    instance: PathBuf,
    pid: u32,
    mounted: Option<tempfile::TempDir>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Is {
    Running,
    /// To run, while something else has the CPU.
    Ready,
    Blocked,
}

/// What is with the thread between two events.
#[derive(Debug)]
pub(crate) struct Moment {
    pub(crate) is: Is,
    /// The outermost interrupt that has its CPU.
    pub(crate) interrupt: Option<String>,
    interrupt_depth: u32,
    /// The kernel frees or compacts memory in its time; one within the other counts once.
    pub(crate) reclaims: u32,
}

impl Ftrace {
    /// Records these events as far as they are about a thread; none where the host has no tracefs to write to.
    pub(crate) fn start(events: &[&str], pid: u32) -> Option<Ftrace> {
        let (folder, mounted) = tracefs()?;
        let instance = folder.join("instances").join(format!("gpuwhy-test-{}-{pid}", std::process::id()));
        fs::create_dir(&instance).ok()?;
        let ftrace = Ftrace { instance, pid, mounted };
        ftrace.write("tracing_on", "0");
        ftrace.write("trace_clock", "mono");
        ftrace.write("buffer_size_kb", "16384");
        for event in events {
            let filter = match *event {
                "sched/sched_switch" => format!("prev_pid == {pid} || next_pid == {pid}"),
                "sched/sched_waking" => format!("pid == {pid}"),
                _ => format!("common_pid == {pid}"),
            };
            ftrace.write(&format!("events/{event}/filter"), &filter);
            ftrace.write(&format!("events/{event}/enable"), "1");
        }
        ftrace.write("tracing_on", "1");
        Some(ftrace)
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.instance.join(file), text)
            .unwrap_or_else(|error| panic!("ftrace's {file} does not take '{text}': {error}"));
    }

    /// Ends the recording and goes through it: every stretch of time, and what was with the thread in it.
    pub(crate) fn replay(&self, mut each: impl FnMut(&Moment, u64)) {
        self.write("tracing_on", "0");
        self.assert_complete();
        let text = fs::read_to_string(self.instance.join("trace")).unwrap();
        let mut moment = Moment { is: Is::Blocked, interrupt: None, interrupt_depth: 0, reclaims: 0 };
        let mut before_us = None;
        for (us, current, event, fields) in text.lines().filter_map(parse) {
            if let Some(before) = before_us {
                each(&moment, (us - before) * 1000);
            }
            before_us = Some(us);
            // Not every switch is recorded; but whoever is current runs.
            if current == self.pid {
                moment.is = Is::Running;
            }
            moment.note(self.pid, event, fields);
        }
    }

    /// A witness that missed something is none.
    fn assert_complete(&self) {
        for entry in fs::read_dir(self.instance.join("per_cpu")).unwrap() {
            let stats = fs::read_to_string(entry.unwrap().path().join("stats")).unwrap();
            for lost in ["overrun: ", "commit overrun: ", "dropped events: "] {
                let count = stats.lines().find_map(|line| line.strip_prefix(lost)).unwrap_or("0");
                assert_eq!(count.trim(), "0", "ftrace lost events: {stats}");
            }
        }
    }
}

impl Drop for Ftrace {
    fn drop(&mut self) {
        let _ = fs::write(self.instance.join("events/enable"), "0");
        let _ = fs::remove_dir(&self.instance);
        if let Some(point) = &self.mounted {
            let _ = Command::new("umount").arg(point.path()).status();
        }
    }
}

/// Where the host has it, else mounted at a place that goes with the test.
fn tracefs() -> Option<(PathBuf, Option<tempfile::TempDir>)> {
    let usual = Path::new("/sys/kernel/tracing");
    if usual.join("instances").is_dir() {
        return Some((usual.into(), None));
    }
    let point = tempfile::tempdir().ok()?;
    let mounted = Command::new("mount").args(["-t", "tracefs", "none"]).arg(point.path()).status();
    mounted.is_ok_and(|status| status.success()).then(|| (point.path().into(), Some(point)))
}

/// `simwork-42 [000] d..2. 12.345678: softirq_entry: vec=3 [action=NET_RX]`: microseconds, who was
/// current, event and fields.
fn parse(line: &str) -> Option<(u64, u32, &str, &str)> {
    let mut parts = line.splitn(3, ": ");
    let (head, event, fields) = (parts.next()?, parts.next()?, parts.next().unwrap_or_default());
    let (seconds, fraction) = head.rsplit(' ').next()?.split_once('.')?;
    let us = seconds.parse::<u64>().ok()? * 1_000_000 + fraction.parse::<u64>().ok()?;
    let current = head.split(" [").next()?.trim_end().rsplit('-').next()?.parse().ok()?;
    Some((us, current, event.trim_end_matches(':'), fields))
}

impl Moment {
    fn note(&mut self, pid: u32, event: &str, fields: &str) {
        let is_about = |field: &str| fields.split(' ').any(|word| word == format!("{field}={pid}"));
        let is_reclaim = RECLAIMS.iter().any(|known| known.ends_with(event));
        match event {
            "sched_switch" if is_about("next_pid") => self.is = Is::Running,
            "sched_switch" if is_about("prev_pid") => {
                let ready = fields.contains("prev_state=R");
                self.is = if ready { Is::Ready } else { Is::Blocked };
            }
            "sched_waking" if is_about("pid") && self.is == Is::Blocked => self.is = Is::Ready,
            _ if is_reclaim && event.ends_with("_begin") => self.reclaims += 1,
            _ if is_reclaim && event.ends_with("_end") => self.reclaims = self.reclaims.saturating_sub(1),
            _ if event.ends_with("_entry") => {
                self.interrupt_depth += 1;
                self.interrupt.get_or_insert_with(|| format!("{event} {fields}"));
            }
            // One that had begun before the recording is not in it.
            _ if event.ends_with("_exit") && self.interrupt_depth > 0 => {
                self.interrupt_depth -= 1;
                if self.interrupt_depth == 0 {
                    self.interrupt = None;
                }
            }
            _ => {}
        }
    }
}
