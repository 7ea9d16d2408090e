// zero_initialize in two halves, so that jobs can bring a configuration that they have resolved themselves.
#ifndef ZR_SETUP_INITIALIZE_H
#define ZR_SETUP_INITIALIZE_H

#include "engine/create.h"

zr_settings zr_settings_of(const zr_config *config, bool inference);

// What an engine would be made by, and for which machine. Not collective.
zero_status zr_plan_of(const zero_options *options, const zr_config *config, zr_queue *queue, zr_machine *machine, zr_plan **out, zero_error *error);
// zero_initialize, with what a test does to system calls of its I/O (NULL: nothing).
zero_status zr_initialize(const zero_options *options, const zr_io_faults *faults, zero_engine **out, zero_error *error);
// Collective. `options` without its configuration; takes `config`, resolved, also when it fails.
zero_status zr_engine_make(const zero_options *options, zr_config *config, const zr_io_faults *faults, zero_engine **out, zero_error *error);

#endif
