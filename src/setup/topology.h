// Warns if the placement of ranks sends over the network what one machine could keep, with the cost
// and with what would keep those ranks together. Tensor ranks of one model exchange sums in every
// layer, so they belong on one machine; next come the data ranks of a pipeline stage, which
// exchange gradients and parameters; pipeline stages exchange only boundaries.
#ifndef ZR_SETUP_TOPOLOGY_H
#define ZR_SETUP_TOPOLOGY_H

#include "base/alloc.h"
#include "engine/rank_grid.h"
#include "plan/network.h"

enum { ZR_MACHINE_NAME = 64 };

// What the network carries that a machine could, of a rank in a step, or the most of several ranks.
typedef struct zr_topology_costs {
    int64_t step_bytes; // fetched over the network for its model
    int64_t unit_bytes; // of these, for the unit that fetches most
    int unit;           // of the whole model
    // With a pipeline: fetched over the network from data ranks, and sent to other pipeline stages.
    int64_t data_bytes, link_bytes;
} zr_topology_costs;

typedef struct zr_topology { // the ranks of a job on its machines
    int ranks, tensor;       // of the job; of a model or its pipeline stage, which are neighbours
    int stage_ranks;         // of a pipeline stage, neighbours too; all ranks where there is none
    const int *machines;     // (ranks) the number of each rank's machine
    int machine_count;
    char (*names)[ZR_MACHINE_NAME]; // (machine_count)
    zr_topology_costs most;         // of all ranks
    const char *unit;               // the name of most.unit
} zr_topology;

// Says whether there is something to warn of: not if the tensor ranks of every model share a
// machine, and so do the ranks of every pipeline stage, as far as another order of ranks would
// change that.
bool zr_topology_is_torn(const zr_topology *topology);
// Returns what it costs a rank of a plan; step: its messages.
zr_topology_costs zr_topology_costs_of(const zr_plan *plan, const zr_step_traffic *step,
                                       const zr_reaches *at);
// Raises the most to another rank's costs.
void zr_topology_costs_raise(zr_topology_costs *most, const zr_topology_costs *of);
// Writes the warning; nothing if there is none.
void zr_topology_describe(const zr_topology *topology, zr_buffer *out);

// Says on rank 0 that codes (ZeRO++) save nothing where no data rank is on another machine.
void zr_topology_note_codes(const zr_grid *grid, const zr_plan *plan, const zero_logger *logger);
// Warns, on rank 0, if ranks are on several machines that belong on one. Collective over the job.
zero_status zr_topology_warn(const zr_grid *grid, const zr_plan *plan, const zero_logger *logger,
                             zero_error *error);

#endif
