//! What the views tell of kept calls besides the calls themselves: kernels, directions, libraries, devices.

use crate::made::{library, lines, op, plain, session, trace, window, writer};
use gpuwhy_model::{Batch, Call, CallWindow, Direction, Facts, Family, Kept, Kernel, Layer, OpId};
use gpuwhy_store::{Options, Reader, Writer};

fn launch(number: u64, handle: u64) -> Call {
    Call { op: OpId(1), handle, ..plain(number) }
}

fn kernel(pid: u32, handle: u64, name: &str) -> Kernel {
    Kernel { pid, handle, name: name.into(), launches: 1, ..Kernel::default() }
}

#[test]
fn launches_have_the_names_of_their_kernels() {
    let calls = vec![
        Call { library: 1, device: Some(2), first: true, ..launch(0, 0x50) },
        launch(1, u64::MAX),
        launch(2, 0x51),
        launch(3, 0x99),
        Call { pid: 20, ..launch(4, 0x50) },
        // A pointer that happens to be a kernel's handle.
        Call { handle: 0x50, device: Some(0), ..plain(5) },
        Call { op: OpId(3), handle: 0x50, ..plain(6) },
    ];
    let batch = Batch { calls, libraries: vec![library(1, "/usr/lib/libcuda.so.1")], ..Batch::default() };
    let kernels = vec![
        kernel(10, 0x50, "gemm(float*)"),
        kernel(10, u64::MAX, "relu"),
        kernel(10, 0x51, ""),
        kernel(20, 0x50, "other"),
    ];
    let (_folder, reader) = trace(&batch, &Facts { kernels, ..Facts::default() });
    assert_eq!(
        lines(&reader, "SELECT timestamp_ns, kernel, library, gpu, first_launch FROM cuda_events ORDER BY 1"),
        [
            "+0|gemm(float*)|/usr/lib/libcuda.so.1|2|1",
            "+1000|relu|-|-|0",
            "+2000|-|-|-|0",
            "+3000|-|-|-|0",
            "+4000|other|-|-|0",
            "+5000|-|-|0|0",
        ]
    );
    assert_eq!(lines(&reader, "SELECT kernel FROM hip_events"), ["gemm(float*)"]);
}

#[test]
fn a_kernel_is_looked_up_only_where_it_is_asked_for() {
    let (_folder, reader) = trace(&Batch::default(), &Facts::default());
    let plan = |columns: &str| {
        lines(
            &reader,
            &format!("EXPLAIN QUERY PLAN SELECT {columns} FROM cuda_events WHERE timestamp_ns > 5"),
        )
        .join("\n")
    };
    let plain = plan("timestamp_ns, op, pid, duration_ns, bytes, handle");
    assert!(
        plain.contains("SEARCH c USING INDEX calls_timestamp_ns") && !plain.contains("SUBQUERY"),
        "{plain}"
    );
    let named = plan("kernel, library");
    assert!(named.contains("SEARCH k USING PRIMARY KEY (pid=? AND handle=?)"), "{named}");
    assert!(named.contains("SEARCH l USING INTEGER PRIMARY KEY"), "{named}");
}

#[test]
fn directions_have_names() {
    let copy = |(number, direction)| Call { op: OpId(9), direction: Some(direction), ..plain(number) };
    let calls: Vec<Call> = (0..).zip(Direction::ALL).map(copy).collect();
    let (_folder, reader) = trace(&Batch { calls, ..Batch::default() }, &Facts::default());
    let names = Direction::ALL.map(Direction::name);
    assert_eq!(lines(&reader, "SELECT direction FROM cuda_events ORDER BY timestamp_ns"), names);
    assert_eq!(
        lines(&reader, "SELECT DISTINCT direction FROM calls ORDER BY 1"),
        ["1", "2", "3", "4", "5", "6"]
    );
}

#[test]
fn what_only_the_ledger_needs_is_no_row() {
    let calls =
        vec![Call { kept: Kept::State, ..plain(0) }, plain(1), Call { kept: Kept::State, ..plain(2) }];
    let (_folder, reader) = trace(&Batch { calls, ..Batch::default() }, &Facts::default());
    assert_eq!(lines(&reader, "SELECT timestamp_ns, kept FROM events"), ["+1000|slow"]);
    assert_eq!(reader.event_count().unwrap(), 1);
}

#[test]
fn copies_of_all_directions_are_one_window_of_their_operation() {
    let towards = |direction, tid| CallWindow { direction, ..window(0, tid, 9, &[500, 700]) };
    let windows = vec![
        towards(Some(Direction::HostToDevice), 11),
        towards(Some(Direction::DeviceToHost), 11),
        towards(None, 12),
    ];
    let (_folder, reader) = trace(&Batch { windows, ..Batch::default() }, &Facts::default());
    assert_eq!(lines(&reader, "SELECT op, count, sum_ns FROM call_stats"), ["cudaMemcpyAsync|6|3600"]);
}

#[test]
fn runs_share_the_numbers_of_libraries() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let mut first = writer(&path);
    let calls = vec![Call { library: 2, ..plain(0) }, Call { library: 9, ..plain(1) }];
    let libraries = vec![library(1, "/lib/a"), library(2, "/lib/b")];
    first.write(&Batch { calls, libraries, ..Batch::default() }, &Facts::default()).unwrap();
    first.finish(1).unwrap();
    let ops = [op(1, "cuLaunchKernel", Layer::Cuda, Family::Launch)];
    let mut second = Writer::create_or_append(&path, &session(), &ops, &Options::default()).unwrap();
    let calls =
        (1..=3).map(|library| Call { library, op: OpId(1), ..plain(10 + u64::from(library)) }).collect();
    let libraries = vec![library(1, "/lib/b"), library(2, "/lib/c"), library(3, "/lib/a")];
    second.write(&Batch { calls, libraries, ..Batch::default() }, &Facts::default()).unwrap();
    second.finish(2).unwrap();
    let reader = Reader::open(&path).unwrap();
    assert_eq!(
        lines(&reader, "SELECT library_id, kind, file, session_id FROM libraries"),
        ["1|libcuda|/lib/a|1", "2|libcuda|/lib/b|1", "3|libcuda|/lib/c|2"]
    );
    assert_eq!(
        lines(&reader, "SELECT library FROM cuda_events ORDER BY timestamp_ns"),
        ["/lib/b", "-", "/lib/b", "/lib/c", "/lib/a"]
    );
    assert_eq!(reader.ops().unwrap()[0].role, gpuwhy_model::Role::Launch);
}
