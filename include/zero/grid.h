// The grid of ranks. Each rank of a job has a place on each axis; ranks that differ on one axis
// alone are a group:
//
//   data      ranks with different samples, among which ZeRO partitions (DeepSpeed's data parallel)
//   tensor    ranks that hold slices of the same layers and compute the same samples (Megatron-LM)
//   pipeline  ranks that hold different layers
//
// rank of the job = (pipeline * data size + data) * tensor size + tensor.
//
// So a program that makes its own part of a model (zero_model.whole) knows its tensor rank before
// there is an engine: zero_comm_rank % tensor size.
#ifndef ZERO_GRID_H
#define ZERO_GRID_H

#include <zero/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct zero_engine; // engine.h

typedef enum zero_axis {
    ZERO_AXIS_tensor,
    ZERO_AXIS_data,
    ZERO_AXIS_pipeline,
    ZERO_AXIS_COUNT
} zero_axis;

// How the ranks of a job are divided, as flags give it. Each field overrides a key of the
// configuration file (configuration.h), and must agree with it where the file sets that key, too.
typedef struct zero_parallel {
    // Ranks that compute one model together (tensor parallelism); 0: as the configuration says.
    int tensor;
    // 1: these ranks also divide rows, Megatron's sequence parallelism; 0: as the configuration
    // says.
    int sequence_parallel;
    // Pipeline stages, ranks that compute different layers of one model; 0: as the configuration
    // says.
    int pipeline;
    // In which order they work: "1f1b", "gpipe", "interleaved:2", "zb-h1", "pipedream", "2bw"; and
    // the first units of their chunks: "0,6". NULL: as the configuration says.
    const char *schedule, *split;
} zero_parallel;

// Tells this rank's place on an axis and how many ranks there are (DeepSpeed's mpu). Either pointer
// may be NULL. Not collective. An axis that does not exist has size 0.
ZERO_API void zero_grid_of(const struct zero_engine *engine, zero_axis axis, int *rank, int *size);

#ifdef __cplusplus
}
#endif

#endif
