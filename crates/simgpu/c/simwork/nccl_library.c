// The functions of NCCL that workloads call.
#include "nccl_library.h"

#include "library.h"

struct nccl nccl;

void nccl_load(void *library) {
#define OP(name) nccl.name = library_function(library, #name);
#include "nccl_ops.def"
#undef OP
}
