// What a rank of this machine reaches, for predictions (plan/predict.h). Kernels and memory are
// measured in a second or two. For the disk the stored measurement (`zero bench io`) is used; if
// there is none, it is measured in a second, too.
#ifndef ZR_MEASURE_SPEED_H
#define ZR_MEASURE_SPEED_H

#include "comm/communicator.h"
#include "plan/predict.h"

typedef struct zr_speed_question {
    const zr_plan *plan;   // its kernels are timed, with as many threads per rank as it has
    zero_comm *comm;       // its ranks measure together
    int sharers;           // ranks that share the machine
    const char *directory; // on the disk; NULL: no disk is measured
    const char *backend;   // whose kernels; NULL: cpu
    const zero_logger *logger;
} zr_speed_question;

// Measures. Collective. Uses up to 100 MB while it runs.
zero_status zr_speed_measure(const zr_speed_question *question, zr_speed *out, zero_error *error);

#endif
