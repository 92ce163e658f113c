//! Attaching programs to the kernel's own places: typed and classic tracepoints, and the walk over all tasks.

use super::attach::message;
use super::tracefs::{self, NoEvent};
use super::{Settings, clock};
use crate::driver;
use crate::probe::{Attach, Probe};
use gpuwhy_model::{ProbeState, ProbeStatus};
use libbpf_rs::{Link, Object, ProgramMut};
use std::io;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};

/// A program at one of the kernel's own places.
pub(super) struct Placed {
    /// Closed first: the program is off its place then.
    link: Link,
    /// What it is on, kept open beyond the link. The last one to close it waits until the kernel is sure that nothing of
    /// it runs any more, some 60 ms, and one after the other.
    event: Option<OwnedFd>,
}

impl Placed {
    fn new(link: Link) -> Self {
        Placed { link, event: None }
    }
}

/// Takes programs off their places. What the kernel has to wait for afterwards, nobody waits for here.
pub(super) fn detach(placed: Vec<Placed>) {
    let events: Vec<OwnedFd> = placed
        .into_iter()
        .filter_map(|Placed { link, event }| {
            drop(link);
            event
        })
        .collect();
    if !events.is_empty() {
        std::thread::spawn(move || drop(events));
    }
}

/// What came of a probe's programs.
pub(super) struct Attached {
    pub(super) placed: Vec<Placed>,
    /// Links to walk over all tasks with, by the program's name.
    pub(super) walks: Vec<(String, Link)>,
    pub(super) statuses: Vec<ProbeStatus>,
}

pub(super) fn attach(probe: &Probe, object: &Object, settings: &Settings, clock_offset_ns: u64) -> Attached {
    let mut attached = Attached { placed: Vec::new(), walks: Vec::new(), statuses: Vec::new() };
    if let Attach::Devices(_) = probe.attach
        && has_kprobes()
    {
        attach_functions(probe, object, &driver::functions(settings), clock_offset_ns, &mut attached);
        if !attached.placed.is_empty() {
            return attached;
        }
    }
    for program in object.progs_mut() {
        let section = program.section().to_string_lossy().into_owned();
        if is_twin(&section) {
            continue;
        }
        if let Some(name) = section.strip_prefix("tp_btf/")
            && !program.autoload()
        {
            attached.statuses.push(absent(probe, name, clock_offset_ns));
            continue;
        }
        // A section names its event; that of the kernel's own counts does not, so the program does.
        let counted = section == "perf_event";
        let target = match counted {
            true => program.name().to_string_lossy().into_owned(),
            false => section.rsplit('/').next().unwrap_or_default().to_string(),
        };
        let result = match counted {
            true => attach_software_event(&program, &target),
            false => attach_one(&program, &section).map(|placed| vec![placed]),
        };
        let (state, reason) = match result {
            Ok(mut placed) => {
                match section.starts_with("iter/") {
                    true => attached.walks.extend(
                        placed.pop().map(|it| (program.name().to_string_lossy().into_owned(), it.link)),
                    ),
                    false => attached.placed.extend(placed),
                }
                (ProbeState::Attached, String::new())
            }
            Err(refusal) => refusal,
        };
        attached.statuses.push(ProbeStatus {
            probe: probe.name.into(),
            target,
            file: String::new(),
            state,
            flavour: flavour_of(&section).into(),
            since_ns: clock::monotonic_ns().wrapping_add(clock_offset_ns),
            reason,
        });
    }
    attached
}

fn absent(probe: &Probe, name: &str, clock_offset_ns: u64) -> ProbeStatus {
    ProbeStatus {
        probe: probe.name.into(),
        target: name.into(),
        file: String::new(),
        state: ProbeState::Absent,
        flavour: "tracepoint".into(),
        since_ns: clock::monotonic_ns().wrapping_add(clock_offset_ns),
        reason: format!("this kernel has no tracepoint {name}"),
    }
}

fn flavour_of(section: &str) -> &'static str {
    match section.split('/').next() {
        Some("iter") => "iterator",
        Some("perf_event") => "perf event",
        _ => "tracepoint",
    }
}

pub(super) fn has_kprobes() -> bool {
    std::path::Path::new("/sys/bus/event_source/devices/kprobe").exists()
}

/// Programs on the kernel's functions: loaded and attached by themselves, where the kernel has kprobes.
pub(super) fn is_twin(section: &str) -> bool {
    matches!(section, "kprobe" | "kretprobe")
}

/// All of the functions there are, or none: what is seen must not depend on which driver a call goes to.
fn attach_functions(
    probe: &Probe,
    object: &Object,
    functions: &[String],
    clock_offset_ns: u64,
    attached: &mut Attached,
) {
    for function in functions {
        // The return first: an entry without its return would leave calls in flight.
        let links: Result<Vec<Link>, libbpf_rs::Error> =
            [("on_function_return", true), ("on_function_enter", false)]
                .iter()
                .filter_map(|(name, returns)| {
                    let program = object.progs_mut().find(|program| program.name() == *name)?;
                    Some(program.attach_kprobe(*returns, function))
                })
                .collect();
        match links {
            Ok(links) if !links.is_empty() => {
                attached.placed.extend(links.into_iter().map(Placed::new));
                attached.statuses.push(ProbeStatus {
                    probe: probe.name.into(),
                    target: function.clone(),
                    file: String::new(),
                    state: ProbeState::Attached,
                    flavour: "kprobe".into(),
                    since_ns: clock::monotonic_ns().wrapping_add(clock_offset_ns),
                    reason: String::new(),
                });
            }
            _ => {
                attached.placed.clear();
                attached.statuses.clear();
                return;
            }
        }
    }
}

