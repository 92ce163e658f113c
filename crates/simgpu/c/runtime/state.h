// What every runtime call needs: the context, made on first use, and the thread's last error.
#pragma once

#include "cuda_runtime.h"

// Retains the primary context on first use and makes it current on this thread. Returns the driver's error.
CUresult runtime_enter(void);
CUcontext runtime_context(void);
// Remembers an error for cudaGetLastError, and returns it.
cudaError_t runtime_leave(CUresult result);
// The driver's function behind a host stub, loaded when first asked for. Enters the runtime itself.
CUresult runtime_resolve(const void *stub, CUfunction *function);

// One runtime call made of one driver call.
#define RUNTIME_CALL(driver_call)                                                                            \
    ({                                                                                                       \
        CUresult entered = runtime_enter();                                                                  \
        runtime_leave(entered == CUDA_SUCCESS ? (driver_call) : entered);                                    \
    })
