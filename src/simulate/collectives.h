// How long groups of devices take to exchange. Pure.
//
// Devices are numbered node by node. A group has every stride-th device from one on, so it has
// `within` members in each node; they share the node's links to others with the groups between
// them.
#ifndef ZR_SIMULATE_COLLECTIVES_H
#define ZR_SIMULATE_COLLECTIVES_H

#include "simulate/run.h"

typedef struct zr_sim_group {
    int ranks, within, nodes; // ranks = within * nodes, rounded up
    zr_sim_reach reach;       // the slowest class of links
    double rate;              // bytes a second into each member, of a ring
    double latency;           // seconds of the steps of a ring, once around
    double tree_latency;      // seconds of those of a tree, from its leaves to its root
} zr_sim_group;

typedef enum zr_sim_axis { // of the mesh
    ZR_SIM_AXIS_TENSOR,
    ZR_SIM_AXIS_CONTEXT,
    ZR_SIM_AXIS_DATA,
    ZR_SIM_AXIS_PIPELINE,
} zr_sim_axis;

extern const char *const zr_sim_axis_names[];

// Finds the group of an axis in the mesh of a run, in its order. A pipeline's is of two neighbours.
zr_sim_group zr_sim_group_of_axis(const zr_sim_run *run, zr_sim_axis axis);
// Finds the group of all ranks that hold one part of the model, and divide its states and add up
// its gradients: data ranks, and context ranks, which see other tokens with the same weights.
zr_sim_group zr_sim_group_of_states(const zr_sim_run *run);
// A group of so many devices, of which each is the stride-th after the one before.
zr_sim_group zr_sim_group_make(const zr_sim_machine *machine, int ranks, int stride);
// Seconds until all have `bytes`, of which each had its part; a reduce-scatter takes as long.
double zr_sim_all_gather(const zr_sim_group *group, double bytes);
double zr_sim_all_reduce(const zr_sim_group *group, double bytes);
double zr_sim_message(const zr_sim_group *group, double bytes); // to the next member

#endif
