// A store keeps one kind of state (master, exp_avg, gradients, ...) of one rank on one tier. All
// stores have the same table of functions (contract 2).
//
//   fetch    begins to bring a range to where it can be read and written
//   commit   begins to make what lies there the state
//   wait     waits until a transfer has ended
//
// On device and host a range is used where it lies (zr_store_at), so nothing moves. On NVMe, a
// range travels to and from the caller's buffer, which belongs to the disk from fetch or commit
// until wait.
#ifndef ZR_MEMORY_STORE_H
#define ZR_MEMORY_STORE_H

#include "memory/io.h"
#include "memory/arena.h"

typedef struct zr_store zr_store;

// Bytes of the state's vector.
typedef struct zr_range {
    int64_t first, count;
} zr_range;

// A transfer stays where it is from fetch or commit until wait. Zeroed: nothing is under way.
typedef struct zr_transfer {
    zr_store *store;       // NULL: nothing is under way
    zr_io_request request; // used by nvme
} zr_transfer;

typedef struct zr_store_ops {
    const char *name;
    // true: ranges travel to and from a buffer of the caller's; false: they are used where they
    // lie.
    bool needs_buffer;
    // buffer: range.count bytes, aligned to ZR_IO_ALIGN, if the store needs one; else ignored.
    zero_status (*fetch)(zr_store *store, zr_range range, void *buffer, zr_transfer *out,
                         zero_error *error);
    zero_status (*commit)(zr_store *store, zr_range range, void *buffer, zr_transfer *out,
                          zero_error *error);
    zero_status (*wait)(zr_transfer *transfer, zero_error *error);
    void (*destroy)(zr_store *store);
} zr_store_ops;

struct zr_store {
    const zr_store_ops *ops;
    int64_t bytes;
    zero_tier tier;
    zero_memory_category category;
    zr_ledger *ledger;
    zr_arena arena;        // device and host
    zr_io *io;             // nvme
    zr_io_extents extents; // nvme
};

// Reserves `bytes` in the memory of a device or the host, as zr_arena_create does.
zero_status zr_store_memory_create(zr_ledger *ledger, const zr_place *place, size_t bytes,
                                   zr_store *out, zero_error *error);

typedef struct zr_nvme_site {
    zr_io *io;
    const zr_scratch *scratch;
    int64_t first; // byte of the scratch; the store uses `bytes` from there on
    int64_t block; // most bytes of a transfer
    // (cut_count) sorted bytes of the vector, multiples of ZR_IO_ALIGN: ranges begin and end at
    // them.
    const int64_t *cuts;
    int cut_count;
} zr_nvme_site;

// Creates a vector that reads as zeros until it is written.
zero_status zr_store_nvme_create(zr_ledger *ledger, zero_memory_category category, int64_t bytes,
                                 const zr_nvme_site *place, zr_store *out, zero_error *error);

bool zr_store_needs_buffer(const zr_store *store);
// Returns the address of a byte in a store's own memory; NULL for a store on NVMe, or one that was
// not created.
void *zr_store_at(const zr_store *store, int64_t first);
// Waits until what was begun has ended; returns at once if nothing was.
zero_status zr_transfer_wait(zr_transfer *transfer, zero_error *error);
void zr_store_destroy(zr_store *store); // zeroed stores are allowed

#endif
