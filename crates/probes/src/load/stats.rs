//! Run counts and times of loaded programs, which the kernel keeps while somebody asks it to.

use libbpf_rs::Object;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// A loaded program: what it cost to load, and how often it ran.
#[derive(Debug, Clone)]
pub struct ProgramStats {
    pub probe: &'static str,
    pub program: String,
    /// Runs and their time are only counted while [`ProgramClock`] lives.
    pub runs: u64,
    pub run_ns: u64,
    /// As the kernel rewrote it.
    pub instructions: u32,
    /// Instructions the verifier went through, of a million it may; 0 where the kernel does not tell (before 5.16).
    pub verified: u32,
    /// Machine code made of it; 0 where it is interpreted.
    pub machine_bytes: u32,
}

const INSTRUCTION_BYTES: u32 = 8;

/// Makes the kernel time every BPF program while it lives; costs each run two clock readings.
#[derive(Debug)]
pub struct ProgramClock {
    _fd: OwnedFd,
}

impl ProgramClock {
    pub fn start() -> io::Result<ProgramClock> {
        // SAFETY: no pointers; a descriptor that comes back is ours.
        let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
        if fd < 0 {
            return Err(io::Error::from_raw_os_error(-fd));
        }
        // SAFETY: just opened, owned by nobody else.
        Ok(ProgramClock { _fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }
}

/// Numbers of the programs of this name that the kernel holds, whoever loaded them; a probe that was left behind is one.
pub fn programs_loaded(name: &str) -> Vec<u32> {
    libbpf_rs::query::ProgInfoIter::default()
        .filter(|program| program.name.to_string_lossy() == name)
        .map(|program| program.id)
        .collect()
}

pub(crate) fn of_object(probe: &'static str, object: &Object) -> Vec<ProgramStats> {
    object
        .progs()
        .filter_map(|program| {
            let info = program_info(&program)?;
            Some(ProgramStats {
                probe,
                program: program.name().to_string_lossy().into_owned(),
                runs: info.run_cnt,
                run_ns: info.run_time_ns,
                instructions: info.xlated_prog_len / INSTRUCTION_BYTES,
                verified: info.verified_insns,
                machine_bytes: info.jited_prog_len,
            })
        })
        .collect()
}

/// Nothing for programs that are not loaded.
fn program_info(program: &libbpf_rs::Program<'_>) -> Option<libbpf_sys::bpf_prog_info> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut size = size_of_val(&info) as u32;
    // SAFETY: the kernel writes at most `size` bytes into `info`, and refuses a descriptor that is no program's.
    let ret = unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(program.as_fd().as_raw_fd(), (&raw mut info).cast(), &raw mut size)
    };
    (ret == 0).then_some(info)
}
