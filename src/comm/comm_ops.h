// The table that an implementation of the communicator fills, and the implementations. Only
// src/comm, its twins in the tests, and zero doctor include this; all others call what
// communicator.h and window.h declare.
#ifndef ZR_COMM_COMM_OPS_H
#define ZR_COMM_COMM_OPS_H

#include "comm/communicator.h"
#include "comm/environment.h"
#include "comm/window.h"

// A group of a job that is being split, as one of its ranks sees it.
typedef struct zr_comm_group {
    const char *name;
    int colour, key;    // as this rank passed them
    int rank, size;     // this rank in the group
    const int *members; // (size) ranks of the job; the group's communicator keeps it
    int index, count;   // of the group; of all groups of the job
    const int *sizes;   // (count)
} zr_comm_group;

typedef struct zr_comm_ops {
    const char *name;
    zero_status (*window_create)(zero_comm *comm, zr_window *window, zero_error *error);
    void (*window_destroy)(zr_window *window);
    // Contributions lie at `offset` of each rank's region: (N, shard_elems) of the handle's dtype.
    // to: see zr_sum_target. The two waits may run on another thread than the rank's own
    // (operations.h), one at a time.
    zero_status (*reduce_scatter_wait)(zr_handle *handle, const zr_sum_target *to,
                                       zero_error *error);
    // The own shard lies in place, at offset + rank*shard bytes, or for a machine window at `own`;
    // after the wait the region holds all N shards. A machine window is written once all ranks of
    // the machine have started, because a rank that starts no longer reads what was there.
    zero_status (*all_gather_wait)(zr_handle *handle, zero_error *error);
    zero_status (*start)(zr_handle *handle, zero_error *error); // seals the operand of either
    // Optional, for windows on far devices: `number` counts an operation when it is started, on the
    // rank's own thread, so that quiesce waits for its readers, also before `start` seals it on the
    // comm thread; `drained` tells the peers that what the operation reads has been read.
    void (*number)(zr_handle *handle);
    void (*drained)(const zr_handle *handle);
    zero_status (*quiesce)(zr_window *window, int slot, zero_error *error);
    // For small private operands (at most ZR_COMM_SMALL_BYTES). The result is the same on every
    // rank, because operands are combined in the order of ranks 0..N-1.
    zero_status (*all_reduce_small)(zero_comm *comm, void *data, int64_t count, zero_dtype dtype,
                                    zr_reduction how, zero_error *error);
    zero_status (*send)(zero_comm *comm, const void *data, int64_t bytes, int to,
                        zero_error *error);
    zero_status (*recv)(zero_comm *comm, void *data, int64_t bytes, int from, zero_error *error);
    zero_status (*barrier)(zero_comm *comm, zero_error *error);
    // Optional, of a job's communicator: gives a sign of life that peers see.
    void (*progress)(zero_comm *comm);
    // Optional: records whether this thread works, or waits for the other thread of its rank.
    void (*note)(zero_comm *comm, zr_rank_thread thread, bool at_work);
    // Optional: makes the groups of two ranks and more. Collective over the job; a rank that is
    // alone in its group only takes part, and *out stays as it is. Fails on all ranks.
    zero_status (*split)(zero_comm *job, const zr_comm_group *group, zero_comm **out,
                         zero_error *error);
    // Optional: channels between two ranks (channel_ops.h).
    const struct zr_channel_ops *channels;
    // Of a job's communicator. May be called from any thread of the rank.
    void (*abort)(zero_comm *comm, const char *message);
    void (*destroy)(zero_comm *comm);
} zr_comm_ops;

// Sets total(count) = total `how` operand, as small all-reduces do in the order of ranks on every
// communicator. A NaN in either one remains. dtype: F32, F64 or I64.
void zr_comm_combine(void *total, const void *operand, int64_t count, zero_dtype dtype,
                     zr_reduction how);

// The communicators that open.c opens.
zero_status zr_self_open(zero_comm **out, zero_error *error);
// Makes a group of one, of any job. Not collective.
zero_status zr_self_split(zero_comm *job, const zr_comm_group *group, zero_comm **out,
                          zero_error *error);
zero_status zr_local_open(const zr_launch *launch, double timeout, zero_comm **out,
                          zero_error *error);
zero_status zr_local_threads_open(int ranks, double timeout, zero_comm **comms, zero_error *error);

// mpi.c and mpi_*.c are a module of their own. mpi_loader.c finds it next to the program or the
// library, or where it was installed.
#define ZR_MPI_MODULE "libzero_mpi.so"
#define ZR_MPI_ENTRY "zr_mpi_entry"
typedef struct zr_mpi_module {
    size_t comm_size; // sizeof(zero_comm) when the module was built
    const char *version;
    // expected_size 0: any size is accepted.
    zero_status (*open)(int expected_size, double timeout, zero_comm **out, zero_error *error);
} zr_mpi_module;
// ZERO_ERR_UNSUPPORTED: there is no module.
zero_status zr_mpi_load(const zr_mpi_module **out, zero_error *error);
// Writes which MPI the loaded module uses, in that MPI's own words: "Open MPI v4.1.4".
void zr_mpi_library(char *out, size_t size);

#endif
