// zero_doctor: what the files doctor_*.c share.
#ifndef ZR_TOOLS_DOCTOR_REPORT_H
#define ZR_TOOLS_DOCTOR_REPORT_H

#include "base/errors.h"

typedef struct zr_doctor {
    void (*write)(void *user, const char *text);
    void *user;
} zr_doctor;

void zr_doctor_say(const zr_doctor *doctor, const char *what, const char *format, ...)
    ZERO_PRINTF(3, 4);

// Measures the disk of a directory for about a second, and reports the largest models that fit into
// `memory` bytes and that disk.
void zr_doctor_disk(const zr_doctor *doctor, const char *directory, int64_t memory);

// Reports whether several machines can train together: whether the MPI module is there, with which
// MPI it was built, and to which MPI the mpirun in PATH belongs.
void zr_doctor_mpi(const zr_doctor *doctor);

// Reports the user's book of rates, and where it is.
void zr_doctor_rates(const zr_doctor *doctor);

#endif
