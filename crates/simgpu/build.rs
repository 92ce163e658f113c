//! Compiles the stand-in libraries and the workload program with clang.
//!
//! They come out as a folder of shared libraries that works wherever it lies: every library carries the name of the real
//! one and looks for the others beside itself.

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Entries of exported functions must begin with `push %rbp`, as those of the real libraries do, because tools probe
/// exactly there; and a call from the runtime into the driver must return into the runtime. So: frame pointers even in
/// leaves, no `endbr64`, no prologue moved past an early exit, no tail calls.
const CODE: &[&str] = &[
    "-O2",
    "-std=gnu11",
    "-Wall",
    "-Wextra",
    "-fno-omit-frame-pointer",
    "-mno-omit-leaf-frame-pointer",
    "-fno-optimize-sibling-calls",
    "-mllvm",
    "-enable-shrink-wrap=false",
];

/// Exported functions call each other through the PLT and are never inlined, because the real ones can be interposed.
const LIBRARY: &[&str] =
    &["-shared", "-fPIC", "-fvisibility=hidden", "-fsemantic-interposition", "-Wl,-z,nodelete"];

const PROGRAM: &[&str] = &["-Os", "-fno-inline-functions"];

/// A program exports its function names, which is all that a stripped file has for stacks; but one that has a library
/// linked into it hides them, as such programs do.
const EXPORTS: &[&str] = &["-rdynamic"];

/// Two segments and no padding between, as the real libraries have; stripped; the others are found beside the file.
const LINK: &[&str] =
    &["-s", "-Wl,-z,noseparate-code", "-Wl,--build-id", "-Wl,-rpath,$ORIGIN", "-Wl,--disable-new-dtags"];

/// What is built: the file, its sources (folders or files under `c/`), what it defines, and what it links to. Libraries
/// come before what links to them.
struct Target {
    file: &'static str,
    sources: &'static [&'static str],
    define: &'static str,
    links: &'static [&'static str],
}

const TARGETS: &[Target] = &[
    Target { file: "libcuda.so.1", sources: &["engine", "cuda"], define: "", links: &[] },
    Target {
        file: "libcudart.so.12",
        sources: &["runtime"],
        define: "-DRUNTIME_VERSION=12080",
        links: &["libcuda.so.1"],
    },
    Target {
        file: "libcudart.so.13",
        sources: &["runtime"],
        define: "-DRUNTIME_VERSION=13000",
        links: &["libcuda.so.1"],
    },
    Target { file: "libnccl.so.2", sources: &["nccl"], define: "", links: &["libcuda.so.1"] },
    Target { file: "libamdhip64.so.6", sources: &["hip", "engine"], define: "", links: &[] },
    Target { file: "libnvidia-ml.so.1", sources: &["nvml", "engine/control.c"], define: "", links: &[] },
    Target { file: "libibverbs.so.1", sources: &["ibverbs", "engine/control.c"], define: "", links: &[] },
    Target {
        file: "simwork",
        sources: &["simwork", "engine/control.c"],
        define: "",
        links: &["libcudart.so.12", "libcuda.so.1"],
    },
    Target {
        file: "simwork13",
        sources: &["simwork", "engine/control.c"],
        define: "",
        links: &["libcudart.so.13", "libcuda.so.1"],
    },
    Target {
        file: "simwork-static",
        sources: &["simwork", "runtime", "engine/control.c"],
        define: "-DRUNTIME_VERSION=12080",
        links: &["libcuda.so.1"],
    },
];

fn main() -> Result<()> {
    println!("cargo:rerun-if-changed=c");
    println!("cargo:rerun-if-env-changed=CLANG");
    let c = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("c");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let clang = env::var_os("CLANG").unwrap_or_else(|| OsString::from("clang"));
    for target in TARGETS {
        build(target, &clang, &c, &out)?;
    }
    Ok(())
}

fn build(target: &Target, clang: &OsString, c: &Path, out: &Path) -> Result<()> {
    let mut command = Command::new(clang);
    command.args(CODE).args(architecture()?);
    if target.file.starts_with("lib") {
        command.args(LIBRARY).arg(format!("-Wl,-soname,{}", target.file));
    } else {
        command.args(PROGRAM);
        if !target.sources.contains(&"runtime") {
            command.args(EXPORTS);
        }
    }
    if !target.define.is_empty() {
        command.arg(target.define);
    }
    command.args(LINK).arg("-o").arg(out.join(target.file));
    for source in target.sources {
        command.args(c_files(&c.join(source))?);
    }
    command.args(target.links.iter().map(|file| out.join(file)));
    command.args(["-lpthread", "-ldl", "-lrt"]);
    let status = command.status().map_err(|error| {
        format!("cannot run {} ({error}): install clang, or name one in CLANG", clang.display())
    })?;
    if !status.success() {
        return Err(format!("clang could not build {}", target.file).into());
    }
    Ok(())
}

/// Flags of the processor built for, and the compiler's target when that is not the one it runs on.
fn architecture() -> Result<Vec<String>> {
    let target = env::var("CARGO_CFG_TARGET_ARCH")?;
    let mut flags = Vec::new();
    if target == "x86_64" {
        flags.push("-fcf-protection=none".to_owned());
    }
    if !env::var("HOST")?.starts_with(&target) {
        flags.push(format!("--target={target}-linux-gnu"));
    }
    Ok(flags)
}

/// The C files of a folder in a fixed order, or the file itself.
fn c_files(path: &Path) -> Result<Vec<PathBuf>> {
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let file = entry?.path();
        if file.extension().is_some_and(|extension| extension == "c") {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}
