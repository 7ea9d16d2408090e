// A file that grows by whole entries: if a write fails, the part of an entry that it left is cut
// off.
#ifndef ZR_MONITOR_TAIL_H
#define ZR_MONITOR_TAIL_H

#include "base/alloc.h"

typedef struct zr_tail {
    int fd;         // -1: not open
    int64_t length; // bytes of whole entries
    char *path;
} zr_tail;

// Opens the file at its end. flags: for open(2), in addition to those for writing and appending.
// After a failure errno tells its cause.
zero_status zr_tail_open(const char *path, int flags, zr_tail *out, zero_error *error);
// Writes `entries` and empties them, also after a failure: ZERO_ERR_IO, or ZERO_ERR_MEMORY if the
// buffer itself has failed.
zero_status zr_tail_append(zr_tail *tail, zr_buffer *entries, zero_error *error);
void zr_tail_close(zr_tail *tail); // a zeroed tail with fd -1 is allowed

#endif
