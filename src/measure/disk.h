// How fast a disk is for the I/O engine: what `zero bench io` prints, and `zero doctor` in short.
#ifndef ZR_MEASURE_DISK_H
#define ZR_MEASURE_DISK_H

#include "base/errors.h"

enum { ZR_DISK_MOST_ROUNDS = 15 };

typedef struct zr_disk_options {
    const char *directory;
    int64_t bytes;  // of scratch space at most; half of what is free at most in any case
    int64_t block;  // bytes of a transfer at most
    int depth;      // transfers under way
    double seconds; // of a round at least
    int rounds;     // 1 to ZR_DISK_MOST_ROUNDS
} zr_disk_options;

// bytes a second, of the rounds
typedef struct zr_disk_rate {
    double median, least, most;
} zr_disk_rate;

typedef struct zr_disk {
    char kind[16];          // of file system: "ext4", or its number
    int64_t available;      // bytes that are free, before the scratch
    int64_t scratch, group; // bytes of the scratch, and of the sub-groups in which it moves
    bool direct;            // past the page cache
    char refused[64];       // !direct: why
    char engine[240];       // as zr_io_description
    zr_disk_rate read, write;
    // sub-groups read, updated and written in place, three deep: reads and writes together
    zr_disk_rate mix;
} zr_disk;

// What the directory lies on: kind and available alone. ZERO_ERR_USAGE for a directory that is
// none.
zero_status zr_disk_look(const char *directory, zr_disk *out, zero_error *error);
// All of it, in scratch files that are gone afterwards. ZERO_ERR_USAGE, ZERO_ERR_IO (also where
// there is no room), ZERO_ERR_MEMORY.
zero_status zr_disk_measure(const zr_disk_options *options, zr_disk *out, zero_error *error);

#endif
