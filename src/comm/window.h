// Windows (contracts 3, 7): memory that ranks can reach, and operations that move shards in it.
//
// A window is allocated collectively. It has slots (the engine's flat parameters), each with its
// own sequence numbers, so that no operation needs a barrier over all ranks:
//
//   symmetric  every rank has a region of its own of `bytes`   [rank 0 ......][rank 1 ......]...
//   shared     one region of `bytes` that all ranks map        [ shard 0 | shard 1 | ... ]
//   machine    one region of `bytes` on each machine, which its ranks map and an all-gather fills
//              (several machines)
//
// An operation is started, which seals this rank's operand, and then waited for; in between, the
// operand must not change. A rank that wants to overwrite its operand after the wait calls
// zr_comm_quiesce, which waits until all readers have drained it. All ranks start and wait for the
// same operations in the same order. Sums follow the one fixed tree of contract 3
// (compute/tree_sum.h).
#ifndef ZR_COMM_WINDOW_H
#define ZR_COMM_WINDOW_H

#include "base/errors.h"
#include "compute/compute.h"
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

// The threads of a rank that may wait in one communicator at one time.
typedef enum zr_rank_thread {
    ZR_OWN_THREAD,
    ZR_COMM_THREAD_THREAD,
    ZR_RANK_THREADS
} zr_rank_thread;

typedef struct zr_handle { // an operation that was started
    zr_window *window;
    zero_comm_op op;
    int slot;
    int64_t offset, shard_elems; // bytes, elements
    zero_dtype dtype;
    int bits;         // of codes in blocks (base/blocks.h) in place of elements of dtype; 0: none
    zr_sum_target to; // of a reduce-scatter
    const void *own;  // the own shard of an all-gather; NULL: in place
    // On a far device: what made the operand, and what carried the operation out.
    zr_mark made, done;
    uint64_t sequence;
    zr_rank_thread thread; // the thread that carries it out
    bool pending;
    bool arrived;       // the comm thread has carried it out
    zero_status status; // of the comm thread's work
} zr_handle;

zero_status zr_window_create(zero_comm *comm, zr_window_kind kind, int64_t bytes, int slots,
                             const char *const *slot_names, zr_window *out, zero_error *error);
void zr_window_destroy(zr_window *window); // not collective; zeroed windows are fine

// Starts an operation. shard_elems: elements of one rank's shard. dtype of the operand: F32, BF16
// or F16. op: ZERO_COMM_reduce_scatter or ZERO_COMM_all_gather. to: the target of a reduce-scatter,
// else NULL. Until the wait, the handle stays where it is, and nothing touches operand and target.
zero_status zr_comm_start(zr_window *window, zero_comm_op op, int slot, int64_t offset,
                          int64_t shard_elems, zero_dtype dtype, const zr_sum_target *to,
                          zr_handle *out, zero_error *error);
// Starts a reduce-scatter of contributions in blocks of codes of `bits` bits (8 or 4), which are
// widened and summed in fp32. shard_elems: a multiple of ZR_BLOCK.
zero_status zr_comm_start_blocks(zr_window *window, int slot, int64_t offset, int64_t shard_elems,
                                 int bits, const zr_sum_target *to, zr_handle *out,
                                 zero_error *error);
// Starts an all-gather whose own shard lies at `own`, outside of the window, and stays there until
// the wait. It may also lie at its place in the window: of a machine window, once no rank of the
// machine reads there any more.
// bits: 0, or 8 or 4: then the own shard is codes in blocks (base/blocks.h), shard_elems is a
// multiple of ZR_BLOCK, codes travel, and a machine window receives them widened to dtype.
zero_status zr_comm_start_gather(zr_window *window, int slot, int64_t offset, int64_t shard_elems,
                                 zero_dtype dtype, int bits, const void *own, zr_handle *out,
                                 zero_error *error);
zero_status zr_comm_wait(zr_handle *handle, zero_error *error);
zero_status zr_comm_quiesce(zr_window *window, int slot, zero_error *error);
// All-reduces the region in place, in fp32: a reduce-scatter into the own shard, then an
// all-gather. Synchronous: afterwards the region may be overwritten.
zero_status zr_comm_all_reduce(zr_window *window, int slot, int64_t offset, int64_t shard_elems,
                               zero_error *error);

// Waits for a mark of a queue. A failure ends the waits of the other ranks, which say themselves
// whose it is; to the caller it names this rank, what it was `doing` (with which slot, or NULL),
// and the step.
zero_status zr_comm_finish(zero_comm *comm, zr_mark mark, const char *doing, const char *slot,
                           zero_error *error);

// Versions of a shared window's slots (contract 7). An owner overwrites its shard only after all
// ranks have released what it holds, and nobody reads a shard before it has been published.
//
// zero_comm.versions is this table in communicators that map, and NULL where nothing is mapped
// (mpi).
typedef struct zr_version_ops {
    // Declares that this rank's own shard holds `version`.
    zero_status (*publish)(zr_window *window, int slot, uint64_t version, zero_error *error);
    // Waits until all N shards hold it.
    zero_status (*await_published)(zr_window *window, int slot, uint64_t version,
                                   zero_error *error);
    // Declares that this rank no longer reads this version or any earlier one.
    zero_status (*release)(zr_window *window, int slot, uint64_t version, zero_error *error);
    // Waits until all ranks have released it.
    zero_status (*await_released)(zr_window *window, int slot, uint64_t version, zero_error *error);
} zr_version_ops;

#endif
