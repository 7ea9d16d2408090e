// Scratch space of a run: one file in each of several directories, striped, that nobody can see and
// that no crash leaves behind.
//
//   byte of the space     [ stripe 0 | stripe 1 | stripe 2 | stripe 3 | ...
//   two directories        file 0 [0]  file 1 [0]  file 0 [1]  file 1 [1]
//
// The files are unlinked as soon as they are open, or never linked (O_TMPFILE), and closed at the
// end of the process however it ends. Their space is asked for before they are made (what the file
// system has free) and preallocated, so that no write can run out of it later. They are opened with
// O_DIRECT where the file system takes it.
#ifndef ZR_IO_SCRATCH_H
#define ZR_IO_SCRATCH_H

#include "base/errors.h"

#define ZR_IO_ALIGN 4096 // of every offset, length and buffer address
#define ZR_SCRATCH_MOST_FILES 16

typedef struct zr_scratch {
    int count;
    int fds[ZR_SCRATCH_MOST_FILES];
    char *names[ZR_SCRATCH_MOST_FILES]; // of the files as they were made, for messages
    int64_t bytes, stripe;
    bool direct; // all of them are open with O_DIRECT
} zr_scratch;

// What tests do to system calls. A NULL member leaves that call as it is; all are called from any
// thread.
typedef struct zr_io_faults {
    void *user;
    // an errno that preallocation gives, or 0
    int (*allocate)(void *user, int64_t bytes);
    // an errno that io_uring_setup gives, or 0
    int (*setup)(void *user);
    // an errno that io_uring_enter gives, or 0
    int (*enter)(void *user);
    // Before a transfer: -errno, its result without transferring; a count below `bytes`, what is
    // transferred at most; else `bytes`.
    int64_t (*transfer)(void *user, bool write, int64_t place, int64_t bytes);
    // after a read, before its checksum is compared
    void (*arrived)(void *user, int64_t place, int64_t bytes, char *data);
    // what lies where something is to come is overwritten first, so that nothing can be taken for
    // what did not come
    bool overwrite;
} zr_io_faults;

// directories (count): each gets a file named "LABEL.<pid>.<number>". stripe: a multiple of
// ZR_IO_ALIGN. bytes 0: no files, fine.
// faults: NULL, or outlives the scratch. ZERO_ERR_IO naming directory, bytes wanted and bytes free;
// ZERO_ERR_USAGE for a directory that is none or cannot be written. Not collective.
zero_status zr_scratch_create(const char *const *directories, int count, int64_t bytes,
                              int64_t stripe, const char *label, const zr_io_faults *faults,
                              zr_scratch *out, zero_error *error);
void zr_scratch_destroy(zr_scratch *scratch); // zeroed ones are fine
// File number and offset of a byte; a transfer must not cross a stripe.
int zr_scratch_find(const zr_scratch *scratch, int64_t place, int64_t *offset);

#endif
