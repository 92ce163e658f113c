// Faults injected into calls, as the control page asks.
#pragma once

#include <stdint.h>

// Delays or fails a launch; returns the driver's error code.
int fault_launch(void);
void fault_copy(void);
void fault_sync(void);

// Waits until the holder keeps the mutex that launches take: the next launch will block. Needs lock_hold_ns.
void fault_await_held_lock(void);

// Runs inside every launch from now on; NULL for nothing.
void fault_run_in_launch(void (*run)(void));

void fault_in_child(void);
