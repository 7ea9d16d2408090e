// Rows of the section activation_checkpointing.
#include "config/config.h"

#define CHECKPOINTED "this backend's device has no queue of its own to wait for"

const zr_key zr_keys_activations[] = {
    {.path = "activation_checkpointing.number_checkpoints",
     .type = ZR_KEY_INT,
     .standard = "null",
     .nullable = true,
     .above = true,
     .field = offsetof(zr_config, offload.activation_checkpoints),
     .help = "segments into which the units before the last are cut: of each only what enters it "
             "is kept, the rest is computed again in backward; null: everything is kept, or, with "
             "cpu_checkpointing, one a unit"},
    {.path = "activation_checkpointing.cpu_checkpointing",
     .type = ZR_KEY_BOOL,
     .standard = "false",
     .help = "keep checkpoints on the host; on NVMe: libzero.checkpoints.device"},
    {.path = "activation_checkpointing.partition_activations",
     .type = ZR_KEY_BOOL,
     .standard = "false",
     .field = offsetof(zr_config, partition_activations),
     .help =
         "each tensor rank keeps a share of every activation checkpoint (ZeRO-R's P_a); there is "
         "nothing to divide on one tensor rank, or with libzero.sequence_parallel"},
    {.path = "activation_checkpointing.contiguous_memory_optimization",
     .type = ZR_KEY_BOOL,
     .standard = "false",
     .treatment = ZR_KEY_NO_EFFECT,
     .reason = "checkpoints always have their places in one buffer",
     .help = "checkpoints in one buffer"},
    {.path = "activation_checkpointing.synchronize_checkpoint_boundary",
     .type = ZR_KEY_BOOL,
     .standard = "false",
     .treatment = ZR_KEY_NO_EFFECT,
     .reason = CHECKPOINTED,
     .help = "synchronise the device at each checkpoint"},
    {.path = "activation_checkpointing.profile",
     .type = ZR_KEY_BOOL,
     .standard = "false",
     .treatment = ZR_KEY_NO_EFFECT,
     .reason = "--profile and wall_clock_breakdown time every unit",
     .help = "time each checkpoint"},
};
const int zr_keys_activations_count = ZR_COUNT(zr_keys_activations);
