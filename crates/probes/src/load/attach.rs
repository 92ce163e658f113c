//! Attaching to a library file: its functions found in the ELF, the best flavour the kernel has, one link for all
//! of them where it can, but for classes of calls that may be watched in slices.

use super::rules::Rule;
use super::sites::{Sites, may_be_without};
use crate::probe::Library;
use gpuwhy_elf::Table;
use gpuwhy_model::{CallClass, ProbeState, ProbeStatus};
use gpuwhy_proc::{TargetFile, distrust, is_trusted};
use libbpf_rs::{Link, Object, ProgramMut, UprobeMultiOpts, UprobeOpts};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// How entry and return are trapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// One program for both, which may spare the return trap (6.13).
    Session,
    /// All functions of a file in one link (6.6).
    Multi,
    /// A perf event for each.
    Single,
}

impl Flavour {
    /// Best first.
    pub const LADDER: [Flavour; 3] = [Flavour::Session, Flavour::Multi, Flavour::Single];

    pub fn name(self) -> &'static str {
        match self {
            Flavour::Session => "session",
            Flavour::Multi => "multi",
            Flavour::Single => "single",
        }
    }
}

/// A library file found in a process or on disk.
#[derive(Debug, Clone)]
pub struct LibraryFile {
    pub library: Library,
    pub file: TargetFile,
    /// Its path as the process that maps it sees it.
    pub shown_path: String,
    /// A process that maps it; nothing for one that was found in a folder.
    pub pid: Option<u32>,
    /// Its functions, where they were read before; else attaching reads them.
    pub sites: Option<Arc<Sites>>,
}

impl LibraryFile {
    fn file_name(&self) -> String {
        self.shown_path.rsplit('/').next().unwrap_or_default().trim_end_matches(" (deleted)").to_string()
    }
}

/// Groups of links and what each target's state is.
pub(crate) struct Attached {
    pub(crate) groups: Vec<Group>,
    pub(crate) statuses: Vec<ProbeStatus>,
}

#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) rule: Rule,
    file_offset: usize,
    emulated: bool,
}

/// Functions of a file that are attached and detached together: a class of calls, or all that are always watched.
pub(crate) struct Group {
    pub(crate) links: Vec<Link>,
    pub(crate) targets: Vec<Target>,
    pub(crate) class: Option<CallClass>,
    pub(crate) file: LibraryFile,
    /// The run's number of the file.
    number: u16,
}

impl Group {
    pub(crate) fn probe(&self) -> &'static str {
        self.targets.first().map_or("", |target| target.rule.probe)
    }
}

/// Attaches every function of `rules`, which are those of its library, that the file exports.
pub(crate) fn library(
    object: &Object,
    rules: &[Rule],
    file: &LibraryFile,
    number: u16,
    flavour: Flavour,
    now_ns: u64,
) -> Attached {
    let mut attached = Attached { groups: Vec::new(), statuses: Vec::new() };
    let probe = rules.first().map_or("", |rule| rule.probe);
    let status = |target: &str, state, reason: String| ProbeStatus {
        probe: probe.to_string(),
        target: target.to_string(),
        file: file.shown_path.clone(),
        state,
        flavour: flavour.name().to_string(),
        since_ns: now_ns,
        reason,
    };
    let targets = match find_targets(rules, file) {
        // Some builds of it contain the collective library, most do not.
        Ok(targets) if targets.is_empty() && may_be_without(&file.file_name()) => return attached,
        Ok(targets) if targets.is_empty() => {
            attached.statuses.push(status(
                "*",
                ProbeState::Refused,
                "it exports none of the probed functions".into(),
            ));
            return attached;
        }
        Ok(targets) => targets,
        Err(reason) => {
            attached.statuses.push(status("*", ProbeState::Refused, reason));
            return attached;
        }
    };
    let done = |target: &Target| match target.emulated {
        true => status(target.rule.function.symbol, ProbeState::Attached, String::new()),
        false => status(
            target.rule.function.symbol,
            ProbeState::Degraded,
            "its first instructions must be single-stepped, which makes a trap several times dearer".into(),
        ),
    };
    let exported: HashSet<&str> = targets.iter().map(|target| target.rule.function.symbol).collect();
    attached.statuses.extend(
        rules
            .iter()
            .map(|rule| rule.function.symbol)
            .filter(|symbol| !exported.contains(symbol))
            .map(|symbol| status(symbol, ProbeState::Absent, "this version does not export it".into())),
    );
    for (class, targets) in by_class(targets) {
        let mut group = Group { links: Vec::new(), targets, class, file: file.clone(), number };
        match attach_group(object, &group, flavour) {
            Ok(links) => {
                group.links = links;
                attached.statuses.extend(group.targets.iter().map(done));
                attached.groups.push(group);
            }
            Err(reason) => attached.statuses.extend(
                group
                    .targets
                    .iter()
                    .map(|target| status(target.rule.function.symbol, ProbeState::Refused, reason.clone())),
            ),
        }
    }
    attached
}

