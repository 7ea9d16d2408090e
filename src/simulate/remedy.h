// What the least change is with which a run that does not fit into memory would: searched among
// changes in the order of what they cost. Only memory is computed, so thousands of runs take
// milliseconds. Pure.
#ifndef ZR_SIMULATE_REMEDY_H
#define ZR_SIMULATE_REMEDY_H

#include "simulate/run.h"

typedef struct zr_sim_remedy {
    zr_sim_run run;    // complete, and it fits
    char changes[400]; // as flags and keys: "--seq 2048 --recompute full"
    double memory;     // bytes of a device
} zr_sim_remedy;

// Looks for it, from a complete run; keep_seq: samples stay as long as they are. Micro-batch,
// sample length, recomputation, stage of ZeRO, offload to the host and to NVMe, tensor ranks,
// devices: what comes later costs more, and is changed only where all before it do not do. Returns
// false if nothing of it fits.
bool zr_sim_remedy_find(const zr_sim_run *run, bool keep_seq, zr_sim_remedy *out);

#endif
