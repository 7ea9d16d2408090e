// How a launcher describes the job to this process in its environment. Nothing else in this room
// reads the environment.
//
//   family    rank                  size                           local rank, local size
//   RANK      RANK                  WORLD_SIZE                     LOCAL_RANK, LOCAL_WORLD_SIZE
//   Open MPI  OMPI_COMM_WORLD_RANK  OMPI_COMM_WORLD_SIZE           OMPI_COMM_WORLD_LOCAL_*
//   PMI       PMIX_RANK, PMI_RANK   PMI_SIZE                       MPI_LOCALRANKID,
//                                                                  PALS_LOCAL_RANKID
//   Slurm     SLURM_PROCID          SLURM_STEP_NUM_TASKS, _NTASKS  SLURM_LOCALID
//
// `zero run` and torchrun set RANK. The first family that gives both rank and size decides, because
// `srun torchrun` sets two families.
#ifndef ZR_COMM_ENVIRONMENT_H
#define ZR_COMM_ENVIRONMENT_H

#include "base/errors.h"

#define ZR_MEMFD_VARIABLE "ZERO_MEMFD" // descriptor that `zero run` hands on to its ranks

typedef struct zr_launch {
    const char *family; // NULL: no launcher, one rank
    int rank, size;
    int local_rank, local_size; // on this machine; -1 and 0: unknown
    int memfd;                  // -1 if none was handed on
    uint64_t job; // the same on all ranks of a job on this machine, and no other job's
} zr_launch;

typedef const char *(*zr_lookup)(void *user, const char *name); // as getenv

// ZERO_ERR_CONFIG: a variable cannot be used; the message names it and its value.
zero_status zr_launch_read(zr_lookup lookup, void *user, zr_launch *out, zero_error *error);
zero_status zr_launch_read_process(zr_launch *out, zero_error *error);

#endif
