/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Stacks of kept calls. Taken on return, when the caller's stack is the same as on entry, and only for calls
 * that are kept. Most libraries have no frame pointers, so registers and a copy of the stack go to user
 * space, which unwinds them; Python's frames are read here. A stack that is known by its Python frames is
 * sent once; others as often as a thread may in a window. */
#pragma once

#include "stack_record.h"

#define PART_BYTES 4096 /* of a stack; a power of two */
#define STACK_PARTS 16  /* a power of two */
#define COPIES_PER_WINDOW 32

/* Some of the stack, from `sp` plus `offset` on. */
struct stack_part_record {
    struct record head;
    u64 key;
    u32 offset;
    u32 bytes;
    u8 data[PART_BYTES];
};

/* Where a thread puts its stack together: its own, as programs can be preempted. */
struct scratch {
    struct python_stack python;
    struct state_search search;
};

struct {
    __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct scratch);
} scratches SEC(".maps");

/* Where a call will return to, on entry: the return probe puts its trampoline there only afterwards. */
static __always_inline u64 return_address(struct pt_regs *regs) {
#if defined(__TARGET_ARCH_x86)
    return user_word(PT_REGS_SP(regs));
#else
    return PT_REGS_RET(regs);
#endif
}

static __always_inline bool may_copy(struct task *task, u64 now) {
    u32 window = now / WINDOW_NS;
    if (task->stacks_window != window) {
        task->stacks_window = window;
        task->stacks = 0;
    }
    return task->stacks++ < COPIES_PER_WINDOW;
}

/* How much stack there is above `sp`. A thread's own data lies at the top of its stack; the first thread's
 * stack ends where the kernel put it. */
static __always_inline u32 stack_bytes(struct task_struct *current, u64 sp) {
    u64 most = PART_BYTES * STACK_PARTS;
    u64 self = thread_pointer(current), top = BPF_CORE_READ(current, mm, start_stack);
    u64 end = sp + most;
    if (self > sp && self < end)
        end = self;
    if (top >= sp && top < end)
        end = top;
    return end - sp;
}

/* Sends one part of the stack; gives how many bytes. */
__noinline u32 send_part(u64 key, u64 from, u32 offset, u32 bytes, u32 cpu) {
    void *ring = ring_of_cpu(cpu);
    struct stack_part_record *out = ring ? bpf_ringbuf_reserve(ring, sizeof(*out), 0) : 0;
    if (!out) {
        count_loss(LOSS_STACK_RING);
        return 0;
    }
    if (bytes > PART_BYTES)
        bytes = PART_BYTES;
    fill_header(&out->head, RECORD_STACK_PART, 0);
    out->key = key;
    out->offset = offset;
    out->bytes = bytes;
    if (!bytes || bpf_probe_read_user(out->data, bytes, (void *)from)) {
        bpf_ringbuf_discard(out, 0);
        return 0;
    }
    bpf_ringbuf_submit(out, BPF_RB_NO_WAKEUP);
    return bytes;
}

/* Sends the stack itself; gives how many bytes. */
static __always_inline u32 send_parts(u64 key, u64 sp, u32 bytes, u32 cpu) {
    u32 sent = 0;
    for (u32 i = 0; i < STACK_PARTS; i++) {
        u32 more = sent < bytes ? send_part(key, sp + sent, sent, bytes - sent, cpu) : 0;
        if (!more)
            break;
        sent += more;
    }
    return sent;
}

static __always_inline void fill_swapped(struct stack_record *out, const struct task *task) {
    u32 count = 0;
    for (u32 i = 0; i < CALL_DEPTH; i++) {
        if (i >= task->depth || !task->flights[i].caller)
            break;
        out->swapped[i].at = task->flights[i].sp;
        out->swapped[i].original = task->flights[i].caller;
        count++;
    }
    out->swapped_count = count;
}

/* By frame pointers. The kernel does it in a buffer of the CPU's, in which a program that preempts this one
 * would write too. */
static __always_inline long native_stack(struct pt_regs *regs, void *into, u32 bytes) {
    if (!bpf_preempt_disable || !bpf_preempt_enable)
        return bpf_get_stack(regs, into, bytes, BPF_F_USER_STACK);
    bpf_preempt_disable();
    long got = bpf_get_stack(regs, into, bytes, BPF_F_USER_STACK);
    bpf_preempt_enable();
    return got;
}

/* Sends the caller's stack unless user space has it; gives the key it is known by, 0 where it got lost. */
__noinline u64 take_stack(struct pt_regs *regs __arg_ctx, struct task *task, u32 cpu) {
    if (!task)
        return 0;
    void *ring = ring_of_cpu(cpu);
    if (!ring || !has_room_for_stack(ring))
        return 0;
    struct task_struct *current = bpf_get_current_task_btf();
    u32 tgid = bpf_get_current_pid_tgid() >> 32;
    u64 now = bpf_ktime_get_ns(), ip = PT_REGS_IP(regs), sp = PT_REGS_SP(regs);
    u64 key = mix_stack(mix_stack(mix_stack(tgid, ip), sp), 1);
    struct scratch *scratch = 0;
    struct python *python = bpf_map_lookup_elem(&pythons, &tgid);
    u32 frames = 0;
    if (python) {
        scratch = bpf_task_storage_get(&scratches, current, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
        u64 state = scratch ? python_thread(python, task, &scratch->search, thread_pointer(current)) : 0;
        if (state)
            frames = walk_frames(python, &scratch->python, innermost_frame(python, state));
    }
    if (frames && scratch) {
        key = hash_frames(&scratch->python, frames, key);
        if (bpf_map_lookup_elem(&stacks_seen, &key))
            return key;
    } else {
        /* Nothing tells it from another one without unwinding it. */
        key = mix_stack(key, now);
    }
    bool copies = may_copy(task, now);
    u32 copied = copies ? send_parts(key, sp, stack_bytes(current, sp), cpu) : 0;
    if (python && scratch)
        send_codes(python, &scratch->python, frames, cpu);
    struct stack_record *out = reserve_stack(ring, key, now, scratch ? &scratch->python : 0, frames);
    if (!out)
        return 0;
    out->ip = ip;
    out->sp = sp;
    out->bp = PT_REGS_FP(regs);
    out->copied = copied;
    fill_swapped(out, task);
    long native = native_stack(regs, out->native, sizeof(out->native));
    out->native_bytes = native > 0 ? native : 0;
    out->python_cut = python && scratch && scratch->search.is_cut && !scratch->search.found;
    bpf_ringbuf_submit(out, submit_flags(ring));
    if (copied)
        mark_seen(key);
    return key;
}

KEEP_TYPE(struct, stack_part_record);
