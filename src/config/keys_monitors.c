// Rows of monitors and profilers: what a run writes about itself, and where.
#include "config/key_rows.h"

#define TENSORBOARD "tensorboard.enabled"
#define CSV_MONITOR "csv_monitor.enabled"
#define PROFILER "flops_profiler.enabled"
#define COMMS_LOGGER "comms_logger.enabled"
#define FLAT_MODEL "a model is a flat list of units, shown in their order"
#define TO_FILES                                                                                   \
    "it needs a network service; tensorboard and csv_monitor write the same values to files"

// clang-format off
const zr_key zr_keys_monitors[] = {
    KEY(BOOL, TENSORBOARD, "false", FIELD(tensorboard.enabled),
        .help = "rank 0 writes TensorBoard's event files: loss, learning rate and loss scale over "
                "samples"),
    KEY(STRING, "tensorboard.output_path", "", .needs = TENSORBOARD,
        .help = "directory in which that of the run is made; empty: the current one"),
    KEY(STRING, "tensorboard.job_name", "DeepSpeedJobName", .needs = TENSORBOARD,
        .help = "directory of the run"),
    KEY(BOOL, CSV_MONITOR, "false", FIELD(csv_monitor.enabled),
        .help = "rank 0 writes a CSV file for each of the same"),
    KEY(STRING, "csv_monitor.output_path", "", .needs = CSV_MONITOR,
        .help = "directory in which that of the run is made; empty: the current one"),
    KEY(STRING, "csv_monitor.job_name", "DeepSpeedJobName", .needs = CSV_MONITOR,
        .help = "directory of the run"),
    KEY(OBJECT, "wandb", NULL, .nullable = true, REFUSED("null", TO_FILES),
        .help = "a monitor on the network"),
    KEY(OBJECT, "comet", NULL, .nullable = true, REFUSED("null", TO_FILES),
        .help = "a monitor on the network"),
    KEY(BOOL, PROFILER, "false", FIELD(flops_profiler.enabled),
        .help = "count operations and time by unit, in one update"),
    KEY(INT, "flops_profiler.profile_step", "1", .least = 1, .needs = PROFILER,
        FIELD(flops_profiler.step),
        .help = "update to profile, the first being 1"),
    KEY(INT, "flops_profiler.module_depth", "-1", .least = -1, NO_EFFECT(FLAT_MODEL),
        .help = "depth to print; -1: the innermost"),
    KEY(INT, "flops_profiler.top_modules", "1", NO_EFFECT(FLAT_MODEL), .help = "modules to print"),
    KEY(BOOL, "flops_profiler.detailed", "true", .needs = PROFILER, FIELD(flops_profiler.detailed),
        .help = "print every unit, not only the sums"),
    KEY(STRING, "flops_profiler.output_file", "null", .nullable = true, .needs = PROFILER,
        .help = "file to write to; null: the log"),
    KEY(NUMBER, "flops_profiler.recompute_fwd_factor", "0.0", .most = 1, .needs = PROFILER,
        FIELD(flops_profiler.recompute_factor),
        .help = "part of the forward pass that is counted a second time, as recomputed"),
    KEY(BOOL, COMMS_LOGGER, "false", FIELD(comms_logger.enabled),
        .help = "a table of calls, bytes and times of every operation"),
    KEY(BOOL, "comms_logger.verbose", "false", .needs = COMMS_LOGGER, FIELD(comms_logger.verbose),
        .help = "also a line for each message of the first update"),
    KEY(BOOL, "comms_logger.prof_all", "true", .needs = COMMS_LOGGER,
        .help = "log every operation; false: those of prof_ops"),
    KEY(BOOL, "comms_logger.debug", "false",
        NO_EFFECT("messages follow from the plan, not from callers"),
        .help = "log who called"),
    KEY(LIST, "comms_logger.prof_ops", "[]", .needs = COMMS_LOGGER,
        .help = "operations to log: all_reduce, reduce_scatter, all_gather, broadcast, reduce, "
                "barrier, send, recv"),
};
// clang-format on
const int zr_keys_monitors_count = ZR_COUNT(zr_keys_monitors);
