// How long the steps of a loop took.
#pragma once

#include <stdint.h>

void step_times_add(uint64_t ns);
uint64_t step_times_count(void);
// Writes their number and their quantiles as members of the truth.
void step_times_tell(uint64_t elapsed_ns);
