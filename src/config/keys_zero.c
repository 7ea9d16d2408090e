// Rows of zero_optimization; those of offload are in keys_offload.c.
#include "config/key_rows.h"

#define Z "zero_optimization."
#define LOCO Z "zeropp_loco_param."
#define PLANNED "what is gathered, and when, follows from the static plan of units"
#define MICS "DeepSpeed has removed MiCS: 0.19.6 reads it, 0.19.8 refuses it"
#define MAPPED "weights are published by one all-gather of equal shards, or mapped on one machine"

// clang-format off
const zr_key zr_keys_zero[] = {
    KEY(BOOL, "zero_optimization", NULL, RENAMED(Z "stage", "the older form: true is stage 1"),
        .help = "the older way to ask for stage 1"),
    KEY(INT, Z "stage", "0", .most = 3, FIELD(stage),
        .help = "what is partitioned: 0 nothing, 1 optimizer states, 2 also gradients, 3 also "
                "parameters"),
    KEY(INT, Z "reduce_bucket_size", "5e8", .above = true, FIELD(reduce_bucket),
        .help = "elements of sealed gradients not yet reduced, at most"),
    KEY(INT, Z "allgather_bucket_size", "5e8", NO_EFFECT(MAPPED),
        .help = "elements gathered at a time"),
    KEY(BOOL, Z "allgather_partitions", "true", NO_EFFECT(MAPPED),
        .help = "all-gather or broadcasts"),
    KEY(BOOL, Z "overlap_comm", "null", .nullable = true,
        .help = "exchange while computing, on a thread of its own; null: under MPI, and where a "
                "core is free"),
    KEY(BOOL, Z "contiguous_gradients", "true", NO_EFFECT("gradients always lie contiguously here"),
        .help = "copy gradients to one buffer"),
    KEY(BOOL, Z "reduce_scatter", "true",
        NO_EFFECT("gradients are always reduce-scattered, in one order"),
        .help = "reduce-scatter or all-reduce"),
    KEY(BOOL, Z "use_multi_rank_bucket_allreduce", "true",
        NO_EFFECT("gradients are always reduce-scattered, in one order"),
        .help = "buckets of several ranks together"),
    KEY(BOOL, Z "round_robin_gradients", "false",
        NO_EFFECT("every flat parameter is cut into equal shards, so that no rank waits for "
                  "another's copy"),
        .help = "spread the copying of gradients to the host"),
    KEY(BOOL, Z "load_from_fp32_weights", "true", NO_EFFECT("checkpoints hold fp32 weights"),
        .help = "start from a checkpoint's fp32 weights"),
    KEY(BOOL, Z "ignore_unused_parameters", "true",
        NO_EFFECT("the model states which unit uses which parameter"),
        .help = "parameters without a gradient"),
    KEY(BOOL, Z "memory_efficient_linear", "true", NO_EFFECT("the layers are the library's own"),
        .help = "DeepSpeed's linear layer"),
    KEY(BOOL, Z "override_module_apply", "true", NO_EFFECT("the layers are the library's own"),
        .help = "PyTorch's Module.apply at stage 3"),
    KEY(BOOL, Z "compute_grad_norm", "true",
        NO_EFFECT("the norm of the gradient is always computed"),
        .help = "compute the norm of the gradient"),
    KEY(INT, Z "stage3_prefetch_bucket_size", "5e7", FIELD(prefetch_bucket),
        .help = "elements gathered ahead, at most, where stage 3 gathers at all: a larger unit is "
                "gathered when it is its turn"),
    KEY(INT, Z "stage3_module_granularity_threshold", "0", NO_EFFECT(PLANNED),
        .help = "gather small modules as one"),
    KEY(BOOL, Z "stage3_use_all_reduce_for_fetch_params", "false", NO_EFFECT(PLANNED),
        .help = "gather by all-reduce"),
    KEY(BOOL, Z "stage3_allgather_sequential", "false", NO_EFFECT(PLANNED),
        .help = "gather one parameter after another"),
    KEY(BOOL, Z "stage3_gather_16bit_weights_on_model_save", "false",
        NO_EFFECT("a saved model is always complete, at every stage"),
        .help = "save the complete model at stage 3"),
    KEY(BOOL, Z "stage3_gather_fp16_weights_on_model_save", NULL,
        RENAMED(Z "stage3_gather_16bit_weights_on_model_save", "the older name"),
        .help = "the older name of stage3_gather_16bit_weights_on_model_save"),
    KEY(BOOL, Z "zero_quantized_weights", "false", FIELD(quantised_weights),
        .help = "stage 3: read and gather trained weights as blocks of 256 codes of 8 bits (qwZ of "
                "ZeRO++), rounded from an fp32 master; between machines a quarter of fp32's bytes"),
    KEY(BOOL, Z "zero_quantized_nontrainable_weights", "false",
        FIELD(quantised_frozen),
        .help = "stage 3: the same of frozen weights, which adapters are trained beside"),
    KEY(BOOL, Z "zero_quantized_gradients", "false", FIELD(quantised_gradients),
        .help = "stages 1 to 3: sum gradients over ranks as blocks of 256 codes (qgZ of ZeRO++); "
                "libzero.quantized_gradient_bits says of how many bits"),
    KEY(INT, "libzero.quantized_gradient_bits", "4", .least = 4, .most = 8,
        .needs = Z "zero_quantized_gradients", FIELD(gradient_bits),
        .help = "4 or 8: bits of a code where zero_quantized_gradients is true (DeepSpeed has 4)"),
    KEY(INT, Z "zero_hpz_partition_size", "1", FIELD(kept_by),
        .help = "stage 3 on several machines: the data ranks of each machine, to keep a copy of "
                "all weights there, so that a step gathers over the network once; 1: weights are "
                "gathered again where they are needed again"),
    KEY(INT, Z "mics_shard_size", "-1", .least = -1, FORBIDDEN("-1", MICS),
        .help = "MiCS: ranks of a partition group"),
    KEY(BOOL, Z "mics_hierarchical_params_gather", "false", FORBIDDEN("false", MICS),
        .help = "MiCS: gather in two steps"),
    KEY(NUMBER, LOCO "err_beta", NULL, .nullable = true, FIELD(carry_beta),
        .help = "from 0 to below 1, with reset_T: what quantising a gradient loses is added to the "
                "next one (LoCo, which DeepSpeed has to 0.19.6): carry = err_beta x carry + (1 - "
                "err_beta) x loss; in fp32, of all gradients, on each rank"),
    KEY(INT, LOCO "reset_T", NULL, .nullable = true, .least = 1, FIELD(carry_reset),
        .help = "steps after which the carry begins anew; it also does after each checkpoint, so "
                "that a resumed run has the same bits, and where fp16's loss scale changes"),
    KEY(ANY, Z "zenflow", "null", .nullable = true, REFUSED("null", "ZenFlow is not built yet"),
        .help = "updates without stalls when offloading"),
    KEY(ANY, Z "leaf_module", NULL, .nullable = true, NO_EFFECT("the model states its units"),
        .help = "modules gathered as one"),
    KEY(BOOL, Z "elastic_checkpoint", "false",
        NO_EFFECT("weights load at any number of ranks as they are"),
        .help = "checkpoints for any number of ranks"),
    KEY(BOOL, Z "legacy_stage1", "false", NO_EFFECT("there is one implementation of each stage"),
        .help = "DeepSpeed's old stage 1"),
    KEY(BOOL, Z "pipeline_loading_checkpoint", "false",
        NO_EFFECT("each rank reads only its own ranges"),
        .help = "load in turn to spare host memory"),
    KEY(ANY, Z "parameter_alignment", "false",
        NO_EFFECT("tensors start at multiples of 64 elements, or of a block"),
        .help = "align parameters"),
    KEY(BOOL, Z "enable_sanity_checks", "false",
        NO_EFFECT("messages and bytes are always checked against the plan"),
        .help = "check what ranks gather"),
    KEY(BOOL, Z "log_trace_cache_warnings", "false", NO_EFFECT(PLANNED),
        .help = "warn when the order of modules changes"),
    KEY(BOOL, Z "save_muon_momentum_buffer_in_memory", "false",
        NO_EFFECT("it stays where optimizer states are"),
        .help = "where Muon keeps its momentum"),
};
// clang-format on
const int zr_keys_zero_count = ZR_COUNT(zr_keys_zero);
