// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* NCCL calls: communicators as they are made and ended, and every call on them, numbered in the kernel so
 * that the numbers are right whatever gets lost on the way. */
#include "call.h"

enum nccl_kind {
    NCCL_OTHER,
    NCCL_COLLECTIVE,
    NCCL_MESSAGE,
    NCCL_INIT,          /* the unique id by value */
    NCCL_INIT_SCALABLE, /* unique ids by pointer */
    NCCL_INIT_ALL,
    NCCL_SPLIT,
    NCCL_SHRINK,
    NCCL_END, /* destroyed or aborted */
    NCCL_GROUP_START,
    NCCL_GROUP_END,
};

/* Which argument is what, from 1; 0 where there is none. The communicator is the rule's handle. */
struct nccl_rule {
    u8 kind; /* enum nccl_kind */
    u8 count_arg;
    u8 type_arg;
    u8 reduce_arg;
    u8 peer_arg;
    u8 rank_arg;
    u8 nranks_arg;
    u8 id_arg;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, RULES);
    __type(key, u32);
    __type(value, struct nccl_rule);
} nccl_rules SEC(".maps");

struct communicator_key {
    u32 tgid;
    u32 reserved;
    u64 handle;
};

struct communicator {
    u64 number; /* never given twice, unlike the handle */
    u64 hash;   /* 0 where it is not known */
    u64 seq;    /* collectives so far */
    u64 splits;
    s32 rank; /* -1 where it is not known */
    s32 nranks;
    u32 known; /* made before our eyes: `seq` counts from its beginning */
    u32 reserved;
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 16384);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, struct communicator_key);
    __type(value, struct communicator);
} communicators SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, u64);
} communicators_made SEC(".maps");

struct nccl_record {
    struct call_record call;
    u64 communicator;
    u64 hash;
    u64 seq;
    u64 count;
    u64 mark;
    s32 rank;
    s32 nranks;
    s32 datatype;
    s32 reduce_op;
    s32 peer;
    u32 slot;
    u32 grouped;
    u32 reserved;
};

#define ID_WORDS 16 /* a unique id is 128 bytes */
#define DEVICES 64  /* communicators made by one call */

static __always_inline u64 mix(u64 hash, u64 word) {
    hash ^= word;
    hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9ULL;
    hash = (hash ^ hash >> 27) * 0x94d049bb133111ebULL;
    return hash ^ hash >> 31;
}

__noinline u64 hash_of_id(u64 address) {
    u64 hash = 0x9e3779b97f4a7c15ULL;
    for (u32 i = 0; i < ID_WORDS; i++)
        hash = mix(hash, read_u64(address + i * 8));
    return hash;
}

static __always_inline u64 new_number(void) {
    u32 zero = 0;
    u64 *made = bpf_map_lookup_elem(&communicators_made, &zero);
    return made ? __sync_fetch_and_add(made, 1) + 1 : 0;
}

static __always_inline struct nccl_rule *nccl_rule_of(u32 number) {
    return bpf_map_lookup_elem(&nccl_rules, &number);
}

static __always_inline struct communicator *find_communicator(u32 tgid, u64 handle) {
    struct communicator_key key = {.tgid = tgid, .handle = handle};
    return bpf_map_lookup_elem(&communicators, &key);
}

__noinline int add_communicator(u32 tgid, u64 handle, u64 hash, u64 ranks, bool known) {
    struct communicator_key key = {.tgid = tgid, .handle = handle};
    struct communicator fresh = {
        .number = new_number(), .hash = hash, .rank = (s32)ranks, .nranks = ranks >> 32, .known = known};
    if (bpf_map_update_elem(&communicators, &key, &fresh, BPF_ANY))
        count_loss(LOSS_SLOTS);
    return 0;
}

#define RANKS(rank, nranks) ((u32)(rank) | (u64)(u32)(nranks) << 32)

static __always_inline struct communicator *communicator_of(u32 tgid, u64 handle) {
    struct communicator *found = find_communicator(tgid, handle);
    if (found || !handle)
        return found;
    /* Older than the trace. */
    add_communicator(tgid, handle, 0, RANKS(-1, -1), false);
    return find_communicator(tgid, handle);
}

