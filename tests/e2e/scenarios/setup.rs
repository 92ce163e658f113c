//! What is run for a scenario: a workload, and the fault that its twin is spared.

use super::Program;
use super::draw::Draw;
use crate::cgroup::Cgroup;
use crate::support::{Ended, Gated, Trace, gpuwhy, sim, simwork, truth, wait_until};
use std::path::Path;
use std::process::Command;

/// One set of parameters of a scenario.
#[derive(Default)]
pub(super) struct Setup {
    /// The workload in Python, not the one in C.
    pub(super) python: bool,
    pub(super) words: Vec<String>,
    pub(super) env: Vec<(&'static str, String)>,
    /// Options of `gpuwhy trace`.
    pub(super) flags: Vec<String>,
    /// The workload tells the GPU's counter how busy it keeps the GPU.
    pub(super) counted: bool,
    /// Not on the first CPU only, which the tracer leaves alone.
    pub(super) anywhere: bool,
    /// That the workload reads.
    pub(super) _file: Option<DataFile>,
    /// Some scenarios need more than one process and its neighbours.
    pub(super) stage: Option<Stage>,
    pub(super) fault: Fault,
}

/// A file in a folder of its own, on the disk and not only in the cache.
pub(super) struct DataFile(pub(super) tempfile::TempDir);

impl DataFile {
    pub(super) fn path(&self) -> String {
        self.0.path().join("data").display().to_string()
    }
}

/// What the twin lacks. Words given again count in place of the earlier ones.
#[derive(Default)]
pub(super) struct Fault {
    pub(super) words: Vec<String>,
    pub(super) env: Vec<(&'static str, String)>,
    pub(super) neighbours: Vec<Neighbour>,
    pub(super) limit: Option<Limit>,
    /// The culprit where it is neither a neighbour nor a rank.
    pub(super) culprit: Option<Who>,
    /// Where there are two faults: their classes, the greater first.
    pub(super) order: Vec<&'static str>,
}

/// Another process, which does not end by itself.
pub(super) struct Neighbour {
    pub(super) words: Vec<String>,
    /// Lower in priority than the workload by so many steps.
    pub(super) nice: u64,
}

/// A file of a cgroup that the workload is put in, with its names and values in both versions.
pub(super) struct Limit {
    pub(super) controller: &'static str,
    pub(super) version_1: Vec<(&'static str, String)>,
    pub(super) version_2: Vec<(&'static str, String)>,
}

/// How a scenario is played where one process is not enough; the second argument says whether with the fault.
pub(super) type Stage = Box<dyn Fn(&Setup, bool) -> Result<Played, String>>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Who {
    Pid(u32),
    Comm(String),
    Rank(i32),
    /// The workload itself.
    Own,
}

/// A trace, and who is who in it.
pub(super) struct Played {
    pub(super) trace: Trace,
    pub(super) victims: Vec<u32>,
    /// Processes that work for them, and the one that traces them.
    pub(super) helpers: Vec<u32>,
    pub(super) culprits: Vec<Who>,
    pub(super) order: Vec<&'static str>,
}

pub(super) fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(String::from).collect()
}

/// A training loop on either program.
pub(super) fn train(program: Program, seconds: u64, launches: u64, kernel_us: u64) -> Vec<String> {
    let command = match program {
        Program::Own => "train",
        Program::Torch => "torch",
    };
    let mut words = words(&format!(
        "{command} --steps 0 --seconds {seconds} --launches-per-step {launches} --kernel-us {kernel_us}"
    ));
    if program == Program::Torch {
        // Steps of real programs take two milliseconds and more.
        words.extend(["--dispatch-us".into(), (2_000 / launches).max(15).to_string()]);
    }
    words
}

/// So many launches a step has at least: each pass of PyTorch's has some.
pub(super) fn least_launches(program: Program) -> u64 {
    match program {
        Program::Own => 1,
        Program::Torch => 12,
    }
}

/// How many launches a step has: PyTorch's have more than loops that are made to be simple.
pub(super) fn launches(draw: &mut Draw, program: Program, least: u64, most: u64) -> u64 {
    match program {
        Program::Own => draw.between(least, most),
        Program::Torch => draw.between(least.max(least_launches(program)), 4 * most),
    }
}

pub(super) fn hog(cpu: u64, name: &str, nice: u64) -> Neighbour {
    // It ends by itself where the test cannot end it.
    Neighbour { words: words(&format!("hog --cpu {cpu} --name {name} --seconds 60")), nice }
}

/// As `taskset` reads it: the test itself may not run on all of them.
fn all_cpus() -> String {
    std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap().trim().to_string()
}

impl Neighbour {
    fn start(&self) -> Gated {
        let (nice, program) = (self.nice.to_string(), simwork());
        let mut all = vec!["-n", &nice, program.to_str().unwrap()];
        all.extend(self.words.iter().map(String::as_str));
        let gated = Gated::start(Path::new("nice"), &all);
        gated.open();
        gated
    }
}

impl Limit {
    fn set(&self) -> Result<Cgroup, String> {
        let cgroup = Cgroup::with(self.controller)
            .ok_or_else(|| format!("no cgroup could be made that limits {}", self.controller))?;
        for (file, value) in if cgroup.unified { &self.version_2 } else { &self.version_1 } {
            cgroup.set((file, value), (file, value));
        }
        Ok(cgroup)
    }
}

impl Setup {
    pub(super) fn play(&self, faulty: bool) -> Result<Played, String> {
        match &self.stage {
            Some(stage) => stage(self, faulty),
            None => self.play_alone(faulty),
        }
    }

