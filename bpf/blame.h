/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The blame clock. Each followed thread owns a record in task storage: its calls in flight, and since when
 * and why something else than its own code has it. All threads of traced processes are followed; only those
 * that make traced calls are billed, the others' long waits are records of their own. The kernel's
 * tracepoints (probes sched, mem, irq) bill every such time to the calls it fell into; whatever of a call's
 * duration was billed to nobody was time on the CPU, so the parts sum to the duration exactly. The record
 * dies with its thread: nothing leaks when a thread dies inside a call. */
#pragma once

#include "kernel.h"

/* What has a thread that is neither running its own code nor waiting for a CPU. The order is that of model's
 * `Reason`. */
enum reason {
    REASON_FUTEX,
    REASON_BLOCK_IO,
    REASON_FILE,
    REASON_SOCKET,
    REASON_POLL,
    REASON_IOCTL,
    REASON_FAULT,
    REASON_SLEEP,
    REASON_OTHER,
    REASON_GIL,
    REASON_RECLAIM,
    REASON_THROTTLED,
    REASON_INTERRUPT,
    REASONS,
};

/* Parts of time in `struct wait_key`: a reason, or this. What a thread does by itself is no wait. */
#define PART_RUNNABLE REASONS
#define PART_ON_CPU (REASONS + 1)

enum task_state { TASK_ON_CPU, TASK_RUNNABLE, TASK_BLOCKED };

/* Calls in flight that are not nested in one of the same layer: NCCL over CUDA is two. */
#define CALL_DEPTH 4 /* a power of two */
#define CALL_ARGS 11 /* those in registers, and on the stack */

struct flight {
    u64 sp; /* on entry; pairs the return with its entry */
    u64 start_ns;
    u64 args[CALL_ARGS];
    u64 stream;
    u64 mark;         /* how much was submitted to the stream up to this call, see stream.h */
    u64 capture;      /* the capture it becomes part of, see capture.h */
    u64 communicator; /* the kernel's number of it, see the nccl probe */
    u64 seq;          /* of a collective in its communicator */
    u64 caller;       /* where it returns to, of calls that others nest in; see stack.h */
    u32 slot;         /* of its stream; 0 for none */
    u16 rule;         /* how its function is read, see call.h */
    u16 op;
    u16 library;
    u8 layer;
    u8 direction; /* enum direction */
    u8 first;     /* the first launch of its function */
    u8 waiting;   /* it is counted among the waiters of its stream */
    u8 class;     /* of calls that may be watched in slices, see budget.h; 0 for none */
    u8 slice;     /* the number of the slice it is counted in */
    u8 waited; /* the sums below are valid: most calls never leave the CPU and never pay for clearing them */
    u64 runq_ns;
    u64 blocked_ns[REASONS];
};

/* What a thread used lately, and where it is counted: a loop asks for the same few again and again. */
#define CACHED_STREAMS 4   /* powers of two */
#define CACHED_FUNCTIONS 8 /* as many kernels as a small loop has */

struct cached {
    u64 key;
    u64 slot; /* 0 for none */
};

/* Time in the kernel on the thread's own CPU: a page fault, a reclaim. What was billed meanwhile for other
 * reasons is no part of it. */
struct stretch {
    u64 since_ns;  /* 0 while not in it */
    u64 billed_ns; /* the thread's `billed_ns` at that moment */
};

