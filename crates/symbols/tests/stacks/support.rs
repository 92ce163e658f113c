//! Programs that stop themselves, and what the kernel would have copied of them.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use gpuwhy_symbols::{Frame, Limits, Registers, Symbols, Unwound};
use gpuwhy_testkit::skip;
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

pub(crate) const COPIED: usize = 64 << 10;
pub(crate) const MAX_FRAMES: usize = 256;

pub(crate) fn has(test: &str, programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| {
        !Command::new(program)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    });
    if let Some(program) = missing {
        skip(test, &format!("there is no {program}"));
    }
    missing.is_none()
}

pub(crate) fn is_root(test: &str) -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        skip(test, "it needs root");
    }
    root
}

/// A folder with sources and what is built from them.
pub(crate) struct Workshop {
    pub(crate) folder: tempfile::TempDir,
}

impl Workshop {
    pub(crate) fn new() -> Workshop {
        Workshop { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a tool in the folder; `args` are apart by spaces.
    pub(crate) fn run(&self, tool: &str, args: &str) {
        let output =
            Command::new(tool).args(args.split_whitespace()).current_dir(&self.folder).output().unwrap();
        assert!(output.status.success(), "{tool} {args}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Compiles a source into `output`; libraries are found in the folder itself.
    pub(crate) fn compile(&self, source_name: &str, source: &str, output: &str, args: &str) {
        std::fs::write(self.path(source_name), source).unwrap();
        let compiler = if source_name.ends_with(".cpp") { "g++" } else { "gcc" };
        let folder = self.folder.path().display();
        self.run(compiler, &format!("{source_name} -o {output} {args} -L{folder} -Wl,-rpath,{folder}"));
    }
}

/// A program that has stopped itself.
pub(crate) struct Victim {
    child: Child,
}

impl Victim {
    pub(crate) fn start(command: &mut Command) -> Victim {
        let child = command.stdout(Stdio::null()).spawn().unwrap();
        let victim = Victim { child };
        let state = waitpid(victim.nix_pid(), Some(WaitPidFlag::WUNTRACED)).unwrap();
        assert!(
            matches!(state, nix::sys::wait::WaitStatus::Stopped(..)),
            "the victim did not stop: {state:?}"
        );
        victim
    }

    pub(crate) fn program(path: &Path) -> Victim {
        Victim::start(&mut Command::new(path))
    }

    /// A program that is to be waited for in another way.
    pub(crate) fn running(child: Child) -> Victim {
        Victim { child }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn nix_pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Lets it go on to where it stops itself again.
    pub(crate) fn go_on(&self) {
        nix::sys::signal::kill(self.nix_pid(), nix::sys::signal::SIGCONT).unwrap();
        waitpid(self.nix_pid(), Some(WaitPidFlag::WUNTRACED)).unwrap();
    }

    /// Its threads but the first.
    pub(crate) fn threads(&self) -> Vec<u32> {
        let folder = std::fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
        let ids = folder.map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap());
        ids.filter(|id| *id != self.pid()).collect()
    }

    /// Registers and stack at this moment.
    pub(crate) fn capture(&self) -> (Registers, Vec<u8>) {
        self.capture_thread(self.pid())
    }

    pub(crate) fn capture_thread(&self, thread: u32) -> (Registers, Vec<u8>) {
        let pid = Pid::from_raw(thread as i32);
        ptrace::attach(pid).unwrap();
        waitpid(pid, Some(WaitPidFlag::WUNTRACED | WaitPidFlag::__WALL)).unwrap();
        let registers = ptrace::getregs(pid).unwrap();
        let mut stack = vec![0; COPIED];
        let memory = std::fs::File::open(format!("/proc/{pid}/mem")).unwrap();
        let count = (0..=COPIED / 4096)
            .rev()
            .map(|pages| (pages * 4096).saturating_sub((registers.rsp % 4096) as usize))
            .find(|count| memory.read_exact_at(&mut stack[..*count], registers.rsp).is_ok())
            .unwrap();
        stack.truncate(count);
        ptrace::detach(pid, None).unwrap();
        (Registers { ip: registers.rip, sp: registers.rsp, bp: registers.rbp }, stack)
    }

    pub(crate) fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.end();
    }
}

pub(crate) fn symbols() -> Symbols {
    Symbols::new(Limits::default())
}

/// The whole stack and its frames.
pub(crate) fn stack_of(symbols: &mut Symbols, victim: &Victim) -> (Unwound, Vec<Frame>) {
    let (registers, stack) = victim.capture();
    symbols.see(victim.pid());
    let unwound = symbols.unwind(victim.pid(), registers, &stack, &[], MAX_FRAMES);
    let frames = symbols.frames(victim.pid(), &unwound.addresses).concat();
    (unwound, frames)
}

pub(crate) fn functions(frames: &[Frame]) -> Vec<&str> {
    frames.iter().map(|frame| frame.function.as_deref().unwrap_or("?")).collect()
}

/// That these functions are among the others, next to each other.
pub(crate) fn assert_chain(frames: &[Frame], chain: &[&str]) {
    let functions = functions(frames);
    assert!(functions.windows(chain.len()).any(|window| window == chain), "{chain:?} is not in {frames:#?}");
}
