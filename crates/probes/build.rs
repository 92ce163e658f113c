//! Compiles every `src/*/*.bpf.c` with clang and writes the Rust twins of its types from the object's BTF, so
//! that the two sides cannot drift apart.

#![allow(clippy::expect_used, reason = "a build script can only stop")]

#[path = "build/btf.rs"]
mod btf;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let headers = root.join("../../bpf");
    println!("cargo:rerun-if-changed={}", headers.display());
    println!("cargo:rerun-if-changed=build");
    println!("cargo:rerun-if-env-changed=CLANG");
    link_libelf_needs();

    let mut types = String::new();
    for source in bpf_sources(&root.join("src")) {
        println!("cargo:rerun-if-changed={}", source.display());
        let name = source.file_name().and_then(|n| n.to_str()).expect("a UTF-8 name").replace(".bpf.c", "");
        let object = out.join(format!("{name}.bpf.o"));
        compile(&source, &headers, &object);
        let bytes = fs::read(&object).expect("the object clang just wrote");
        types.push_str(&format!("pub mod {name} {{\n{}}}\n", btf::rust_types(&bytes)));
    }
    fs::write(out.join("raw.rs"), types).expect("OUT_DIR is writable");
}

fn bpf_sources(src: &Path) -> Vec<PathBuf> {
    let mut sources: Vec<PathBuf> = fs::read_dir(src)
        .expect("src is readable")
        .filter_map(Result::ok)
        .filter(|entry| entry.path().is_dir())
        .flat_map(|folder| {
            fs::read_dir(folder.path()).expect("a probe's folder is readable").filter_map(Result::ok)
        })
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().ends_with(".bpf.c"))
        .collect();
    sources.sort();
    sources
}

fn compile(source: &Path, headers: &Path, object: &Path) {
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it");
    let (define, triple) = match arch.as_str() {
        "x86_64" => ("-D__TARGET_ARCH_x86", "x86_64-linux-gnu"),
        "aarch64" => ("-D__TARGET_ARCH_arm64", "aarch64-linux-gnu"),
        other => panic!("gpuwhy's probes are written for x86_64 and aarch64, not {other}"),
    };
    let status = Command::new(&clang)
        // v3 has the atomic operations the counters need (kernel 5.12).
        .args(["-g", "-O2", "-target", "bpf", "-mcpu=v3", define, "-Wall", "-Wextra", "-Werror"])
        .args(["-Wno-unused-parameter", "-Wno-missing-declarations"])
        .arg("-I")
        .arg(headers)
        .arg("-I")
        .arg(env::var_os("DEP_BPF_INCLUDE").expect("libbpf-sys tells where its headers are"))
        .arg("-idirafter")
        .arg(format!("/usr/include/{triple}"))
        .arg("-c")
        .arg(source)
        .arg("-o")
        .arg(object)
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{clang} could not compile {}: {status}", source.display()),
        Err(error) => panic!("{clang} could not be run ({error}); install it (`make setup`) or set CLANG"),
    }
}

/// Newer libelf archives need zstd too; pkg-config knows.
fn link_libelf_needs() {
    let wants = |package: &str| {
        let output = Command::new("pkg-config").args(["--static", "--libs", package]).output();
        output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default()
    };
    if wants("libelf").contains("-lzstd") {
        println!("cargo:rustc-link-lib=static=zstd");
    }
}