    pub(super) fn file(bytes: u64) -> DataFile {
        let file = DataFile(tempfile::tempdir().unwrap());
        std::fs::write(file.path(), vec![b'x'; bytes as usize]).unwrap();
        assert!(Command::new("sync").arg(file.path()).status().unwrap().success(), "the file is on the disk");
        file
    }

    /// What was run, for the list of misses.
    pub(super) fn in_short(&self) -> String {
        let env = self.all_env(true);
        let env: Vec<String> = env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let neighbours =
            self.fault.neighbours.iter().map(|neighbour| format!(", {}", neighbour.words.join(" ")));
        let limit = self
            .fault
            .limit
            .iter()
            .flat_map(|limit| &limit.version_2)
            .map(|(file, value)| format!(", {file}={value}"));
        let words: Vec<String> = env.into_iter().chain(self.all_words(true)).collect();
        words.join(" ") + &neighbours.chain(limit).collect::<String>()
    }

    pub(super) fn all_words(&self, faulty: bool) -> Vec<String> {
        let fault = if faulty { &self.fault.words[..] } else { &[] };
        self.words.iter().chain(fault).cloned().collect()
    }

    pub(super) fn all_env(&self, faulty: bool) -> Vec<(&'static str, String)> {
        let fault = if faulty { &self.fault.env[..] } else { &[] };
        self.env.iter().chain(fault).cloned().collect()
    }

    /// The workload is traced from its start, and held at its gate until the fault is there.
    fn play_alone(&self, faulty: bool) -> Result<Played, String> {
        let limit = self.fault.limit.as_ref().filter(|_| faulty).map(Limit::set).transpose()?;
        let trace = Trace::new();
        let gate = trace.folder.path().join("gate");
        let program = match self.python {
            true => sim().join(gpuwhy_simgpu::WORKLOAD_PYTHON),
            false => simwork(),
        };
        let mut command = gpuwhy();
        command.args(["trace", "--out"]).arg(trace.file()).args(&self.flags).args(["--", "taskset", "-c"]);
        command.arg(if self.anywhere { all_cpus() } else { "0".into() });
        command.arg(program).args(self.all_words(faulty)).arg("--start-file").arg(&gate);
        let message = trace.folder.path().join("said");
        command.envs(self.all_env(faulty)).stdout(std::fs::File::create(&message).unwrap());
        if self.counted {
            command.env("LD_LIBRARY_PATH", sim()).env("SIMGPU_CONTROL", trace.folder.path().join("gpu"));
        }
        let mut tracing = Ended(command.spawn().unwrap());
        let ready = trace.folder.path().join("gate.ready");
        wait_until("the workload is ready", || ready.exists());
        let pid: u32 = std::fs::read_to_string(ready).unwrap().trim().parse().unwrap();
        if let Some(cgroup) = &limit {
            cgroup.enter(pid);
        }
        let neighbours = if faulty { &self.fault.neighbours[..] } else { &[] };
        let neighbours: Vec<Gated> = neighbours.iter().map(Neighbour::start).collect();
        std::fs::write(&gate, "").unwrap();
        assert!(tracing.0.wait().unwrap().success(), "the workload and its trace end well");
        let named = self.fault.culprit.clone().filter(|_| faulty);
        let culprits = neighbours.iter().map(|neighbour| Who::Pid(neighbour.pid())).chain(named).collect();
        let truth = truth(&std::fs::read_to_string(message).unwrap());
        let workers = truth["children"]["pids"].as_array().into_iter().flatten();
        let workers = workers.filter_map(|pid| u32::try_from(pid.as_u64()?).ok());
        let helpers = workers.chain([tracing.0.id()]).collect();
        Ok(Played { trace, victims: vec![pid], helpers, culprits, order: self.fault.order.clone() })
    }
}
