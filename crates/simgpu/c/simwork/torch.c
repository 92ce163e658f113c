// torch: a training loop in the shape of PyTorch's. Batches come from a worker process over a pipe, the main
// thread launches the forward pass and the optimizer, another thread the backward pass, and nothing waits for
// the GPU.
#include <inttypes.h>
#include <stdlib.h>

#include "../engine/clock.h"
#include "autograd.h"
#include "commands.h"
#include "data_file.h"
#include "gate.h"
#include "kernels.h"
#include "loader.h"
#include "monitor.h"
#include "options.h"
#include "step_times.h"
#include "truth.h"

static uint64_t steps = 100, seconds, launches_per_step = 90, dispatch_us = 20, kernel_us = 10,
                copy_bytes = 1 << 20, import_ms = 100, cpu = ANY_CPU;
static uint64_t malloc_every, malloc_bytes = 1 << 20, leak_bytes, item_every, recapture_every, sleep_us,
                              stall_ms;
static bool pageable, cached, graphs, asks_driver;
static const char *data_file;
static struct loader_work work = {.compute_us = 20, .read_bytes = 1 << 20, .cpu = ANY_CPU};

static struct {
    cudaStream_t stream;
    void *batch, *device_batch, *scratch;
    cudaGraphExec_t forward;
    int driver, error;
} loop;

static struct { uint64_t next, copy, forward, backward, optimizer, item; } spent_ns;

// ---- launches

// As in PyTorch's own steps a third goes through cuBLAS, which calls the driver; the rest through the
// runtime.
static void launch_all(uint64_t count) {
    uint64_t direct = 0;
    for (uint64_t at = 0; at < count; at++) {
        enum kernel kernel = (enum kernel)(at % KERNEL_COUNT);
        enum via via = kernel == KERNEL_MATMUL ? VIA_EX : VIA_RUNTIME;
        if (dispatch_us)
            spin_ns(dispatch_us * 1000);
        kernels_first_use(via, kernel);
        kernels_launch(via, kernel, loop.stream);
        direct += via == VIA_EX;
    }
    kernels_count(VIA_EX, direct);
    kernels_count(VIA_RUNTIME, count - direct);
}

static void ask_driver(void) {
    monitor_ask(loop.driver);
}

// Capturing runs all of the pass, but none of its kernels.
static void capture_forward(void) {
    cudaGraph_t graph;
    CALL(cudaStreamBeginCapture, loop.stream, 0);
    launch_all(launches_per_step / 4);
    CALL(cudaStreamEndCapture, loop.stream, &graph);
    if (loop.forward)
        CALL(cudaGraphExecDestroy, loop.forward);
    CALL(cudaGraphInstantiateWithFlags, &loop.forward, graph, 0);
    CALL(cudaGraphDestroy, graph);
}

// ---- a step; its parts are not inlined, and not static: names for stacks

__attribute__((noinline)) void torch_copy(void) {
    if (copy_bytes && pageable)
        CALL(cudaMemcpy, loop.device_batch, loop.batch, copy_bytes, cudaMemcpyHostToDevice);
    else if (copy_bytes)
        CALL(cudaMemcpyAsync, loop.device_batch, loop.batch, copy_bytes, cudaMemcpyHostToDevice, loop.stream);
}

__attribute__((noinline)) void torch_forward(uint64_t step) {
    if (!graphs) {
        launch_all(launches_per_step / 4);
        return;
    }
    if (!loop.forward || (recapture_every && step % recapture_every == 0))
        capture_forward();
    CALL(cudaGraphLaunch, loop.forward, loop.stream);
}

// Most launches of a step are of its backward pass.
__attribute__((noinline)) void torch_backward(void) {
    launch_all(launches_per_step - launches_per_step / 4 - launches_per_step / 12);
}

__attribute__((noinline)) void torch_optimize(void) {
    launch_all(launches_per_step / 12);
}

// The allocator gives memory back behind the launches of this step, or never.
__attribute__((noinline)) void torch_allocate(uint64_t step) {
    void *kept;
    if (malloc_every && (step + 1) % malloc_every == 0) {
        if (loop.scratch)
            CALL(cudaFree, loop.scratch);
        loop.error = CALL(cudaMalloc, &loop.scratch, malloc_bytes);
    }
    if (leak_bytes && !loop.error)
        loop.error = CALL(cudaMalloc, &kept, leak_bytes);
}

// loss.item()
__attribute__((noinline)) void torch_item(void) {
    static float loss;
    CALL(cudaMemcpyAsync, &loss, loop.device_batch, sizeof loss, cudaMemcpyDeviceToHost, loop.stream);
    CALL(cudaStreamSynchronize, loop.stream);
}

__attribute__((noinline)) void torch_step(uint64_t step) {
    uint64_t begin = now_ns();
    loader_next();
    uint64_t loaded = now_ns();
    torch_copy();
    uint64_t copied = now_ns();
    torch_forward(step);
    uint64_t forwarded = now_ns();
    autograd_backward();
    uint64_t backwarded = now_ns();
    torch_optimize();
    torch_allocate(step);
    uint64_t optimized = now_ns();
    if (item_every && (step + 1) % item_every == 0)
        torch_item();
    uint64_t end = now_ns();
    if (sleep_us)
        sleep_ns(sleep_us * 1000);
    spent_ns.next += loaded - begin;
    spent_ns.copy += copied - loaded;
    spent_ns.forward += forwarded - copied;
    spent_ns.backward += backwarded - forwarded;
    spent_ns.optimizer += optimized - backwarded;
    spent_ns.item += end - optimized;
}

