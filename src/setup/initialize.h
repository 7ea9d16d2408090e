// zero_initialize in two halves, so that a job can pass a configuration that it has resolved.
#ifndef ZR_SETUP_INITIALIZE_H
#define ZR_SETUP_INITIALIZE_H

#include "engine/create.h"

// Does what zero_initialize does; `faults` are what a test does to the system calls of its I/O
// (NULL: nothing).
zero_status zr_initialize(const zero_options *options, const zr_io_faults *faults,
                          zero_engine **out, zero_error *error);
// Makes an engine from a resolved configuration. Collective. The configuration in `options` is not
// read; `config` is taken over, even on failure.
zero_status zr_engine_make(const zero_options *options, zr_config *config,
                           const zr_io_faults *faults, zero_engine **out, zero_error *error);

#endif
