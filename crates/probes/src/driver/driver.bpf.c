// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Who is in the GPU's driver: ioctls on its device files, timed as calls are, of every process: the one that
 * keeps others waiting need not be traced. The device is told by the file's number. */
#include "call.h"
#include "file.h"

#define DEVICES 16

struct device {
    u32 major;
    s32 minor; /* -1 for all */
    u32 rule;
};

const volatile struct device devices[DEVICES];

/* Processes user space was told of that are not traced. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 4096);
    __type(key, u32);
    __type(value, u8);
} visitors SEC(".maps");

struct syscall_enter {
    u64 common;
    s64 nr;
    u64 args[6];
};

struct syscall_exit {
    u64 common;
    s64 nr;
    s64 ret;
};

#define MINOR_BITS 20

static __always_inline u32 device_of_file(struct file *file) {
    return file ? BPF_CORE_READ(file, f_inode, i_rdev) : 0;
}

static __always_inline u32 device_of_fd(u32 fd) {
    return device_of_file(file_of_fd(bpf_get_current_task_btf(), fd));
}

/* The rule of a device, or 0 where it is not one of the driver's. */
static __always_inline u32 rule_of_device(u32 device) {
    u32 major = device >> MINOR_BITS;
    s32 minor = device & ((1 << MINOR_BITS) - 1);
    if (!major)
        return 0;
    for (u32 i = 0; i < DEVICES; i++)
        if (devices[i].major == major && (devices[i].minor < 0 || devices[i].minor == minor))
            return devices[i].rule;
    return 0;
}

static __always_inline void announce(u32 tgid) {
    u8 told = 1;
    u32 *flags = target_of(tgid);
    if ((!flags || (*flags & TARGET_WAITS)) && !bpf_map_update_elem(&visitors, &tgid, &told, BPF_NOEXIST))
        emit_process(PROCESS_SEEN, 0, 0, false);
}

static __always_inline void enter(u32 device, u64 command) {
    u32 number = rule_of_device(device);
    struct rule *rule = number ? rule_of(number) : 0;
    if (!rule)
        return;
    u64 id = bpf_get_current_pid_tgid();
    struct task *task = task_of_caller(id >> 32, true);
    if (!task)
        return;
    announce(id >> 32);
    struct flight *flight = new_flight(task, rule, number, SYSCALL_SP);
    if (!flight)
        return;
    __builtin_memset(flight->args, 0, sizeof(flight->args));
    flight->args[0] = command;
    flight->stream = 0;
    flight->direction = DIRECTION_NONE;
    flight->library = 0;
    begin_flight(task, flight);
}

static __always_inline void leave(s64 ret) {
    u64 now = 0;
    struct task *task = bpf_task_storage_get(&tasks, bpf_get_current_task_btf(), 0, 0);
    struct flight *flight = task ? end_flight(task, SYSCALL_SP, &now) : 0;
    struct rule *rule = flight ? rule_of(flight->rule) : 0;
    if (rule)
        count_and_keep(0, task, rule, flight, (s32)ret, ret < 0, now);
}

SEC("tracepoint/syscalls/sys_enter_ioctl")
int on_enter(struct syscall_enter *ctx) {
    enter(device_of_fd(ctx->args[0]), ctx->args[1]);
    return 0;
}

SEC("tracepoint/syscalls/sys_exit_ioctl")
int on_exit(struct syscall_exit *ctx) {
    leave(ctx->ret);
    return 0;
}

/* The finer twins, where the kernel has kprobes: on the driver's own functions, so that nobody else's system
 * calls take the longer way. */
SEC("kprobe")
int on_function_enter(struct pt_regs *ctx) {
    enter(device_of_file((struct file *)PT_REGS_PARM1(ctx)), PT_REGS_PARM2(ctx));
    return 0;
}

SEC("kretprobe")
int on_function_return(struct pt_regs *ctx) {
    leave((s64)PT_REGS_RC(ctx));
    return 0;
}

KEEP_TYPE(struct, device);

char LICENSE[] SEC("license") = "Dual BSD/GPL";
