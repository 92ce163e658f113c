// From the driver's opaque handles to the engine's objects.
#pragma once

#include "../engine/stream.h"
#include "cuda.h"

static inline struct stream *stream_of_handle(CUstream handle, bool per_thread) {
    return stream_of((void *)handle, per_thread);
}
