// What a disk, or the memory, of one machine reaches, as `zero bench io` and `zero bench memory`
// measure it: bytes per second, 0 if unknown.
#ifndef ZR_PREDICT_RATE_STORAGE_H
#define ZR_PREDICT_RATE_STORAGE_H

#include "base/alloc.h"
#include "base/errors.h"
#include "base/json_writer.h"

enum { ZR_STORAGE_NAME = 256 };

typedef struct zr_storage_rates {
    char host[ZR_STORAGE_NAME]; // machines of one processor share a book
    char disk[ZR_STORAGE_NAME]; // "254:0 /home": device and mount point; empty: the memory
    int64_t measured;           // seconds since 1970
    double read, write;         // of a disk, through the I/O engine
    double mix;    // of a disk: reads and writes together while sub-groups are updated in place
    bool direct;   // bypassing the page cache
    int64_t block; // bytes of a transfer when the disk was measured,
    int depth;     // and the number of transfers in flight
    // Of memory, by all cores: bytes read and written together by a copy, and by an update in
    // place.
    double copy, update;
} zr_storage_rates;

// Fills in the host, the disk that holds `directory` (NULL: the memory is meant), and the time; the
// rest is zeroed. ZERO_ERR_USAGE: there is no such directory.
zero_status zr_storage_name(const char *directory, zr_storage_rates *out, zero_error *error);
// Read and write a row as JSON. Reading returns false if it is not one.
bool zr_storage_read(const json_t *entry, zr_storage_rates *out);
void zr_storage_json(const zr_storage_rates *rates, zr_json_writer *w);

#endif
