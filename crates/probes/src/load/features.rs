//! What this kernel lets us do, found out by doing it: empty programs are loaded and attached to a function of this
//! very binary. The same function tells what a trap costs here.

use super::attach::{Flavour, message, program, site_in_file};
use super::object::{Opened, SharedMaps};
use super::stats::{self, ProgramStats};
use crate::raw::bpf_object;
use gpuwhy_proc::{Maps, TargetFile};
use libbpf_rs::{Link, UprobeMultiOpts, UprobeOpts};
use std::path::Path;
use std::time::Instant;

/// What works, and why the rest does not.
#[derive(Debug, Clone)]
pub struct Features {
    pub btf: bool,
    /// By flavour, best first.
    pub uprobes: Vec<(Flavour, Result<(), String>)>,
}

impl Features {
    /// Tries everything.
    pub fn probe() -> Self {
        Features {
            btf: Path::new("/sys/kernel/btf/vmlinux").exists(),
            uprobes: Flavour::LADDER.iter().map(|flavour| (*flavour, try_flavour(*flavour))).collect(),
        }
    }

    /// The best flavour that works, or why none does.
    pub fn best(&self) -> Result<Flavour, String> {
        let works = self.uprobes.iter().find(|(_, result)| result.is_ok()).map(|(flavour, _)| *flavour);
        let why = || self.uprobes.last().and_then(|(_, result)| result.clone().err()).unwrap_or_default();
        works.ok_or_else(why)
    }
}

/// The best flavour that works, those behind it, and what a trap of it costs; why, where none does. What lies behind is
/// not tried before it is needed: attaching and detaching a single probe takes the kernel most of a second.
pub(crate) fn ladder() -> Result<(Vec<Flavour>, TrapCost), String> {
    let mut why = String::new();
    for (place, flavour) in Flavour::LADDER.into_iter().enumerate() {
        match trap_cost_between_work(flavour) {
            Ok(cost) => return Ok((Flavour::LADDER[place..].to_vec(), cost)),
            Err(reason) => why = reason,
        }
    }
    Err(why)
}

/// Whether a program can learn which function it was attached to, on which all probes on functions rely (5.15).
pub(super) fn has_cookies() -> bool {
    // SAFETY: libbpf loads a program that calls the helper, and unloads it; no options are allowed besides null.
    let found = unsafe {
        libbpf_sys::libbpf_probe_bpf_helper(
            libbpf_sys::BPF_PROG_TYPE_KPROBE,
            libbpf_sys::BPF_FUNC_get_attach_cookie,
            std::ptr::null(),
        )
    };
    found == 1
}

fn try_flavour(flavour: Flavour) -> Result<(), String> {
    EmptyProbe::on_own_function(flavour).map(|_| ())
}

/// Empty programs on a function, while it lives: the floor any probe's cost is measured against.
pub struct EmptyProbe {
    _links: Vec<Link>,
    object: libbpf_rs::Object,
}

impl std::fmt::Debug for EmptyProbe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmptyProbe").finish_non_exhaustive()
    }
}

impl EmptyProbe {
    /// On an exported function of a library, where gpuwhy's own probe would go.
    pub fn on_function(flavour: Flavour, library: &Path, symbol: &str) -> Result<Self, String> {
        let file = TargetFile::at(library).ok_or("it cannot be read")?;
        Self::attach(flavour, &file.path(), site_in_file(&file, symbol)?)
    }

    /// What its programs ran for, while a [`super::ProgramClock`] lives.
    pub fn stats(&self) -> Vec<ProgramStats> {
        stats::of_object("empty", &self.object)
    }

    fn on_own_function(flavour: Flavour) -> Result<Self, String> {
        let (path, offset) = own_site()?;
        Self::attach(flavour, path, offset)
    }

