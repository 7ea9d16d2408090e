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

// Tells this rank's place on an axis and how many ranks there are (DeepSpeed's mpu). Either pointer
// may be NULL. Not collective. An axis that does not exist has size 0.
ZERO_API void zero_grid_of(const struct zero_engine *engine, zero_axis axis, int *rank, int *size);

#ifdef __cplusplus
}
#endif

#endif
