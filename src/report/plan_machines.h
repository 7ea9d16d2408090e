// `zero plan --machines`: the machines of a job, who is on which, and what crosses the network
// between them.
#ifndef ZR_REPORT_PLAN_MACHINES_H
#define ZR_REPORT_PLAN_MACHINES_H

#include "base/alloc.h"
#include "base/json_writer.h"
#include "plan/network.h"
#include "setup/model_part.h"
#include "setup/topology.h"

typedef struct zr_plan_machines {
    zr_job_machines job;
    int largest;  // ranks of the machine that has most
    int replicas; // tensor ranks that share a flat parameter, if they are some but not all; else 0
    // The parts that tensor ranks have of the model, as far as their flat parameters differ in
    // size.
    int part_count;
    zr_model_part *parts; // (part_count)
    int *part_of;         // (tensor ranks)
} zr_plan_machines;

typedef struct zr_plan_crossing { // what comes over the network in a step
    int64_t most, all;            // to the rank to which most comes, to all ranks together
} zr_plan_crossing;

typedef struct zr_plan_network { // of a row
    const zr_plan_machines *machines;
    zr_mesh mesh; // of the job, for any rank
    bool tied;    // pipeline stages share tables
    zr_plan_crossing uses[ZR_NETWORK_USES], together;
    zr_topology topology; // what a run would warn of
    bool torn;            // it would
    zr_reaches known;     // whose costs are among those of the warning already
} zr_plan_network;

// Reads "M", machines with equal numbers of ranks, or "4,2,2", the ranks of each; `ranks` ranks of
// a job fill them in order. The caller frees *out with zr_plan_machines_free. ZERO_ERR_USAGE, with
// the numbers.
zero_status zr_plan_machines_read(const char *text, int ranks, zr_plan_machines **out,
                                  zero_error *error);
// Finds the parts of the tensor ranks, as the configuration cuts the model, which messages call
// `name` and which outlives them.
zero_status zr_plan_machines_cut(zr_plan_machines *machines, const zero_model *model,
                                 const char *name, const zr_config *config, zero_error *error);
void zr_plan_machines_free(zr_plan_machines *machines); // NULL is allowed
// Returns the first tensor rank of a pipeline stage that holds, sends and gathers as much as this
// one. mesh: of any rank.
int zr_plan_machines_alike(const zr_plan_machines *machines, const zr_mesh *mesh, int pipeline,
                           int tensor);
// Write who is where: as lines of a table, and as a JSON list.
void zr_plan_machines_text(const zr_plan_machines *machines, const zr_mesh *mesh, zr_buffer *out);
void zr_plan_machines_json(const zr_plan_machines *machines, const zr_mesh *mesh, zr_json_writer *w,
                           const char *key);

// Begins to count for a job on these machines, which outlive what it makes. Freed with
// zr_plan_network_free.
zero_status zr_plan_network_make(const zr_plan_machines *machines, const zr_mesh *mesh,
                                 zr_plan_network **out, zero_error *error);
void zr_plan_network_free(zr_plan_network *network); // NULL is allowed
// Adds the ranks of a pipeline stage that send and gather as this plan's does: all data ranks of
// the tensor ranks that are like its own.
void zr_plan_network_add(zr_plan_network *network, const zr_plan *plan);

#endif
