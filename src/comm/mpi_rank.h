// One rank of an MPI job, and what the files of the MPI module share.
//
// All-gathers are hierarchical: a shard crosses the network once for each other machine, whose
// ranks share it (mpi_gather.c).
//
// MPI reduces nothing, because its order of additions is its own: shards are exchanged and summed
// here by zr_tree_sum, with the wire volume of a reduce-scatter. Calls come from the rank's thread
// and from its comm threads, one at a time: the thread that calls MPI holds `lock`
// (MPI_THREAD_SERIALIZED). Every wait polls nonblocking requests and releases the lock between
// polls, so that it has a deadline, can name the rank whose message is missing, and learns of
// failures.
//
// The communicators of a rank, its job's and those of groups, share the lock, the notes and the
// failure (zr_mpi_job); the rest belongs to one communicator (zr_mpi).
#ifndef ZR_COMM_MPI_RANK_H
#define ZR_COMM_MPI_RANK_H

#include "comm/channel_ops.h"
#include "comm/communicator.h"
#include "comm/window.h"

#include <mpi.h>
#include <pthread.h>

typedef struct zr_mpi_batch { // messages under way
    MPI_Request *requests;    // (2N) no exchange has more at a time
    int *peers;               // (2N) the other rank of each
    int count;
    MPI_Status last; // of the last message that was found complete
} zr_mpi_batch;

// ZR_MPI_WAIT: the sender waits for `rank`, and has done so for half of its timeout. It is no sign
// of life.
enum { ZR_MPI_BEAT, ZR_MPI_ABORT, ZR_MPI_WAIT };

// A message that accompanies the data. Only an abort is sent with its text.
typedef struct zr_mpi_note {
    int32_t kind, rank;
    int64_t step;
    uint64_t work; // zr_work_pack
    char text[ZERO_MESSAGE_BYTES];
} zr_mpi_note;

// Which ranks run on which machine.
typedef struct zr_mpi_machines {
    int count, own;
    int64_t *names;    // (N) by rank; equal for ranks of one machine
    int *ranks;        // (N) machine after machine, each in ascending order
    int *first;        // (count + 1) where each machine begins in `ranks`
    int *place;        // (N) where a rank is in `ranks`
    int *number;       // (N) the machine of a rank
    int local, locals; // place of this rank on its machine; number of ranks there
} zr_mpi_machines;

typedef struct zr_mpi_job { // what the communicators of a rank share
    pthread_mutex_t lock;   // held for all calls into MPI, and for what stands below it
    MPI_Comm notes;
    bool finalize; // MPI was initialised here
    // Messages may never complete, so nothing that they use is freed.
    _Atomic bool failed;
    MPI_Request *beats; // (ranks of the job) signs of life under way
    zr_mpi_note beat;   // what they carry
    double beat_at;     // seconds
    int64_t *steps;     // (ranks of the job) last ones heard of
    uint64_t *works;    // (ranks of the job) what they were at then
    int32_t *waits;     // (ranks of the job) the rank that each waits for; -1 if none is known
    int64_t heard;      // number of notes
    int channels;       // sets of channels that are alive
    bool aborted;       // a rank has given up, maybe this one
    zr_mpi_note abort;  // the first one that did, as far as this rank knows
} zr_mpi_job;

typedef struct zr_mpi { // of one communicator
    zr_mpi_job *job;
    MPI_Comm data;
    char *staging; // (2, N, zr_staging_part) bytes
    int64_t staging_bytes;
    zr_mpi_batch batch[2];
    zr_mpi_machines machines;
} zr_mpi;

static inline const char *zr_mpi_slot_name(const zr_handle *handle)
{
    return handle->window->slot_names ? handle->window->slot_names[handle->slot] : NULL;
}

// Returns where part i of a half of the staging is.
static inline char *zr_mpi_staging_at(const zero_comm *comm, int half, int i)
{
    const zr_mpi *mpi = comm->impl;
    return mpi->staging + ((int64_t)half * comm->size + i) * zr_staging_part(comm->size);
}

