// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* TCP retransmits by socket. They fire in the context of whatever runs, so the owner of a socket is recorded when it
 * connects and when it first sends. User space looks up the rest by the socket's inode: sends that were before the
 * trace, and kernels without the tracepoint. */
#include "event.h"
#include "file.h"
#include "interrupt.h"

#define TCP_CLOSE 7
#define TCP_SYN_SENT 2
#define PROTOCOL_TCP 6

struct owner {
    u32 tgid;
    u32 tid;
};

/* By socket: who connected it, or sent over it. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 16384);
    __type(key, u64);
    __type(value, struct owner);
} socket_owners SEC(".maps");

/* Process and thread are the owner's, or 0. */
struct tcp_record {
    struct record head;
    struct ends ends;
    u64 inode; /* of the socket; 0 where the program has closed it */
    u32 seq;
    u32 bytes;
    u32 srtt_us;
    u32 retransmits;
};

static __always_inline void set_owner(u64 key) {
    u64 id = bpf_get_current_pid_tgid();
    struct owner owner = {.tgid = id >> 32, .tid = (u32)id};
    bpf_map_update_elem(&socket_owners, &key, &owner, BPF_ANY);
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_state, struct sock *sk, int before, int after) {
    u64 key = (u64)sk;
    if (after == TCP_SYN_SENT && !in_interrupt())
        set_owner(key);
    else if (after == TCP_CLOSE)
        bpf_map_delete_elem(&socket_owners, &key);
    return 0;
}

/* An accepted socket: no tracepoint names who accepts it, but who sends is in its own context here. A short-lived
 * process may have ended before user space looks for the socket's inode. */
SEC("tp_btf/sock_send_length")
int BPF_PROG(on_send, struct sock *sk) {
    u64 key = (u64)sk;
    if (sk->sk_protocol == PROTOCOL_TCP && !bpf_map_lookup_elem(&socket_owners, &key))
        set_owner(key);
    return 0;
}

/* Newer kernels tell of attempts as well that came to nothing, as while the segment itself has not left yet.
 */
struct trace_event_raw_tcp_retransmit_skb___newer {
    int err;
} __attribute__((preserve_access_index));

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(on_retransmit, struct sock *sk, struct sk_buff *skb) {
    if (bpf_core_field_exists(struct trace_event_raw_tcp_retransmit_skb___newer, err) && (int)ctx[2])
        return 0;
    u64 now = bpf_ktime_get_ns();
    u32 cpu = bpf_get_smp_processor_id();
    void *ring = ring_of_cpu(cpu);
    struct tcp_record *out = ring ? bpf_ringbuf_reserve(ring, sizeof(*out), 0) : 0;
    if (!out) {
        count_loss(LOSS_TOLD_RING);
        return 0;
    }
    u64 key = (u64)sk;
    struct owner *owner = bpf_map_lookup_elem(&socket_owners, &key);
    out->head.time_ns = now;
    out->head.kind = RECORD_TCP;
    out->head.cpu = cpu;
    out->head.tgid = owner ? owner->tgid : 0;
    out->head.tid = owner ? owner->tid : 0;
    out->head.reserved = 0;
    out->head.cgroup_id = BPF_CORE_READ(sk, sk_cgrp_data.cgroup, kn, id);
    read_ends(sk, &out->ends);
    out->inode = BPF_CORE_READ(sk, sk_socket, file, f_inode, i_ino);
    out->seq = 0;
    /* The control block of a segment begins with its sequence number. */
    bpf_probe_read_kernel(&out->seq, sizeof(out->seq), (void *)skb + bpf_core_field_offset(skb->cb));
    out->bytes = BPF_CORE_READ(skb, len);
    out->srtt_us = BPF_CORE_READ((struct tcp_sock *)sk, srtt_us) >> 3;
    out->retransmits = BPF_CORE_READ((struct inet_connection_sock *)sk, icsk_retransmits);
    bpf_ringbuf_submit(out, submit_flags(ring));
    return 0;
}

KEEP_TYPE(struct, tcp_record);

char LICENSE[] SEC("license") = "Dual BSD/GPL";
