// The gate: lets a test attach before the first counted call, and end an endless workload.
#pragma once

#include <stdbool.h>

// Catches the first SIGINT and SIGTERM, which stop a workload in good order (a second one kills: it may hang
// in a call). Then --start-file.
void gate_wait(void);
// Whether a signal or --stop-file asks to stop. Makes a system call: ask once a step, not once a launch.
bool gate_is_stopped(void);
// Waits until `path` exists.
void gate_await_file(const char *path);
