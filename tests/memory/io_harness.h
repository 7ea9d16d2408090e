// A vector in a scratch file, an I/O engine of either kind, and a copy of what must be in the
// vector.
#ifndef TESTS_IO_IO_HARNESS_H
#define TESTS_IO_IO_HARNESS_H

#include "../base/scratch_directory.h"

#include "memory/io.h"

#define BLOCK_BYTES ((int64_t)1 << 20)

typedef struct kind { // of lanes; the state that a test gets
    bool threads_only;
    bool either; // the kind that is available
} kind;

typedef struct shape { // zeros: vessel_open chooses
    int directories;
    int64_t block, stripe, bytes, place;
    const int64_t *cuts;
    int cut_count;
    bool page_cache;
} shape;

typedef struct vessel {
    scratch *home;
    zr_scratch scratch;
    zr_io_extents extents;
    zr_io *io;
    char *buffer, *expected; // (bytes); buffer is mapped for transfers
    int64_t bytes;
    uint64_t random;
} vessel;

uint64_t draw(uint64_t *state); // xorshift64
void fill_randomly(uint64_t *state, char *data, int64_t bytes);
// Returns false, after printing the reason, if io_uring is to be tested and is not available.
bool vessel_open(vessel *v, shape shape, zr_io_options options, const kind *kind);
void vessel_close(vessel *v);

zr_io_request request_for(vessel *v, bool write, int begin, int count);
void start_ok(vessel *v, zr_io_request *request);
void wait_ok(vessel *v, zr_io_request *request);
zero_status transfer_all(vessel *v, bool write, zero_error *error);
void write_all(vessel *v);     // writes new data
void read_all_back(vessel *v); // reads the data and compares it

#define OPEN_OR_SKIP(v, ...)                                                                       \
    do {                                                                                           \
        if (!vessel_open(v, __VA_ARGS__)) {                                                        \
            vessel_close(v);                                                                       \
            skip();                                                                                \
        }                                                                                          \
    } while (0)

#endif
