// Rows of fp16, bf16 and data_types. Which precision they mean together: config_precision.c.
#include "config/config.h"

#define FP16 "fp16.enabled"
#define FP32_MASTER "master weights and optimizer states are fp32 in every precision"
#define ALWAYS_CHECKED "a gradient that is not finite skips the update in every precision"

const zr_key zr_keys_precision[] = {
    {.path = FP16, .type = ZR_KEY_BOOL, .standard = "false",
     .help = "train in fp16 with a loss scale; auto: as libzero.dtype (--dtype) says"},
    {.path = "fp16.auto_cast", .type = ZR_KEY_BOOL, .standard = "false", .treatment = ZR_KEY_NO_EFFECT,
     .reason = "the first unit takes the batch as it is and writes activations of the run's precision",
     .help = "convert inputs to fp16"},
    {.path = "fp16.loss_scale", .type = ZR_KEY_NUMBER, .standard = "0", .needs = FP16,
     .help = "the loss scale; 0: dynamic"},
    {.path = "fp16.initial_scale_power", .type = ZR_KEY_INT, .standard = "16", .most = 127, .needs = FP16,
     .help = "the first dynamic loss scale is 2 to this power"},
    {.path = "fp16.loss_scale_window", .type = ZR_KEY_INT, .standard = "1000", .above = true, .needs = FP16,
     .help = "clean updates before the scale doubles"},
    {.path = "fp16.hysteresis", .type = ZR_KEY_INT, .standard = "2", .most = 1000000, .needs = FP16,
     .help = "the overflow that halves the scale: 1 the first, 2 the second; 0: the scale never shrinks"},
    {.path = "fp16.consecutive_hysteresis", .type = ZR_KEY_BOOL, .standard = "false", .needs = FP16,
     .help = "count only overflows in a row"},
    {.path = "fp16.min_loss_scale", .type = ZR_KEY_NUMBER, .standard = "1", .needs = FP16,
     .help = "the least dynamic loss scale: an overflow there ends the run"},
    {.path = "fp16.fp16_master_weights_and_grads", .type = ZR_KEY_BOOL, .standard = "false",
     .treatment = ZR_KEY_REFUSED, .allowed = "false", .reason = FP32_MASTER, .help = "no fp32 copy of the weights"},
    {.path = "bf16.enabled", .type = ZR_KEY_BOOL, .standard = "false",
     .help = "train in bf16; auto: as libzero.dtype (--dtype) says"},
    {.path = "bf16.immediate_grad_update", .type = ZR_KEY_BOOL, .standard = "false", .treatment = ZR_KEY_NO_EFFECT,
     .reason = "each gradient is always reduced as soon as it is complete",
     .help = "add each gradient as soon as it is there"},
    {.path = "bf16.check_grad_overflow", .type = ZR_KEY_BOOL, .standard = "true", .treatment = ZR_KEY_NO_EFFECT,
     .reason = ALWAYS_CHECKED, .help = "look for gradients that are not finite"},
    {.path = "bf16.bf16_master_weights_and_grads", .type = ZR_KEY_BOOL, .standard = "false",
     .treatment = ZR_KEY_REFUSED, .allowed = "false", .reason = FP32_MASTER, .help = "no fp32 copy of the weights"},
    {.path = "bf16.bf16_optimizer_states", .type = ZR_KEY_BOOL, .standard = "false", .treatment = ZR_KEY_REFUSED,
     .allowed = "false", .reason = FP32_MASTER, .help = "optimizer states in bf16"},
    {.path = "bfloat16", .type = ZR_KEY_OBJECT, .treatment = ZR_KEY_RENAMED, .becomes = "bf16",
     .reason = "the older name", .help = "the older name of the section bf16"},
    {.path = "data_types.grad_accum_dtype", .type = ZR_KEY_ENUM, .choices = "fp32|fp16|bf16", .any_case = true,
     .standard = "null", .nullable = true,
     .help = "type in which a rank keeps its part of the gradient; null: fp32 where micro-batches accumulate, else as "
             "communication_data_type"},
    {.path = "data_types.param_dtype", .type = ZR_KEY_ENUM, .choices = "fp32|fp16|bf16", .any_case = true,
     .standard = "null", .nullable = true,
     .help = "type of the parameters: it must be the one that fp16.enabled and bf16.enabled choose"},
    {.path = "data_types.buffer_dtype", .type = ZR_KEY_ENUM, .choices = "fp32|fp16|bf16", .any_case = true,
     .standard = "null", .nullable = true, .treatment = ZR_KEY_REFUSED, .allowed = "null|fp32",
     .reason = "buffers that are not trained are fp32 in every precision",
     .help = "type of buffers that are not trained"},
    {.path = "data_types.keep_in_fp32_modules", .type = ZR_KEY_ANY, .standard = "auto", .treatment = ZR_KEY_NO_EFFECT,
     .reason = "all parameters have one type; sums, statistics, softmax and loss are always fp32",
     .help = "what stays in fp32"},
    {.path = "torch_autocast", .type = ZR_KEY_OBJECT, .nullable = true, .treatment = ZR_KEY_REFUSED, .allowed = "null",
     .reason = "it is PyTorch's; mixed precision here is bf16.enabled or fp16.enabled", .help = "PyTorch's autocast"},
};
const int zr_keys_precision_count = ZR_COUNT(zr_keys_precision);
