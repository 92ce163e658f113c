// simwork: workloads on the stand-in GPU that know exactly what they did, and the control of its faults.
#define _GNU_SOURCE
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "../engine/clock.h"
#include "commands.h"
#include "gate.h"
#include "kernels.h"
#include "options.h"
#include "truth.h"

static const struct {
    const char *name, *about;
    int (*run)(char **arguments);
} commands[] = {
    {"launch", "launches from one or several threads", command_launch},
    {"threads", "hundreds of threads, a few launches each", command_threads},
    {"train", "a training loop: launches, a copy and a synchronisation each step", command_train},
    {"torch", "a training loop in the shape of PyTorch's", command_torch},
    {"mixed", "every probed function, with distinct sizes", command_mixed},
    {"nested", "calls inside calls, and calls from host functions", command_nested},
    {"die", "threads and processes that end inside a call", command_die},
    {"many", "many short-lived processes", command_many},
    {"leak", "allocates until the device is full", command_leak},
    {"memory", "every kind of memory, half of it freed; or a leak", command_memory},
    {"mutex", "launches that wait for a mutex held by a sibling thread", command_mutex},
    {"graph", "captures a graph and replays it", command_graph},
    {"coldstart", "a context, modules in every form, first launches", command_coldstart},
    {"nccl", "one rank of a communicator", command_nccl},
    {"nccl-all", "all ranks of a communicator in one process", command_nccl_all},
    {"nccl-hang", "a communicator that one rank never joins", command_nccl_hang},
    {"nccl-mixed", "every probed function of NCCL, with distinct arguments", command_nccl_mixed},
    {"hip", "launches and copies through HIP", command_hip},
    {"hip-mixed", "every probed function of HIP, with distinct sizes", command_hip_mixed},
    {"ibverbs", "waits for asynchronous events of an InfiniBand device", command_ibverbs},
    {"two-runtimes", "two versions of the CUDA runtime in one process", command_two_runtimes},
    {"beside", "launches through the driver and through an unwatched copy of it, in turns", command_beside},
    {"ioctl", "ioctls on a device file", command_ioctl},
    {"monitor", "slow ioctls on a device whose ioctls take turns", command_monitor},
    {"hold", "launches that are held up inside for one known reason", command_hold},
    {"send", "sends over a TCP connection, and launches now and then", command_send},
    {"receive", "the other end of it, which makes no calls", command_receive},
    {"hog", "burns CPU time, and makes no calls", command_hog},
    {"ctl", "prints or sets the fields of a control page", command_ctl},
};

void workload_begin(void) {
    truth_begin();
    kernels_register();
    gate_wait();
}

void workload_pin(uint64_t cpu) {
    if (cpu == ANY_CPU)
        return;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    if (cpu < CPU_SETSIZE)
        CPU_SET(cpu, &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus) != 0)
        options_refuse("cannot run on CPU %" PRIu64, cpu);
}

static void print_help(void) {
    printf("simwork: workloads on the stand-in GPU libraries beside it\n\n");
    for (size_t at = 0; at < sizeof commands / sizeof *commands; at++)
        printf("  %-12s %s\n", commands[at].name, commands[at].about);
    printf(
        "\nsimwork COMMAND --help tells its options. A workload ends with one line of JSON: what it did.\n");
}

int main(int count, char **arguments) {
    if (count < 2 || strcmp(arguments[1], "--help") == 0 || strcmp(arguments[1], "-h") == 0) {
        print_help();
        return count < 2 ? 2 : 0;
    }
    for (size_t at = 0; at < sizeof commands / sizeof *commands; at++)
        if (strcmp(commands[at].name, arguments[1]) == 0) {
            int status = commands[at].run(arguments + 2);
            sleep_ns(option_live_ms * 1000000);
            return status;
        }
    options_refuse("unknown command \"%s\" (see simwork --help)", arguments[1]);
}
