// A window of the local communicator as one rank maps it, and what the table of operations takes
// from here. Private to local_*.c.
//
//   symmetric: [slot words (slots, N)] [rank 0's region, whole pages] [rank 1's] ...
//   shared, machine: [slot words (slots, N)] [the one region]
#ifndef ZR_COMM_LOCAL_WINDOW_H
#define ZR_COMM_LOCAL_WINDOW_H

#include "comm/channel_ops.h"
#include "comm/local_control.h"
#include "comm/window.h"

typedef struct zr_slot_words {                 // of one rank and slot; only that rank writes them
    _Alignas(ZR_LINE) _Atomic uint64_t sealed; // operations started: (sequence, check)
    _Atomic uint64_t drained;                  // operations whose operands this rank has read
    // Versions (shared windows). For machine windows, `published` is the gathers whose own shard is
    // there.
    _Atomic uint64_t published, released;
} zr_slot_words;

// Regions of all ranks in memory of a far device (local_far_window.h).
typedef struct zr_far_regions {
    zero_comm *comm;
    struct {
        char *at; // as this rank's queues reach it; NULL: not reached, or of no bytes
        int64_t bytes;
    } of[]; // (N)
} zr_far_regions;

typedef struct zr_local_window {
    zr_window_entry *entry;
    char *base;           // the whole mapping
    int64_t mapped;       // bytes
    int64_t stride;       // bytes from one rank's region to the next; 0: there is one region
    zr_slot_words *words; // (slots, N)
    char *data;           // rank 0's region, or the shared one
    // On a far device, released with the window: its regions, or the slots of channels. NULL:
    // regions follow each other.
    zr_far_regions *far;
    uint64_t sequence[]; // (slots) number of operations that this rank has started
} zr_local_window;

static inline zr_slot_words *zr_slot_words_of(const zr_window *window, int slot, int rank)
{
    const zr_local_window *local = window->impl;
    return &local->words[(int64_t)slot * window->comm->size + rank];
}

static inline char *zr_local_region(const zr_window *window, int rank)
{
    const zr_local_window *local = window->impl;
    return local->far ? local->far->of[rank].at : local->data + rank * local->stride;
}

// local_window.c
zero_status zr_local_window_create(zero_comm *comm, zr_window *window, zero_error *error);
void zr_local_window_destroy(zr_window *window);

// local_ops.c
zero_status zr_local_start(zr_handle *handle, zero_error *error);
zero_status zr_local_reduce_scatter_wait(zr_handle *handle, const zr_sum_target *to,
                                         zero_error *error);
void zr_local_number(zr_handle *handle);
void zr_local_drained(const zr_handle *handle);
zero_status zr_local_all_gather_wait(zr_handle *handle, zero_error *error);
zero_status zr_local_quiesce(zr_window *window, int slot, zero_error *error);
extern const zr_version_ops zr_local_versions;

// local_channel.c
extern const zr_channel_ops zr_local_channels;

#endif
