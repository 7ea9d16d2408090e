// zero_doctor, between doctor_report.c, doctor_disk.c and doctor_mpi.c.
#ifndef ZR_TOOLS_DOCTOR_REPORT_H
#define ZR_TOOLS_DOCTOR_REPORT_H

#include "base/errors.h"

typedef struct zr_doctor {
    void (*write)(void *user, const char *text);
    void *user;
} zr_doctor;

void zr_doctor_say(const zr_doctor *doctor, const char *what, const char *format, ...)
    ZERO_PRINTF(3, 4);

// The disk behind a directory, measured for about a second, and the largest models that fit into
// `memory` bytes and into that disk.
void zr_doctor_disk(const zr_doctor *doctor, const char *directory, int64_t memory);

// Whether several machines can train together: the module, which MPI it was built with, and whose
// mpirun is in PATH.
void zr_doctor_mpi(const zr_doctor *doctor);

#endif
