// Rows of the section activation_checkpointing.
#include "config/key_rows.h"

#define CHECKPOINTED "this backend's device has no queue of its own to wait for"

// clang-format off
const zr_key zr_keys_activations[] = {
    KEY(INT, "activation_checkpointing.number_checkpoints", "null", .nullable = true, .above = true,
        FIELD(offload.activation_checkpoints),
        .help = "segments into which the units before the last are cut: of each only what enters "
                "it is kept, the rest is computed again in backward; null: everything is kept, or, "
                "with cpu_checkpointing, one a unit"),
    KEY(BOOL, "activation_checkpointing.cpu_checkpointing", "false",
        .help = "keep checkpoints on the host; on NVMe: libzero.checkpoints.device"),
    KEY(BOOL, "activation_checkpointing.partition_activations", "false",
        FIELD(partition_activations),
        .help = "each tensor rank keeps a share of every activation checkpoint (ZeRO-R's P_a); "
                "there is nothing to divide on one tensor rank, or with libzero.sequence_parallel"),
    KEY(BOOL, "activation_checkpointing.contiguous_memory_optimization", "false",
        NO_EFFECT("checkpoints always have their places in one buffer"),
        .help = "checkpoints in one buffer"),
    KEY(BOOL, "activation_checkpointing.synchronize_checkpoint_boundary", "false",
        NO_EFFECT(CHECKPOINTED),
        .help = "synchronise the device at each checkpoint"),
    KEY(BOOL, "activation_checkpointing.profile", "false",
        NO_EFFECT("--profile and wall_clock_breakdown time every unit"),
        .help = "time each checkpoint"),
};
// clang-format on
const int zr_keys_activations_count = ZR_COUNT(zr_keys_activations);
