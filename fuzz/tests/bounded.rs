//! Every target over its corpus and a fixed number of mutations, the same in every run: what `make test` has of fuzzing. `make fuzz`
//! looks further.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use gpuwhy_fuzz::mutate::Mutator;
use gpuwhy_fuzz::{TARGETS, Target, WORKER, corpus, limits};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

/// Another one tries other inputs: GPUWHY_FUZZ_SEED=N.
fn seed() -> u64 {
    std::env::var("GPUWHY_FUZZ_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

fn try_all(target: &'static Target) -> Vec<String> {
    let began = Instant::now();
    let seeds: Vec<Vec<u8>> =
        corpus::read(&corpus::folder(target)).unwrap().into_iter().map(|(_, input)| input).collect();
    assert!(!seeds.is_empty(), "{} has no corpus", target.name);
    let mut mutator = Mutator::new(seed(), target.words, target.most_bytes);
    let failed = Path::new(env!("CARGO_TARGET_TMPDIR")).join("failed");
    let mut failures = Vec::new();
    let mut check = |input: &[u8]| {
        let stuck = || {
            eprintln!("{} does not end; {}", target.name, corpus::save(&failed, target, input));
            std::process::abort();
        };
        if let Err(why) = limits::checked(target, input, stuck) {
            failures.push(format!("{}: {why}; {}", target.name, corpus::save(&failed, target, input)));
        }
    };
    seeds.iter().for_each(|input| check(input));
    for _ in 0..target.runs {
        check(&mutator.input(&seeds));
    }
    println!("{}: {} seeds, {} mutations, {:?}", target.name, seeds.len(), target.runs, began.elapsed());
    failures
}

#[test]
fn every_target_survives_its_corpus_and_mutations_of_it() {
    WORKER.set(env!("CARGO_BIN_EXE_gpuwhy-fuzz").into()).unwrap();
    let waiting = Mutex::new(TARGETS.iter().rev().collect::<Vec<_>>());
    let next = || waiting.lock().unwrap().pop();
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(target) = next() {
                    failures.lock().unwrap().extend(try_all(target));
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} inputs failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn every_folder_of_the_corpus_is_a_targets() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let entries =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let targets: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_string()).collect();
    assert_eq!(entries.collect::<BTreeSet<_>>(), targets);
}

/// A clone is everybody's.
#[test]
fn the_corpus_stays_small() {
    let inputs = TARGETS.iter().flat_map(|target| corpus::read(&corpus::folder(target)).unwrap());
    let bytes: usize = inputs.map(|(_, input)| input.len()).sum();
    assert!(bytes < 1 << 20, "{bytes} bytes");
}
