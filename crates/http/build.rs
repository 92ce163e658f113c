//! Lists the dashboards' files: whatever is in a folder of `web/` is in the binary that serves it, and nothing is listed by hand.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// A list each, so that a binary has only those it uses.
const FOLDERS: [(&str, &str); 3] = [("SHARED", "shared"), ("NODE", "node"), ("FLEET", "fleet")];

fn main() -> io::Result<()> {
    // Of this run: a program that was built in another checkout may be run in this one.
    let web = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../../web");
    println!("cargo:rerun-if-changed={}", web.display());
    let mut lists = String::new();
    for (list, folder) in FOLDERS {
        let mut files = Vec::new();
        find(&web.join(folder), &mut files)?;
        files.sort();
        // Writing to a String cannot fail.
        let _ = writeln!(lists, "static {list}: &[Asset] = &[");
        for file in files {
            let name = file.strip_prefix(&web).map_err(io::Error::other)?.display().to_string();
            let _ = writeln!(
                lists,
                "Asset {{ name: {name:?}, kind: {:?}, bytes: include_bytes!({:?}) }},",
                kind(&name)?,
                file.display().to_string()
            );
        }
        lists.push_str("];\n");
    }
    fs::write(PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("assets.rs"), lists)
}

fn find(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => find(&path, files)?,
            false => files.push(path),
        }
    }
    Ok(())
}

fn kind(name: &str) -> io::Result<&'static str> {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => Ok("text/html; charset=utf-8"),
        "js" => Ok("text/javascript; charset=utf-8"),
        "css" => Ok("text/css; charset=utf-8"),
        "svg" => Ok("image/svg+xml"),
        _ => Err(io::Error::other(format!("web/{name}: nobody knows what kind of file that is"))),
    }
}
