//! Where the binary looks for the DuckDB library: beside itself in a package, else where it was fetched to.

fn main() {
    if let Ok(folder) = std::env::var("DEP_GPUWHY_FLEET_DUCKDB_LIBRARY") {
        println!("cargo:rustc-link-arg=-Wl,-rpath,$ORIGIN/../lib:{folder}");
    }
}
