//! Device and host memory.

use crate::support::{Folder, finish, number};

#[test]
fn memory_is_finite_and_comes_back() {
    let folder = Folder::unpack();
    let truth = folder.run_with("simwork leak --bytes 1M --free 1", &[("SIMGPU_MEMORY", "16M")]);
    assert_eq!(number(&truth["allocations"]), 16, "{truth}");
    assert_eq!(number(&truth["error"]), 2, "{truth}");
    assert_eq!(number(&truth["ops"]["cudaMalloc"]), 17, "{truth}");
    assert_eq!(truth["free_bytes"], truth["total_bytes"], "{truth}");
}

#[test]
fn what_lives_is_known_for_every_kind_of_memory() {
    let folder = Folder::unpack();
    let truth = folder.run("simwork memory --rounds 3");
    let (live, ops) = (&truth["live"], &truth["ops"]);
    assert_eq!(number(&truth["peak"]["device"]), number(&live["device"]) + (8 << 20), "{truth}");
    assert_eq!(number(&ops["cudaHostRegister"]), 2 * number(&ops["cudaHostUnregister"]), "{truth}");
    assert_eq!(number(&ops["cudaMallocArray"]), 2 * number(&ops["cudaFreeArray"]), "{truth}");
    assert_eq!(number(&ops["cuMemCreate"]), 15, "{truth}");
    assert_eq!(number(&ops["cuMemRelease"]), 9, "{truth}");
    // The device rounds sizes up, by a page at most.
    let on_device = number(&live["device"]) + number(&live["managed"]);
    let used = number(&truth["used_bytes"]);
    assert!((on_device..on_device + 100 * 4096).contains(&used), "{truth}");
}

#[test]
fn leaks_go_on_until_stopped_and_full_devices_refuse() {
    let folder = Folder::unpack();
    let memory = [("SIMGPU_MEMORY", "16M")];
    let truth = folder.run_with("simwork memory --oom --bytes 3M", &memory);
    assert_eq!(number(&truth["live"]["device"]), 5 * (3 << 20), "{truth}");
    assert_eq!(number(&truth["error"]), 2, "{truth}");
    let stop = folder.path("stop");
    let arguments = format!("simwork memory --leak --bytes 4K --stop-file {}", stop.display());
    let child = folder.command(&arguments).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(100));
    std::fs::write(&stop, "").unwrap();
    let truth = finish(child);
    let allocations = number(&truth["ops"]["cudaMalloc"]);
    assert!(allocations > 1, "{truth}");
    assert_eq!(number(&truth["live"]["device"]), allocations * 4096, "{truth}");
}