// ---- from start to end

// Importing is computing, then modules are loaded; the rest comes with the first launches.
static void start(void) {
    spin_ns(import_ms * 1000000);
    if (data_file)
        data_file_open(data_file, cached);
    loader_start(&work);
    kernels_load_module();
    // The default stream cannot be captured; it is where everything is otherwise.
    if (graphs)
        CALL(cudaStreamCreate, &loop.stream);
    uint64_t room = copy_bytes ? copy_bytes : 4096;
    if (pageable)
        loop.batch = calloc(1, room);
    else
        CALL(cudaMallocHost, &loop.batch, room);
    if (CALL(cudaMalloc, &loop.device_batch, room) != 0)
        options_refuse("the device has no %" PRIu64 " bytes for a batch", room);
    autograd_start(torch_backward);
    if (asks_driver) {
        loop.driver = monitor_open();
        simgpu_in_launch(ask_driver);
    }
}

// What the GPU's own counter says covers the last quarter of a second.
static void publish_busy(void) {
    static uint64_t next_ns;
    if (now_ns() < next_ns)
        return;
    simgpu_publish_busy();
    next_ns = now_ns() + 250000000;
}

// Ends early when the device is full, as a program does that does not catch the error.
static void train(void) {
    uint64_t begin = now_ns(), end = seconds ? begin + seconds * 1000000000 : NEVER;
    bool stalled = !stall_ms;
    while ((steps == 0 || step_times_count() < steps) && now_ns() < end && !loop.error &&
           !gate_is_stopped()) {
        uint64_t step_begin = now_ns();
        if (!stalled && seconds && step_begin - begin >= seconds * 500000000) {
            stalled = true;
            sleep_ns(stall_ms * 1000000);
        }
        torch_step(step_times_count());
        step_times_add(now_ns() - step_begin);
        publish_busy();
    }
    step_times_tell(now_ns() - begin);
}

static void clean_up(void) {
    simgpu_in_launch(NULL);
    autograd_stop();
    loader_stop();
    CALL(cudaDeviceSynchronize);
    if (loop.scratch)
        CALL(cudaFree, loop.scratch);
    CALL(cudaFree, loop.device_batch);
    if (pageable)
        free(loop.batch);
    else
        CALL(cudaFreeHost, loop.batch);
    if (graphs) {
        CALL(cudaGraphExecDestroy, loop.forward);
        CALL(cudaStreamDestroy, loop.stream);
    }
}

static void report(void) {
    FILE *more = truth_more();
    fprintf(more, ",\"spent_ns\":{\"next\":%" PRIu64 ",\"copy\":%" PRIu64 ",\"forward\":%" PRIu64,
            spent_ns.next, spent_ns.copy, spent_ns.forward);
    fprintf(more, ",\"backward\":%" PRIu64 ",\"optimizer\":%" PRIu64 ",\"item\":%" PRIu64 "}",
            spent_ns.backward, spent_ns.optimizer, spent_ns.item);
    fprintf(more, ",\"error\":%d", loop.error);
}

int command_torch(char **arguments) {
    const struct option options[] = {
        NUMBER("steps", steps, "steps; 0: until stopped"),
        NUMBER("seconds", seconds, "stop after so long; 0: no limit"),
        NUMBER("launches-per-step", launches_per_step,
               "launches in a step: a quarter of them forward, two thirds backward"),
        NUMBER("dispatch-us", dispatch_us, "what the framework computes before each launch"),
        NUMBER("kernel-us", kernel_us, "how long a kernel runs, unless the control page says otherwise"),
        NUMBER("copy-bytes", copy_bytes, "bytes copied to the device in a step"),
        FLAG("pageable", pageable, "copy from memory that is not pinned: the call waits for its bytes"),
        NUMBER("import-ms", import_ms, "what the program computes before its first call"),
        NUMBER("worker-us", work.compute_us, "what the worker computes for a batch"),
        NUMBER("worker-sleep-us", work.sleep_us, "how long it sleeps for each"),
        NUMBER("worker-cpu", work.cpu, "pin the worker to this CPU"),
        TEXT("data", data_file, "the worker reads each batch from this file, past the page cache"),
        FLAG("cached", cached, "through the page cache instead"),
        NUMBER("data-bytes", work.read_bytes, "how much for each"),
        NUMBER("malloc-every", malloc_every, "allocate and free in every Nth step"),
        NUMBER("malloc-bytes", malloc_bytes, "how much"),
        NUMBER("leak-bytes", leak_bytes, "allocated in each step and never freed"),
        NUMBER("item-every", item_every, "wait for the GPU in every Nth step, as loss.item() does"),
        FLAG("graphs", graphs, "replay the forward pass as a graph"),
        NUMBER("recapture-every", recapture_every, "capture it again in every Nth step; 0: never"),
        FLAG("driver", asks_driver, "launches make an ioctl on a device whose ioctls take turns"),
        NUMBER("sleep-us", sleep_us, "how long the main thread sleeps in each step"),
        NUMBER("stall-ms", stall_ms, "how long it sleeps once, after half of the seconds"),
        NUMBER("cpu", cpu, "pin everything to this CPU but what has one of its own"),
        END,
    };
    options_parse("torch", "a training loop in the shape of PyTorch's", arguments, options);
    workload_pin(cpu);
    if (kernel_us)
        simgpu_set("kernel_ns", kernel_us * 1000);
    workload_begin();
    start();
    train();
    clean_up();
    report();
    truth_print("torch");
    return 0;
}
