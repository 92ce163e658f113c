// coldstart: everything that a process does before its kernels run at full speed: a context, modules in every
// form, and the first launch of each kernel.
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../engine/clock.h"
#include "commands.h"
#include "gate.h"
#include "kernels.h"
#include "options.h"
#include "truth.h"

static uint64_t launches = 100, kernel_us;

static char ptx[] = "//\n.version 8.4\n.target sm_90\n.address_size 64\n";
static const char cubin[] = "\x7f"
                            "ELF\x02\x01\x01";

static const dim3 grid = {64, 1, 1}, block = {128, 1, 1};

// A file that holds a cubin; its name is the caller's to free.
static char *write_cubin(void) {
    const char *folder = getenv("TMPDIR");
    char *path;
    if (asprintf(&path, "%s/simwork-%d.cubin", folder ? folder : "/tmp", (int)getpid()) < 0)
        abort();
    FILE *file = fopen(path, "w");
    if (!file || fwrite(cubin, sizeof cubin, 1, file) != 1 || fclose(file) != 0)
        options_refuse("coldstart: cannot write %s", path);
    return path;
}

static CUmodule load_from_file(void) {
    CUmodule module;
    char *path = write_cubin();
    CALL(cuModuleLoad, &module, path);
    unlink(path);
    free(path);
    return module;
}

static CUmodule link_and_load(void) {
    enum { INPUT_PTX = 1 };
    CUmodule module;
    CUlinkState state;
    void *linked;
    size_t bytes;
    CALL(cuLinkCreate_v2, 0, NULL, NULL, &state);
    CALL(cuLinkAddData_v2, state, INPUT_PTX, ptx, sizeof ptx, "first.ptx", 0, NULL, NULL);
    CALL(cuLinkAddData_v2, state, INPUT_PTX, ptx, sizeof ptx, "second.ptx", 0, NULL, NULL);
    CALL(cuLinkComplete, state, &linked, &bytes);
    CALL(cuModuleLoadData, &module, linked);
    CALL(cuLinkDestroy, state);
    return module;
}

// Not inlined, and not static: a name for stacks.
__attribute__((noinline)) void coldstart_launch(CUfunction function) {
    CALL(cuLaunchKernel, function, grid.x, grid.y, grid.z, block.x, block.y, block.z, 0, NULL, NULL, NULL);
}

static void launch_all(CUfunction functions[KERNEL_COUNT]) {
    fprintf(truth_more(), ",\"first_launch_ns\":[");
    for (int kernel = 0; kernel < KERNEL_COUNT; kernel++) {
        uint64_t begin = now_ns();
        coldstart_launch(functions[kernel]);
        fprintf(truth_more(), "%s%" PRIu64, kernel ? "," : "", now_ns() - begin);
    }
    for (uint64_t at = 0; at < launches; at++)
        for (int kernel = 0; kernel < KERNEL_COUNT; kernel++)
            coldstart_launch(functions[kernel]);
    fprintf(truth_more(), "],\"names\":[");
    for (int kernel = 0; kernel < KERNEL_COUNT; kernel++)
        fprintf(truth_more(), "%s\"%s\"", kernel ? "," : "", kernels_name(kernel));
    fprintf(truth_more(), "],\"launches_by_kernel\":{");
    for (int kernel = 0; kernel < KERNEL_COUNT; kernel++)
        fprintf(truth_more(), "%s\"%s\":%" PRIu64, kernel ? "," : "", kernels_name(kernel), launches + 1);
    fprintf(truth_more(), "}");
}

int command_coldstart(char **arguments) {
    const struct option options[] = {
        NUMBER("launches", launches, "launches of each kernel after its first"),
        NUMBER("kernel-us", kernel_us, "how long a kernel runs, unless the control page says otherwise"),
        END,
    };
    options_parse("coldstart", "a context, modules in every form, first launches", arguments, options);
    if (kernel_us)
        simgpu_set("kernel_ns", kernel_us * 1000);
    // Not workload_begin: the runtime would be initialised before anybody watches.
    truth_begin();
    gate_wait();
    uint64_t begin = now_ns();
    CUcontext context;
    CUdevice device;
    CUmodule modules[KERNEL_COUNT], from_file;
    CUfunction functions[KERNEL_COUNT];
    cuInit(0);
    cuDeviceGet(&device, 0);
    CALL(cuCtxCreate_v2, &context, 0, device);
    CALL(cuModuleLoadData, &modules[KERNEL_MATMUL], ptx);
    CALL(cuModuleLoadData, &modules[KERNEL_SOFTMAX], cubin);
    from_file = load_from_file();
    modules[KERNEL_ADAMW] = link_and_load();
    for (int kernel = 0; kernel < KERNEL_COUNT; kernel++)
        CALL(cuModuleGetFunction, &functions[kernel], modules[kernel], kernels_name(kernel));
    fprintf(truth_more(), ",\"load_ns\":%" PRIu64, now_ns() - begin);
    launch_all(functions);
    CALL(cuCtxSynchronize);
    for (int kernel = 0; kernel < KERNEL_COUNT; kernel++)
        CALL(cuModuleUnload, modules[kernel]);
    CALL(cuModuleUnload, from_file);
    CALL(cuCtxDestroy_v2, context);
    truth_print("coldstart");
    return 0;
}
