// The functions of NCCL that workloads call, by name: nccl.ncclSend(...).
#pragma once

#include "../nccl/nccl.h"

#define OP(name) __typeof__(name) *name;
extern struct nccl {
#include "nccl_ops.def"
} nccl;
#undef OP

void nccl_load(void *library);
