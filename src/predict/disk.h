// How fast a disk is for the I/O engine: what `zero bench io` prints, and `zero doctor` in short.
#ifndef ZR_PREDICT_DISK_H
#define ZR_PREDICT_DISK_H

#include "base/errors.h"

enum { ZR_DISK_MOST_ROUNDS = 15 };

typedef struct zr_disk_options {
    const char *directory;
    int64_t bytes;  // the most scratch space, but never more than half of what is free
    int64_t block;  // the most bytes of a transfer
    int depth;      // transfers in flight
    double seconds; // the least duration of a round
    int rounds;     // 1 to ZR_DISK_MOST_ROUNDS
} zr_disk_options;

// Bytes per second, over all rounds.
typedef struct zr_disk_rate {
    double median, least, most;
} zr_disk_rate;

typedef struct zr_disk {
    char kind[16];          // of the file system: "ext4", or its number
    int64_t available;      // free bytes, before the scratch is made
    int64_t scratch, group; // bytes of the scratch, and of the sub-groups in which it moves
    bool direct;            // bypassing the page cache
    char refused[64];       // if not direct: why
    char engine[240];       // as zr_io_description
    zr_disk_rate read, write;
    // Sub-groups read, updated and written in place, three at a time: reads and writes together.
    zr_disk_rate mix;
} zr_disk;

// Finds what the directory is on: fills in only `kind` and `available`. Returns ZERO_ERR_USAGE if
// it is not a directory.
zero_status zr_disk_look(const char *directory, zr_disk *out, zero_error *error);
// Measures everything, in scratch files that are removed afterwards. Returns ZERO_ERR_USAGE,
// ZERO_ERR_IO (also if there is no room) or ZERO_ERR_MEMORY.
zero_status zr_disk_measure(const zr_disk_options *options, zr_disk *out, zero_error *error);

#endif
