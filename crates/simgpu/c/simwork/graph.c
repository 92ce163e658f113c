// graph: makes a graph and replays it; with --recapture-every, makes it again and again as changing shapes
// do.
#include <inttypes.h>
#include <string.h>

#include "commands.h"
#include "gate.h"
#include "graph_build.h"
#include "options.h"
#include "truth.h"

static uint64_t replays = 100, recapture_every, kernel_us;
static struct plan plan = {.kernels = 10};
static const char *mode = "capture";

static cudaGraphExec_t executable;
static uint64_t captures, executables;
static size_t captured_nodes;

static void instantiate(cudaGraph_t graph) {
    if (executable)
        CALL(cudaGraphExecDestroy, executable);
    CALL(cudaGraphInstantiateWithFlags, &executable, graph, 0);
    executables++;
}

static void make_executable(void) {
    cudaGraph_t graph = graph_make(mode, &plan);
    captures++;
    CALL(cudaGraphGetNodes, graph, NULL, &captured_nodes);
    if (executable && strcmp(mode, "update") == 0) {
        cudaGraphExecUpdateResultInfo result;
        if (CALL(cudaGraphExecUpdate, executable, graph, &result) != 0)
            instantiate(graph);
    } else {
        instantiate(graph);
    }
    CALL(cudaGraphDestroy, graph);
}

int command_graph(char **arguments) {
    const struct option options[] = {
        NUMBER("replays", replays, "launches of the graph; 0: until stopped"),
        NUMBER("nodes", plan.kernels, "kernels in the graph"),
        NUMBER("copies", plan.copies, "fills before the kernels, and copies after them"),
        NUMBER("hosts", plan.hosts, "host functions after the kernels"),
        TEXT("mode", mode,
             "capture, explicit (node by node), child (a captured graph inside), two-streams (a capture that "
             "forks and joins) or update (captured again, it updates the executable)"),
        NUMBER("recapture-every", recapture_every, "make it again after so many replays; 0: never"),
        NUMBER("kernel-us", kernel_us, "how long a kernel runs, unless the control page says otherwise"),
        END,
    };
    options_parse("graph", "captures a graph and replays it", arguments, options);
    if (!graph_knows_mode(mode))
        options_refuse("graph: there is no mode \"%s\" (see simwork graph --help)", mode);
    if (kernel_us)
        simgpu_set("kernel_ns", kernel_us * 1000);
    workload_begin();
    graph_prepare(mode, &plan);
    make_executable();
    uint64_t replay = 0;
    for (; (replays == 0 || replay < replays) && !gate_is_stopped(); replay++) {
        if (recapture_every && replay && replay % recapture_every == 0)
            make_executable();
        CALL(cudaGraphLaunch, executable, graph_stream());
        CALL(cudaStreamSynchronize, graph_stream());
    }
    CALL(cudaGraphExecDestroy, executable);
    graph_clean_up();
    fprintf(truth_more(), ",\"captures\":%" PRIu64 ",\"nodes\":%zu,\"replays\":%" PRIu64, captures,
            captured_nodes, replay);
    fprintf(truth_more(), ",\"execs\":%" PRIu64, executables);
    graph_tell_nodes();
    truth_print("graph");
    return 0;
}
