// The part of the NCCL interface that the stand-in offers, with the real names and the real ABI. Everything
// declared here is exported from libnccl.so.2.
#pragma once

#include <stddef.h>

#include "../cuda/cuda.h"

#define NCCL_UNIQUE_ID_BYTES 128
#define NCCL_SPLIT_NOCOLOR (-1)
#define NCCL_SHRINK_ABORT 1

typedef struct {
    char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef struct ncclComm *ncclComm_t;
typedef struct ncclConfig_v21700 ncclConfig_t;
typedef struct ncclCollConfig ncclCollConfig_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;
typedef int ncclDataType_t;
typedef int ncclRedOp_t;

typedef enum {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6,
    ncclInProgress = 7,
} ncclResult_t;

typedef struct {
    int opCnt, peer, sigIdx, ctx;
} ncclWaitSignalDesc_t;

#pragma GCC visibility push(default)

ncclResult_t ncclGetVersion(int *version);
ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
const char *ncclGetErrorString(ncclResult_t result);
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank);
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config);
ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int nranks, int rank, int idCount, ncclUniqueId *ids,
                                      ncclConfig_t *config);
ncclResult_t ncclCommInitAll(ncclComm_t *comms, int count, const int *devices);
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *split, ncclConfig_t *config);
ncclResult_t ncclCommShrink(ncclComm_t comm, int *excluded, int excludedCount, ncclComm_t *shrunk,
                            ncclConfig_t *config, int flags);
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclCommCount(ncclComm_t comm, int *count);
ncclResult_t ncclCommUserRank(ncclComm_t comm, int *rank);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error);

// What begins every collective, and what ends it.
#define BUFFERS const void *from, void *to, size_t count, ncclDataType_t type
#define PLACE ncclComm_t comm, CUstream stream
// Each also with a configuration of its own.
#define COLLECTIVE(name, ...)                                                                                \
    ncclResult_t name(BUFFERS, __VA_ARGS__);                                                                 \
    ncclResult_t name##Config(BUFFERS, __VA_ARGS__, const ncclCollConfig_t *config);
COLLECTIVE(ncclAllReduce, ncclRedOp_t op, PLACE)
COLLECTIVE(ncclReduceScatter, ncclRedOp_t op, PLACE)
COLLECTIVE(ncclReduce, ncclRedOp_t op, int root, PLACE)
COLLECTIVE(ncclBroadcast, int root, PLACE)
COLLECTIVE(ncclGather, int root, PLACE)
COLLECTIVE(ncclScatter, int root, PLACE)
COLLECTIVE(ncclAllGather, PLACE)
COLLECTIVE(ncclAlltoAll, PLACE)
#undef COLLECTIVE
// RCCL's spelling.
ncclResult_t ncclAllToAll(BUFFERS, PLACE);
ncclResult_t ncclBcast(void *buffer, size_t count, ncclDataType_t type, int root, PLACE);

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer, PLACE);
ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, PLACE);
ncclResult_t ncclPutSignal(const void *from, size_t count, ncclDataType_t type, int peer, ncclWindow_t window,
                           size_t offset, int signal, int context, unsigned flags, PLACE);
ncclResult_t ncclSignal(int peer, int signal, int context, unsigned flags, PLACE);
ncclResult_t ncclWaitSignal(int count, ncclWaitSignalDesc_t *signals, PLACE);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

#pragma GCC visibility pop
