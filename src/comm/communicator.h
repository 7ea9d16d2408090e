// The communicator (contracts 3, 7, 8): memory that ranks can reach, and operations on it.
//
// Data moves in WINDOWS, collective allocations, and in SLOTS of a window (the engine's pieces), each with its own
// sequence numbers, so that no operation needs a barrier over all ranks:
//
//   symmetric window: every rank has a region of its own of `bytes`      [rank 0 ........][rank 1 ........]...
//   shared window:    one region of `bytes` that all ranks map           [ shard 0 | shard 1 | ... ]
//   machine window:   one region of `bytes` a machine, that its ranks map and an all-gather fills (several machines)
//
// Operations are started (sealing this rank's operand) and waited for; between the two the operand must not change, and
// after the wait a rank that wants to overwrite its operand calls zr_comm_quiesce: all readers have drained it.
// All ranks start and wait for the same operations in the same order. Sums follow the one fixed tree of contract 3.
//
// Every wait has a deadline without progress and ends at once when a rank dies or aborts; the message names rank,
// operation, slot and step. Errors are final: the communicator can only be aborted and destroyed afterwards.
#ifndef ZR_COMM_COMMUNICATOR_H
#define ZR_COMM_COMMUNICATOR_H

#include "base/recorder.h"
#include "memory/ledger.h"
#include <zero/comm.h>
#include <zero/tensor.h>
#include <zero/traffic.h>

typedef enum zr_window_kind { ZR_WINDOW_SYMMETRIC, ZR_WINDOW_SHARED, ZR_WINDOW_MACHINE } zr_window_kind;

typedef struct zr_window {
    zero_comm *comm;
    zr_window_kind kind;
    int64_t bytes;
    int slots;
    const char *const *slot_names; // (slots), outlives the window
    char *mine;                    // this rank's region; shared: the one region; machine: the machine's
    void *impl;
} zr_window;

// Where a reduced shard goes: data(shard_elems) = tree sum, in fp32, of the ranks' contributions, to which earlier sums are added before it
// is rounded once, to dtype. data may be the own shard of the own region where dtype is the operand's.
typedef struct zr_sum_target {
    void *data;
    zero_dtype dtype; // F32, BF16 or F16
    int adds;         // earlier sums: at data, data + stride, ..., the last of them added first
    int64_t stride;   // elements
} zr_sum_target;

typedef enum zr_rank_thread { ZR_OWN_THREAD, ZR_COURIER_THREAD, ZR_RANK_THREADS } zr_rank_thread; // of a rank, that may wait at one time
typedef struct zr_handle { // an operation under way
    zr_window *window;
    zero_comm_op op;
    int slot;
    int64_t offset, shard_elems; // bytes, elements
    zero_dtype dtype;
    zr_sum_target to;            // of a reduce-scatter
    const void *own;             // the own shard of an all-gather; NULL: in place
    uint64_t sequence;
    zr_rank_thread thread;       // that carries it out
    bool pending;
    bool arrived;                // carried out by the courier, with
    zero_status status;
} zr_handle;

typedef enum zr_reduction { ZR_SUM, ZR_MAX, ZR_MIN } zr_reduction;

typedef struct zr_comm_ops {
    const char *name;
    zero_status (*window_create)(zero_comm *comm, zr_window *window, zero_error *error);
    void (*window_destroy)(zr_window *window);
    // Contributions lie at `offset` of each rank's region: (N, shard_elems) of the handle's dtype. wait: see zr_sum_target. The
    // two waits may run on another thread than the rank's own (courier.h), one at a time.
    zero_status (*reduce_scatter_wait)(zr_handle *handle, const zr_sum_target *to, zero_error *error);
    // The own shard lies in place at offset + rank*shard bytes, in a machine window at `own`; after wait the region holds all N.
    // A machine window is written once all ranks of the machine have started: whoever starts reads no more of what was there.
    zero_status (*all_gather_wait)(zr_handle *handle, zero_error *error);
    zero_status (*start)(zr_handle *handle, zero_error *error); // seals the operand of either
    zero_status (*quiesce)(zr_window *window, int slot, zero_error *error);
    // Small private operands (at most ZR_COMM_SMALL_BYTES), the same result on every rank; order of ranks 0..N-1.
    zero_status (*all_reduce_small)(zero_comm *comm, void *data, int64_t count, zero_dtype dtype, zr_reduction how, zero_error *error);
    zero_status (*send)(zero_comm *comm, const void *data, int64_t bytes, int to, zero_error *error);
    zero_status (*recv)(zero_comm *comm, void *data, int64_t bytes, int from, zero_error *error);
    zero_status (*barrier)(zero_comm *comm, zero_error *error);
    void (*progress)(zero_comm *comm); // optional: a sign of life that peers see
    void (*note)(zero_comm *comm, zr_rank_thread thread, bool at_work); // optional: this thread works, or waits for the other of its rank
    void (*abort)(zero_comm *comm, const char *message);
    void (*destroy)(zero_comm *comm);
} zr_comm_ops;

