/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is behind a file descriptor, and the two ends of a socket. */
#pragma once

#include "kernel.h"

#define MODE_TYPE 0170000
#define MODE_SOCKET 0140000

#define FAMILY_INET 2
#define FAMILY_INET6 10

/* The two ends of a connection. */
struct ends {
    u8 local[16];
    u8 remote[16];
    u16 local_port;
    u16 remote_port;
    u16 family; /* 0 where there is no socket */
    u16 protocol;
    u32 state;
    u32 reserved;
};

static __always_inline struct file *file_of_fd(struct task_struct *task, u32 fd) {
    struct fdtable *table = BPF_CORE_READ(task, files, fdt);
    if (!table || fd >= BPF_CORE_READ(table, max_fds))
        return 0;
    struct file **files = BPF_CORE_READ(table, fd);
    struct file *file = 0;
    bpf_probe_read_kernel(&file, sizeof(file), files + fd);
    return file;
}

static __always_inline bool is_socket(struct file *file) {
    return file && (BPF_CORE_READ(file, f_inode, i_mode) & MODE_TYPE) == MODE_SOCKET;
}

static __always_inline struct sock *sock_of_file(struct file *file) {
    if (!is_socket(file))
        return 0;
    struct socket *socket = BPF_CORE_READ(file, private_data);
    return BPF_CORE_READ(socket, sk);
}

static __always_inline void read_ends(struct sock *sk, struct ends *ends) {
    __builtin_memset(ends, 0, sizeof(*ends));
    if (!sk)
        return;
    ends->family = BPF_CORE_READ(sk, __sk_common.skc_family);
    ends->protocol = BPF_CORE_READ(sk, sk_protocol);
    ends->state = BPF_CORE_READ(sk, __sk_common.skc_state);
    if (ends->family == FAMILY_INET) {
        BPF_CORE_READ_INTO((u32 *)ends->local, sk, __sk_common.skc_rcv_saddr);
        BPF_CORE_READ_INTO((u32 *)ends->remote, sk, __sk_common.skc_daddr);
    } else if (ends->family == FAMILY_INET6) {
        BPF_CORE_READ_INTO(&ends->local, sk, __sk_common.skc_v6_rcv_saddr.in6_u.u6_addr8);
        BPF_CORE_READ_INTO(&ends->remote, sk, __sk_common.skc_v6_daddr.in6_u.u6_addr8);
    } else {
        return;
    }
    ends->local_port = BPF_CORE_READ(sk, __sk_common.skc_num);
    ends->remote_port = __builtin_bswap16(BPF_CORE_READ(sk, __sk_common.skc_dport));
}
