//! `gpuwhy check`: is this host ready? Each failing line carries its fix.

use super::selftest::SelfTest;
use crate::cli::CheckOptions;
use crate::failure::Failure;
use gpuwhy_host::pids;
use gpuwhy_probes::{Features, Flavour, Library, MappingWatch};
use gpuwhy_proc::MappedFile;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};

/// One line of the answer.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Check {
    /// What was looked at.
    name: &'static str,
    ok: bool,
    /// Tracing cannot work without it.
    needed: bool,
    found: String,
    /// What to do; empty where all is well.
    fix: String,
}

/// As `check --json` prints it.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct CheckReport {
    /// Tracing works here, and so did the self-test where there was one.
    ok: bool,
    checks: Vec<Check>,
    /// Every probe on the simulated GPU libraries; null unless it was asked for and tracing can work.
    selftest: Option<SelfTest>,
}

impl Check {
    fn good(name: &'static str, found: impl Into<String>) -> Check {
        Check { name, ok: true, needed: false, found: found.into(), fix: String::new() }
    }

    fn bad(name: &'static str, needed: bool, found: impl Into<String>, fix: impl Into<String>) -> Check {
        Check { name, ok: false, needed, found: found.into(), fix: fix.into() }
    }
}

pub(crate) fn run(options: &CheckOptions) -> Result<(), Failure> {
    let features = Features::probe();
    let checks = vec![
        kernel(),
        btf(&features),
        privileges(&features),
        probes(&features),
        mappings(),
        hazards(),
        gpu_driver(),
        gpu_libraries(),
        python(),
    ];
    let can_trace = checks.iter().all(|check| check.ok || !check.needed);
    let selftest = (options.selftest && can_trace).then(SelfTest::run).transpose()?;
    let selftest_passed = selftest.as_ref().is_none_or(SelfTest::passed);
    let report = CheckReport { ok: can_trace && selftest_passed, checks, selftest };
    if options.json {
        writeln!(io::stdout(), "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        print(&report.checks, report.selftest.as_ref(), &mut io::stdout().lock())?;
    }
    if !can_trace {
        return Err(Failure::Failed("this host cannot trace yet; the lines marked NO say what to do".into()));
    }
    if !selftest_passed {
        return Err(Failure::Failed(
            "some probes did not fire as often as their function was called; they are marked WRONG above"
                .into(),
        ));
    }
    Ok(())
}

fn print(checks: &[Check], selftest: Option<&SelfTest>, out: &mut impl Write) -> io::Result<()> {
    let colour = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let mark = |check: &Check| match (check.ok, check.needed, colour) {
        (true, _, true) => "\x1b[32m ok \x1b[0m",
        (true, _, false) => " ok ",
        (false, true, true) => "\x1b[31m NO \x1b[0m",
        (false, true, false) => " NO ",
        (false, false, true) => "\x1b[33m -- \x1b[0m",
        (false, false, false) => " -- ",
    };
    for check in checks {
        writeln!(out, "{} {:<16} {}", mark(check), check.name, check.found)?;
        if !check.fix.is_empty() {
            writeln!(out, "     {:<16} fix: {}", "", check.fix)?;
        }
    }
    if let Some(test) = selftest {
        test.print(out)?;
    }
    Ok(())
}

fn kernel() -> Check {
    let release = gpuwhy_host::kernel_release();
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= (5, 15) {
        Check::good("kernel", format!("Linux {release}"))
    } else {
        Check::bad(
            "kernel",
            true,
            format!("Linux {release}"),
            "use 5.15 or newer: older ones lack attach cookies",
        )
    }
}

fn btf(features: &Features) -> Check {
    if features.btf {
        Check::good("BTF", "/sys/kernel/btf/vmlinux")
    } else {
        Check::bad(
            "BTF",
            true,
            "/sys/kernel/btf/vmlinux is missing",
            "use a kernel built with CONFIG_DEBUG_INFO_BTF=y (all current distributions)",
        )
    }
}

fn privileges(features: &Features) -> Check {
    let root = rustix::process::geteuid().is_root();
    match (root, features.best()) {
        (true, _) => Check::good("privileges", "root"),
        (false, Ok(_)) => Check::good("privileges", "not root, but eBPF is allowed"),
        (false, Err(_)) => Check::bad(
            "privileges",
            true,
            "not root",
            "run with sudo, or with CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN",
        ),
    }
}

fn probes(features: &Features) -> Check {
    let works: Vec<&str> = features
        .uprobes
        .iter()
        .filter(|(_, result)| result.is_ok())
        .map(|(flavour, _)| flavour.name())
        .collect();
    match features.best() {
        Ok(best) => {
            let all = works.join(", ");
            let better = if best == Flavour::Session {
                ""
            } else {
                "; 6.13 or newer has session probes, which cost less"
            };
            Check::good("uprobes", format!("{all}; {} will be used{better}", best.name()))
        }
        Err(reason) => Check::bad(
            "uprobes",
            true,
            format!("none can be attached: {reason}"),
            "run as root outside a restricted container (docker: --privileged --pid=host)",
        ),
    }
}

fn mappings() -> Check {
    match MappingWatch::open() {
        Ok(_) => Check::good("new libraries", "seen as soon as a process maps them"),
        Err(error) => Check::bad(
            "new libraries",
            false,
            format!("perf events are not available ({error}); libraries mapped later are not seen"),
            "allow perf_event_open: sysctl kernel.perf_event_paranoid=1, or CAP_PERFMON",
        ),
    }
}

/// Kernels and settings known to hurt.
fn hazards() -> Check {
    // The number of the first namespace is fixed (PROC_PID_INIT_INO).
    let own =
        std::fs::read_link("/proc/self/ns/pid").map(|link| link.display().to_string()).unwrap_or_default();
    if !own.is_empty() && own != "pid:[4026531836]" {
        return Check::bad(
            "kernel hazards",
            true,
            "gpuwhy runs in a PID namespace of its own, but the kernel tells the host's process numbers",
            "run it on the host, or in a container with the host's PID namespace (docker: --pid=host)",
        );
    }
    let paranoid = std::fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    if paranoid.contains("[confidentiality]") {
        return Check::bad(
            "kernel hazards",
            true,
            "kernel lockdown is in confidentiality mode, which forbids reading user memory from eBPF",
            "boot with lockdown=integrity or without secure boot's lockdown",
        );
    }
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let known = gpuwhy_probes::hazards(cpus);
    if let Some(hazard) = known.iter().find(|hazard| hazard.refused) {
        return Check::bad("kernel hazards", true, hazard.about, hazard.guard);
    }
    let guarded: Vec<String> =
        known.iter().map(|hazard| format!("{}: {}", hazard.about, hazard.guard)).collect();
    match guarded.is_empty() {
        true => Check::good("kernel hazards", "none known"),
        false => Check::good("kernel hazards", format!("guarded against. {}", guarded.join(". "))),
    }
}

fn gpu_driver() -> Check {
    match gpuwhy_host::driver_version() {
        Some(version) => {
            Check::good("GPUs", format!("{}; NVIDIA driver {version}", gpuwhy_host::gpus().join(", ")))
        }
        None => Check::bad(
            "GPUs",
            false,
            "no NVIDIA driver is loaded",
            "none needed for `gpuwhy demo` and for reading traces",
        ),
    }
}

fn python() -> Check {
    let found: Vec<String> = gpuwhy_host::python_processes()
        .iter()
        .map(|(version, pids)| format!("{version} in {} processes", pids.len()))
        .collect();
    if found.is_empty() {
        Check::good("Python", "none is running")
    } else {
        Check::good("Python", found.join(", "))
    }
}

fn gpu_libraries() -> Check {
    let mut by_file: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for pid in pids() {
        for file in MappedFile::of_process(pid, |name| Library::of_file_name(name).is_some()) {
            by_file.entry(file.path).or_default().push(pid);
        }
    }
    if by_file.is_empty() {
        return Check::bad(
            "GPU processes",
            false,
            "no running process maps libcuda or libcudart",
            "start the workload; `gpuwhy trace` picks it up whenever it appears",
        );
    }
    let found: Vec<String> = by_file
        .iter()
        .map(|(path, pids)| {
            format!("{path} in {}", pids.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
        })
        .collect();
    Check::good("GPU processes", found.join("; "))
}
