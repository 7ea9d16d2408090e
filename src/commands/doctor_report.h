// zero_doctor: what the files doctor_*.c share.
#ifndef ZR_COMMANDS_DOCTOR_REPORT_H
#define ZR_COMMANDS_DOCTOR_REPORT_H

#include "base/alloc.h"
#include "base/errors.h"
#include "compute/compute.h"
#include <zero/tensor.h>

typedef struct zr_doctor_verdict {
    double in_memory, with_disk; // parameters of the largest model
    zr_buffer missing;           // "oneDNN (...), MPI (...)"
    bool packages;               // some of it comes with packages
} zr_doctor_verdict;

typedef struct zr_doctor {
    void (*write)(void *user, const char *text);
    void *user;
    zr_doctor_verdict *verdict;
} zr_doctor;

void zr_doctor_say(const zr_doctor *doctor, const char *what, const char *format, ...)
    ZERO_PRINTF(3, 4);

// Notes for the verdict what this machine lacks: "oneDNN (products are slower)". from_packages: it
// comes with packages that ./bootstrap deps installs.
void zr_doctor_lacks(const zr_doctor *doctor, bool from_packages, const char *what);

// Measures the disk of a directory for about a second, and reports the largest models that fit into
// `memory` bytes and that disk.
void zr_doctor_disk(const zr_doctor *doctor, const char *directory, int64_t memory);

// Measures the mean rate of a square product over about a fifth of a second, in FLOP/s.
zero_status zr_doctor_product_rate(zr_queue *queue, zero_dtype dtype, double *flops,
                                   zero_error *error);

// Measures this machine, writes it durably into `file` as a machine of simulate/, and reports what
// was taken and what was assumed. directory: on its disk.
zero_status zr_doctor_machine(const zr_doctor *doctor, const char *directory, const char *file,
                              zero_error *error);

// Reports whether several machines can train together: whether the MPI module is there, with which
// MPI it was built, and to which MPI the mpirun in PATH belongs.
void zr_doctor_mpi(const zr_doctor *doctor);

// Reports the user's book of rates, and where it is.
void zr_doctor_rates(const zr_doctor *doctor);

#endif
