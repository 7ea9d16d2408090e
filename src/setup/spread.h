// Tells where tensor ranks lie. Those of one model exchange sums in every layer, so where they are
// on several machines each of these sums crosses the network; the user is warned, with the cost and
// what would keep the ranks of a model together.
#ifndef ZR_SETUP_SPREAD_H
#define ZR_SETUP_SPREAD_H

#include "base/alloc.h"
#include "engine/rank_grid.h"
#include "plan/full_plan.h"

enum { ZR_MACHINE_NAME = 64 };

typedef struct zr_spread { // the ranks of a job on its machines
    int ranks, tensor;     // of the job; of a model, which are neighbours
    const int *machines;   // (ranks) the number of each rank's machine
    int machine_count;
    char (*names)[ZR_MACHINE_NAME]; // (machine_count)
    int64_t step_bytes; // the most that a rank fetches over the network for its model in a step
    int64_t unit_bytes; // of these, for the unit that fetches most
    const char *unit;
} zr_spread;

// Writes the warning; nothing if the ranks of every model share a machine.
void zr_spread_describe(const zr_spread *spread, zr_buffer *out);

// Warns, on rank 0, if a model's tensor ranks are on several machines. Collective over the job.
zero_status zr_spread_warn(const zr_grid *grid, const zr_plan *plan, const zero_logger *logger,
                           zero_error *error);

#endif
