// A store keeps one kind of state (master, exp_avg, ...) of one rank on one tier, behind one table (contract 2).
// Host is the trivial twin: fetch returns the pointer, commit does nothing.
#ifndef ZR_MEMORY_STORE_H
#define ZR_MEMORY_STORE_H

#include "memory/arena.h"

typedef struct zr_store zr_store;

typedef struct zr_range { int64_t first, count; } zr_range; // in bytes of the state's vector

typedef struct zr_store_ops {
    const char *name;
    zero_status (*fetch)(zr_store *store, zr_range range, void **data, zero_error *error);  // readable and writable until release
    zero_status (*commit)(zr_store *store, zr_range range, zero_error *error);              // what was written there is the state now
    void (*release)(zr_store *store, zr_range range);
    void (*destroy)(zr_store *store);
} zr_store_ops;

struct zr_store {
    const zr_store_ops *ops;
    zr_arena arena;
};

// Reserves `bytes` on the host.
zero_status zr_store_host_create(zr_ledger *ledger, zero_memory_category category, size_t bytes, zr_store *out, zero_error *error);
void zr_store_destroy(zr_store *store); // zeroed stores are fine

#endif
