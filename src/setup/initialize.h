// zero_initialize in two halves, so that jobs can bring a configuration that they have resolved
// themselves.
#ifndef ZR_SETUP_INITIALIZE_H
#define ZR_SETUP_INITIALIZE_H

#include "engine/create.h"

// zero_initialize, with what a test does to system calls of its I/O (NULL: nothing).
zero_status zr_initialize(const zero_options *options, const zr_io_faults *faults,
                          zero_engine **out, zero_error *error);
// Collective. `options` without its configuration; takes `config`, resolved, also when it fails.
zero_status zr_engine_make(const zero_options *options, zr_config *config,
                           const zr_io_faults *faults, zero_engine **out, zero_error *error);

#endif
