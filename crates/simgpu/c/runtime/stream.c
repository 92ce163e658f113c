// Streams and events of the stand-in runtime.
#include "state.h"

cudaError_t cudaStreamCreate(cudaStream_t *stream) {
    return RUNTIME_CALL(cuStreamCreate(stream, 0));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    return RUNTIME_CALL(cuStreamCreate(stream, flags));
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority) {
    return RUNTIME_CALL(cuStreamCreateWithPriority(stream, flags, priority));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    return RUNTIME_CALL(cuStreamDestroy_v2(stream));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    return RUNTIME_CALL(cuStreamSynchronize(stream));
}

cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream) {
    return RUNTIME_CALL(cuStreamSynchronize_ptsz(stream));
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
    return RUNTIME_CALL(cuStreamQuery(stream));
}

cudaError_t cudaStreamQuery_ptsz(cudaStream_t stream) {
    return RUNTIME_CALL(cuStreamQuery_ptsz(stream));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    return RUNTIME_CALL(cuStreamWaitEvent(stream, event, flags));
}

cudaError_t cudaStreamWaitEvent_ptsz(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    return RUNTIME_CALL(cuStreamWaitEvent_ptsz(stream, event, flags));
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
    return RUNTIME_CALL(cuEventCreate(event, 0));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    return RUNTIME_CALL(cuEventCreate(event, flags));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    return RUNTIME_CALL(cuEventRecord(event, stream));
}

cudaError_t cudaEventRecord_ptsz(cudaEvent_t event, cudaStream_t stream) {
    return RUNTIME_CALL(cuEventRecord_ptsz(event, stream));
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
    return RUNTIME_CALL(cuEventRecordWithFlags(event, stream, flags));
}

cudaError_t cudaEventRecordWithFlags_ptsz(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
    return RUNTIME_CALL(cuEventRecordWithFlags_ptsz(event, stream, flags));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    return RUNTIME_CALL(cuEventSynchronize(event));
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    return RUNTIME_CALL(cuEventQuery(event));
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end) {
    return RUNTIME_CALL(cuEventElapsedTime(milliseconds, start, end));
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    return RUNTIME_CALL(cuEventDestroy_v2(event));
}
