// What the disks and the memory of a machine reached when they were measured (`zero bench io`,
// `zero bench memory`). It is kept in a file of the user, for plans that decide in which tier data
// is kept.
#ifndef ZR_PREDICT_BANDWIDTH_H
#define ZR_PREDICT_BANDWIDTH_H

#include "base/errors.h"

typedef struct zr_bandwidth { // bytes per second; 0: unknown
    double read, write;       // of a disk, by the I/O engine
    double mix;    // of a disk, reads and writes together, while sub-groups are updated in place
    bool direct;   // bypassing the page cache
    int64_t block; // bytes of a transfer when the disk was measured,
    int depth;     // and the number of transfers in flight
    // Of memory, by all cores: what a copy, and an update in place, reads and writes together.
    double copy, update;
} zr_bandwidth;

// Reads what is known of this machine and of the disk that holds `directory` (NULL: of memory
// alone). A damaged file counts as unknown, and so do entries that are old or of another processor;
// a warning says so.
void zr_bandwidth_read(const char *directory, const zero_logger *logger, zr_bandwidth *out);
// Stores what `measured` knows, together with what was known. *file tells where (free it with
// zr_free), or is NULL if it could not be stored, in which case a warning says why.
void zr_bandwidth_keep(const char *directory, const zr_bandwidth *measured,
                       const zero_logger *logger, char **file);

// What a measurement belongs to. The two functions above do the same as those below, for this
// machine and the user's file.
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
