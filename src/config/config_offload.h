// The configuration of offload: what is kept on which tier, how it travels, and within which
// budgets. It is a field of zr_config and is filled when that is resolved (config.h).
#ifndef ZR_CONFIG_CONFIG_OFFLOAD_H
#define ZR_CONFIG_CONFIG_OFFLOAD_H

#include "base/errors.h"
#include <zero/memory.h>

#define ZR_CONFIG_MOST_PATHS 16

typedef struct zr_paths { // directories, owned by the configuration's JSON
    const char *at[ZR_CONFIG_MOST_PATHS];
    int count;
} zr_paths;

typedef struct zr_offload_config {
    // 1: setup/placement.h still has to choose what is left open.
    int automatic;
    int parameters, optimizer; // a zero_tier
    zr_paths parameter_paths, optimizer_paths;
    int64_t parameter_buffers, parameter_buffer_elems, optimizer_buffers;
    // Elements of parameters kept on the host when the rest is on NVMe.
    int64_t in_host;
    int64_t sub_group, persistent, persistent_most, live, reuse; // elements
    // Part of the elements whose optimizer states are offloaded, 0 to 1.
    double ratio;
    bool read_ahead, write_behind;
    int64_t block, queue_depth, lanes; // of I/O
    bool single_submit, overlap_events;
    int64_t delayed_from;               // first step whose update is delayed; 0 if none
    int64_t device_memory, host_memory; // bytes of a rank, bytes of a machine; 0: not given
    // Tiles of each weight. After resolve each operator has its own number, at least 1.
    int64_t tiles, tiles_embedding, tiles_attention, tiles_mlp;
    // Segments of units whose activations are computed again; 0: none.
    int64_t activation_checkpoints;
    int activation_checkpoint_tier; // a zero_tier
    zr_paths activation_checkpoint_paths;
} zr_offload_config;

// Returns the lowest stage of ZeRO at which parameters, or the optimizer's states (only a part of
// them), may be elsewhere than on the device: what a stage does not divide cannot leave it.
int zr_offload_least_stage(bool parameters, bool optimizer, bool part);

#endif
