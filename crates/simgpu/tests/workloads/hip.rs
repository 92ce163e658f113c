//! HIP.

use crate::support::{Folder, assert_all_are_listed, number};

#[test]
fn hip_mixed_lists_every_call_with_its_result() {
    let folder = Folder::unpack();
    let truth = folder.run("simwork hip-mixed");
    let calls = truth["calls"].as_array().unwrap();
    assert!(calls.len() >= 120, "{} calls", calls.len());
    let failed: Vec<_> = calls
        .iter()
        .filter(|call| call["ret"] != "0x0")
        .map(|call| (call["api"].as_str().unwrap(), call["ret"].as_str().unwrap()))
        .collect();
    let expected = [
        ("hipGraphExecUpdate", "0x38e"),
        ("hipMalloc", "0x2"),
        ("hipFree", "0x1"),
        ("hipMemcpy", "0x1"),
        ("hipModuleLaunchKernel", "0x190"),
    ];
    assert_eq!(failed, expected);
    assert_all_are_listed(&truth);
}

#[test]
fn hip_launches_and_copies() {
    let folder = Folder::unpack();
    let truth = folder.run("simwork hip --launches 20");
    assert_eq!(number(&truth["ops"]["hipLaunchKernel"]), 20, "{truth}");
    assert_eq!(number(&truth["ops"]["hipMemcpyAsync"]), 20, "{truth}");
}