fn by_class(targets: Vec<Target>) -> BTreeMap<Option<CallClass>, Vec<Target>> {
    let mut groups: BTreeMap<Option<CallClass>, Vec<Target>> = BTreeMap::new();
    for target in targets {
        groups.entry(target.rule.function.class()).or_default().push(target);
    }
    groups
}

pub(super) fn attach_group(object: &Object, group: &Group, flavour: Flavour) -> Result<Vec<Link>, String> {
    match flavour {
        Flavour::Session | Flavour::Multi => attach_multi(object, group, flavour),
        Flavour::Single => group
            .targets
            .iter()
            .map(|target| attach_single(object, target, group))
            .collect::<Result<Vec<_>, _>>()
            .map(|links| links.into_iter().flatten().collect()),
    }
}

fn attach_multi(object: &Object, group: &Group, flavour: Flavour) -> Result<Vec<Link>, String> {
    let opts = |retprobe| UprobeMultiOpts {
        offsets: group.targets.iter().map(|target| target.file_offset).collect(),
        cookies: group.targets.iter().map(|target| target.rule.cookie(group.number)).collect(),
        retprobe,
        session: flavour == Flavour::Session,
        ..UprobeMultiOpts::default()
    };
    let programs: &[(&str, bool)] = match flavour {
        Flavour::Session => &[("call_session", false)],
        // The return first: an entry without its return would leave calls in flight.
        _ => &[("call_multi_return", true), ("call_multi_enter", false)],
    };
    programs
        .iter()
        .map(|(name, retprobe)| {
            program(object, name)?
                .attach_uprobe_multi_with_opts(-1, group.file.file.path(), "", opts(*retprobe))
                .map_err(|error| message(&error))
        })
        .collect()
}

fn attach_single(object: &Object, target: &Target, group: &Group) -> Result<Vec<Link>, String> {
    [("call_single_return", true), ("call_single_enter", false)]
        .iter()
        .map(|(name, retprobe)| {
            let opts = UprobeOpts {
                cookie: target.rule.cookie(group.number),
                retprobe: *retprobe,
                ..UprobeOpts::default()
            };
            program(object, name)?
                .attach_uprobe_with_opts(-1, group.file.file.path(), target.file_offset, opts)
                .map_err(|error| message(&error))
        })
        .collect()
}

pub(super) fn program<'a>(object: &'a Object, name: &str) -> Result<ProgramMut<'a>, String> {
    object.progs_mut().find(|program| program.name() == name).ok_or_else(|| format!("no program {name}"))
}

/// libbpf's error chain in one line.
pub(super) fn message(error: &libbpf_rs::Error) -> String {
    format!("{error:#}").replace('\n', "; ")
}

fn find_targets(rules: &[Rule], file: &LibraryFile) -> Result<Vec<Target>, String> {
    let read = || {
        if file.pid.is_some_and(|pid| !is_trusted(pid)) {
            return Err("its process or its file system does not answer".to_string());
        }
        let (opened, library) = (file.file.clone(), file.library);
        gpuwhy_confine::parse(move || Sites::read(&opened, library)).unwrap_or_else(|| {
            file.pid.inspect(|pid| distrust(*pid));
            Err("reading it failed, or did not end".to_string())
        })
    };
    let sites = match &file.sites {
        Some(sites) => Arc::clone(sites),
        None => Arc::new(read()?),
    };
    let mut seen = HashSet::new();
    Ok(rules
        .iter()
        .filter_map(|rule| {
            let (file_offset, emulated) = sites.site(rule.function.symbol)?;
            // Two names of one function get one probe.
            seen.insert(file_offset).then_some(Target { rule: *rule, file_offset, emulated })
        })
        .collect())
}

/// Where in the file the probe of one function goes.
pub(super) fn site_in_file(file: &TargetFile, symbol: &str) -> Result<usize, String> {
    Sites::of_symbols(file, &[Table::Dynamic], &[symbol])?
        .site(symbol)
        .map(|(offset, _)| offset)
        .ok_or_else(|| format!("it does not export {symbol}"))
}
