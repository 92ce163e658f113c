//! What of a trace is asked about, as people name it: a time of day, a process by its name, an operation by another of its names.

use crate::failure::Failure;
use crate::log::log;
use gpuwhy_model::units::{printable, time_of_day};
use gpuwhy_model::{Process, Span};
use gpuwhy_store::Reader;
use std::fmt::{self, Display, Formatter};
use std::time::{SystemTime, UNIX_EPOCH};

const DAY_NS: u64 = 86_400_000_000_000;

/// A time on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Unix time in nanoseconds.
    At(u64),
    /// Nanoseconds since midnight, UTC.
    OfDay(u64),
}

impl Moment {
    /// `2026-11-15T03:00:00Z`, `03:00` or `03:00:05.250`.
    pub(crate) fn parse(text: &str) -> Result<Moment, String> {
        let wrong = || format!("'{text}' is no time; write 03:00 (UTC) or 2026-11-15T03:00:00Z");
        if let Ok(time) = text.parse::<jiff::Timestamp>() {
            return u64::try_from(time.as_nanosecond()).map(Moment::At).map_err(|_| wrong());
        }
        let time: jiff::civil::Time = text.trim_end_matches("UTC").trim_end().parse().map_err(|_| wrong())?;
        let seconds = u64::from(time.hour().unsigned_abs()) * 3600
            + u64::from(time.minute().unsigned_abs()) * 60
            + u64::from(time.second().unsigned_abs());
        Ok(Moment::OfDay(seconds * 1_000_000_000 + u64::from(time.subsec_nanosecond().unsigned_abs())))
    }

    fn of_day(ns: u64) -> String {
        let seconds = ns / 1_000_000_000;
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        format!("{hour:02}:{minute:02}:{second:02}.{:09}", ns % 1_000_000_000)
    }

    /// In a trace of one day a time of day is of that day; in a longer one it is the last before the end.
    pub(crate) fn within(self, trace: Span) -> u64 {
        match self {
            Moment::At(ns) => ns,
            Moment::OfDay(ns) => {
                let last_day = trace.end_ns / DAY_NS;
                let at = last_day * DAY_NS + ns;
                let has_days = trace.start_ns / DAY_NS < last_day;
                if has_days && at > trace.end_ns { at - DAY_NS } else { at }
            }
        }
    }

    /// The last such time before now: of other nodes, whose traces are not known before they are fetched.
    pub(crate) fn before_now(self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as u64);
        self.within(Span { start_ns: 0, end_ns: now })
    }
}

/// As it can be typed.
impl Display for Moment {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Moment::OfDay(ns) => f.write_str(&Moment::of_day(*ns)),
            Moment::At(ns) => match jiff::Timestamp::from_nanosecond(i128::from(*ns)) {
                Ok(time) => time.fmt(f),
                Err(_) => f.write_str(&Moment::of_day(ns % DAY_NS)),
            },
        }
    }
}

/// The beginning and the end of what is asked about, as unix time; both lie in the trace.
pub(crate) fn times(
    reader: &Reader,
    from: Option<Moment>,
    until: Option<Moment>,
) -> Result<(Option<u64>, Option<u64>), Failure> {
    let Some(trace) = reader.span()?.filter(|_| from.is_some() || until.is_some()) else {
        return Ok((None, None));
    };
    let from = from.map(|from| from.within(trace));
    // From 23:00 until 01:00 is a night.
    let until = until.map(|until| match (from, until, until.within(trace)) {
        (Some(from), Moment::OfDay(_), at) if at <= from => at + DAY_NS,
        (_, _, at) => at,
    });
    if from.zip(until).is_some_and(|(from, until)| from > until) {
        return Err(Failure::Usage("--from is after --until; swap them".into()));
    }
    if from.is_some_and(|from| from > trace.end_ns) {
        return Err(Failure::Nothing(format!(
            "there are no events after --from: the trace ends at {}",
            stamp(trace.end_ns)
        )));
    }
    if until.is_some_and(|until| until < trace.start_ns) {
        return Err(Failure::Nothing(format!(
            "there are no events before --until: the trace begins at {}",
            stamp(trace.start_ns)
        )));
    }
    Ok((from, until))
}

