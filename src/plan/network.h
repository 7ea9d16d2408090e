// Which of a plan's messages cross the network, once it is known where ranks are: the bytes that
// the engine's communicators count as `network` (zero/traffic.h). Scalars (loss, norm,
// squares of tensors) are no part of it. Pure.
#ifndef ZR_PLAN_NETWORK_H
#define ZR_PLAN_NETWORK_H

#include "plan/plan.h"
#include "plan/mesh.h"

typedef struct zr_reach { // how a rank sees one of its groups; all zero if it has no such group
    int size;             // ranks
    int strangers;        // ranks on other machines
    int fetches;          // strangers whose shards this rank brings to its machine in an all-gather
    bool even;            // all machines have equal numbers of its ranks
} zr_reach;

typedef struct zr_reaches { // of one rank
    zr_reach data, tensor, replicas;
    // (stages) the machines of the ranks that differ from this one by their pipeline stage alone;
    // NULL without a pipeline, or if it is on one machine.
    const int *stages;
} zr_reaches;

typedef enum zr_network_use {
    ZR_NETWORK_TENSOR,       // what tensor ranks exchange inside of layers
    ZR_NETWORK_DATA,         // gradients and parameters of data ranks
    ZR_NETWORK_LINKS,        // activations and their gradients between pipeline stages
    ZR_NETWORK_TIED_WEIGHTS, // sums and parameters of tables that pipeline stages share
    ZR_NETWORK_USES
} zr_network_use;

typedef struct zr_network {         // what comes to a rank over the network in a step
    int64_t bytes[ZR_NETWORK_USES]; // of messages between pipeline stages, what it receives
} zr_network;

typedef struct zr_step_traffic { // of a plan, wherever its ranks are
    zr_pass_traffic groups;      // zr_traffic_of_step
    int gathered;                // number of shards that the plan counts for a gather of data ranks
    int stage, stages;           // of the pipeline; 0, 1 without a pipeline
    int64_t links[ZR_MOST_PIPELINE_STAGES],
        tied_weights[ZR_MOST_PIPELINE_STAGES]; // received from each pipeline stage
} zr_step_traffic;

// Returns how many shards a rank brings in a gather of data ranks, as the plan counts it. Ranks
// that share what they gather divide the shards of other machines among themselves; this is the
// share where machines have equal numbers of ranks.
int zr_plan_gathered(const zr_plan *plan);
// Adds up the messages of a step.
void zr_step_traffic_find(const zr_plan *plan, zr_step_traffic *out);
zr_network zr_network_of(const zr_step_traffic *step, const zr_reaches *at);
// Returns how many of a collective's bytes, those of `counted` shards, come over the
// network.
int64_t zr_reach_bytes(const zr_reach *reach, zero_comm_op op, int64_t bytes, int counted);
// Returns the same of a reduce-scatter of codes (zr_coded_network_shards).
int64_t zr_reach_coded_bytes(const zr_reach *reach, int64_t bytes, int counted);
// Returns the bytes of a traffic that a rank receives over the network. gathered: the number of
// shards that the traffic counts for a gather; for exchanges it counts all other ranks' shards.
int64_t zr_network_bytes(const zr_traffic_plan *traffic, const zr_reach *reach, int gathered);

// The machines of a job, which its ranks fill in their order.
typedef struct zr_job_machines {
    int count;
    const int *first; // (count + 1) the first rank of each, and the ranks of the job
    const int *of;    // (ranks) the machine of each rank
} zr_job_machines;

// Returns the reach of the mesh's rank in its group on an axis.
zr_reach zr_job_reach(const zr_job_machines *machines, const zr_mesh *mesh, zero_axis axis);
// Returns its reach among `replicas` neighbours, itself included; 0 if there are none.
zr_reach zr_job_reach_replicas(const zr_job_machines *machines, const zr_mesh *mesh, int replicas);
// Returns the ranks of the group that share a machine, the fewest of all its machines.
int zr_job_kv_replicas(const zr_job_machines *machines, const zr_mesh *mesh, zero_axis axis);

#endif
