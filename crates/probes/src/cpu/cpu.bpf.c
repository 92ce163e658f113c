// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Samples of running code. A timer interrupts each CPU at a fixed rate; where a followed thread has it, the
 * thread's place goes to user space. The program runs in the hard interrupt (perf_swevent_hrtimer()): nothing
 * of ours interrupts it on its CPU, but it interrupts the other programs, those of the same thread included.
 * So its scratch is its own, and nothing is allocated. */
#include "stack_record.h"

/* Of a Python thread the stack is its Python frames and the instruction it is at. Instructions this close to
 * each other count as one: that is less than most functions, so a name is rarely the neighbour's. */
#define LEAF_BYTES 256
/* A large library has a hundred thousand places, and no stack is deleted while its process lives. So only the
 * first few places below the same Python frames are told apart, which are the hot ones most of the time; a
 * sample at any other has the Python frames alone. */
#define LEAVES 8
/* Of a process, of threads without Python frames. */
#define NATIVE_STACKS 4096

/* struct bpf_perf_event_data with names of our own: its registers are those of user space's headers, which
 * CO-RE must not relocate. */
#if defined(__TARGET_ARCH_x86)
struct interrupted {
    u64 general[16];
    u64 ip;
    u64 cs;
    u64 flags;
    u64 sp;
    u64 ss;
};
#else
struct interrupted {
    u64 general[31];
    u64 sp;
    u64 ip;
    u64 pstate;
};
#endif

struct sample_event {
    struct interrupted regs;
    u64 period_ns;
    u64 address;
};

enum collecting { COLLECTING_UNKNOWN, COLLECTING_NOT, COLLECTING };

struct cpu_sample_record {
    struct record head;
    u64 stack_key; /* 0 where there is none */
    u64 weight_ns; /* the time it stands for */
    s32 syscall;   /* -1 outside of one */
    u16 op;        /* the call in flight; 0 for none */
    u8 in_kernel;
    u8 collecting; /* enum collecting */
};

struct native_stack {
    u64 at[NATIVE_FRAMES];
};

struct sample_scratch {
    struct python_stack python;
    struct state_search search;
    struct native_stack native;
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct sample_scratch);
} sample_scratches SEC(".maps");

/* How many stacks were sent of those that share a limit. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 16384);
    __type(key, u64);
    __type(value, u32);
} sampled_stacks SEC(".maps");

static __always_inline bool is_in_kernel(const struct sample_event *event) {
#if defined(__TARGET_ARCH_x86)
    return (event->regs.cs & 3) == 0;
#else
    return (event->regs.pstate & 0xf) != 0;
#endif
}

static __always_inline bool may_add(u64 shared, u32 limit) {
    u32 *count = bpf_map_lookup_elem(&sampled_stacks, &shared);
    if (count)
        return *count < limit && __sync_fetch_and_add(count, 1) < limit;
    u32 one = 1;
    bpf_map_update_elem(&sampled_stacks, &shared, &one, BPF_NOEXIST);
    return true;
}

/* Callers as they are, the innermost place as LEAF_BYTES says. */
__noinline u64 hash_native(struct native_stack *stack, u32 count, u64 hash) {
    if (!stack)
        return hash;
    for (u32 i = 0; i < NATIVE_FRAMES; i++) {
        if (i >= count)
            break;
        hash = mix_stack(hash, i ? stack->at[i] : stack->at[i] / LEAF_BYTES);
    }
    return hash;
}

/* A stack to be sent, unless user space has it. */
struct sampled {
    u64 key;
    u64 ip; /* 0: the Python frames alone */
    u32 frames;
    u32 native_bytes;
    bool is_new;
};

static __always_inline void name_python(struct sample_scratch *scratch, u32 tgid, struct sampled *out) {
    u64 frames = hash_frames(&scratch->python, out->frames, mix_stack(tgid, RECORD_CPU_SAMPLE));
    out->key = mix_stack(frames, out->ip / LEAF_BYTES);
    if (bpf_map_lookup_elem(&stacks_seen, &out->key))
        return;
    out->is_new = true;
    if (may_add(frames, LEAVES))
        return;
    out->key = frames;
    out->ip = 0;
    out->is_new = !bpf_map_lookup_elem(&stacks_seen, &out->key);
}

static __always_inline void name_native(struct sample_scratch *scratch, u32 tgid, struct sampled *out) {
    u64 process = mix_stack(tgid, RECORD_CPU_SAMPLE);
    scratch->native.at[0] = out->ip;
    out->key = hash_native(&scratch->native, out->native_bytes / sizeof(u64), process);
    if (bpf_map_lookup_elem(&stacks_seen, &out->key))
        return;
    out->is_new = may_add(process, NATIVE_STACKS);
    if (!out->is_new)
        out->key = 0;
}