fn attach_one(program: &ProgramMut<'_>, section: &str) -> Result<Placed, (ProbeState, String)> {
    let refused = |reason: String| (ProbeState::Refused, reason);
    let Some(event) = section.strip_prefix("tracepoint/") else {
        return program.attach().map(Placed::new).map_err(|error| refused(message(&error)));
    };
    let (category, name) = event.split_once('/').unwrap_or_default();
    let id = tracefs::event_id(category, name).map_err(|error| match error {
        NoEvent::Absent => (ProbeState::Absent, format!("this kernel has no tracepoint {category}:{name}")),
        NoEvent::NoTracefs(why) => refused(format!("tracefs cannot be read: {why}")),
    })?;
    let event = open_event(PERF_TYPE_TRACEPOINT, id, Rate::EveryCount, 0)
        .map_err(|error| refused(error.to_string()))?;
    let beyond = event.try_clone().map_err(|error| refused(error.to_string()))?;
    // The link closes it.
    let link = program.attach_perf_event(event.into_raw_fd()).map_err(|error| refused(message(&error)))?;
    Ok(Placed { link, event: Some(beyond) })
}

const PERF_TYPE_SOFTWARE: u64 = 1;
const PERF_TYPE_TRACEPOINT: u64 = 2;

/// Not 50: a program that works in steps of 20 ms would be sampled at the same place in each of them. Twice as many cost
/// a busy thread 0.2% where timers are emulated, and no answer about the recorded programs needs them.
const SAMPLES_PER_SECOND: u64 = 49;

/// How often an event runs its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rate {
    EveryCount,
    PerSecond(u64),
}

/// Number and rate of one of the kernel's software events.
fn software_event(name: &str) -> Option<(u64, Rate)> {
    match name {
        "cpu_clock" => Some((0, Rate::PerSecond(SAMPLES_PER_SECOND))),
        "page_faults_min" => Some((5, Rate::EveryCount)),
        "page_faults_maj" => Some((6, Rate::EveryCount)),
        _ => None,
    }
}

/// An event that the kernel counts by itself: one for each CPU, with the program as often as its rate says.
fn attach_software_event(program: &ProgramMut<'_>, name: &str) -> Result<Vec<Placed>, (ProbeState, String)> {
    let refused = |reason: String| (ProbeState::Refused, reason);
    let Some((event, rate)) = software_event(name) else {
        return Err((ProbeState::Absent, format!("no software event {name}")));
    };
    let cpus = online_cpus().map_err(|error| refused(error.to_string()))?;
    cpus.into_iter()
        .map(|cpu| {
            let event = open_event(PERF_TYPE_SOFTWARE, event, rate, cpu)
                .map_err(|error| refused(error.to_string()))?;
            // The link closes it.
            let link = program.attach_perf_event(event.into_raw_fd());
            link.map(Placed::new).map_err(|error| refused(message(&error)))
        })
        .collect()
}

/// As the kernel lists them: `0-3,6`.
fn online_cpus() -> io::Result<Vec<i32>> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
    let ranges = text.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse::<i32>().ok()?..=last.parse::<i32>().ok()?)
    });
    Ok(ranges.flatten().collect())
}

/// `struct perf_event_attr` in words.
fn attributes(kind: u64, id: u64, rate: Rate) -> [u64; 16] {
    const EXCLUDE_IDLE: u64 = 1 << 7;
    const FREQ: u64 = 1 << 10;
    let mut attr = [0u64; 16];
    attr[0] = kind | ((size_of_val(&attr) as u64) << 32);
    attr[1] = id;
    // sample_period or sample_freq, and the bits that say which.
    (attr[2], attr[5]) = match rate {
        Rate::EveryCount => (1, 0),
        // Nobody is traced on a CPU that is idle.
        Rate::PerSecond(times) => (times, FREQ | EXCLUDE_IDLE),
    };
    attr
}

/// A perf event on a CPU. Of a tracepoint one CPU's is enough: the program runs wherever it fires.
fn open_event(kind: u64, id: u64, rate: Rate, cpu: i32) -> io::Result<OwnedFd> {
    const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;
    let attr = attributes(kind, id, rate);
    // SAFETY: the kernel reads `size` bytes of attr; a new descriptor is ours.
    let fd =
        unsafe { libc::syscall(libc::SYS_perf_event_open, attr.as_ptr(), -1, cpu, -1, PERF_FLAG_FD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_clock_is_sampled_by_frequency() {
        let (id, rate) = software_event("cpu_clock").unwrap();
        let attr = attributes(PERF_TYPE_SOFTWARE, id, rate);
        assert_eq!((attr[0], attr[1], attr[2]), (1 | 128 << 32, 0, SAMPLES_PER_SECOND));
        assert_eq!(attr[5], 1 << 10 | 1 << 7);
        for (name, number) in [("page_faults_min", 5), ("page_faults_maj", 6)] {
            let (id, rate) = software_event(name).unwrap();
            let attr = attributes(PERF_TYPE_SOFTWARE, id, rate);
            assert_eq!((attr[1], attr[2], attr[5]), (number, 1, 0), "{name}");
        }
        assert_eq!(software_event("page_faults"), None);
    }
}
