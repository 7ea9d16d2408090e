// Tells where ranks lie. Tensor ranks of one model exchange sums in every layer, so they belong on
// one machine; next come the data ranks of a pipeline stage, which exchange gradients and
// parameters; between pipeline stages go only boundaries. Where the network carries what a machine
// could, the user is warned, with the cost and what would keep those ranks together.
#ifndef ZR_SETUP_SPREAD_H
#define ZR_SETUP_SPREAD_H

#include "base/alloc.h"
#include "engine/rank_grid.h"
#include "plan/full_plan.h"

enum { ZR_MACHINE_NAME = 64 };

typedef struct zr_spread { // the ranks of a job on its machines
    int ranks, tensor;     // of the job; of a model or its pipeline stage, which are neighbours
    int stage_ranks;       // of a pipeline stage, neighbours too; all ranks where there is none
    const int *machines;   // (ranks) the number of each rank's machine
    int machine_count;
    char (*names)[ZR_MACHINE_NAME]; // (machine_count)
    int64_t step_bytes; // the most that a rank fetches over the network for its model in a step
    int64_t unit_bytes; // of these, for the unit that fetches most
    const char *unit;
    // With a pipeline: the most that a rank fetches over the network from data ranks in a step, and
    // that it sends to other pipeline stages.
    int64_t data_bytes, link_bytes;
} zr_spread;

// Writes the warning; nothing if the tensor ranks of every model share a machine, and so do the
// ranks of every pipeline stage, as far as another order of ranks would change that.
void zr_spread_describe(const zr_spread *spread, zr_buffer *out);

// Warns, on rank 0, if ranks are on several machines that belong on one. Collective over the job.
zero_status zr_spread_warn(const zr_grid *grid, const zr_plan *plan, const zero_logger *logger,
                           zero_error *error);

#endif
