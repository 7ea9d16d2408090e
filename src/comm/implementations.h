// The communicators that communicator.c opens. Private to this room.
#ifndef ZR_COMM_IMPLEMENTATIONS_H
#define ZR_COMM_IMPLEMENTATIONS_H

#include "comm/comm_ops.h"
#include "comm/environment.h"

zero_status zr_self_open(zero_comm **out, zero_error *error);
// Makes a group of one, of any job. Not collective.
zero_status zr_self_split(zero_comm *job, const zr_comm_group *group, zero_comm **out,
                          zero_error *error);
zero_status zr_local_open(const zr_launch *launch, double timeout, zero_comm **out,
                          zero_error *error);
zero_status zr_local_threads_open(int ranks, double timeout, zero_comm **comms, zero_error *error);

// mpi.c and mpi_*.c, in a module of its own. mpi_loader.c finds the module next to the program or
// the library, or where it was installed.
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
