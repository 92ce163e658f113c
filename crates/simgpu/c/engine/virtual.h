// Virtual memory management: ranges of addresses and physical memory, apart. Physical memory lives as long as
// somebody holds its handle or has it mapped.
#pragma once

#include <stdint.h>

// Results are the driver's error codes.
int virtual_reserve(uint64_t bytes, uint64_t *address);
int virtual_unreserve(uint64_t address);
int virtual_create(uint64_t bytes, uint64_t *handle);
int virtual_map(uint64_t address, uint64_t bytes, uint64_t handle);
int virtual_unmap(uint64_t address);
int virtual_release(uint64_t handle);
// Another reference to the handle of what is mapped at `address`.
int virtual_retain(uint64_t address, uint64_t *handle);
