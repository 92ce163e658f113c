//! Writes the stand-in libraries and workloads into a folder.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let folder = std::env::args_os().nth(1).unwrap_or_else(|| "simgpu".into());
    gpuwhy_simgpu::unpack(Path::new(&folder))
}
