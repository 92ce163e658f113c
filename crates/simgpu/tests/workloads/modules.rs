//! Modules, and what a process does before its kernels run at full speed.

use crate::support::{Folder, number};

#[test]
fn coldstart_loads_modules_in_every_form() {
    let folder = Folder::unpack();
    let variables = [("SIMGPU_COLD_US", "5000"), ("SIMGPU_JIT_US", "2000"), ("SIMGPU_MODULE_US", "500")];
    let truth = folder.run_with("simwork coldstart --launches 100", &variables);
    let ops = &truth["ops"];
    for (op, count) in [
        ("cuCtxCreate_v2", 1),
        ("cuModuleLoadData", 3),
        ("cuModuleLoad", 1),
        ("cuLinkAddData_v2", 2),
        ("cuLinkComplete", 1),
        ("cuModuleGetFunction", 3),
        ("cuModuleUnload", 4),
        ("cuLaunchKernel", 303),
    ] {
        assert_eq!(number(&ops[op]), count, "{op}: {truth}");
    }
    let names = truth["names"].as_array().unwrap();
    assert_eq!(names.len(), 3, "{truth}");
    let total: u64 =
        names.iter().map(|name| number(&truth["launches_by_kernel"][name.as_str().unwrap()])).sum();
    assert_eq!(total, number(&ops["cuLaunchKernel"]), "{truth}");
    // Three images of PTX are compiled, and four modules loaded.
    assert!(number(&truth["load_ns"]) >= 3 * 2_000_000 + 4 * 500_000, "{truth}");
    assert!(number(&truth["first_launch_ns"][0]) >= 5_000_000, "{truth}");
}
