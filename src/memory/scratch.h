// Scratch space of a run: one file in each of several directories, striped. Nobody else can see the
// files, and no crash leaves them behind.
//
//   byte of the space     [ stripe 0 | stripe 1 | stripe 2 | stripe 3 | ...
//   two directories        file 0 [0]  file 1 [0]  file 0 [1]  file 1 [1]
//
// The files are unlinked as soon as they are open, or never linked (O_TMPFILE), and are closed at
// the end of the process, however it ends. Before they are created, the file system must have
// their space free; then the space is preallocated, so that no write can run out of it
// later. They are opened with O_DIRECT where the file system accepts that.
#ifndef ZR_MEMORY_SCRATCH_H
#define ZR_MEMORY_SCRATCH_H

#include "base/errors.h"

#define ZR_IO_ALIGN 4096 // of every offset, length and buffer address
#define ZR_SCRATCH_MOST_FILES 16

typedef struct zr_scratch {
    int count;
    int fds[ZR_SCRATCH_MOST_FILES];
    char *names[ZR_SCRATCH_MOST_FILES]; // of the files when they were made, for messages
    int64_t bytes, stripe;
    bool direct; // all files are open with O_DIRECT
} zr_scratch;

// What tests do to system calls. A NULL member leaves that call as it is. Any thread may call
// these.
typedef struct zr_io_faults {
    void *user;
    // Returns an errno for preallocation, or 0.
    int (*allocate)(void *user, int64_t bytes);
    // Returns an errno for io_uring_setup, or 0.
    int (*setup)(void *user);
    // Returns an errno for io_uring_enter, or 0.
    int (*enter)(void *user);
    // Called before a transfer. Returns -errno, which becomes its result and nothing is
    // transferred; or a count below `bytes`, the most that is transferred; else `bytes`.
    int64_t (*transfer)(void *user, bool write, int64_t place, int64_t bytes);
    // Called after a read, before its checksum is compared.
    void (*arrived)(void *user, int64_t place, int64_t bytes, char *data);
    // The destination of every read or copy is overwritten first, so that old data is not taken for
    // data that did not come.
    bool overwrite;
} zr_io_faults;

// Creates the files: each of the directories (count) gets one, named "LABEL.<pid>.<number>".
// stripe: a multiple of ZR_IO_ALIGN. With 0 bytes there are no files, and no error. faults: NULL,
// or outlives the scratch. ZERO_ERR_IO names directory, bytes wanted and bytes free.
// ZERO_ERR_USAGE: a path is no directory or cannot be written. Not collective.
zero_status zr_scratch_create(const char *const *directories, int count, int64_t bytes,
                              int64_t stripe, const char *label, const zr_io_faults *faults,
                              zr_scratch *out, zero_error *error);
void zr_scratch_destroy(zr_scratch *scratch); // zeroed ones are allowed
// Returns the file that holds a byte, and its offset there. A transfer must not cross a stripe.
int zr_scratch_find(const zr_scratch *scratch, int64_t place, int64_t *offset);

#endif
