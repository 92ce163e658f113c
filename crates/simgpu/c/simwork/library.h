// Functions of libraries that only some commands need, so that the others do not map them.
#pragma once

void *library_open(const char *name);
void *library_function(void *library, const char *name);

// A pointer called like the function it holds: `FUNCTION(libnccl, ncclSend)`.
#define FUNCTION(library, name) __typeof__(name) *name = library_function(library, #name)
