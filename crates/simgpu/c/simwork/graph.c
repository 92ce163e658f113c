// graph: captures a graph and replays it; with --recapture-every, captures it again and again as changing
// shapes do.
#include <inttypes.h>

#include "commands.h"
#include "gate.h"
#include "kernels.h"
#include "options.h"
#include "truth.h"

static uint64_t replays = 100, nodes = 10, recapture_every, kernel_us;

static cudaStream_t stream;
static cudaGraphExec_t executable;
static uint64_t captures;
static size_t captured_nodes;

__attribute__((noinline)) void graph_capture(void) {
    cudaGraph_t graph;
    if (executable)
        CALL(cudaGraphExecDestroy, executable);
    CALL(cudaStreamBeginCapture, stream, 0);
    for (uint64_t node = 0; node < nodes; node++) {
        enum kernel kernel = (enum kernel)(node % KERNEL_COUNT);
        kernels_first_use(VIA_RUNTIME, kernel);
        kernels_launch(VIA_RUNTIME, kernel, stream);
    }
    kernels_count(VIA_RUNTIME, nodes);
    CALL(cudaStreamEndCapture, stream, &graph);
    CALL(cudaGraphGetNodes, graph, NULL, &captured_nodes);
    CALL(cudaGraphInstantiateWithFlags, &executable, graph, 0);
    CALL(cudaGraphDestroy, graph);
    captures++;
}

int command_graph(char **arguments) {
    const struct option options[] = {
        NUMBER("replays", replays, "launches of the graph; 0: until stopped"),
        NUMBER("nodes", nodes, "kernels in the graph"),
        NUMBER("recapture-every", recapture_every, "capture again after so many replays; 0: never"),
        NUMBER("kernel-us", kernel_us, "how long a kernel runs, unless the control page says otherwise"),
        END,
    };
    options_parse("graph", "captures a graph and replays it", arguments, options);
    if (kernel_us)
        simgpu_set("kernel_ns", kernel_us * 1000);
    workload_begin();
    CALL(cudaStreamCreate, &stream);
    graph_capture();
    uint64_t replay = 0;
    for (; (replays == 0 || replay < replays) && !gate_is_stopped(); replay++) {
        if (recapture_every && replay && replay % recapture_every == 0)
            graph_capture();
        CALL(cudaGraphLaunch, executable, stream);
        CALL(cudaStreamSynchronize, stream);
    }
    CALL(cudaGraphExecDestroy, executable);
    CALL(cudaStreamDestroy, stream);
    fprintf(truth_more(), ",\"captures\":%" PRIu64 ",\"nodes\":%zu,\"replays\":%" PRIu64, captures,
            captured_nodes, replay);
    truth_print("graph");
    return 0;
}
