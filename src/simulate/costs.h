// The parts of a step: exchanges, layers, memory and the pipeline. Pure.
#ifndef ZR_SIMULATE_COSTS_H
#define ZR_SIMULATE_COSTS_H

#include "simulate/run.h"

// In collectives.c: how long groups of devices take to exchange.
//
// Devices are numbered node by node. A group has every stride-th device from its first one on, and
// `within` members in each node. These share the node's links to other nodes with the groups that
// have the devices in between.

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

// Finds the group of an axis in the mesh of a run. The group of a pipeline is two neighbours.
zr_sim_group zr_sim_group_of_axis(const zr_sim_run *run, zr_sim_axis axis);
// Finds the group of all ranks that hold one part of the model, and divide its states and add up
// its gradients: data ranks, and context ranks, which see other tokens with the same weights.
zr_sim_group zr_sim_group_of_states(const zr_sim_run *run);
// Makes the group of `ranks` devices, each the stride-th after the one before.
zr_sim_group zr_sim_group_make(const zr_sim_machine *machine, int ranks, int stride);
// Seconds until all members have `bytes`, of which each had a part; a reduce-scatter takes as long.
double zr_sim_all_gather(const zr_sim_group *group, double bytes);
double zr_sim_all_reduce(const zr_sim_group *group, double bytes);
double zr_sim_message(const zr_sim_group *group, double bytes); // to the next member

// In layer.c: what one device computes for one micro-batch in one layer, and around the layers.

typedef struct zr_sim_work { // seconds on the device
    double products, attention, other;
    double flops;   // of products and attention
    double kernels; // their number
} zr_sim_work;

typedef struct zr_sim_layer {
    zr_sim_work forward, backward; // of the layer
    zr_sim_work again;             // forward work that backward repeats
} zr_sim_layer;

// Returns the peak of products in a number format, in FLOP/s, or in the next wider format that the
// device has; 0 if it has neither.
double zr_sim_peak(const zr_sim_machine *machine, zr_sim_number number);
// Returns the seconds of C (m, n) = A (m, k) B (k, n) on a device of the machine.
double zr_sim_product(const zr_sim_machine *machine, zr_sim_number number, double m, double n,
                      double k);
zr_sim_layer zr_sim_layer_find(const zr_sim_run *run);
// Finds the logits and the loss, which only the last pipeline stage computes.
zr_sim_layer zr_sim_head_find(const zr_sim_run *run);
// Returns the seconds of work with `exchanges` exchanges of `exchange` seconds between its kernels:
// on the device, or to launch it if that takes longer.
double zr_sim_work_seconds(const zr_sim_run *run, const zr_sim_work *work, double exchanges,
                           double exchange);
// Bytes of an element of parameters, gradients on the wire, and activations: 4 in fp32, else 2.
double zr_sim_element(const zr_sim_run *run);
// Tokens of a micro-batch on a device.
double zr_sim_tokens(const zr_sim_run *run);

// In memory.c: what memory a device needs.

// Returns the parameters on a device of the largest pipeline stage before ZeRO divides them: those
// of its layers and tables, divided by tensor ranks.
double zr_sim_device_parameters(const zr_sim_run *run);
// Returns the layers of the pipeline stage that has the most.
double zr_sim_pipeline_stage_layers(const zr_sim_run *run);
// Bytes of the states of a device: parameters, gradients, and those of the optimizer.
double zr_sim_states(const zr_sim_run *run);
// Bytes of the activations of a device, at their peak.
double zr_sim_activations(const zr_sim_run *run);
double zr_sim_memory(const zr_sim_run *run); // of all
// Bytes of a layer's input, from which full recomputation starts.
double zr_sim_boundary(const zr_sim_run *run);
// Bytes that the devices of a node keep in its host's memory.
double zr_sim_host_memory(const zr_sim_run *run);

// In pipeline.c: how long the pipeline of a step takes: by the lists of actions that a training of
// libzero follows (plan/pipeline/pipeline.h), on virtual time.

typedef struct zr_sim_pipeline {
    zr_pipeline_kind kind;
    int stages, chunks;       // chunks of each stage
    int64_t micro_batches;    // of a step
    int flush_every;          // steps of an asynchronous window; 0: 8, as libzero has them
    double forward, backward; // seconds of a micro-batch in all chunks of a stage
    double last;              // seconds that the last chunk of the model takes longer, in both
    double message;           // seconds from the end of a chunk until its neighbour can begin
} zr_sim_pipeline;

// Finds the seconds of a step, from the first forward to the last backward; for an asynchronous
// schedule, the mean of a window of steps, which drains once. Of many micro-batches the first
// rounds are simulated, and the others continue at the pace of the last round. If there are more
// chunks than libzero runs, or more than 128 in the model, closed forms replace the lists.
// Interleaved micro-batches are rounded up to a multiple of the pipeline stages. ZERO_ERR_MEMORY.
zero_status zr_sim_pipeline_find(const zr_sim_pipeline *pipeline, double *seconds,
                                 zero_error *error);

#endif
