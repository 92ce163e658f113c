/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The few kernel types the probes read. CO-RE relocates every field access to the running kernel's layout, so
 * only names and types matter here, not order or padding. */
#pragma once

/* Tells bpf_tracing.h to use the kernel's own register names (di, si, ...). */
#define __VMLINUX_H__

#include <stdbool.h>
#include <linux/types.h>
#include <linux/bpf.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
    unsigned long bp, cx, dx, si, di, r8, r9, ax, orig_ax, ip, sp;
};
#elif defined(__TARGET_ARCH_arm64)
struct user_pt_regs {
    u64 regs[31], sp, pc, pstate;
};
struct pt_regs {
    struct user_pt_regs user_regs;
    int syscallno;
};
#endif

typedef struct {
    int counter;
} atomic_t;

struct signal_struct {
    atomic_t live;
    int group_exit_code;
};

struct irqaction {
    const char *name;
};

struct super_block {
    u32 s_dev;
};

struct inode {
    u16 i_mode;
    u32 i_rdev;
    unsigned long i_ino;
    struct super_block *i_sb;
};

struct file {
    struct inode *f_inode;
    void *private_data;
};

struct fdtable {
    unsigned int max_fds;
    struct file **fd;
};

struct files_struct {
    struct fdtable *fdt;
};

struct seq_file;

struct bpf_iter_meta {
    struct seq_file *seq;
};

struct bpf_iter__task {
    struct bpf_iter_meta *meta;
    struct task_struct *task;
};

struct kernfs_node {
    u64 id;
};

struct cgroup {
    struct kernfs_node *kn;
};

struct css_set {
    struct cgroup *dfl_cgrp;
};

struct cfs_bandwidth {
    u64 throttled_time;
};

struct task_group {
    struct cfs_bandwidth cfs_bandwidth;
};

struct cfs_rq {
    struct task_group *tg;
    u64 throttled_clock_self_time;
};

struct sched_entity {
    struct cfs_rq *cfs_rq;
    u64 sum_exec_runtime;
};

struct thread_struct {
#if defined(__TARGET_ARCH_x86)
    unsigned long fsbase;
#else
    struct {
        unsigned long tp_value;
    } uw;
#endif
};

struct mm_struct {
    unsigned long start_stack;
};

/* A function that will return to a probe's own code. */
struct return_instance {
    unsigned long stack; /* where the return address is */
    unsigned long orig_ret_vaddr;
    bool chained; /* another probe of the same function has it already */
    struct return_instance *next;
};

struct uprobe_task {
    struct return_instance *return_instances;
};

struct task_struct {
    unsigned int __state;
    int on_cpu;
    int pid;
    int tgid;
    int exit_code;
    char comm[16];
    unsigned in_iowait : 1;
    struct signal_struct *signal;
    struct mm_struct *mm;
    struct files_struct *files;
    struct css_set *cgroups;
    struct sched_entity se;
    struct uprobe_task *utask;
    struct thread_struct thread;
};

struct in6_addr {
    union {
        u8 u6_addr8[16];
    } in6_u;
};

struct sock_common {
    u16 skc_family;
    u8 skc_state;
    u32 skc_daddr;
    u32 skc_rcv_saddr;
    u16 skc_dport; /* in network order */
    u16 skc_num;
    struct in6_addr skc_v6_daddr;
    struct in6_addr skc_v6_rcv_saddr;
};

struct sock_cgroup_data {
    struct cgroup *cgroup;
};

struct sock {
    struct sock_common __sk_common;
    u16 sk_protocol;
    struct socket *sk_socket;
    struct sock_cgroup_data sk_cgrp_data;
};

struct socket {
    struct sock *sk;
    struct file *file;
};

struct tcp_sock {
    u32 srtt_us;
};

struct inet_connection_sock {
    u8 icsk_retransmits;
};

struct sk_buff {
    unsigned int len;
    char cb[48];
};

struct block_device {
    u32 bd_dev;
};

struct cgroup_subsys_state {
    struct cgroup *cgroup;
};

struct blkcg {
    struct cgroup_subsys_state css;
};

struct blkcg_gq {
    struct blkcg *blkcg;
};

struct bio {
    struct blkcg_gq *bi_blkg;
};

struct request {
    u32 cmd_flags;
    unsigned int __data_len;
    u64 __sector;
    struct bio *bio;
    struct bio *biotail;
    struct block_device *part;
};

#pragma clang attribute pop

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

/* Since 6.10. */
extern void bpf_preempt_disable(void) __ksym __weak;
extern void bpf_preempt_enable(void) __ksym __weak;

/* The stack pointer of a caller as seen on return, less what the return itself popped: equal to the stack
 * pointer on entry. x86 calls push the return address, arm64 calls do not. */
#if defined(__TARGET_ARCH_x86)
#define ENTRY_SP(regs, returning) (PT_REGS_SP(regs) - ((returning) ? 8 : 0))
#define FIRST_STACK_ARG_OFFSET 8
#define REGISTER_ARGS 6
#else
#define ENTRY_SP(regs, returning) PT_REGS_SP(regs)
#define FIRST_STACK_ARG_OFFSET 0
#define REGISTER_ARGS 8
#endif

/* Where a thread has its own data. On x86 it is what pthread_self() gives, by which Python knows a thread. */
static __always_inline u64 thread_pointer(struct task_struct *thread) {
#if defined(__TARGET_ARCH_x86)
    return BPF_CORE_READ(thread, thread.fsbase);
#else
    return BPF_CORE_READ(thread, thread.uw.tp_value);
#endif
}

/* As they were when the thread last came into the kernel. */
static __always_inline struct pt_regs *user_regs(struct task_struct *task) {
    return (struct pt_regs *)bpf_task_pt_regs(task);
}

/* -1: it came by an exception or an interrupt. */
static __always_inline long syscall_of(struct task_struct *task) {
#if defined(__TARGET_ARCH_x86)
    return (long)BPF_CORE_READ(user_regs(task), orig_ax);
#else
    return BPF_CORE_READ(user_regs(task), syscallno);
#endif
}

/* A system call has no frame of its own in user space: below any stack pointer. */
#define SYSCALL_SP 1

/* Sums are kept by windows of this length: short enough that a killed agent loses less than a second of them.
 */
#define WINDOW_NS 500000000ULL
#define COMM_LEN 16

/* Keeps a type in BTF although nothing but user space needs it: the Rust side is generated from there. */
#define KEEP_TYPE(kind, name) const kind name *keep_##kind##_##name __attribute__((unused))
