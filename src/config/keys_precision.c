// Rows of fp16, bf16 and data_types. config_precision.c derives the precision that they mean
// together.
#include "config/key_rows.h"

#define FP16 "fp16.enabled"
#define FP32_MASTER "master weights and optimizer states are fp32 in every precision"
#define ALWAYS_CHECKED "a gradient that is not finite skips the update in every precision"

// clang-format off
const zr_key zr_keys_precision[] = {
    KEY(BOOL, FP16, "false",
        .help = "train in fp16 with a loss scale; auto: as libzero.dtype (--dtype) says"),
    KEY(BOOL, "fp16.auto_cast", "false",
        NO_EFFECT("the first unit takes the batch as it is and writes activations of the run's "
                  "precision"),
        .help = "convert inputs to fp16"),
    KEY(NUMBER, "fp16.loss_scale", "0", .needs = FP16, .help = "the loss scale; 0: dynamic"),
    KEY(INT, "fp16.initial_scale_power", "16", .most = 127, .needs = FP16,
        .help = "the first dynamic loss scale is 2 to this power"),
    KEY(INT, "fp16.loss_scale_window", "1000", .above = true, .needs = FP16,
        .help = "clean updates before the scale doubles"),
    KEY(INT, "fp16.hysteresis", "2", .most = 1000000, .needs = FP16,
        .help = "the overflow that halves the scale: 1 the first, 2 the second; 0: the scale never "
                "shrinks"),
    KEY(BOOL, "fp16.consecutive_hysteresis", "false", .needs = FP16,
        .help = "count only overflows in a row"),
    KEY(NUMBER, "fp16.min_loss_scale", "1", .needs = FP16,
        .help = "the least dynamic loss scale: an overflow there ends the run"),
    KEY(BOOL, "fp16.fp16_master_weights_and_grads", "false", REFUSED("false", FP32_MASTER),
        .help = "no fp32 copy of the weights"),
    KEY(BOOL, "bf16.enabled", "false",
        .help = "train in bf16; auto: as libzero.dtype (--dtype) says"),
    KEY(BOOL, "bf16.immediate_grad_update", "false",
        NO_EFFECT("each gradient is always reduced as soon as it is complete"),
        .help = "add each gradient as soon as it is there"),
    KEY(BOOL, "bf16.check_grad_overflow", "true", NO_EFFECT(ALWAYS_CHECKED),
        .help = "look for gradients that are not finite"),
    KEY(BOOL, "bf16.bf16_master_weights_and_grads", "false", REFUSED("false", FP32_MASTER),
        .help = "no fp32 copy of the weights"),
    KEY(BOOL, "bf16.bf16_optimizer_states", "false",
        .help = "optimizer states in bf16, as libzero.optimizer_states bf16 says it; the master "
                "stays in fp32"),
    KEY(OBJECT, "bfloat16", NULL, RENAMED("bf16", "the older name"),
        .help = "the older name of the section bf16"),
    KEY(ENUM, "data_types.grad_accum_dtype", "null", .nullable = true, .any_case = true,
        .choices = "fp32|fp16|bf16",
        .help = "type in which a rank keeps its part of the gradient; null: fp32 where "
                "micro-batches accumulate, else as communication_data_type"),
    KEY(ENUM, "data_types.param_dtype", "null", .nullable = true, .any_case = true,
        .choices = "fp32|fp16|bf16",
        .help = "type of the parameters: it must be the one that fp16.enabled and bf16.enabled "
                "choose"),
    KEY(ENUM, "data_types.buffer_dtype", "null", .nullable = true, .any_case = true,
        .choices = "fp32|fp16|bf16",
        REFUSED("null|fp32", "buffers that are not trained are fp32 in every precision"),
        .help = "type of buffers that are not trained"),
    KEY(ANY, "data_types.keep_in_fp32_modules", "auto",
        NO_EFFECT("all parameters have one type; sums, statistics, softmax and loss are always fp32"
                  ),
        .help = "what stays in fp32"),
    KEY(OBJECT, "torch_autocast", NULL, .nullable = true,
        REFUSED("null", "it is PyTorch's; mixed precision here is bf16.enabled or fp16.enabled"),
        .help = "PyTorch's autocast"),
};
// clang-format on
const int zr_keys_precision_count = ZR_COUNT(zr_keys_precision);
