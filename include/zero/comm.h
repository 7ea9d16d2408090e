// Communicators: how ranks find each other. Each rank, a process or a thread, has one object.
#ifndef ZERO_COMM_H
#define ZERO_COMM_H

#include <zero/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZERO_MAX_RANKS 1024

typedef struct zero_comm zero_comm;

typedef struct zero_comm_options {
    size_t struct_size;     // sizeof(zero_comm_options)
    double timeout_seconds; // a wait this long without progress ends the run; 0: 60 s
    const char *kind;       // zero_comm_open: "auto", "self", "local" or "mpi"; NULL: auto
} zero_comm_options;

// Makes the communicator of a single rank. Never waits.
ZERO_API zero_status zero_comm_self(zero_comm **out, zero_error *error);

// Makes `ranks` communicators for as many threads of this process: comms[r] belongs to the thread
// of rank r. `options` may be NULL here and below.
ZERO_API zero_status zero_comm_threads(int ranks, const zero_comm_options *options,
                                       zero_comm **comms, zero_error *error);

// Opens the communicator that the environment describes: RANK/WORLD_SIZE (zero run), Open MPI,
// PMI(x) or Slurm; "self" if none of them is set. "auto" uses shared memory if all ranks are on
// this machine. Collective: every rank of the job calls it.
ZERO_API zero_status zero_comm_open(const zero_comm_options *options, zero_comm **out,
                                    zero_error *error);

ZERO_API int zero_comm_rank(const zero_comm *comm);
ZERO_API int zero_comm_size(const zero_comm *comm);
// Returns "self", "local processes", "local threads" or "mpi".
ZERO_API const char *zero_comm_name(const zero_comm *comm);
// Waits until all ranks have called it.
ZERO_API zero_status zero_comm_barrier(zero_comm *comm, zero_error *error);
// Gives up on behalf of this rank: the waits of all other ranks end with ZERO_ERR_PEER and
// `message`.
ZERO_API void zero_comm_abort(zero_comm *comm, const char *message);
// Frees the communicator. Not collective; NULL is allowed.
ZERO_API void zero_comm_destroy(zero_comm *comm);

#ifdef __cplusplus
}
#endif
#endif
