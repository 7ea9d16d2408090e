// zero_doctor: what the files doctor_*.c share.
#ifndef ZR_COMMANDS_DOCTOR_REPORT_H
#define ZR_COMMANDS_DOCTOR_REPORT_H

#include "base/report.h"
#include "compute/compute.h"
#include <zero/tensor.h>

typedef struct zr_doctor {
    zr_report *report;
    int64_t memory;              // bytes that may be used
    double in_memory, with_disk; // parameters of the largest model
    zr_report *missing;          // what this machine lacks: a list
    bool lacks, from_packages;   // anything; some of it comes with packages
} zr_doctor;

// Adds to what this machine lacks: "oneDNN", and why it matters. from_packages: it comes with
// packages that ./bootstrap deps installs.
void zr_doctor_lacks(zr_doctor *doctor, bool from_packages, const char *what, const char *why);

// Measures the disk of a directory for about a second, and reports the largest models that fit into
// the memory and that disk.
void zr_doctor_disk(zr_doctor *doctor, const char *directory);

// Measures the mean rate of a square product over about a fifth of a second, in FLOP/s.
zero_status zr_doctor_product_rate(zr_queue *queue, zero_dtype dtype, double *flops,
                                   zero_error *error);

// Measures this machine, writes it durably into `file` as a machine of simulate/, and reports what
// was taken and what was assumed. directory: on its disk.
zero_status zr_doctor_machine(zr_doctor *doctor, const char *directory, const char *file,
                              zero_error *error);

// Reports whether several machines can train together: whether the MPI module is there, with which
// MPI it was built, and to which MPI the mpirun in PATH belongs.
void zr_doctor_mpi(zr_doctor *doctor);

// Reports the libraries that NVIDIA's cards take, and the cards.
void zr_doctor_cards(zr_doctor *doctor);

// Reports the user's book of rates, and where it is.
void zr_doctor_rates(zr_doctor *doctor);

#endif
