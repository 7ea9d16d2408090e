// A file that grows by whole entries: if a write fails, the part of an entry that it left is cut
// off.
#ifndef ZR_MONITOR_APPEND_FILE_H
#define ZR_MONITOR_APPEND_FILE_H

#include "base/alloc.h"

typedef struct zr_append_file {
    int fd;         // -1: not open
    int64_t length; // bytes of whole entries
    char *path;
} zr_append_file;

// Opens the file at its end. flags: for open(2), in addition to those for writing and appending.
// After a failure errno tells its cause.
zero_status zr_append_file_open(const char *path, int flags, zr_append_file *out,
                                zero_error *error);
// Writes `entries` and empties them, also after a failure: ZERO_ERR_IO, or ZERO_ERR_MEMORY if the
// buffer itself has failed.
zero_status zr_append_file_write(zr_append_file *tail, zr_buffer *entries, zero_error *error);
void zr_append_file_close(zr_append_file *tail); // a zeroed tail with fd -1 is allowed

#endif
