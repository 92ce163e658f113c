//! Other ways to have a CUDA runtime, and what lies below one.

use crate::support::{Folder, number};

#[test]
fn runtime_may_be_linked_into_the_program() {
    let folder = Folder::unpack();
    let truth = folder.run("simwork-static launch --launches 300 --sync-every 100");
    assert_eq!(number(&truth["ops"]["cuLaunchKernel"]), 300, "{truth}");
    let shared = folder.run("simwork mixed");
    assert_eq!(folder.run("simwork-static mixed")["ops"], shared["ops"]);
}

#[test]
fn one_process_may_use_two_runtimes() {
    let folder = Folder::unpack();
    for program in ["simwork", "simwork13", "simwork-static"] {
        let truth = folder.run(&format!("{program} two-runtimes --n 7"));
        for op in ["cudaMalloc", "cudaFree", "cudaMemcpy"] {
            assert_eq!(number(&truth["v12"][op]), 7, "{truth}");
            assert_eq!(number(&truth["v13"][op]), 7, "{truth}");
            assert_eq!(number(&truth["ops"][op]), 14, "{truth}");
        }
    }
}

#[test]
fn launches_through_a_copy_of_the_driver_are_not_the_drivers() {
    let folder = Folder::unpack();
    std::fs::copy(folder.files.join("libcuda.so.1"), folder.path("unwatched.so")).unwrap();
    let copy = folder.path("unwatched.so").display().to_string();
    let truth = folder.run(&format!("simwork beside --seconds 1 --slice 10 --copy {copy}"));
    let launches = number(&truth["ops"]["cuLaunchKernel"]);
    assert!(launches > 0 && launches.is_multiple_of(20), "{truth}");
    assert!(number(&truth["driver_ns"]) > 0 && number(&truth["copy_ns"]) > 0, "{truth}");
    let refused = folder.command("simwork beside --copy libcuda.so.1").output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is the driver itself"), "{refused:?}");
}

#[test]
fn ioctls_are_counted_though_they_fail() {
    let folder = Folder::unpack();
    let truth = folder.run("simwork ioctl --device /dev/null --count 30 --gap-us 10");
    assert_eq!(number(&truth["count"]), 30, "{truth}");
    assert_eq!(number(&truth["failed"]), 30, "{truth}");
}
