//! What unwinding and naming cost: stacks of a Python interpreter, taken while it sleeps deep in calls.
//!
//! `cargo run --release -p gpuwhy-symbols --example cost [PID]`

use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::time::Instant;

use gpuwhy_symbols::{Limits, Registers, Symbols};

const ROUNDS: u32 = 10_000;
const COPIED: usize = 16 << 10;
const PROGRAM: &str = "
import time
def deep(n):
    if n == 0:
        print('ready', flush=True)
        time.sleep(1000)
    list(map(deep, [n - 1]))
deep(4)
";

fn main() -> io::Result<()> {
    let mut child = None;
    let pid = match std::env::args().nth(1).and_then(|word| word.parse().ok()) {
        Some(pid) => pid,
        None => {
            let mut python = Command::new("python3").args(["-c", PROGRAM]).stdout(Stdio::piped()).spawn()?;
            let mut line = String::new();
            if let Some(output) = python.stdout.take() {
                BufReader::new(output).read_line(&mut line)?;
            }
            child.insert(python).id()
        }
    };
    let done = measure(pid);
    if let Some(mut child) = child {
        child.kill()?;
        child.wait()?;
    }
    done
}

fn measure(pid: u32) -> io::Result<()> {
    let (registers, stack) = blocked(pid)?;
    let mut symbols = Symbols::new(Limits::default());
    let timed = |what: &str, each: u32, start: Instant| {
        println!("{what:<28} {:>10.2} us", start.elapsed().as_secs_f64() * 1e6 / f64::from(each));
    };
    let start = Instant::now();
    symbols.see(pid);
    timed("meet, first", 1, start);
    let start = Instant::now();
    symbols.see(pid);
    timed("meet, again", 1, start);
    let start = Instant::now();
    let unwound = symbols.unwind(pid, registers, &stack, &[], 256);
    timed("unwind, first", 1, start);
    let start = Instant::now();
    for _ in 0..ROUNDS {
        symbols.unwind(pid, registers, &stack, &[], 256);
    }
    timed("unwind, warm", ROUNDS, start);
    let start = Instant::now();
    let frames = symbols.frames(pid, &unwound.addresses);
    timed("names of a stack, first", 1, start);
    let start = Instant::now();
    for _ in 0..ROUNDS {
        symbols.frames(pid, &unwound.addresses);
    }
    timed("names of a stack, warm", ROUNDS, start);
    let count = ROUNDS * unwound.addresses.len() as u32;
    timed("names of an address, warm", count, start);
    println!("{} frames, complete: {}", unwound.addresses.len(), unwound.complete);
    for frame in frames.concat() {
        let line = frame.line.map(|line| format!(":{line}")).unwrap_or_default();
        let function = frame.function.as_deref().unwrap_or("?");
        println!("  {function}  {}{line}  {}", frame.file.as_deref().unwrap_or_default(), frame.module);
    }
    Ok(())
}

/// The registers of a thread in a system call, which /proc tells, but for its frame pointer: functions that need it end the walk.
fn blocked(pid: u32) -> io::Result<(Registers, Vec<u8>)> {
    let wrong = || io::Error::other("the process is not waiting in a system call");
    let text = loop {
        let text = std::fs::read_to_string(format!("/proc/{pid}/syscall"))?;
        if !text.starts_with("running") {
            break text;
        }
    };
    let mut words =
        text.split_whitespace().rev().map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16));
    let (Some(Ok(ip)), Some(Ok(sp))) = (words.next(), words.next()) else { return Err(wrong()) };
    let mut stack = vec![0; COPIED];
    let count = std::fs::File::open(format!("/proc/{pid}/mem"))?.read_at(&mut stack, sp)?;
    stack.truncate(count);
    let registers = Registers {
        ip,
        sp,
        bp: 0,
        #[cfg(target_arch = "aarch64")]
        lr: 0,
    };
    Ok((registers, stack))
}
