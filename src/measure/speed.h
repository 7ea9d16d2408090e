// What a rank of this machine reaches, for predictions (plan/predict.h): kernels and memory
// measured in a second or two, the disk as it was measured (`zero bench io`), or, where it never
// was, in a second too.
#ifndef ZR_MEASURE_SPEED_H
#define ZR_MEASURE_SPEED_H

#include "comm/communicator.h"
#include "plan/predict.h"

typedef struct zr_speed_question {
    const zr_plan *plan;   // whose kernels are timed, for as many threads a rank as it has
    zero_comm *comm;       // whose ranks measure together
    int sharers;           // ranks that share the machine
    const char *directory; // on the disk; NULL: none is looked at
    const char *backend;   // whose kernels; NULL: cpu
    const zero_logger *logger;
} zr_speed_question;

// Collective. Takes up to 100 MB for as long as it lasts.
zero_status zr_speed_measure(const zr_speed_question *question, zr_speed *out, zero_error *error);

#endif
