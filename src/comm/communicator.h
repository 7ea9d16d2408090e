// The communicator (contracts 3, 7, 8): the ranks of a job, and how they exchange
// everything but the shards of windows (window.h): small operands, messages, signs of life.
//
// A job can be split into groups of its ranks, several times over. A group is a communicator of its
// own: with its own order of operations, windows, mail, message hash and count, traffic and
// comm thread. Failure, abort, deadline, signs of life and the step are the job's, so a rank that
// dies or gives up ends the waits of all ranks in all groups, and messages name ranks of the job.
//
// Functions that exchange data are called by all ranks, in the same order; send and recv are called
// at their two ends. Nothing else here is collective. Every wait has a deadline, which passes when
// there is no progress, and ends at once when a rank dies or aborts; the message names rank,
// operation, slot and step. Errors are final: afterwards the communicator can only be aborted and
// destroyed.
#ifndef ZR_COMM_COMMUNICATOR_H
#define ZR_COMM_COMMUNICATOR_H

#include "base/errors.h"
#include <stdatomic.h>
#include <zero/comm.h>
#include <zero/tensor.h>
#include <zero/traffic.h>

typedef struct zr_recorder zr_recorder;

typedef enum zr_reduction { ZR_SUM, ZR_MAX, ZR_MIN } zr_reduction;

// What a rank of a pipeline works on, in one word that the other ranks and their supervisor can
// read: a rank that has died or stopped can no longer tell it.
typedef struct zr_work {
    int stage, stages; // of the pipeline; stages below 2: there is no pipeline
    int chunk;         // of the stage; -1: between micro-batches
    int micro_batch;   // of the step; -1: not in a step, but in an evaluation
} zr_work;

enum { ZR_WORK_TEXT = 96 }; // bytes

uint64_t zr_work_pack(const zr_work *work); // 0: no pipeline
// Writes what follows a step in a message: ", pipeline stage 1 of 4, chunk 0, micro-batch 2"; ""
// for a word that is 0.
void zr_work_text(uint64_t word, char out[ZR_WORK_TEXT]);

struct zero_comm {
    const struct zr_comm_ops *ops; // comm_ops.h
    // For shared windows (window.h); NULL: nothing is mapped.
    const struct zr_version_ops *versions;
    int rank, size;
    zero_comm *job;     // the whole job's communicator: itself, or the one it was split from
    const char *group;  // what messages call the group: "data", "tensor"; NULL: the whole job
    const int *members; // (size) ranks of the job, in the group's order; NULL: rank r is rank r
    double timeout;     // seconds a wait lasts without progress
    // Ranks that share machine windows, the fewest of all machines; 0 or 1 if no ranks share one.
    int machine_ranks;
    int strangers; // ranks on other machines
    bool even;     // all machines have equal numbers of ranks; one machine has
    // (size) the number of each rank's machine, by the machines' first ranks; NULL if there is one
    // machine.
    const int *machines;
    // The number of strangers whose shards this rank fetches for its machine in an all-gather.
    int fetches;
    int threads; // OpenMP threads that sums and copies of this rank may use; 0: 1
    // Copies and sums shards of windows at once, where no queue does it.
    const struct zr_backend *backend;
    // On a far device, in whose memory the windows lie (zr_comm_use_queue), else NULL: the queue
    // that does it, and the one on which the rank computes.
    struct zr_queue *queue, *compute;
    // Of the job's communicator, for messages: the step is set by zr_comm_progress; the bytes of
    // this rank's plan by zr_comm_report_need, the ranks of a model by zr_comm_report_multiple,
    // this rank's work by zr_comm_report_work.
    _Atomic int64_t step;
    _Atomic uint64_t work;
    int64_t need;
    int multiple;
    zero_traffic traffic; // counted here, in communicator.c, once for all implementations
    // Of operations on windows since zr_comm_hash_reset: a hash of (op, slot, shard_elems), and
    // their number.
    uint64_t message_hash;
    int64_t message_count;
    struct zr_comm_thread *comm_thread; // NULL: a started operation is carried out in its wait
    // Its waits may run on a comm thread; an engine is attached to it.
    bool may_overlap, attached;
    // Records collectives and waits (zr_comm_record); NULL: nothing is recorded.
    zr_recorder *recorder;
    void *impl;
};

#define ZR_COMM_SMALL_BYTES 65536

