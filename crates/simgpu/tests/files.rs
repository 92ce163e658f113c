//! The embedded files: small, stripped, and probed entries that look like those of the real libraries.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use gpuwhy_simgpu::{FILES, WORKLOAD, WORKLOAD_STATIC};
use object::{Object, ObjectSection, ObjectSymbol};

#[test]
fn all_files_together_are_small_and_stripped() {
    let total: usize = FILES.iter().map(|file| file.bytes.len()).sum();
    assert!(total < 1024 * 1024, "{total} bytes");
    for file in FILES.iter().filter(|file| file.bytes.starts_with(b"\x7fELF")) {
        let elf = object::File::parse(file.bytes).unwrap();
        assert!(elf.symbol_table().is_none(), "{} is not stripped", file.name);
    }
}

#[test]
fn folder_holds_the_workload() {
    assert!(FILES.iter().any(|file| file.name == WORKLOAD && file.executable));
}

/// Tools put probes on the first instruction and rely on the kernel emulating it: `push %rbp` is 0x55.
#[test]
#[cfg(target_arch = "x86_64")]
fn every_exported_function_begins_with_a_push() {
    for file in FILES.iter().filter(|file| file.name.starts_with("lib")) {
        let elf = object::File::parse(file.bytes).unwrap();
        let mut functions = 0;
        for symbol in elf.dynamic_symbols().filter(ObjectSymbol::is_definition) {
            let section = elf.section_by_index(symbol.section_index().unwrap()).unwrap();
            let code = section.data_range(symbol.address(), 1).unwrap().unwrap();
            let name = symbol.name().unwrap();
            assert_eq!(code, [0x55], "{name} in {} begins with {:#x}", file.name, code[0]);
            functions += 1;
        }
        assert!(functions >= 6, "{} exports {functions} functions", file.name);
    }
}

#[test]
fn libraries_export_what_tools_probe() {
    for (library, functions) in [
        ("libcuda.so.1", &["cuLaunchKernel", "cuLaunchKernelEx", "cuMemAlloc_v2", "cuStreamSynchronize"][..]),
        ("libcudart.so.12", &["cudaLaunchKernel", "cudaMalloc", "cudaMemcpyAsync", "cudaStreamSynchronize"]),
        ("libcudart.so.13", &["cudaLaunchKernel", "cudaMalloc", "cudaMemcpyAsync", "cudaStreamSynchronize"]),
        (
            "libnccl.so.2",
            &["ncclCommInitRankScalable", "ncclAlltoAll", "ncclAllToAll", "ncclGather", "ncclScatter"],
        ),
        ("libamdhip64.so.6", &["hipLaunchKernel", "hipMalloc", "hipStreamSynchronize"]),
        ("libibverbs.so.1", &["ibv_get_async_event"]),
    ] {
        assert_exports(library, functions);
    }
}

/// A runtime that is linked into a program leaves none of its names there.
#[test]
fn static_program_hides_the_runtime() {
    let file = FILES.iter().find(|file| file.name == WORKLOAD_STATIC).unwrap();
    let elf = object::File::parse(file.bytes).unwrap();
    let defined = elf.dynamic_symbols().filter(ObjectSymbol::is_definition);
    assert_eq!(defined.filter(|symbol| symbol.name().unwrap().contains("cuda")).count(), 0);
    let needs: Vec<_> = elf.dynamic_symbols().filter(ObjectSymbol::is_undefined).collect();
    assert!(needs.iter().any(|symbol| symbol.name() == Ok("cuLaunchKernel")));
    assert!(!needs.iter().any(|symbol| symbol.name().unwrap().starts_with("cuda")));
}

/// What a tool that reads the state of GPUs resolves, by several names where the interface has several versions.
#[test]
fn nvml_exports_what_tools_read() {
    let functions = "
        nvmlInit_v2 nvmlInitWithFlags nvmlShutdown nvmlErrorString
        nvmlSystemGetDriverVersion nvmlSystemGetNVMLVersion nvmlSystemGetCudaDriverVersion_v2
        nvmlDeviceGetCount_v2 nvmlDeviceGetHandleByIndex_v2 nvmlDeviceGetHandleByUUID
        nvmlDeviceGetHandleByPciBusId_v2 nvmlDeviceGetName nvmlDeviceGetUUID nvmlDeviceGetIndex
        nvmlDeviceGetMinorNumber nvmlDeviceGetPciInfo_v3
        nvmlDeviceGetUtilizationRates nvmlDeviceGetMemoryInfo nvmlDeviceGetMemoryInfo_v2
        nvmlDeviceGetPowerUsage nvmlDeviceGetEnforcedPowerLimit nvmlDeviceGetTemperature
        nvmlDeviceGetClockInfo nvmlDeviceGetMaxClockInfo
        nvmlDeviceGetCurrentClocksThrottleReasons nvmlDeviceGetCurrentClocksEventReasons
        nvmlDeviceGetPcieThroughput nvmlDeviceGetCurrPcieLinkGeneration nvmlDeviceGetCurrPcieLinkWidth
        nvmlDeviceGetMaxPcieLinkGeneration nvmlDeviceGetMaxPcieLinkWidth nvmlDeviceGetPcieReplayCounter
        nvmlDeviceGetTotalEccErrors nvmlDeviceGetNvLinkState nvmlDeviceGetNvLinkErrorCounter
        nvmlDeviceGetFieldValues
        nvmlDeviceGetComputeRunningProcesses nvmlDeviceGetComputeRunningProcesses_v2
        nvmlDeviceGetComputeRunningProcesses_v3 nvmlDeviceGetGraphicsRunningProcesses
        nvmlDeviceGetGraphicsRunningProcesses_v2 nvmlDeviceGetGraphicsRunningProcesses_v3
        nvmlDeviceGetMigMode nvmlDeviceGetMaxMigDeviceCount nvmlDeviceGetMigDeviceHandleByIndex
        nvmlDeviceGetGpuInstanceId nvmlDeviceGetComputeInstanceId nvmlDeviceIsMigDeviceHandle
        nvmlGpmQueryDeviceSupport nvmlGpmSampleAlloc nvmlGpmSampleFree nvmlGpmSampleGet
        nvmlGpmMigSampleGet nvmlGpmMetricsGet
        nvmlEventSetCreate nvmlDeviceRegisterEvents nvmlDeviceGetSupportedEventTypes
        nvmlEventSetWait_v2 nvmlEventSetFree";
    assert_exports("libnvidia-ml.so.1", &functions.split_whitespace().collect::<Vec<_>>());
}

fn assert_exports(library: &str, functions: &[&str]) {
    let file = FILES.iter().find(|file| file.name == library).unwrap();
    let elf = object::File::parse(file.bytes).unwrap();
    let exported: Vec<_> = elf
        .dynamic_symbols()
        .filter(ObjectSymbol::is_definition)
        .filter_map(|symbol| symbol.name().ok())
        .collect();
    for function in functions {
        assert!(exported.contains(function), "{library} has no {function}");
    }
}
