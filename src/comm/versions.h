// Versions of a shared window's slots (contract 7). An owner overwrites its shard only after all
// ranks have released what it holds, and nobody reads a shard before it has been published.
//
// zero_comm.versions is this table in communicators that map, and NULL where nothing is mapped
// (mpi).
#ifndef ZR_COMM_VERSIONS_H
#define ZR_COMM_VERSIONS_H

#include "comm/window.h"

typedef struct zr_version_ops {
    // Says that this rank's own shard holds `version`.
    zero_status (*publish)(zr_window *window, int slot, uint64_t version, zero_error *error);
    // Waits until all N shards hold it.
    zero_status (*await_published)(zr_window *window, int slot, uint64_t version,
                                   zero_error *error);
    // Says that this rank reads no more of any version up to this one.
    zero_status (*release)(zr_window *window, int slot, uint64_t version, zero_error *error);
    // Waits until all ranks have said so.
    zero_status (*await_released)(zr_window *window, int slot, uint64_t version, zero_error *error);
} zr_version_ops;

#endif
