//! Where the binary looks for the DuckDB library: beside itself, or in a package's `lib`. No path of the machine that builds it is
//! in the binary; the library is put beside it instead.

use std::io::Result;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let Ok(folder) = std::env::var("DEP_GPUWHY_FLEET_DUCKDB_LIBRARY") else { return };
    println!("cargo:rustc-link-arg-bins=-Wl,-rpath,$ORIGIN:$ORIGIN/../lib");
    // Tests are not given to anybody, and lie elsewhere.
    println!("cargo:rustc-link-arg-tests=-Wl,-rpath,{folder}");
    let library = Path::new(&folder).join("libduckdb.so");
    println!("cargo:rerun-if-changed={}", library.display());
    match beside(&library) {
        Ok(copy) => println!("cargo:rerun-if-changed={}", copy.display()),
        Err(error) => {
            println!(
                "cargo:warning=libduckdb.so could not be put beside gpuwhy-fleet ({error}); it needs LD_LIBRARY_PATH"
            );
        }
    }
}

/// Cargo tells a build script the folder of its own output, which is three below that of binaries.
fn beside(library: &Path) -> Result<PathBuf> {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let Some(folder) = out.ancestors().nth(3) else {
        return Err(std::io::Error::other("OUT_DIR is not where it usually is"));
    };
    let copy = folder.join("libduckdb.so");
    if !is_same(library, &copy)? {
        let _ = std::fs::remove_file(&copy);
        // The same file by another name, where both are on one disk.
        std::fs::hard_link(library, &copy).or_else(|_| std::fs::copy(library, &copy).map(drop))?;
    }
    Ok(copy)
}

/// Another version may be as long.
fn is_same(library: &Path, copy: &Path) -> Result<bool> {
    let Ok(about) = std::fs::metadata(copy) else { return Ok(false) };
    let of = std::fs::metadata(library)?;
    if (of.dev(), of.ino()) == (about.dev(), about.ino()) {
        return Ok(true);
    }
    Ok(of.len() == about.len() && std::fs::read(library)? == std::fs::read(copy)?)
}
