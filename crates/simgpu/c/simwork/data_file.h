// A file that batches are read from, round and round.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// `cached`: through the page cache. Else past it, so that the disk's pace is the reader's.
void data_file_open(const char *path, bool cached);
// Reads `bytes` into a buffer of `room` bytes, which may be smaller. Nothing where no file is open.
void data_file_read(void *buffer, uint64_t room, uint64_t bytes);
