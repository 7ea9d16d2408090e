// Rows of activation_checkpointing, and of tensor_parallel, whose ranks divide what is kept there:
// names and defaults are those of DeepSpeed 0.19.8.
#include "config/config_ranks.h"
#include "config/key_rows.h"
#include <zero/comm.h>

#define CHECKPOINTED "this backend's device has no queue of its own to wait for"
#define LAID_OUT "the library lays the ranks out itself: tensor ranks next to each other"
#define OWN_SPLIT "the model says its own split"
#define ONE_CODE "there is one implementation of each layer"

// clang-format off
const zr_key zr_keys_tensor[] = {
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
    KEY(INT, ZR_TENSOR_AUTOTP, "0", .most = ZERO_MAX_RANKS, AGREES(0), .same_as = ZR_TENSOR_SIZE,
        .help = "tensor ranks: ranks that compute one model together (--tensor); 0: as tp.tp_size "
                "says"),
    KEY(INT, ZR_TENSOR_SIZE, "1", .above = true, .most = ZERO_MAX_RANKS, AGREES(1),
        .same_as = ZR_TENSOR_AUTOTP,
        .help = "the same number; 1: as autotp_size says"),
    KEY(INT, "tensor_parallel.tp.tp_grain_size", "1", NO_EFFECT(OWN_SPLIT),
        .help = "widths are cut at multiples of it"),
    KEY(ANY, "tensor_parallel.tp.mpu", "null", .nullable = true, NO_EFFECT(LAID_OUT),
        .help = "an object of Python that knows the groups of ranks"),
    KEY(ANY, "tensor_parallel.tp.tp_group", "null", .nullable = true, NO_EFFECT(LAID_OUT),
        .help = "an object of Python: the group of tensor ranks"),
    KEY(OBJECT, "tensor_parallel.tensor_parallel", NULL,
        RENAMED("tensor_parallel.tp", "the section's other name"),
        .help = "the other name of the section tp"),
    KEY(STRING, "tensor_parallel.dtype", "torch.float16",
        NO_EFFECT("fp16, bf16 and libzero.dtype say the precision"),
        .help = "type of the model"),
    KEY(BOOL, "tensor_parallel.tp_overlap_comm", "false",
        NO_EFFECT("sums of slices are waited for where they are used"),
        .help = "exchange while computing"),
    KEY(BOOL, "tensor_parallel.vocab_parallel_lm_head", "null", .nullable = true,
        REFUSED("true|null", "the head is always divided by the vocabulary"),
        .help = "each tensor rank has the logits of its own part of the vocabulary"),
    KEY(ENUM, "tensor_parallel.vocab_parallel_ce_backend", "torch", .choices = "torch|liger",
        NO_EFFECT(ONE_CODE),
        .help = "implementation of the loss over parts of the vocabulary"),
    KEY(STRING, "tensor_parallel.preset_model", "null", .nullable = true, NO_EFFECT(OWN_SPLIT),
        .help = "an architecture whose split DeepSpeed knows"),
    KEY(ANY, "tensor_parallel.partition_config", "null", .nullable = true,
        REFUSED("null", OWN_SPLIT),
        .help = "how layers are split, by their names"),
    KEY(ANY, "tensor_parallel.injection_policy_tuple", "null", .nullable = true,
        REFUSED("null", OWN_SPLIT),
        .help = "linear layers whose outputs are summed"),
    KEY(BOOL, "tensor_parallel.keep_module_on_host", "false",
        NO_EFFECT("a rank reads its own part of the weights alone"),
        .help = "load the model on the host"),
    KEY(BOOL, "tensor_parallel.replace_with_kernel_inject", "false", NO_EFFECT(ONE_CODE),
        .help = "replace layers by DeepSpeed's kernels"),
    KEY(BOOL, "tensor_parallel.kernel_inject", NULL,
        RENAMED("tensor_parallel.replace_with_kernel_inject", "the key's other name"),
        .help = "the same as replace_with_kernel_inject"),
};
// clang-format on
const int zr_keys_tensor_count = ZR_COUNT(zr_keys_tensor);
