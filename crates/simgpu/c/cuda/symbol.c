// Functions of the stand-in driver by name.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cuda.h"

static void *own_symbol(const char *symbol, const char *suffix) {
    static void *own;
    if (!own) {
        // Not RTLD_DEFAULT: the library may have been loaded with RTLD_LOCAL.
        Dl_info info;
        if (!dladdr((void *)cuInit, &info))
            return NULL;
        own = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
        if (!own)
            return NULL;
    }
    char name[128];
    snprintf(name, sizeof name, "%s%s", symbol, suffix);
    return dlsym(own, name);
}

// Where the second version of a function takes other arguments, an older caller wants the first.
static bool wants_first(const char *symbol, int version) {
    static const struct {
        const char *symbol;
        int since;
    } changed[] = {
        {"cuCtxSynchronize", 13000},
        {"cuGraphAddKernelNode", 12000},
        {"cuGraphExecUpdate", 12000},
        {"cuStreamBeginCapture", 10010},
    };
    for (size_t at = 0; at < sizeof changed / sizeof *changed; at++)
        if (strcmp(symbol, changed[at].symbol) == 0)
            return version < changed[at].since;
    return false;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status) {
    static const char *const per_thread[] = {"_v2_ptsz", "_v2_ptds", "_ptsz", "_ptds"};
    static const char *const common[] = {"_v2", ""};
    enum { PER_THREAD_DEFAULT_STREAM = 2 };
    // cuCtxCreate_v4 came with CUDA 13 as what "cuCtxCreate" means.
    *function = version >= 13000 ? own_symbol(symbol, "_v4") : NULL;
    // Since CUDA 12 the one with flags is what "cuGraphInstantiate" means.
    if (version >= 12000 && strcmp(symbol, "cuGraphInstantiate") == 0)
        *function = own_symbol(symbol, "WithFlags");
    bool only_first = wants_first(symbol, version);
    for (int at = only_first ? 2 : 0; at < 4 && !*function && flags & PER_THREAD_DEFAULT_STREAM; at++)
        *function = own_symbol(symbol, per_thread[at]);
    for (int at = only_first; at < 2 && !*function; at++)
        *function = own_symbol(symbol, common[at]);
    if (status)
        *status = *function ? 0 : 1;
    return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
