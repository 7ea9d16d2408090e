// What a configuration asks a run to show of itself: fields of zr_config.
#ifndef ZR_CONFIG_PROFILERS_H
#define ZR_CONFIG_PROFILERS_H

#include "base/errors.h"

typedef struct zr_flops_profiler {
    bool enabled, detailed;
    int64_t step;      // that is profiled, 1-based
    char *output_file; // NULL: the log
    double recompute_factor;
} zr_flops_profiler;

typedef struct zr_comms_logger {
    // verbose: a line for each operation of the first step, else the table at the end alone
    bool enabled, verbose;
    uint32_t ops; // bit per zero_comm_op
} zr_comms_logger;

typedef struct zr_monitor_config {
    bool enabled;
    char *directory; // output_path and job_name joined; NULL where it is not enabled
} zr_monitor_config;

#endif
