// The commands of simwork. Each takes its arguments (ended by NULL) and returns the exit status.
#pragma once

#include <stdint.h>

int command_launch(char **arguments);
int command_threads(char **arguments);
int command_train(char **arguments);
int command_torch(char **arguments);
int command_mixed(char **arguments);
int command_nested(char **arguments);
int command_die(char **arguments);
int command_many(char **arguments);
int command_leak(char **arguments);
int command_memory(char **arguments);
int command_mutex(char **arguments);
int command_graph(char **arguments);
int command_coldstart(char **arguments);
int command_nccl(char **arguments);
int command_nccl_all(char **arguments);
int command_nccl_hang(char **arguments);
int command_nccl_mixed(char **arguments);
int command_hip(char **arguments);
int command_hip_mixed(char **arguments);
int command_ibverbs(char **arguments);
int command_two_runtimes(char **arguments);
int command_beside(char **arguments);
int command_ioctl(char **arguments);
int command_monitor(char **arguments);
int command_hold(char **arguments);
int command_send(char **arguments);
int command_receive(char **arguments);
int command_hog(char **arguments);
int command_ctl(char **arguments);

// Starts a workload: truth, kernels, runtime, and then the gate.
void workload_begin(void);
// Pins this thread to `cpu`, unless it is ANY_CPU.
void workload_pin(uint64_t cpu);
#define ANY_CPU UINT64_MAX