static __always_inline u64 send_sampled(u32 cpu, struct python *python, struct sample_scratch *scratch,
                                        struct pt_regs *regs, const struct sampled *sampled) {
    void *ring = ring_of_cpu(cpu);
    if (!ring || !has_room_for_stack(ring))
        return 0;
    if (python)
        send_codes(python, &scratch->python, sampled->frames, cpu);
    struct stack_record *out =
        reserve_stack(ring, sampled->key, bpf_ktime_get_ns(), &scratch->python, sampled->frames);
    if (!out)
        return 0;
    out->sampled = 1;
    out->ip = sampled->ip;
    out->sp = PT_REGS_SP_CORE(regs);
    out->bp = PT_REGS_FP_CORE(regs);
    out->native_bytes = sampled->native_bytes;
    if (sampled->native_bytes)
        bpf_probe_read_kernel(out->native, sizeof(out->native), &scratch->native);
    bpf_ringbuf_submit(out, submit_flags(ring));
    mark_seen(sampled->key);
    return sampled->key;
}

/* Sends the thread's stack unless user space has it; gives its key, 0 where there is none. The 64 KiB of a
 * call's stack are not copied: that takes as long as all else together. */
static __always_inline u64 sample_stack(struct sample_event *ctx, struct task_struct *current,
                                        struct task *task, u32 cpu, u8 *collecting) {
    u32 zero = 0, tgid = bpf_get_current_pid_tgid() >> 32;
    struct sample_scratch *scratch = bpf_map_lookup_elem(&sample_scratches, &zero);
    if (!scratch)
        return 0;
    struct pt_regs *regs = user_regs(current);
    struct sampled sampled = {.ip = PT_REGS_IP_CORE(regs)};
    struct python *python = bpf_map_lookup_elem(&pythons, &tgid);
    u64 state =
        python ? python_thread_in_interrupt(python, task, &scratch->search, thread_pointer(current)) : 0;
    if (python && state) {
        s32 is = is_collecting(python, state);
        *collecting = is < 0 ? COLLECTING_UNKNOWN : is ? COLLECTING : COLLECTING_NOT;
        sampled.frames = walk_frames(python, &scratch->python, innermost_frame(python, state));
    }
    if (sampled.frames) {
        name_python(scratch, tgid, &sampled);
    } else {
        /* Of a thread in the kernel, too, the kernel begins with its registers of user space. */
        long bytes = bpf_get_stack(ctx, &scratch->native, sizeof(scratch->native), BPF_F_USER_STACK);
        sampled.native_bytes = bytes > 0 ? bytes : sizeof(u64);
        name_native(scratch, tgid, &sampled);
    }
    return sampled.is_new ? send_sampled(cpu, python, scratch, regs, &sampled) : sampled.key;
}

/* Named after the event it goes on. Other threads than those that make calls cost the look-up alone. */
SEC("perf_event")
int cpu_clock(struct sample_event *ctx) {
    struct task_struct *current = bpf_get_current_task_btf();
    struct task *task = bpf_task_storage_get(&tasks, current, 0, 0);
    if (!task || !task->target)
        return 0;
    u32 cpu = bpf_get_smp_processor_id();
    bool in_kernel = is_in_kernel(ctx);
    u64 now = bpf_ktime_get_ns(), period_ns = ctx->period_ns;
    u8 collecting = COLLECTING_UNKNOWN;
    u64 key = stack_mode == STACKS_OFF ? 0 : sample_stack(ctx, current, task, cpu, &collecting);
    void *ring = ring_of_cpu(cpu);
    struct cpu_sample_record *out = ring ? bpf_ringbuf_reserve(ring, sizeof(*out), 0) : 0;
    if (!out) {
        count_loss(LOSS_SAMPLE_RING);
        return 0;
    }
    fill_header(&out->head, RECORD_CPU_SAMPLE, now);
    out->stack_key = key;
    out->weight_ns = period_ns;
    out->syscall = in_kernel ? syscall_of(current) : -1;
    out->op = op_in_flight(task);
    out->in_kernel = in_kernel;
    out->collecting = collecting;
    bpf_ringbuf_submit(out, submit_flags(ring));
    return 0;
}

KEEP_TYPE(enum, collecting);
KEEP_TYPE(struct, cpu_sample_record);

char LICENSE[] SEC("license") = "Dual BSD/GPL";
