//! The same path in two mount namespaces.

use std::fs;
use std::process::Command;

use crate::support::{Victim, Workshop, assert_chain, has, is_root, stack_of, symbols};

const LIBRARY: &str = r#"
#include <signal.h>
__attribute__((noinline)) int NAME(int n) { raise(SIGSTOP); return n + 1; }
int entry(int n) { return NAME(n) + 1; }
"#;
const MAIN: &str = "int entry(int); int main(int argc, char **argv) { return entry(argc) + 1; }";

#[test]
fn files_of_the_same_path_are_not_mixed_up() {
    let test = "files_of_the_same_path_are_not_mixed_up";
    if !has(test, &["gcc", "unshare", "mount"]) || !is_root(test) {
        return;
    }
    // Builds that differ in a name only; the second time they even say that they are the same build.
    for build_id in ["sha1", "0x0123456789abcdef0123456789abcdef"] {
        let workshop = Workshop::new();
        let path = workshop.path("app");
        fs::create_dir(&path).unwrap();
        let mut symbols = symbols();
        let mut victims = Vec::new();
        for name in ["who_one", "who_two"] {
            fs::create_dir(workshop.path(name)).unwrap();
            let args = format!(
                "-O2 -shared -fPIC -fno-optimize-sibling-calls -DNAME={name} -Wl,--build-id={build_id}"
            );
            workshop.compile("library.c", LIBRARY, &format!("{name}/liblibrary.so"), &args);
            let links = format!("-L{name} -llibrary -Wl,-rpath,{}", path.display());
            workshop.compile("main.c", MAIN, &format!("{name}/victim"), &links);
            let script = format!("mount --bind {name} app && exec {}/victim", path.display());
            let mut command = Command::new("unshare");
            victims
                .push(Victim::start(command.args(["-m", "sh", "-c", &script]).current_dir(&workshop.folder)));
        }
        for (victim, name) in victims.iter().zip(["who_one", "who_two"]) {
            let (unwound, frames) = stack_of(&mut symbols, victim);
            assert_chain(&frames, &[name, "entry", "main"]);
            assert!(unwound.complete);
            let frame = frames.iter().find(|frame| frame.function.as_deref() == Some(name)).unwrap();
            assert_eq!(frame.module, path.join("liblibrary.so").to_str().unwrap());
        }
    }
}
