//! The workloads run, and what they say they did is what they did.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod support;

mod graphs;
mod hip;
mod memory;
mod modules;
mod nccl;
mod runtimes;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use support::{Folder, assert_all_are_listed, finish, number};

#[test]
fn launches_are_counted_by_every_way_of_launching() {
    let folder = Folder::unpack();
    for (way, op) in [("runtime", "cuLaunchKernel"), ("driver", "cuLaunchKernel"), ("ex", "cuLaunchKernelEx")]
    {
        for program in ["simwork", "simwork13"] {
            let truth = folder.run(&format!(
                "{program} launch --threads 3 --launches 5000 --via {way} --stream own --sync-every 1000"
            ));
            assert_eq!(number(&truth["ops"][op]), 15_000, "{truth}");
            assert_eq!(number(&truth["ops"]["cudaStreamSynchronize"]), 15, "{truth}");
            assert_eq!(number(&truth["failed"]), 0, "{truth}");
        }
    }
}

#[test]
fn mixed_lists_every_call_with_its_result() {
    let folder = Folder::unpack();
    for program in ["simwork", "simwork13"] {
        let truth = folder.run(&format!("{program} mixed"));
        let calls = truth["calls"].as_array().unwrap();
        assert!(calls.len() >= 300, "{} calls", calls.len());
        let failed: Vec<_> = calls
            .iter()
            .filter(|call| call["ret"] != "0x0")
            .map(|call| (call["api"].as_str().unwrap(), call["ret"].as_str().unwrap()))
            .collect();
        let expected = [
            ("cudaGraphExecUpdate", "0x38e"),
            ("cudaMalloc", "0x2"),
            ("cuMemAlloc_v2", "0x2"),
            ("cudaFree", "0x1"),
            ("cuMemFree_v2", "0x1"),
            ("cudaMemcpy", "0x1"),
            ("cuLaunchKernel", "0x190"),
            ("cudaLaunchKernel", "0x1"),
        ];
        assert_eq!(failed, expected);
        assert_all_are_listed(&truth);
    }
}

#[test]
fn asynchronous_events_come_by_themselves_where_nobody_raises_them() {
    let folder = Folder::unpack();
    let truth = folder.run("simwork ibverbs --events 3");
    assert_eq!(truth["event_types"], serde_json::json!([10, 11, 12]), "{truth}");
    assert_all_are_listed(&truth);
    let truth = folder.run_with("simwork ibverbs", &[("SIMGPU_ASYNC_EVENT", "9")]);
    assert_eq!(truth["event_types"], serde_json::json!([9]), "{truth}");
}

#[test]
fn steps_take_as_long_as_their_kernels() {
    let folder = Folder::unpack();
    for how in ["spin", "block"] {
        let arguments = "simwork train --steps 20 --launches-per-step 10 --kernel-us 200 --copy-bytes 4K";
        let truth = folder.run_with(arguments, &[("SIMGPU_SYNC", how)]);
        assert!(number(&truth["step_ns"]["min"]) >= 2_000_000, "{truth}");
        assert_eq!(number(&truth["ops"]["cuLaunchKernel"]), 200, "{truth}");
    }
}

#[test]
fn torch_launches_from_two_threads_takes_batches_from_a_process_and_never_waits_for_the_gpu() {
    let folder = Folder::unpack();
    let truth = folder.run("simwork torch --steps 20 --launches-per-step 60 --import-ms 1");
    let launches = number(&truth["ops"]["cuLaunchKernel"]) + number(&truth["ops"]["cuLaunchKernelEx"]);
    assert_eq!((number(&truth["steps"]), launches), (20, 1_200), "{truth}");
    assert_eq!(truth["tids"].as_array().unwrap().len(), 2, "{truth}");
    assert_eq!(number(&truth["children"]["count"]), 1, "{truth}");
    assert!(truth["ops"].get("cudaStreamSynchronize").is_none(), "{truth}");
}

#[test]
fn torch_waits_for_what_it_is_told_to() {
    let folder = Folder::unpack();
    let slow = |options: &str| {
        folder.run(&format!("simwork torch --steps 20 --launches-per-step 12 --import-ms 1 {options}"))
    };
    for (options, part) in [
        ("--worker-us 3000", "next"),
        ("--worker-sleep-us 3000", "next"),
        ("--pageable --copy-bytes 75M", "copy"),
        ("--kernel-us 250 --malloc-every 1", "optimizer"),
        ("--kernel-us 250 --item-every 1", "item"),
    ] {
        let truth = slow(options);
        assert!(number(&truth["spent_ns"][part]) >= 20_000_000, "{options}: {truth}");
    }
    let truth = slow("--graphs --recapture-every 2");
    assert_eq!(number(&truth["ops"]["cudaGraphLaunch"]), 20, "{truth}");
    assert_eq!(number(&truth["ops"]["cudaGraphInstantiateWithFlags"]), 10, "{truth}");
    let truth = folder
        .run_with("simwork torch --steps 0 --leak-bytes 1M --import-ms 1", &[("SIMGPU_MEMORY", "32000000")]);
    assert_eq!(number(&truth["error"]), 2, "{truth}");
}

