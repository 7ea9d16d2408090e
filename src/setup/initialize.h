// zero_initialize in two halves, so that a job can pass a configuration that it has resolved.
#ifndef ZR_SETUP_INITIALIZE_H
#define ZR_SETUP_INITIALIZE_H

#include "engine/create.h"

// What the program's own jobs and tests request in addition to a user's options.
typedef struct zr_trial {
    const zr_io_faults *faults; // injected into the system calls of I/O; may be NULL
    zero_parallel parallel;     // of the flags
    // All tensor ranks hold a model without a split whole: each computes all of it, and the result
    // of the first one counts.
    bool unsplit;
} zr_trial;

// Does what zero_initialize does; trial may be NULL.
zero_status zr_initialize(const zero_options *options, const zr_trial *trial, zero_engine **out,
                          zero_error *error);
// Makes an engine from a resolved configuration. Collective. The configuration in `options` is not
// read; `config` is taken over, even on failure.
zero_status zr_engine_make(const zero_options *options, zr_config *config, const zr_trial *trial,
                           zero_engine **out, zero_error *error);

#endif