// Versions of a shared window's slots (contract 7), for communicators that map; NULL where nothing is mapped (mpi).
typedef struct zr_version_ops {
    zero_status (*publish)(zr_window *window, int slot, uint64_t version, zero_error *error);       // own shard holds `version`
    zero_status (*await_published)(zr_window *window, int slot, uint64_t version, zero_error *error); // all N shards do
    zero_status (*release)(zr_window *window, int slot, uint64_t version, zero_error *error);       // this rank reads no more of <= version
    zero_status (*await_released)(zr_window *window, int slot, uint64_t version, zero_error *error); // no rank does
} zr_version_ops;

struct zero_comm {
    const zr_comm_ops *ops;
    const zr_version_ops *versions;
    int rank, size;
    double timeout;         // seconds without progress
    int machine_ranks;      // that share machine windows, the fewest of all machines; 0 or 1 where none do
    int strangers;          // ranks on other machines
    int fetches;            // of those, whose shards this rank brings to its machine in an all-gather
    int threads;            // OpenMP threads that sums and copies of this rank may use; 0: 1
    _Atomic int64_t step; int64_t need; // for messages: set by zr_comm_progress; bytes of this rank's plan, by zr_comm_say_need
    zero_traffic traffic;   // counted here, in communicator.c, once for all implementations
    uint64_t message_hash; int64_t message_count; // of (op, slot, shard_elems) of operations on windows since zr_comm_hash_reset; of those
    struct zr_courier *courier; // NULL: what was started is carried out in its wait
    bool may_overlap, attached; // its waits may run on a courier; an engine computes with it (attach.h)
    zr_recorder *recorder;  // of collectives and waits (zr_comm_record); NULL: nothing is recorded
    void *impl;
};

#define ZR_COMM_SMALL_BYTES 65536

// From here on started operations are carried out by a thread of their own; where that cannot be, nothing changes. Sums then use
// one thread. Between operations; not collective.
zero_status zr_comm_overlap(zero_comm *comm, zero_error *error);

zero_status zr_window_create(zero_comm *comm, zr_window_kind kind, int64_t bytes, int slots, const char *const *slot_names, zr_window *out, zero_error *error);
void zr_window_destroy(zr_window *window); // not collective; zeroed windows are fine

// shard_elems: elements of one rank's shard. dtype of the operand: F32, BF16 or F16. op: ZERO_COMM_reduce_scatter or ZERO_COMM_all_gather.
// to: of a reduce-scatter, else NULL. The handle stays where it is, operand and target untouched, until the wait.
zero_status zr_comm_start(zr_window *window, zero_comm_op op, int slot, int64_t offset, int64_t shard_elems, zero_dtype dtype, const zr_sum_target *to, zr_handle *out, zero_error *error);
// An all-gather of shards of which the own one lies at `own`, outside the window, and stays there until the wait.
zero_status zr_comm_start_gather(zr_window *window, int slot, int64_t offset, int64_t shard_elems, zero_dtype dtype, const void *own, zr_handle *out, zero_error *error);
zero_status zr_comm_wait(zr_handle *handle, zero_error *error);
zero_status zr_comm_quiesce(zr_window *window, int slot, zero_error *error);
// In place over the region, fp32: reduce-scatter into the own shard, then all-gather. Synchronous: the region may be overwritten.
zero_status zr_comm_all_reduce(zr_window *window, int slot, int64_t offset, int64_t shard_elems, zero_error *error);

zero_status zr_comm_all_reduce_small(zero_comm *comm, void *data, int64_t count, zero_dtype dtype, zr_reduction how, zero_error *error);
zero_status zr_comm_broadcast(zero_comm *comm, void *data, int64_t bytes, int root, zero_error *error);  // private memory, any size
zero_status zr_comm_reduce(zero_comm *comm, float *data, int64_t count, int root, zero_error *error);    // tree sum at root
zero_status zr_comm_send(zero_comm *comm, const void *data, int64_t bytes, int to, zero_error *error);
zero_status zr_comm_recv(zero_comm *comm, void *data, int64_t bytes, int from, zero_error *error);
zero_status zr_comm_barrier(zero_comm *comm, zero_error *error);

// Sign of life, and the step for messages: called by the engine once a unit, by loaders and savers as they go on. Cheap.
void zr_comm_progress(zero_comm *comm, int64_t step);
void zr_comm_say_need(zero_comm *comm, int64_t bytes); // to whoever supervises the ranks
// One acquire of a slot that is here already, because it is mapped or was gathered before: counted as an all-gather of 0 bytes.
void zr_comm_count_mapped(zero_comm *comm, int slot, int64_t shard_elems);
void zr_comm_hash_reset(zero_comm *comm);
// Bytes that this communicator keeps for shards on their way (mpi), whatever the pieces; 0 where peers are read in place.
int64_t zr_comm_staging_bytes(const zero_comm *comm);

// to->data[i] = [to->data[i] + (to->data[stride + i] + ...] tree sum over r of src[r][i] (type `dtype`): the order of contract 3, every addition
// in fp32 and rounded once to fp32, the result once to to->dtype; vectorised.
void zr_tree_sum(const zr_sum_target *to, zero_dtype dtype, const void *const *src, int ranks, int64_t count, int threads);

#endif