__noinline int init_all(struct flight *flight, u32 tgid) {
    if (!flight)
        return 0;
    u32 count = flight->args[1];
    /* It never leaves its process, so any number that no other has will do. */
    u64 hash = mix(mix(0x9e3779b97f4a7c15ULL, flight->start_ns), tgid);
    for (u32 i = 0; i < DEVICES && i < count; i++)
        add_communicator(tgid, read_u64(flight->args[0] + i * 8), hash, RANKS(i, count), true);
    return 0;
}

static __always_inline bool nccl_enter(struct pt_regs *regs, u64 cookie) {
    struct task *task = task_of_caller(bpf_get_current_pid_tgid() >> 32, false);
    struct rule *rule = rule_of(COOKIE_RULE(cookie));
    struct nccl_rule *nccl = nccl_rule_of(COOKIE_RULE(cookie));
    struct flight *flight = task && rule ? call_begin(regs, cookie, task, rule) : 0;
    struct governor *governor = governor_here();
    if (!task || !rule || !nccl || !governor)
        return false;
    charge(task, flight ? governor->pair_ns : governor->entry_ns);
    if (!flight)
        return false;
    u64 id = bpf_get_current_pid_tgid();
    u32 tgid = id >> 32;
    /* Its launches nest in it, and their stacks go through here. */
    flight->caller = return_address(regs);
    struct communicator *communicator = 0;
    struct stream_state *stream;
    switch (nccl->kind) {
    case NCCL_COLLECTIVE:
    case NCCL_MESSAGE:
        communicator = communicator_of(tgid, flight_arg(flight, rule->handle_arg));
        flight->capture = capture_of(tgid, flight->stream);
        flight->slot = stream_slot(task, tgid, 0, flight->stream);
        stream = stream_at(flight->slot);
        if (stream && !flight->capture) {
            flight->mark = submit(stream, bpf_ktime_get_ns());
            stream->collective_mark = flight->mark;
        }
        if (communicator && nccl->kind == NCCL_COLLECTIVE) {
            u64 seq = __sync_fetch_and_add(&communicator->seq, 1) + 1;
            flight->seq = communicator->known ? seq : 0;
        }
        break;
    case NCCL_INIT:
        /* Computed now: what was passed by value belongs to the callee, which may write over it. */
        flight->seq =
            hash_of_id(nccl->id_arg ? flight_arg(flight, nccl->id_arg) : flight->sp + FIRST_STACK_ARG_OFFSET);
        break;
    case NCCL_INIT_SCALABLE:
        flight->seq = hash_of_id(flight_arg(flight, nccl->id_arg));
        break;
    case NCCL_SPLIT:
    case NCCL_SHRINK:
        communicator = communicator_of(tgid, flight->args[0]);
        if (communicator)
            flight->seq = __sync_fetch_and_add(&communicator->splits, 1) + 1;
        break;
    case NCCL_GROUP_START:
        task->group_depth++;
        break;
    case NCCL_GROUP_END:
        if (task->group_depth)
            task->group_depth--;
        break;
    case NCCL_END:
    case NCCL_OTHER:
        communicator = find_communicator(tgid, flight_arg(flight, rule->handle_arg));
        break;
    }
    if (communicator)
        flight->communicator = communicator->number;
    begin_flight(task, flight);
    return true;
}

/* Communicators come and go when the call has succeeded; the one it was about. */
static __always_inline u64 nccl_effect(const struct nccl_rule *nccl, const struct rule *rule,
                                       struct flight *flight, u32 tgid, s32 ret) {
    u64 handle = flight_arg(flight, rule->handle_arg);
    u64 made = 0;
    bool done = ret == 0 || ret == rule->benign_ret;
    switch (nccl->kind) {
    case NCCL_INIT:
    case NCCL_INIT_SCALABLE:
        made = done ? read_u64(handle) : 0;
        if (made)
            add_communicator(tgid, made, flight->seq,
                             RANKS(flight_arg(flight, nccl->rank_arg), flight_arg(flight, nccl->nranks_arg)),
                             true);
        flight->seq = 0;
        return made;
    case NCCL_INIT_ALL:
        if (done)
            init_all(flight, tgid);
        return done ? read_u64(handle) : 0;
    case NCCL_SPLIT:
    case NCCL_SHRINK: {
        made = done ? read_u64(handle) : 0;
        struct communicator *parent = made ? find_communicator(tgid, flight->args[0]) : 0;
        if (parent) {
            /* A shrunk one has no colour: one that no split can have tells it apart. */
            u64 colour = nccl->kind == NCCL_SPLIT ? (u64)(s64)(s32)flight->args[1] : 1ULL << 32;
            u64 hash = parent->hash ? mix(mix(parent->hash, flight->seq), colour) : 0;
            add_communicator(tgid, made, hash, RANKS(-1, -1), true);
        }
        flight->seq = 0;
        return made;
    }
    default:
        return handle;
    }
}

