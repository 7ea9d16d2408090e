// Windows (contracts 3, 7): memory that ranks can reach, and the operations that move shards in it.
//
// A window is a collective allocation. It has SLOTS (the engine's pieces), each with its own
// sequence numbers, so that no operation needs a barrier over all ranks:
//
//   symmetric  every rank has a region of its own of `bytes`   [rank 0 ......][rank 1 ......]...
//   shared     one region of `bytes` that all ranks map        [ shard 0 | shard 1 | ... ]
//   machine    one region of `bytes` a machine, that its ranks map and an all-gather fills
//              (several machines)
//
// Operations are started (sealing this rank's operand) and waited for; between the two the operand
// must not change, and after the wait a rank that wants to overwrite its operand calls
// zr_comm_quiesce: all readers have drained it. All ranks start and wait for the same operations in
// the same order. Sums follow the one fixed tree of contract 3 (treesum.h).
#ifndef ZR_COMM_WINDOW_H
#define ZR_COMM_WINDOW_H

#include "base/errors.h"
#include "comm/treesum.h"
#include <zero/comm.h>
#include <zero/traffic.h>

typedef enum zr_window_kind {
    ZR_WINDOW_SYMMETRIC,
    ZR_WINDOW_SHARED,
    ZR_WINDOW_MACHINE
} zr_window_kind;

typedef struct zr_window {
    zero_comm *comm;
    zr_window_kind kind;
    int64_t bytes;
    int slots;
    const char *const *slot_names; // (slots), outlives the window
    char *mine; // this rank's region; shared: the one region; machine: the machine's
    void *impl;
} zr_window;

// The threads of a rank that may wait at one time.
typedef enum zr_rank_thread { ZR_OWN_THREAD, ZR_COURIER_THREAD, ZR_RANK_THREADS } zr_rank_thread;

typedef struct zr_handle { // an operation under way
    zr_window *window;
    zero_comm_op op;
    int slot;
    int64_t offset, shard_elems; // bytes, elements
    zero_dtype dtype;
    zr_sum_target to; // of a reduce-scatter
    const void *own;  // the own shard of an all-gather; NULL: in place
    uint64_t sequence;
    zr_rank_thread thread; // that carries it out
    bool pending;
    bool arrived; // carried out by the courier, with
    zero_status status;
} zr_handle;

zero_status zr_window_create(zero_comm *comm, zr_window_kind kind, int64_t bytes, int slots,
                             const char *const *slot_names, zr_window *out, zero_error *error);
void zr_window_destroy(zr_window *window); // not collective; zeroed windows are fine

// shard_elems: elements of one rank's shard. dtype of the operand: F32, BF16 or F16. op:
// ZERO_COMM_reduce_scatter or ZERO_COMM_all_gather. to: of a reduce-scatter, else NULL. The handle
// stays where it is, operand and target untouched, until the wait.
zero_status zr_comm_start(zr_window *window, zero_comm_op op, int slot, int64_t offset,
                          int64_t shard_elems, zero_dtype dtype, const zr_sum_target *to,
                          zr_handle *out, zero_error *error);
// An all-gather of shards of which the own one lies at `own`, outside the window, and stays there
// until the wait.
zero_status zr_comm_start_gather(zr_window *window, int slot, int64_t offset, int64_t shard_elems,
                                 zero_dtype dtype, const void *own, zr_handle *out,
                                 zero_error *error);
zero_status zr_comm_wait(zr_handle *handle, zero_error *error);
zero_status zr_comm_quiesce(zr_window *window, int slot, zero_error *error);
// In place over the region, fp32: reduce-scatter into the own shard, then all-gather. Synchronous:
// the region may be overwritten.
zero_status zr_comm_all_reduce(zr_window *window, int slot, int64_t offset, int64_t shard_elems,
                               zero_error *error);

#endif
