//! Finds the DuckDB library that was fetched for building and testing, and lets tests find it when they run.

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-env-changed=DUCKDB_LIB_DIR");
    if env::var_os("CARGO_FEATURE_BUNDLED").is_some() {
        return;
    }
    let Some(folder) = library() else {
        println!(
            "cargo:warning=libduckdb.so was not found: run `scripts/setup.sh fleet`, name its folder in DUCKDB_LIB_DIR, or build with --features bundled"
        );
        return;
    };
    println!("cargo:rerun-if-changed={}", folder.join("libduckdb.so").display());
    println!("cargo:rustc-link-search=native={}", folder.display());
    println!("cargo:rustc-link-arg=-Wl,-rpath,{}", folder.display());
    // For the build script of the binary.
    println!("cargo:library={}", folder.display());
}

fn library() -> Option<PathBuf> {
    let named = env::var_os("DUCKDB_LIB_DIR").map(PathBuf::from);
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")));
    let fetched = cache.map(|cache| cache.join("gpuwhy/duckdb"));
    named.into_iter().chain(fetched).find(|folder| folder.join("libduckdb.so").exists())
}