// Collective over `comm`, which is a whole job, between operations: every rank joins the group of
// its colour (>= 0), where ranks are ordered by (key, rank of the job). `name` outlives the group.
// The group takes over timeout and threads, and is destroyed (zero_comm_destroy) before the job. A
// group of one is like self: it exchanges nothing, but its failures are the job's.
// ZERO_ERR_INTERNAL: comm is a group itself, a colour is negative, or too many groups are alive;
// ZERO_ERR_UNSUPPORTED: the communicator knows no groups.
zero_status zr_comm_split(zero_comm *comm, int colour, int key, const char *name, zero_comm **out,
                          zero_error *error);
// Returns the rank of the job that is rank `rank` of comm.
static inline int zr_comm_job_rank(const zero_comm *comm, int rank)
{
    return comm->members ? comm->members[rank] : rank;
}

// From now on a thread of its own carries out started operations, and sums use one thread; where
// that is impossible, nothing changes. Called between operations; not collective.
zero_status zr_comm_overlap(zero_comm *comm, zero_error *error);

zero_status zr_comm_all_reduce_small(zero_comm *comm, void *data, int64_t count, zero_dtype dtype,
                                     zr_reduction how, zero_error *error);
// Broadcasts private memory of any size.
zero_status zr_comm_broadcast(zero_comm *comm, void *data, int64_t bytes, int root,
                              zero_error *error);
// Sums private memory at root, along the tree of contract 3.
zero_status zr_comm_reduce(zero_comm *comm, float *data, int64_t count, int root,
                           zero_error *error);
zero_status zr_comm_send(zero_comm *comm, const void *data, int64_t bytes, int to,
                         zero_error *error);
zero_status zr_comm_recv(zero_comm *comm, void *data, int64_t bytes, int from, zero_error *error);
zero_status zr_comm_barrier(zero_comm *comm, zero_error *error);

// Gives a sign of life of this rank in its job, and sets the step for messages. The engine calls
// this once a unit, loaders and savers as they go on. Cheap.
void zr_comm_progress(zero_comm *comm, int64_t step);
// Reports to the supervisor of the ranks how many bytes this rank's plan needs.
void zr_comm_report_need(zero_comm *comm, int64_t bytes);
// Reports to the supervisor that the job runs only on multiples of this number of ranks.
void zr_comm_report_multiple(zero_comm *comm, int ranks);
// Records what this rank of a pipeline begins, for messages about it; the next sign of life carries
// it to the others. NULL: nothing, or nothing that its own messages do not contain.
void zr_comm_report_work(zero_comm *comm, const zr_work *work);
// Counts one acquire of a slot that is here already, because it is mapped or was gathered before,
// as an all-gather of 0 bytes.
void zr_comm_count_mapped(zero_comm *comm, int slot, int64_t shard_elems);
void zr_comm_hash_reset(zero_comm *comm);
// Returns the bytes that this communicator keeps for shards on their way (mpi), whatever the
// flat parameters; 0 where peers are read in place.
int64_t zr_comm_staging_bytes(const zero_comm *comm);

// Returns how many bytes of each peer's shard are on their way at one time, in a communicator that
// cannot read its peers in place: at most 256 KiB, and less if there are many ranks, so that two
// halves, one summed while the other fills, stay below 16 MiB.
static inline int64_t zr_staging_part(int ranks)
{
    return ZR_MAX(8 << 10, ZR_MIN(256 << 10, (int64_t)(8 << 20) / ranks / 256 * 256));
}

static inline int64_t zr_staging_bytes(int ranks) { return 2 * ranks * zr_staging_part(ranks); }

// A communicator counts messages and traffic, knows a step and is recorded for one engine; two
// engines would find each other's messages among their own. So an engine attaches itself before it
// uses the communicator, and a second one is refused until the first has detached itself.

// Attaches an engine. Sums and copies use `threads` threads, or one under a comm thread.
// ZERO_ERR_USAGE: another engine is attached. Not collective.
zero_status zr_comm_attach(zero_comm *comm, int threads, zero_error *error);
// Makes windows lie in the memory of a far device, and a queue of it copy and sum shards, until
// zr_comm_detach. Called after zr_comm_attach, before the first window. Not collective.
// compute: the queue on which the rank computes operands and reads results. Of several ranks, a
// comm thread carries operations out, on a queue of its own.
// ZERO_ERR_UNSUPPORTED: this communicator reaches the host's memory only.
zero_status zr_comm_use_queue(zero_comm *comm, struct zr_queue *compute, zero_error *error);
// Waits until the comm thread has nothing left to do, and returns its first failure. Not
// collective.
zero_status zr_comm_check(zero_comm *comm, zero_error *error);
void zr_comm_detach(zero_comm *comm); // also ends recording
// Sets where collectives and waits are recorded from now on; NULL: nowhere. Called by the attached
// engine.
void zr_comm_record(zero_comm *comm, zr_recorder *recorder);

#endif
