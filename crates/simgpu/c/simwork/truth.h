// The truth: what a workload really did, printed as one line of JSON at its end.
#pragma once

#include <stdint.h>
#include <stdio.h>

enum op {
#define OP(name) OP_##name,
#include "ops.def"
#undef OP
    OP_COUNT
};

void truth_begin(void);

// Counts `calls` of this thread that returned. In a child (after truth_in_child) they count as the
// children's.
void truth_add(enum op op, uint64_t calls);
// Counts a call that never returns: its thread or process dies inside.
void truth_add_unfinished(enum op op);
void truth_in_child(void);
void truth_child(int pid);

// One call, listed in order under "calls". What it has none of is zero.
struct call {
    enum op op;
    const char *api; // the function that was called
    uint64_t bytes;
    const void *stream;
    uint64_t pointer, aux; // the handle that it was about, and a second one; of an image its first bytes
    const char *direction; // of a copy
    const char *name;      // or path that was passed
    int64_t result;
};
void truth_call(struct call call);

// Where a command writes more members, each starting with a comma: `,"name":value`.
FILE *truth_more(void);
void truth_print(const char *command);
// What happened so far as a JSON object, for a process about to become another program. Owned by the caller.
char *truth_so_far(void);

#define COUNTED(op, call)                                                                                    \
    ({                                                                                                       \
        __typeof__(call) counted_result = (call);                                                            \
        truth_add(OP_##op, 1);                                                                               \
        counted_result;                                                                                      \
    })

// COUNTED for a call of the same name as its op.
#define CALL(function, ...) COUNTED(function, function(__VA_ARGS__))

// Makes the call `made`, which counts as `counted`, and lists it as one of `called`. More members of struct
// call follow; they are read after the call, because they may be what it returned.
#define LISTED(counted, called, made, ...)                                                                   \
    do {                                                                                                     \
        int64_t listed_result = (made);                                                                      \
        truth_call((struct call){.op = OP_##counted, .api = called, .result = listed_result, __VA_ARGS__});  \
    } while (0)
