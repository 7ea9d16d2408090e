// What a run reports about itself, as the configuration asks for it. These are fields of zr_config.
#ifndef ZR_CONFIG_PROFILERS_H
#define ZR_CONFIG_PROFILERS_H

#include "base/errors.h"

typedef struct zr_flops_profiler {
    bool enabled, detailed;
    int64_t step;      // the step that is profiled, 1-based
    char *output_file; // NULL: the log
    double recompute_factor;
} zr_flops_profiler;

typedef struct zr_comms_logger {
    // verbose: a log line for each operation of the first step, besides the table at the end.
    bool enabled, verbose;
    uint32_t ops; // one bit for each zero_comm_op
} zr_comms_logger;

typedef struct zr_monitor_config {
    bool enabled;
    char *directory; // output_path and job_name joined; NULL unless enabled
} zr_monitor_config;

#endif
