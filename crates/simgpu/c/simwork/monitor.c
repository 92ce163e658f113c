// monitor: a process that asks a device again and again, with ioctls that keep all others out meanwhile.
#define _GNU_SOURCE
#include "monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>

#include "../engine/clock.h"
#include "commands.h"
#include "gate.h"
#include "options.h"
#include "truth.h"

static uint64_t gap_us;
static const char *name = "monitor";

static int open_interface(const char *called) {
    int file = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
    struct ifreq interface = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_MULTI_QUEUE};
    snprintf(interface.ifr_name, sizeof interface.ifr_name, "%s", called);
    if (file < 0 || ioctl(file, TUNSETIFF, &interface) != 0)
        options_refuse("cannot use /dev/net/tun: %s", strerror(errno));
    return file;
}

int monitor_open(void) {
    // In a network of its own: the interface is nobody else's business. The lock is still everybody's.
    if (unshare(CLONE_NEWNET) != 0)
        options_refuse("cannot make a network: %s", strerror(errno));
    return open_interface("simgpu0");
}

void monitor_ask(int file) {
    struct ifreq interface = {0};
    ioctl(file, TUNGETIFF, &interface);
}

// Leaves a queue and comes back to it: the kernel waits, with the lock held, until nobody can be in the
// queue.
static void ask_slowly(int file) {
    struct ifreq leave = {.ifr_flags = IFF_DETACH_QUEUE}, join = {.ifr_flags = IFF_ATTACH_QUEUE};
    ioctl(file, TUNSETQUEUE, &leave);
    ioctl(file, TUNSETQUEUE, &join);
}

int command_monitor(char **arguments) {
    const struct option options[] = {
        NUMBER("gap-us", gap_us, "sleep after each pair of ioctls"),
        TEXT("name", name, "name of the process in lists"),
        END,
    };
    options_parse("monitor", "slow ioctls on a device whose ioctls take turns", arguments, options);
    prctl(PR_SET_NAME, name);
    int first = monitor_open(), second = open_interface("simgpu0");
    truth_begin();
    gate_wait();
    uint64_t rounds = 0, begin = now_ns();
    for (; !gate_is_stopped(); rounds++) {
        ask_slowly(second);
        if (gap_us)
            sleep_ns(gap_us * 1000);
    }
    (void)first; // keeps the interface while the other queue is away
    fprintf(truth_more(), ",\"rounds\":%" PRIu64 ",\"elapsed_ns\":%" PRIu64, rounds, now_ns() - begin);
    truth_print("monitor");
    return 0;
}