static __always_inline void fill_nccl(struct nccl_record *out, const struct task *task,
                                      const struct nccl_rule *nccl, const struct flight *flight, u32 tgid,
                                      u64 handle) {
    struct communicator *communicator = find_communicator(tgid, handle);
    out->call.handle = handle;
    out->communicator = communicator ? communicator->number : flight->communicator;
    out->hash = communicator ? communicator->hash : 0;
    out->rank = communicator ? communicator->rank : -1;
    out->nranks = communicator ? communicator->nranks : -1;
    out->seq = flight->seq;
    out->count = flight_arg(flight, nccl->count_arg);
    out->mark = flight->mark;
    out->datatype = nccl->type_arg ? (s32)flight_arg(flight, nccl->type_arg) : -1;
    out->reduce_op = nccl->reduce_arg ? (s32)flight_arg(flight, nccl->reduce_arg) : -1;
    out->peer = nccl->peer_arg ? (s32)flight_arg(flight, nccl->peer_arg) : -1;
    out->slot = flight->slot;
    out->grouped = task->group_depth > 0;
    out->reserved = 0;
}

static __always_inline void nccl_return(struct pt_regs *regs) {
    u64 now = 0;
    struct task *task = bpf_task_storage_get(&tasks, bpf_get_current_task_btf(), 0, 0);
    struct flight *flight = task ? end_flight(task, ENTRY_SP(regs, true), &now) : 0;
    struct rule *rule = flight ? rule_of(flight->rule) : 0;
    struct nccl_rule *nccl = flight ? nccl_rule_of(flight->rule) : 0;
    if (!rule || !nccl)
        return;
    u64 id = bpf_get_current_pid_tgid();
    u32 tgid = id >> 32;
    s32 ret = (s32)PT_REGS_RC(regs);
    bool failed = ret != 0 && ret != rule->benign_ret;
    u64 duration_ns = now - flight->start_ns;
    u64 handle = nccl_effect(nccl, rule, flight, tgid, ret);
    struct window_sum *sum = window_of(id, flight, now);
    if (!sum) {
        count_loss(LOSS_WINDOWS_FULL);
        return;
    }
    count_call(sum, flight, duration_ns, 0, failed);
    bill_cost(sum, task);
    u32 kept = failed ? KEPT_ERROR : duration_ns >= rule->slow_ns ? KEPT_SLOW : KEPT_ALL;
    u32 cpu = bpf_get_smp_processor_id();
    void *ring = ring_of_cpu(cpu);
    u64 stack_key = ring && wants_stack(task, rule, kept) ? take_stack(regs, task, cpu) : 0;
    struct nccl_record *out = ring ? bpf_ringbuf_reserve(ring, sizeof(*out), 0) : 0;
    if (!out) {
        count_loss(LOSS_RING_FULL);
    } else {
        fill_call(&out->call, regs, task, rule, flight, ret, duration_ns, 0, kept, false, stack_key);
        fill_nccl(out, task, nccl, flight, tgid, handle);
        out->call.head.kind = RECORD_NCCL;
        bpf_ringbuf_submit(out, submit_flags(ring));
        sum->kept++;
    }
    if (nccl->kind == NCCL_END && !failed) {
        struct communicator_key key = {.tgid = tgid, .handle = handle};
        bpf_map_delete_elem(&communicators, &key);
    }
}

KEEP_TYPE(struct, nccl_record);
KEEP_TYPE(enum, nccl_kind);

#define PROBE_ENTER nccl_enter
#define PROBE_RETURN nccl_return
#include "programs.h"
