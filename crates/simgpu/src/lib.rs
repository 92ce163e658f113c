//! Stand-in libcuda, libcudart, libnccl, libnvidia-ml, libamdhip64 and libibverbs with the real names and the real ABI, and
//! workloads on them that print exactly what they did. They are embedded as files: [`unpack`] writes a folder that works as
//! it is.
//!
//! The libraries are for the demo and for tests without a GPU. Faults are injected by environment variables
//! (`SIMGPU_<FIELD>`) or, into a running process, through a control page (`SIMGPU_CONTROL=FILE` and [`set_control`], or
//! `simwork ctl FILE`); `simwork ctl --help` lists the fields.

use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

/// An embedded file.
#[derive(Debug, Clone, Copy)]
pub struct File {
    pub name: &'static str,
    pub bytes: &'static [u8],
    pub executable: bool,
}

/// The workload program. It is linked to libcudart.so.12.
pub const WORKLOAD: &str = "simwork";

/// The same program, linked to libcudart.so.13.
pub const WORKLOAD_CUDA_13: &str = "simwork13";

/// The same program with the CUDA runtime 12 linked into it: it has none of the runtime's symbols, only libcuda's.
pub const WORKLOAD_STATIC: &str = "simwork-static";

/// The workload in Python (3.9 or newer), through ctypes.
pub const WORKLOAD_PYTHON: &str = "simwork.py";

/// One rank of a training, in Python.
pub const RANK_PYTHON: &str = "simrank.py";

macro_rules! built {
    ($name:literal, $executable:literal) => {
        File {
            name: $name,
            bytes: include_bytes!(concat!(env!("OUT_DIR"), "/", $name)),
            executable: $executable,
        }
    };
}

/// All files, which belong into one folder.
pub static FILES: &[File] = &[
    built!("libcuda.so.1", false),
    built!("libcudart.so.12", false),
    built!("libcudart.so.13", false),
    built!("libnccl.so.2", false),
    built!("libamdhip64.so.6", false),
    built!("libnvidia-ml.so.1", false),
    built!("libibverbs.so.1", false),
    built!("simwork", true),
    built!("simwork13", true),
    built!("simwork-static", true),
    File { name: WORKLOAD_PYTHON, bytes: include_bytes!("../c/simwork.py"), executable: true },
    File { name: RANK_PYTHON, bytes: include_bytes!("../c/simrank.py"), executable: true },
];

/// Writes all files into `dir`, which is created when missing. Each is put in place by a rename, so that several processes
/// may unpack into one folder, even while programs there run. A process with several threads unpacks before it starts
/// children: one forked in the middle holds a program open for writing until it execs, and that program cannot be run.
pub fn unpack(dir: &Path) -> io::Result<()> {
    static UNPACKED: AtomicU64 = AtomicU64::new(0);
    fs::create_dir_all(dir)?;
    let turn = UNPACKED.fetch_add(1, Ordering::Relaxed);
    for file in FILES {
        let unfinished = dir.join(format!(".{}.{}.{turn}", file.name, process::id()));
        fs::write(&unfinished, file.bytes)?;
        fs::set_permissions(&unfinished, fs::Permissions::from_mode(0o755))?;
        fs::rename(&unfinished, dir.join(file.name))?;
    }
    Ok(())
}

/// Bytes of a field in the control page: a name, filled up with zeros, and a value.
const FIELD_BYTES: usize = 32;
const NAME_BYTES: usize = 24;

/// Sets a field of a control page that a process (or `simwork ctl`) has created. Zero gives the default back.
pub fn set_control(page: &Path, name: &str, value: u64) -> io::Result<()> {
    let fields = fs::read(page)?;
    let at = fields
        .chunks_exact(FIELD_BYTES)
        .position(|field| {
            let end = field[..NAME_BYTES].iter().position(|byte| *byte == 0).unwrap_or(NAME_BYTES);
            &field[..end] == name.as_bytes()
        })
        .ok_or_else(|| {
            let problem = format!("the control page {} has no field \"{name}\"", page.display());
            io::Error::new(io::ErrorKind::NotFound, problem)
        })?;
    let offset = (at * FIELD_BYTES + NAME_BYTES) as u64;
    fs::OpenOptions::new().write(true).open(page)?.write_all_at(&value.to_ne_bytes(), offset)
}
