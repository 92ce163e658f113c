//! `gpuwhy-fuzz`: lists the targets; runs inputs from files; looks for new ones that fail.

#[cfg(not(feature = "libfuzzer"))]
use gpuwhy_fuzz::mutate::Mutator;
use gpuwhy_fuzz::{TARGETS, Target, corpus, find, limits, seeds};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const USAGE: &str = "\
gpuwhy-fuzz                                      lists the targets
gpuwhy-fuzz TARGET FILE...                       runs these inputs
gpuwhy-fuzz --for SECONDS TARGET [FOLDER]        looks for inputs that fail; FOLDER is for what is found
gpuwhy-fuzz --seeds                              writes the seeds that programs make anew";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        [gpuwhy_fleet_core::SQL_WORKER] => return gpuwhy_fleet_core::sql_worker(),
        [] => {
            for target in TARGETS {
                println!("{:<18} {}", target.name, target.about);
            }
            Ok(())
        }
        ["--seeds"] => seeds::write(),
        ["--for", seconds, name, rest @ ..] if rest.len() < 2 => target(name).and_then(|target| {
            let seconds = seconds.parse().map_err(|_| format!("'{seconds}' is no number of seconds"))?;
            let folder = PathBuf::from(rest.first().copied().unwrap_or("fuzz-found"));
            search(target, Duration::from_secs(seconds), &folder)
        }),
        [name, files @ ..] if !name.starts_with('-') && !files.is_empty() => {
            target(name).and_then(|target| replay(target, files))
        }
        _ => Err(USAGE.to_string()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn target(name: &str) -> Result<&'static Target, String> {
    find(name).ok_or_else(|| format!("there is no target '{name}'; gpuwhy-fuzz lists them"))
}

/// Panics are not caught: a debugger and RUST_BACKTRACE=1 show where they are.
fn replay(target: &Target, files: &[&str]) -> Result<(), String> {
    for file in files {
        let input = std::fs::read(file).map_err(|error| format!("{file} cannot be read: {error}"))?;
        let began = Instant::now();
        limits::run(target, &input);
        println!("{file}: {} bytes, {:?}", input.len(), began.elapsed());
    }
    Ok(())
}

/// With libFuzzer: coverage decides which inputs stay.
#[cfg(feature = "libfuzzer")]
fn search(target: &'static Target, time: Duration, folder: &Path) -> Result<(), String> {
    let (grown, failed) = (folder.join("corpus").join(target.name), folder.join("failed"));
    for made in [&grown, &failed] {
        std::fs::create_dir_all(made)
            .map_err(|error| format!("{} cannot be made: {error}", made.display()))?;
    }
    let words = folder.join(format!("{}.words", target.name));
    let quoted = |word: &&str| -> String {
        let bytes: String = word.bytes().map(|byte| format!("\\x{byte:02x}")).collect();
        format!("\"{bytes}\"\n")
    };
    let text: String = target.words.iter().map(quoted).collect();
    std::fs::write(&words, text)
        .map_err(|error| format!("{} cannot be written: {error}", words.display()))?;
    let options = [
        grown.display().to_string(),
        corpus::folder(target).display().to_string(),
        format!("-max_total_time={}", time.as_secs()),
        format!("-max_len={}", target.most_bytes),
        format!("-dict={}", words.display()),
        format!("-artifact_prefix={}/{}-", failed.display(), target.name),
        "-timeout=30".into(),
        "-rss_limit_mb=2048".into(),
        "-print_final_stats=1".into(),
        "-verbosity=1".into(),
    ];
    match gpuwhy_fuzz::guided::run(target, &options) {
        0 => Ok(()),
        status => Err(format!("libFuzzer ended with {status}")),
    }
}

/// Without coverage: seeds, changed blindly.
#[cfg(not(feature = "libfuzzer"))]
fn search(target: &'static Target, time: Duration, folder: &Path) -> Result<(), String> {
    let inputs = corpus::read(&corpus::folder(target)).map_err(|error| error.to_string())?;
    let inputs: Vec<Vec<u8>> = inputs.into_iter().map(|(_, input)| input).collect();
    let seed = std::process::id().into();
    let mut mutator = Mutator::new(seed, target.words, target.most_bytes);
    let failed = folder.join("failed");
    let (began, mut reported, mut runs, mut failures) = (Instant::now(), Instant::now(), 0u64, 0u64);
    while began.elapsed() < time {
        let input = mutator.input(&inputs);
        let stuck = || {
            eprintln!("{} does not end; {}", target.name, corpus::save(&failed, target, &input));
            std::process::abort();
        };
        if let Err(why) = limits::checked(target, &input, stuck) {
            failures += 1;
            println!("{}: {why}; {}", target.name, corpus::save(&failed, target, &input));
        }
        runs += 1;
        if reported.elapsed() > Duration::from_secs(10) {
            reported = Instant::now();
            println!("{}: {runs} runs, {:.0}/s", target.name, runs as f64 / began.elapsed().as_secs_f64());
        }
    }
    let rate = runs as f64 / began.elapsed().as_secs_f64();
    println!("{}: {runs} runs, {rate:.0}/s, {failures} failures, seed {seed}", target.name);
    if failures == 0 { Ok(()) } else { Err(format!("{failures} inputs failed")) }
}