    fn attach(flavour: Flavour, path: &Path, offset: usize) -> Result<Self, String> {
        let names: &[(&str, bool)] = match flavour {
            Flavour::Session => &[("empty_session", false)],
            Flavour::Multi => &[("empty_multi_return", true), ("empty_multi_enter", false)],
            Flavour::Single => &[("empty_single_return", true), ("empty_single_enter", false)],
        };
        let mut opened = Opened::open("empty", bpf_object!("empty")).map_err(|error| error.reason())?;
        opened.keep_programs(|program| names.iter().any(|(name, _)| *name == program));
        let object = opened.load(&SharedMaps::default()).map_err(|error| error.reason())?;
        let links = names
            .iter()
            .map(|(name, retprobe)| {
                let program = program(&object, name)?;
                match flavour {
                    Flavour::Single => {
                        let opts = UprobeOpts { retprobe: *retprobe, ..UprobeOpts::default() };
                        program.attach_uprobe_with_opts(-1, path, offset, opts)
                    }
                    _ => {
                        let opts = UprobeMultiOpts {
                            offsets: vec![offset],
                            retprobe: *retprobe,
                            session: flavour == Flavour::Session,
                            ..UprobeMultiOpts::default()
                        };
                        program.attach_uprobe_multi_with_opts(-1, path, "", opts)
                    }
                }
                .map_err(|error| message(&error))
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(EmptyProbe { _links: links, object })
    }
}

/// A site in this program's own file, which nothing but measurements runs over.
pub(super) fn own_site() -> Result<(&'static Path, usize), String> {
    Ok((Path::new("/proc/self/exe"), own_file_offset(trap_site as *const () as usize)?))
}

/// What one call of an empty probe pair costs on this machine.
#[derive(Debug, Clone, Copy)]
pub struct TrapCost {
    pub flavour: Flavour,
    pub ns: f64,
}

/// Measures an empty entry and return, less the call itself: the least of several rounds, as noise only adds.
pub fn trap_cost(flavour: Flavour) -> Result<TrapCost, String> {
    const CALLS: u32 = 2_000;
    const ROUNDS: u32 = 5;
    let round = || {
        let start = Instant::now();
        for _ in 0..CALLS {
            trap_site();
        }
        start.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    let least = |times: u32| (0..times).map(|_| round()).fold(f64::INFINITY, f64::min);
    let untraced = least(ROUNDS);
    let _probe = EmptyProbe::on_own_function(flavour)?;
    Ok(TrapCost { flavour, ns: (least(ROUNDS) - untraced).max(0.0) })
}

/// The same between other work, as in a program that does something: each time the caches are full of other things.
pub(crate) fn trap_cost_between_work(flavour: Flavour) -> Result<TrapCost, String> {
    const CALLS: usize = 200;
    /// What a program touches between two calls: more than the first cache holds, less than all.
    const OTHER_BYTES: usize = 512 << 10;
    let mut other = vec![0u8; OTHER_BYTES];
    let mut median = || {
        let mut times: Vec<u128> = (0..CALLS)
            .map(|call| {
                std::hint::black_box(&mut other).fill(call as u8);
                let start = Instant::now();
                trap_site();
                start.elapsed().as_nanos()
            })
            .collect();
        times.sort_unstable();
        times[CALLS / 2] as f64
    };
    let untraced = median();
    let probe = EmptyProbe::on_own_function(flavour)?;
    let traced = median();
    // The kernel takes a while to be sure that no program runs any more; nobody has to wait for that.
    std::thread::spawn(move || drop(probe));
    Ok(TrapCost { flavour, ns: (traced - untraced).max(0.0) })
}

/// A function that begins like those of the GPU libraries.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
extern "C" fn trap_site() {
    std::arch::naked_asm!("push rbp", "pop rbp", "ret")
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(never)]
extern "C" fn trap_site() {
    std::hint::black_box(());
}

/// Where in this binary's file an address of this process lies.
fn own_file_offset(address: usize) -> Result<usize, String> {
    let maps = Maps::ours().map_err(|error| format!("/proc/self/maps: {error}"))?;
    let address = address as u64;
    maps.iter()
        .find(|mapping| mapping.contains(address))
        .map(|mapping| (address - mapping.start + mapping.offset) as usize)
        .ok_or_else(|| "this program's own code is not in its memory map".into())
}
