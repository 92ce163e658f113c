//! `gpuwhy check --selftest`: every probe on the simulated libraries, and whether it fired as often as its function was called.

use crate::failure::Failure;
use gpuwhy_agent::{Agent, CommandOutput, Config};
use gpuwhy_model::units::{count, duration};
use gpuwhy_model::{Layer, OpInfo, Role};
use gpuwhy_probes::{Device, Flavour, PROBES, ProgramClock, ProgramStats, op_of_symbol, trap_cost};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Each calls every probed function of its library.
const WORKLOADS: [&str; 4] = ["mixed", "hip-mixed", "nccl-mixed --linger-ms 1", "ibverbs --events 2"];
/// What calls of it are named.
const DEVICE_OP: &str = "ioctl device";
/// Stands in for the driver's device files; every host has it.
const DEVICE: &str = "/dev/ptmx";
const IOCTLS: u64 = 20;

/// What a workload says it did, by symbol.
#[derive(Debug, Deserialize)]
struct Truth {
    ops: BTreeMap<String, u64>,
}

/// How often the workloads called one operation, and how often its probe fired.
#[derive(Debug, Serialize, JsonSchema)]
struct Fired {
    op: String,
    called: u64,
    seen: u64,
}

/// A BPF program: what the kernel made of it, and how often it ran.
#[derive(Debug, Serialize, JsonSchema)]
struct Program {
    probe: &'static str,
    program: String,
    instructions: u32,
    verified_insns: u32,
    jited_bytes: u32,
    runs: u64,
}

impl From<ProgramStats> for Program {
    fn from(stats: ProgramStats) -> Self {
        Program {
            probe: stats.probe,
            program: stats.program,
            instructions: stats.instructions,
            verified_insns: stats.verified,
            jited_bytes: stats.machine_bytes,
            runs: stats.runs,
        }
    }
}

/// Every probe on the simulated GPU libraries.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SelfTest {
    /// By operation: how often the workloads called it, and how often its probe fired.
    operations: Vec<Fired>,
    programs: Vec<Program>,
    /// By probe.
    load_ms: BTreeMap<&'static str, f64>,
    /// What an empty probe pair costs here, by kind of probe.
    trap_ns: BTreeMap<&'static str, f64>,
    /// Records that were lost.
    lost: u64,
}

impl SelfTest {
    /// Runs every operation of the simulated libraries under the probes.
    pub(super) fn run() -> Result<SelfTest, Failure> {
        let folder = tempfile::Builder::new()
            .prefix("gpuwhy-selftest-")
            .tempdir()
            .map_err(|error| Failure::no_folder(&error))?;
        gpuwhy_simgpu::unpack(folder.path())?;
        let truth = folder.path().join("truth.json");
        let mut config = Config::new(folder.path().join("selftest.db"));
        config.budget = None;
        config.probes = PROBES.to_vec();
        config.devices = device().into_iter().collect();
        config.command_output = CommandOutput::File(truth.clone());
        config.keep_all = true;
        config.command = Some(command(folder.path()));
        // Where the kernel does not count runs they stay 0: the operations decide.
        let clock = ProgramClock::start();
        let summary = Agent::spawn(config)?.finish()?;
        drop(clock);
        let by_op = summary.last.tallies.by_op();
        let called = called(&std::fs::read_to_string(truth)?)?;
        let fired = |op: &OpInfo| {
            let called = called.get(&op.name).copied().unwrap_or(0);
            let seen = by_op.get(&op.id).map_or(0, |tally| tally.count);
            (called > 0 || seen > 0).then(|| Fired { op: op.name.clone(), called, seen })
        };
        Ok(SelfTest {
            operations: summary.ops.iter().filter(|op| is_compared(op)).filter_map(fired).collect(),
            programs: summary.programs.into_iter().map(Program::from).collect(),
            load_ms: summary
                .load_times
                .into_iter()
                .map(|(probe, time)| (probe, time.as_secs_f64() * 1e3))
                .collect(),
            trap_ns: Flavour::LADDER
                .iter()
                .filter_map(|flavour| Some((flavour.name(), trap_cost(*flavour).ok()?.ns)))
                .collect(),
            lost: summary.last.coverage.lost,
        })
    }

    pub(super) fn passed(&self) -> bool {
        !self.operations.is_empty() && self.operations.iter().all(|op| op.called == op.seen)
    }

    pub(super) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "\nself-test on the simulated libraries: {} operations", self.operations.len())?;
        for op in &self.operations {
            let verdict = if op.called == op.seen { "" } else { "  WRONG" };
            let (called, seen) = (count(op.called), count(op.seen));
            writeln!(out, "  {:<32} called {called:>6}, seen {seen:>6}{verdict}", op.op)?;
        }
        writeln!(out, "what a probed call costs here (empty entry and return):")?;
        for (kind, ns) in &self.trap_ns {
            writeln!(out, "  {kind:<10} {}", duration(*ns as u64))?;
        }
        Ok(())
    }
}

/// Of some only the entry is seen, and contexts the runtime makes on its own.
fn is_compared(op: &OpInfo) -> bool {
    // On a host with a GPU others are in its driver, too: only the stand-in's device is the test's alone.
    let is_others = op.layer == Layer::Driver && op.name != DEVICE_OP;
    !is_others && !matches!(op.role, Role::SetDevice | Role::Register | Role::ContextCreate)
}

fn device() -> Option<Device> {
    let rdev = std::fs::metadata(DEVICE).ok()?.rdev();
    let (major, minor) = (rustix::fs::major(rdev), rustix::fs::minor(rdev));
    Some(Device { name: "device".into(), major, minor: Some(minor) })
}

/// All workloads, one after the other.
fn command(folder: &Path) -> Vec<OsString> {
    let program = folder.join(gpuwhy_simgpu::WORKLOAD);
    let mut script: Vec<String> =
        WORKLOADS.iter().map(|words| format!("'{}' {words}", program.display())).collect();
    script.push(format!("'{}' ioctl --device {DEVICE} --count {IOCTLS}", program.display()));
    // The libraries lie beside the program: the environment tells where before anything is started.
    let libraries = format!("LD_LIBRARY_PATH={}", folder.display());
    ["env", &libraries, "sh", "-c", &script.join(" && ")].map(OsString::from).to_vec()
}

/// Calls by operation, of all workloads.
fn called(truths: &str) -> Result<BTreeMap<String, u64>, Failure> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for line in truths.lines().filter(|line| line.starts_with('{')) {
        let truth: Truth = serde_json::from_str(line)?;
        for (symbol, calls) in truth.ops {
            *sums.entry(op_of_symbol(&symbol).to_string()).or_default() += calls;
        }
    }
    if device().is_some() {
        sums.insert(DEVICE_OP.into(), IOCTLS);
    }
    Ok(sums)
}