#[test]
fn threads_and_processes_may_die_inside_calls() {
    let folder = Folder::unpack();
    for how in ["thread", "process", "fork", "kill"] {
        let truth = folder.run(&format!("simwork die --how {how}"));
        assert_eq!(number(&truth["unfinished"]["cuLaunchKernel"]), 1, "{how}: {truth}");
    }
    let truth = folder.run("simwork die --how exec");
    assert_eq!(number(&truth["ops"]["cuLaunchKernel"]), 10, "{truth}");
    assert_eq!(number(&truth["earlier"]["ops"]["cuLaunchKernel"]), 11, "{truth}");
    let truth = folder.run("simwork many --processes 20 --launches 3");
    assert_eq!(number(&truth["children"]["ops"]["cuLaunchKernel"]), 60, "{truth}");
}

#[test]
fn calls_from_host_functions_are_counted() {
    let folder = Folder::unpack();
    let truth = folder.run("simwork nested --rounds 10");
    assert_eq!(number(&truth["callbacks"]), 10, "{truth}");
    assert_eq!(number(&truth["ops"]["cudaMallocAsync"]), 10, "{truth}");
    assert_eq!(number(&truth["ops"]["cudaStreamSynchronize"]), 20, "{truth}");
}

#[test]
fn launches_wait_for_the_lock_of_a_sibling() {
    let folder = Folder::unpack();
    let truth = folder.run("simwork mutex --rounds 5 --hold-ms 20");
    assert_eq!(number(&truth["ops"]["cuLaunchKernel"]), 5, "{truth}");
    assert!(number(&truth["waited_ns"]) > 50_000_000, "{truth}");
}

#[test]
fn control_page_reaches_a_running_process() {
    let folder = Folder::unpack();
    let page = folder.path("page");
    let start = folder.path("start");
    let arguments = format!("simwork train --steps 3 --launches-per-step 4 --start-file {}", start.display());
    let child = folder.command(&arguments).env("SIMGPU_CONTROL", &page).spawn().unwrap();
    let ready = folder.path("start.ready");
    let deadline = Instant::now() + Duration::from_secs(20);
    while !ready.exists() {
        assert!(Instant::now() < deadline, "the workload never became ready");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(std::fs::read_to_string(&ready).unwrap().trim(), child.id().to_string());
    gpuwhy_simgpu::set_control(&page, "launch_sleep_ns", 5_000_000).unwrap();
    assert!(gpuwhy_simgpu::set_control(&page, "no_such_field", 1).is_err());
    std::fs::write(&start, "").unwrap();
    let truth = finish(child);
    assert!(number(&truth["spent_ns"]["launch"]) >= 12 * 5_000_000, "{truth}");
}

#[test]
fn every_nth_launch_fails_when_asked() {
    let folder = Folder::unpack();
    let truth = folder.run_with("simwork launch --launches 100", &[("SIMGPU_FAIL_EVERY", "10")]);
    assert_eq!(number(&truth["failed"]), 10, "{truth}");
}

#[test]
fn mistakes_end_with_one_sentence_and_status_2() {
    let folder = Folder::unpack();
    for arguments in ["simwork nonsense", "simwork launch --nonsense 1", "simwork launch --threads many"] {
        let output = folder.command(arguments).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1, "{arguments}");
    }
}

#[test]
fn python_launches_through_ctypes() {
    let folder = Folder::unpack();
    if Command::new("python3").arg("--version").output().is_err() {
        return gpuwhy_testkit::skip("python_launches_through_ctypes", "python3 is missing");
    }
    for command in ["train --cudart 12", "gil --cudart 13"] {
        let mut python = Command::new("python3");
        python.arg(folder.files.join("simwork.py")).args(command.split(' ')).stdout(Stdio::piped());
        python.args(["--steps", "4", "--launches-per-step", "6"]);
        let truth = finish(python.spawn().unwrap());
        assert_eq!(number(&truth["ops"]["cuLaunchKernel"]), 24, "{truth}");
        assert_eq!(number(&truth["ops"]["cudaStreamSynchronize"]), 4, "{truth}");
    }
}
