// What memory a device needs. Pure.
#ifndef ZR_SIMULATE_MEMORY_H
#define ZR_SIMULATE_MEMORY_H

#include "simulate/run.h"

// Parameters of the models that a device of the largest stage holds or would hold: those of its
// layers and tables, divided by tensor ranks.
double zr_sim_device_parameters(const zr_sim_run *run);
// Returns how many layers the stage of a pipeline has that has most.
double zr_sim_pipeline_stage_layers(const zr_sim_run *run);
// Bytes of the states of a device: parameters, gradients, and those of the optimizer.
double zr_sim_states(const zr_sim_run *run);
// Bytes of the activations of a device, at their most.
double zr_sim_activations(const zr_sim_run *run);
double zr_sim_memory(const zr_sim_run *run); // of all
// Bytes of a layer's input, which full recomputation begins with.
double zr_sim_boundary(const zr_sim_run *run);
// Bytes that the devices of a node keep in its host's memory.
double zr_sim_host_memory(const zr_sim_run *run);

#endif
