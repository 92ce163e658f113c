// two-runtimes: the runtime that the program is linked to and, loaded while it runs, another version of it.
#include <inttypes.h>
#include <stdio.h>

#include "commands.h"
#include "kernels.h"
#include "library.h"
#include "options.h"
#include "truth.h"

static uint64_t calls = 10;
static char host[1 << 16];

struct runtime {
    int version;
    __typeof__(cudaMalloc) *cudaMalloc;
    __typeof__(cudaFree) *cudaFree;
    __typeof__(cudaMemcpy) *cudaMemcpy;
};

static void use(const struct runtime *runtime) {
    void *pointer;
    for (uint64_t at = 0; at < calls; at++) {
        COUNTED(cudaMalloc, runtime->cudaMalloc(&pointer, sizeof host));
        COUNTED(cudaMemcpy, runtime->cudaMemcpy(pointer, host, 0x100 + at, cudaMemcpyHostToDevice));
        COUNTED(cudaFree, runtime->cudaFree(pointer));
    }
    fprintf(truth_more(), ",\"v%d\":{\"cudaMalloc\":%" PRIu64 ",\"cudaMemcpy\":%" PRIu64, runtime->version,
            calls, calls);
    fprintf(truth_more(), ",\"cudaFree\":%" PRIu64 "}", calls);
}

static int major_version(__typeof__(cudaRuntimeGetVersion) *get_version) {
    int version;
    get_version(&version);
    return version / 1000;
}

int command_two_runtimes(char **arguments) {
    const struct option options[] = {NUMBER("n", calls, "allocations, copies and frees through each runtime"),
                                     END};
    options_parse("two-runtimes", "two versions of the CUDA runtime in one process", arguments, options);
    struct runtime linked = {major_version(cudaRuntimeGetVersion), cudaMalloc, cudaFree, cudaMemcpy};
    void *library = library_open(linked.version == 13 ? "libcudart.so.12" : "libcudart.so.13");
    struct runtime loaded = {
        .version = major_version(library_function(library, "cudaRuntimeGetVersion")),
        .cudaMalloc = library_function(library, "cudaMalloc"),
        .cudaFree = library_function(library, "cudaFree"),
        .cudaMemcpy = library_function(library, "cudaMemcpy"),
    };
    workload_begin();
    use(&linked);
    use(&loaded);
    truth_print("two-runtimes");
    return 0;
}
