// What the disks and the memory of a machine reached when they were measured (`zero bench io`,
// `zero bench memory`): kept in a file of the user's, for plans that decide what lies where.
#ifndef ZR_MEASURE_BANDWIDTH_H
#define ZR_MEASURE_BANDWIDTH_H

#include "base/errors.h"

typedef struct zr_bandwidth { // bytes a second; 0: unknown
    double read, write;       // of a disk, by the I/O engine
    double mix;    // of a disk whose sub-groups are read and written in place: both together
    bool direct;   // past the page cache
    int64_t block; // bytes of a transfer with which the disk was measured,
    int depth;     // and transfers under way
    // of memory, all cores: what a copy, and an update in place, reads and writes together
    double copy, update;
} zr_bandwidth;

// What is known of this machine and of the disk behind `directory` (NULL: of memory alone). A file
// that is damaged, and what is in it but old or of another processor, counts as unknown, with a
// warning.
void zr_bandwidth_read(const char *directory, const zero_logger *logger, zr_bandwidth *out);
// Keeps what `measured` knows, together with what was known. *file: where, or NULL where it could
// not be (a warning says why); zr_free.
void zr_bandwidth_keep(const char *directory, const zr_bandwidth *measured,
                       const zero_logger *logger, char **file);

// What a measurement belongs to, and the file. The two functions above are these, for this machine
// and the user's file.
typedef struct zr_bandwidth_site {
    char host[256], processor[128];
    char *disk;  // "254:0 /home": device and mount point; NULL: memory alone
    int64_t now; // seconds since 1970
} zr_bandwidth_site;

zero_status zr_bandwidth_site_find(const char *directory, zr_bandwidth_site *out,
                                   zero_error *error);
void zr_bandwidth_site_free(zr_bandwidth_site *place);
void zr_bandwidth_read_from(const char *file, const zr_bandwidth_site *place,
                            const zero_logger *logger, zr_bandwidth *out);
zero_status zr_bandwidth_write_to(const char *file, const zr_bandwidth_site *place,
                                  const zr_bandwidth *measured, const zero_logger *logger,
                                  zero_error *error);

#endif
