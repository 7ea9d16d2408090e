// What one device computes for one micro-batch in one layer, and around the layers. Pure.
#ifndef ZR_SIMULATE_LAYER_H
#define ZR_SIMULATE_LAYER_H

#include "simulate/run.h"

typedef struct zr_sim_work { // seconds on the device
    double products, attention, other;
    double flops;   // of products and attention
    double kernels; // their number
} zr_sim_work;

typedef struct zr_sim_layer {
    zr_sim_work forward, backward; // of the layer
    zr_sim_work again;             // forward work that backward does again
} zr_sim_layer;

// Returns the peak of products in a number, FLOP/s, or in the next wider one that the device has;
// 0: it has none of them.
double zr_sim_peak(const zr_sim_machine *machine, zr_sim_number number);
// Returns the seconds of C (m, n) = A (m, k) B (k, n) on a device of the machine.
double zr_sim_product(const zr_sim_machine *machine, zr_sim_number number, double m, double n,
                      double k);
zr_sim_layer zr_sim_layer_find(const zr_sim_run *run);
// The logits and the loss; all stages of a pipeline but the last have none.
zr_sim_layer zr_sim_head_find(const zr_sim_run *run);
// Returns how long work takes, and so many exchanges between its kernels of `exchange` seconds
// each: on the device, or to launch it where that is longer.
double zr_sim_work_seconds(const zr_sim_run *run, const zr_sim_work *work, double exchanges,
                           double exchange);
// Bytes of an element of parameters, gradients on the wire, and activations: 4 in fp32, else 2.
double zr_sim_element(const zr_sim_run *run);
// Tokens of a micro-batch on a device.
double zr_sim_tokens(const zr_sim_run *run);

#endif
