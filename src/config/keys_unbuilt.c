// Rows of what is not built, and of what DeepSpeed itself has removed.
#include "config/key_rows.h"

// What DeepSpeed has removed is accepted where it is switched off.
#define OFF "false|null|auto"

// clang-format off
const zr_key zr_keys_unbuilt[] = {
    KEY(OBJECT, "compile", NULL, .nullable = true,
        NO_EFFECT("nothing is compiled at run time; what its passes autotp and autosp divide, "
                  "tensor_parallel and libzero.sequence_parallel divide here"),
        .help = "compilation of the model"),
    KEY(BOOL, "disable_python_gc", "false",
        NO_EFFECT("there is no Python whose garbage would be collected"),
        .help = "collect Python's garbage at chosen times alone"),
    KEY(BOOL, "use_data_before_expert_parallelism", "false", NO_EFFECT("there are no experts"),
        .help = "the order of data and expert ranks"),
    KEY(INT, "sequence_parallel_size", "1", .least = 1,
        FORBIDDEN("1", "dividing each sequence among ranks (Ulysses, AutoSP) is not built yet; "
                  "libzero.sequence_parallel divides rows among tensor ranks"),
        .help = "ranks that divide each sequence"),
    KEY(ANY, "weight_quantization", NULL, .nullable = true,
        REFUSED(OFF, "it is of DeepSpeed's inference; weights are fp32, bf16 or fp16 here"),
        .help = "quantised weights of inference"),
    KEY(OBJECT, "data_efficiency", NULL, .nullable = true,
        REFUSED("null", "data efficiency is not built yet"),
        .help = "curriculum and random token dropping"),
    KEY(OBJECT, "hybrid_engine", NULL, .nullable = true,
        REFUSED("null", "the hybrid engine is not built yet"),
        .help = "training and generation in turn"),
    KEY(OBJECT, "expert_parallel", NULL, .nullable = true,
        REFUSED("null", "expert parallelism is not built yet"),
        .help = "experts on different ranks"),
    KEY(OBJECT, "comms_config", NULL, .nullable = true,
        NO_EFFECT("DeepSpeed does not read this section either; it reads comms_logger"),
        .help = "found in files of LLaMA-Factory"),
    KEY(OBJECT, "monitor_config", NULL, .nullable = true,
        NO_EFFECT("DeepSpeed does not read this section either; it reads tensorboard and "
                  "csv_monitor"),
        .help = "found in files of LLaMA-Factory"),
    KEY(ANY, "nebula", NULL, FORBIDDEN(OFF, ZR_KEY_REMOVED), .help = "asynchronous checkpoints"),
    KEY(ANY, "compression_training", NULL, FORBIDDEN(OFF, ZR_KEY_REMOVED),
        .help = "compression while training"),
    KEY(ANY, "amp", NULL, FORBIDDEN(OFF, ZR_KEY_REMOVED), .help = "NVIDIA Apex"),
    KEY(ANY, "quantize_training", NULL, FORBIDDEN(OFF, ZR_KEY_REMOVED),
        .help = "quantisation while training"),
    KEY(ANY, "sparse_gradients", NULL, FORBIDDEN(OFF, ZR_KEY_REMOVED),
        .help = "sparse gradients of embeddings"),
    KEY(ANY, "eigenvalue", NULL, FORBIDDEN(OFF, ZR_KEY_REMOVED),
        .help = "eigenvalues for quantisation"),
    KEY(ANY, "sparse_attention", NULL, FORBIDDEN(OFF, ZR_KEY_REMOVED), .help = "sparse attention"),
    KEY(ANY, "graph_harvesting", NULL, FORBIDDEN(OFF, ZR_KEY_REMOVED), .help = "CUDA graphs"),
    KEY(ANY, "curriculum_learning", NULL, FORBIDDEN(OFF, ZR_KEY_REMOVED),
        .help = "growing sequences"),
    KEY(ANY, "progressive_layer_drop", NULL, FORBIDDEN(OFF, ZR_KEY_REMOVED),
        .help = "dropping layers"),
};
// clang-format on
const int zr_keys_unbuilt_count = ZR_COUNT(zr_keys_unbuilt);
