//! Lets the fuzzers find the DuckDB library where it was fetched to.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if let Ok(folder) = std::env::var("DEP_GPUWHY_FLEET_DUCKDB_LIBRARY") {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
    }
}
