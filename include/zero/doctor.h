// zero_doctor: what this machine has, and what it lacks.
#ifndef ZERO_DOCTOR_H
#define ZERO_DOCTOR_H

#include <zero/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zero_doctor_options {
    size_t struct_size;
    const char *path; // a directory on the disk to look at; NULL: the current one
    // A file that gets this machine as zero_simulate reads machines (docs/scale.md), which measures
    // for some seconds more; NULL: none.
    const char *write_machine;
} zero_doctor_options;
// Writes a report about this machine through `write`.
ZERO_API zero_status zero_doctor(const zero_doctor_options *options,
                                 void (*write)(void *user, const char *text), void *user,
                                 zero_error *error);

#ifdef __cplusplus
}
#endif
#endif
