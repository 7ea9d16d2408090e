// How long a step of a run takes, and what memory a device needs: one device of each class (of a
// middle and of the last pipeline stage) is computed, so 100,000 devices cost as little as eight.
// Pure.
//
//   products     by shape: FLOPs at the peak times an efficiency that follows from m, n and k
//   other        bytes at the rate of memory
//   collectives  rings, and for sums trees where they are faster: bytes at the rate of the slowest
//                link that they cross, and latency times their steps; the framework's part `hidden`
//                of them overlaps with products at no cost
//   pipeline     the lists of actions of a run (plan/pipeline/schedules.h), on virtual time
#ifndef ZR_SIMULATE_STEP_H
#define ZR_SIMULATE_STEP_H

#include "simulate/run.h"

typedef enum zr_sim_part {
    ZR_SIM_PRODUCTS,
    ZR_SIM_ATTENTION,
    ZR_SIM_OTHER,     // norms, activation functions, losses
    ZR_SIM_RECOMPUTE, // of all of these, what is computed again
    ZR_SIM_TENSOR,    // exchanges of tensor and context ranks that nothing hides
    ZR_SIM_DATA,      // gathers and reductions of data ranks that nothing hides
    ZR_SIM_PIPELINE,  // messages between pipeline stages that nothing hides
    ZR_SIM_BUBBLE,
    ZR_SIM_UPDATE,
    ZR_SIM_OFFLOAD, // transfers from and to host and NVMe that nothing hides
    ZR_SIM_PARTS
} zr_sim_part;

typedef struct zr_sim_axis_use { // what an axis of the mesh sends in a step
    const char *axis;            // "tensor"
    int ranks;
    zr_sim_reach reach; // the slowest class of links that it crosses
    double bytes;       // that a device sends
    double seconds;     // all of it, hidden or not
} zr_sim_axis_use;

enum { ZR_SIM_AXES = 4 };

typedef struct zr_sim_step {
    double seconds, parts[ZR_SIM_PARTS]; // of a step, of the slowest stage; they add up
    double low, high;                    // 80% of runs like these lie between
    double tokens;                       // a second, of all devices
    double model_flops, hardware_flops;  // a second and device; hardware: recomputation counts
    double utilization;                  // model_flops / peak
    double memory;                       // bytes of the device that needs the most
    double host_memory;                  // bytes that the devices of a node keep on its host
    zr_sim_axis_use axes[ZR_SIM_AXES];
    int axis_count;
} zr_sim_step;

extern const char *const zr_sim_part_names[ZR_SIM_PARTS];

// `run` is complete (zr_sim_run_complete). ZERO_ERR_USAGE (also where a rate makes it endless),
// ZERO_ERR_LIMIT (a device or its host has too little memory, with the bytes; *out is filled
// nevertheless), ZERO_ERR_MEMORY.
zero_status zr_sim_step_find(const zr_sim_run *run, zr_sim_step *out, zero_error *error);

// In order.c: orders of the mesh over the nodes. The first axis has neighbouring devices.

// Reads "data,tensor" into run->order: the named axes come first, and the others follow in the
// order of "tensor,context,data,pipeline". ZERO_ERR_USAGE: a name is no axis, or is there twice.
zero_status zr_sim_order_read(const char *text, zr_sim_run *run, zero_error *error);

// Tries all orders, and sets run->order to the fastest and *out to its step. `run` is complete.
// Errors as zr_sim_step_find.
zero_status zr_sim_best_order(zr_sim_run *run, zr_sim_step *out, zero_error *error);

// In remedy.c: the least change with which a run that does not fit into memory would, searched
// among changes in the order of what they cost. Only memory is computed, so thousands of runs take
// milliseconds.

typedef struct zr_sim_remedy {
    zr_sim_run run;    // complete, and it fits
    char changes[400]; // as flags and keys: "--seq 2048 --recompute full"
    double memory;     // bytes of a device
} zr_sim_remedy;

// Searches from a complete run; keep_seq: samples stay as long as they are. Micro-batch,
// sample length, recomputation, stage of ZeRO, offload to the host and to NVMe, tensor ranks,
// devices: a later one costs more, and is changed only if the earlier ones do not suffice. Returns
// false if no combination fits.
bool zr_sim_remedy_find(const zr_sim_run *run, bool keep_seq, zr_sim_remedy *out);

#endif