/// With the day, which a time of day leaves open.
fn stamp(unix_ns: u64) -> String {
    let time = i128::from(unix_ns);
    match jiff::Timestamp::from_nanosecond(time - time % 1_000_000_000) {
        Ok(time) => time.to_string(),
        Err(_) => time_of_day(unix_ns),
    }
}

/// A process on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Who {
    Pid(u32),
    /// Of its program, its script or its main thread.
    Name(String),
}

impl Display for Who {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Who::Pid(pid) => pid.fmt(f),
            Who::Name(name) => f.write_str(name),
        }
    }
}

impl Who {
    pub(crate) fn parse(text: &str) -> Result<Who, String> {
        let is_name = text.chars().any(char::is_alphabetic) && !text.starts_with('-');
        match text.parse() {
            Ok(pid) => Ok(Who::Pid(pid)),
            Err(_) if is_name => Ok(Who::Name(text.into())),
            Err(_) => Err(format!("'{text}' is no process; give its number or its name")),
        }
    }

    /// The processes of a trace that are meant; at least one.
    pub(crate) fn among(&self, reader: &Reader) -> Result<Vec<u32>, Failure> {
        let name = match self {
            Who::Pid(pid) => return Ok(vec![*pid]),
            Who::Name(name) => name,
        };
        let processes = reader.processes()?;
        let mut pids: Vec<u32> =
            processes.iter().filter(|process| has_name(process, name)).map(|process| process.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        if pids.is_empty() {
            let mut names: Vec<&str> = processes.iter().map(|process| process.comm.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            let hint = match names.is_empty() {
                true => "the trace has no processes".to_string(),
                false => format!("there are {}", printable(&names.join(", "))),
            };
            return Err(Failure::Nothing(format!("no process is named '{name}'; {hint}")));
        }
        Ok(pids)
    }

    /// The same of several, each process once.
    pub(crate) fn all_running(all: &[Who]) -> Result<Vec<u32>, Failure> {
        let mut pids = Vec::new();
        for who in all {
            pids.extend(who.running()?);
        }
        pids.sort_unstable();
        pids.dedup();
        Ok(pids)
    }

    /// The processes that run now and are meant; at least one. A number may be of none: the agent says so.
    pub(crate) fn running(&self) -> Result<Vec<u32>, Failure> {
        let name = match self {
            Who::Pid(pid) => return Ok(vec![*pid]),
            Who::Name(name) => name,
        };
        let running: Vec<Process> =
            gpuwhy_host::pids().into_iter().filter_map(gpuwhy_host::describe).collect();
        // Command lines of gpuwhy, and of the sudo or shell that started it, have the name on them as well.
        let own = own_family(&running);
        let named = |process: &&Process| has_name(process, name) && !own.contains(&process.pid);
        let pids: Vec<u32> = running.iter().filter(named).map(|process| process.pid).collect();
        if pids.is_empty() {
            return Err(Failure::Failed(format!(
                "no process named '{}' runs; `ps -e` lists names, and without --pid every GPU process is traced",
                printable(name)
            )));
        }
        Ok(pids)
    }

    /// The one process that is meant.
    pub(crate) fn one(&self, reader: &Reader) -> Result<u32, Failure> {
        match self.among(reader)?.as_slice() {
            [pid] => Ok(*pid),
            many => {
                let numbers: Vec<String> = many.iter().map(ToString::to_string).collect();
                Err(Failure::Usage(format!(
                    "several processes have that name: {}; give one of the numbers",
                    numbers.join(", ")
                )))
            }
        }
    }
}

/// This process and its parents.
fn own_family(running: &[Process]) -> Vec<u32> {
    let parent =
        |pid: u32| running.iter().find(|process| process.pid == pid).map(|process| process.parent_pid);
    std::iter::successors(Some(std::process::id()), |pid| parent(*pid)).take(running.len() + 1).collect()
}

/// By its main thread, its program, or a script among its words.
fn has_name(process: &Process, name: &str) -> bool {
    let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_string();
    process.comm == name
        || last(&process.exe) == name
        || process.cmdline.split_whitespace().any(|word| last(word) == name)
}

/// The operation as it is counted: calls that several functions pass through are counted at one of them.
pub(crate) fn operation(reader: &Reader, name: &str) -> Result<String, Failure> {
    let ops = reader.ops()?;
    let known: Vec<&str> = ops.iter().map(|op| op.name.as_str()).collect();
    let Some(counted) = counted_as(name, &known) else { return Ok(name.into()) };
    if counted != name {
        log!("{name} is counted as {counted}");
    }
    Ok(counted.into())
}

/// Every launch of the runtime enters the driver, and libraries export a function in several versions.
fn counted_as<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let find = |wanted: &str| known.iter().find(|op| op.eq_ignore_ascii_case(wanted)).copied();
    let plain = ["_ptsz", "_ptds", "_v2", "_v3", "C"]
        .iter()
        .fold(name, |name, end| name.strip_suffix(end).unwrap_or(name));
    let of_driver = |name: &str| name.strip_prefix("cuda").map(|rest| format!("cu{rest}"));
    let of_runtime = |name: &str| name.strip_prefix("cu").map(|rest| format!("cuda{rest}"));
    find(name)
        .or_else(|| find(plain))
        .or_else(|| find(&of_driver(plain)?))
        .or_else(|| find(&of_runtime(plain)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000_000_000;

    #[test]
    fn a_time_of_day_is_of_the_day_of_the_trace() {
        let day = Span { start_ns: 100 * DAY_NS + 11 * HOUR, end_ns: 100 * DAY_NS + 12 * HOUR };
        let at = |text: &str, span| Moment::parse(text).unwrap().within(span);
        assert_eq!(at("11:30", day), 100 * DAY_NS + 11 * HOUR + HOUR / 2);
        assert_eq!(at("13:00:00", day), 100 * DAY_NS + 13 * HOUR);
        // Over midnight it is the last one.
        let night = Span { start_ns: 100 * DAY_NS + 22 * HOUR, end_ns: 101 * DAY_NS + 8 * HOUR };
        assert_eq!(at("03:00", night), 101 * DAY_NS + 3 * HOUR);
        assert_eq!(at("23:00", night), 100 * DAY_NS + 23 * HOUR);
        assert_eq!(at("1970-01-02T00:00:00Z", night), DAY_NS);
        for wrong in ["yesterday", "25:00", "3", ""] {
            assert!(Moment::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_process_is_a_number_or_a_name() {
        assert_eq!(Who::parse("42"), Ok(Who::Pid(42)));
        assert_eq!(Who::parse("train.py"), Ok(Who::Name("train.py".into())));
        for wrong in ["-1", "", "4294967296", "-x"] {
            assert!(Who::parse(wrong).is_err(), "{wrong}");
        }
        let process = Process {
            comm: "python3".into(),
            exe: "/usr/bin/python3.12".into(),
            cmdline: "python3 /srv/train.py --lr 1".into(),
            ..Process::default()
        };
        for name in ["python3", "python3.12", "train.py"] {
            assert!(has_name(&process, name), "{name}");
        }
        assert!(!has_name(&process, "train"));
    }

    #[test]
    fn runtime_and_versioned_names_find_what_is_counted() {
        let known = ["cuLaunchKernel", "cuLaunchKernelEx", "cudaMemcpyAsync", "cudaMalloc"];
        for (asked, counted) in [
            ("cuLaunchKernel", "cuLaunchKernel"),
            ("cudaLaunchKernel", "cuLaunchKernel"),
            ("cudaLaunchKernelExC", "cuLaunchKernelEx"),
            ("cuLaunchKernel_ptsz", "cuLaunchKernel"),
            ("cudamalloc", "cudaMalloc"),
            ("cuMemcpyAsync", "cudaMemcpyAsync"),
        ] {
            assert_eq!(counted_as(asked, &known), Some(counted), "{asked}");
        }
        assert_eq!(counted_as("cudaNothing", &known), None);
    }
}
