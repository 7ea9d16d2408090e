// A file that grows by whole entries: what a write that fails has left of one is cut off again.
#ifndef ZR_MONITOR_TAIL_H
#define ZR_MONITOR_TAIL_H

#include "base/alloc.h"

typedef struct zr_tail {
    int fd;         // -1: not open
    int64_t length; // whole entries, bytes
    char *path;
} zr_tail;

// At the end of the file. flags: of open(2), besides writing and appending; errno is that of the
// failure.
zero_status zr_tail_open(const char *path, int flags, zr_tail *out, zero_error *error);
// Writes and empties `entries`; empties them too where it fails: ZERO_ERR_IO, or ZERO_ERR_MEMORY
// where they have failed.
zero_status zr_tail_append(zr_tail *tail, zr_buffer *entries, zero_error *error);
void zr_tail_close(zr_tail *tail); // zeroed but for fd -1 is fine

#endif
