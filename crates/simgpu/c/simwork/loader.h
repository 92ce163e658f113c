// A process that prepares batches for another, as a worker of PyTorch's DataLoader does: numbers of batches
// go to it over one pipe, and come back over another when the batch is ready.
#pragma once

#include <stdint.h>

// What a batch takes: each is done in turn.
struct loader_work {
    uint64_t compute_us, sleep_us, read_bytes;
    uint64_t cpu; // that the worker is pinned to, or ANY_CPU
};

// Forks the worker, named pt_data_worker, and asks for the first batches.
void loader_start(const struct loader_work *work);
// Waits for the next batch, and asks for another one.
void loader_next(void);
// Ends the worker and waits for it.
void loader_stop(void);