struct task {
    u64 off_since_ns;
    u64 billed_ns; /* everything that was ever billed to it */
    struct stretch fault;
    struct stretch reclaim;
    u64 fault_address;
    u64 throttled_at_ns; /* its queue's time of being throttled, when it began to wait for a CPU */
    u64 queue;           /* that queue */
    u64 ran_ns;          /* what it had run in all, when it left the CPU */
    u64 migrations;
    u64 node_migrations;
    u64 syscall_arg; /* the first argument of the system call it blocks in: a file, or a futex */
    u64 holder;      /* of the lock it waits for, where that can be told: tgid and tid */
    u32 syscall_nr;
    u32 cpu_next;     /* the CPU it ran on last, plus one; 0 where it was not seen to run */
    u32 depth;        /* of `flights` */
    u8 state;         /* enum task_state */
    u8 reason;        /* enum reason, while blocked */
    u8 target;        /* its process is traced; else only its driver calls are */
    u8 group_depth;   /* between group start and group end of the collective library */
    u8 reclaim_depth; /* reclaims nest: compaction within direct reclaim */
    u8 node;          /* of the memory nearest to that CPU */
    u8 level;         /* enum level */
    u8 woken;         /* while runnable: it was woken, not taken off its CPU */
    u8 calls;         /* it made a traced call itself */
    u8 reserved[3];
    s32 device_next;   /* the device it chose, plus one; 0 where it was not seen to choose */
    u32 events_window; /* waits told of one by one, see told.h */
    u32 events;
    u32 stacks_window; /* stacks copied, see stack.h */
    u32 stacks;
    u32 python_missed; /* when all thread states were looked at in vain, see thread_state.h */
    u64 debt_ns;       /* of being watched, see budget.h */
    u64 debt_at_ns;
    u64 unbilled_ns; /* charged, and in no sum yet */
    u64 beside_ns;   /* the same, for traps before and after slices */
    u64 slice_ns;    /* charged in this slice */
    u32 slice;       /* its number */
    u32 reserved_too;
    u64 python_thread; /* its thread state in the interpreter, see thread_state.h */
    struct flight flights[CALL_DEPTH];
    struct cached streams[CACHED_STREAMS];
    struct cached functions[CACHED_FUNCTIONS];
};

struct {
    __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct task);
} tasks SEC(".maps");

/* The call in flight at a depth, or none. The barrier keeps the compiler from dropping the mask as needless:
 * it is what tells the verifier the index is within bounds. */
static __always_inline struct flight *flight_at(struct task *task, u32 depth) {
    if (depth >= CALL_DEPTH)
        return 0;
    barrier_var(depth);
    return &task->flights[depth & (CALL_DEPTH - 1)];
}

static __always_inline void bill_flight(struct flight *flight, u32 part, u64 ns) {
    if (!flight->waited) {
        __builtin_memset(flight->blocked_ns, 0, sizeof(flight->blocked_ns));
        flight->runq_ns = 0;
        flight->waited = 1;
    }
    if (part == PART_RUNNABLE)
        flight->runq_ns += ns;
    else if (part < REASONS)
        flight->blocked_ns[part] += ns;
}

/* A time that just ended belongs to every call in flight: it began after all of them were entered. */
static __always_inline void bill_flights(struct task *task, u32 part, u64 ns) {
    task->billed_ns += ns;
    for (u32 i = 0; i < CALL_DEPTH; i++) {
        if (i >= task->depth)
            break;
        bill_flight(&task->flights[i], part, ns);
    }
}

static __always_inline void begin_stretch(const struct task *task, struct stretch *stretch, u64 now) {
    stretch->since_ns = now;
    stretch->billed_ns = task->billed_ns;
}

/* Ends it; what of it is still to be billed. */
static __always_inline u64 end_stretch(const struct task *task, struct stretch *stretch, u64 now) {
    u64 since = stretch->since_ns, billed = task->billed_ns - stretch->billed_ns;
    stretch->since_ns = 0;
    return since && now > since + billed ? now - since - billed : 0;
}

static __always_inline u16 op_in_flight(const struct task *task) {
    return task->depth ? task->flights[0].op : 0;
}

/* Threads of processes that are not traced are followed in driver calls only. */
static __always_inline bool is_of_interest(const struct task *task) {
    return task->target || task->depth;
}

/* Sums are kept of threads that make calls: there are few of them, and many others in a process. */
static __always_inline bool is_billed(const struct task *task) {
    return task->calls || task->depth;
}

KEEP_TYPE(enum, reason);