// mpi.c
// Collective over comm: every rank fails if one has failed. status: this rank's, described in
// *own; what: what it could not do, for the others.
zero_status zr_mpi_agree(zero_comm *comm, zero_status status, const zero_error *own,
                         const char *what, zero_error *error);

// mpi_channel.c
extern const zr_channel_ops zr_mpi_channels;

// mpi_wait.c
zero_status zr_mpi_check(zero_comm *comm, int code, const char *doing, zero_error *error);
// Both post a message of at most INT_MAX bytes.
zero_status zr_mpi_isend(zero_comm *comm, zr_mpi_batch *batch, const void *data, int64_t bytes,
                         int to, zero_error *error);
zero_status zr_mpi_irecv(zero_comm *comm, zr_mpi_batch *batch, void *data, int64_t bytes, int from,
                         zero_error *error);
// Waits until all messages of the batch are complete; slot may be NULL.
zero_status zr_mpi_await(zero_comm *comm, zr_mpi_batch *batch, const char *doing, const char *slot,
                         zero_error *error);
// Returns whether they are, without waiting.
bool zr_mpi_is_done(zero_comm *comm, zr_mpi_batch *batch);
void zr_mpi_receive_notes(zr_mpi_job *job); // that have arrived; called with the lock
// Returns whether no sign of life is still being sent. comm: the job's.
bool zr_mpi_beats_gone(zero_comm *comm);
void zr_mpi_progress(zero_comm *comm);
void zr_mpi_abort(zero_comm *comm, const char *message);

// mpi_machine.c
zero_status zr_mpi_machines_reserve(zero_comm *comm, zero_error *error);
// Collective. Also fills the fields of comm that describe machines.
zero_status zr_mpi_machines_find(zero_comm *comm, zero_error *error);
void zr_mpi_machines_free(zr_mpi *mpi);
bool zr_mpi_is_local(const zr_mpi *mpi, int rank); // on this rank's machine
// Returns the rank of a machine that brings in the shard of a rank elsewhere.
int zr_mpi_fetcher(const zr_mpi *mpi, int machine, int rank);
// Returns the rank that many places further on this machine, counted in a ring.
int zr_mpi_neighbour(const zr_mpi *mpi, int distance);
zero_status zr_mpi_local_barrier(zero_comm *comm, const char *doing, const char *slot,
                                 zero_error *error);
// Collective on a machine: creates a region that its ranks map.
zero_status zr_mpi_share(zero_comm *comm, int64_t bytes, char **out, zero_error *error);

// mpi_gather.c
zero_status zr_mpi_all_gather_wait(zr_handle *handle, zero_error *error);

// mpi_blocks.c
// Says whether a reduce-scatter sums in machines first; then this makes it.
bool zr_mpi_takes_two_hops(const zr_handle *handle);
zero_status zr_mpi_reduce_in_two_hops(zr_handle *handle, const zr_sum_target *to,
                                      zero_error *error);

// mpi_ops.c
zero_status zr_mpi_start(zr_handle *handle, zero_error *error);
zero_status zr_mpi_reduce_scatter_wait(zr_handle *handle, const zr_sum_target *to,
                                       zero_error *error);
zero_status zr_mpi_quiesce(zr_window *window, int slot, zero_error *error);
zero_status zr_mpi_all_reduce_small(zero_comm *comm, void *data, int64_t count, zero_dtype dtype,
                                    zr_reduction how, zero_error *error);
zero_status zr_mpi_barrier(zero_comm *comm, zero_error *error);
zero_status zr_mpi_send(zero_comm *comm, const void *data, int64_t bytes, int to,
                        zero_error *error);
zero_status zr_mpi_recv(zero_comm *comm, void *data, int64_t bytes, int from, zero_error *error);

#endif
