// Rows of elasticity, and of checkpoints, whose saving DeepSpeed lets a file describe and the
// library decides itself.
#include "config/key_rows.h"

#define ELASTICITY "elasticity.enabled"
#define ONE_SAVE "the library owns the save: each rank writes its own ranges of one file"

// clang-format off
const zr_key zr_keys_elasticity[] = {
    KEY(BOOL, ELASTICITY, "false",
        .help = "choose the batch so that many numbers of ranks can share it (DeepSpeed has "
                "removed the section: 0.19.6 reads it, 0.19.8 refuses it)"),
    KEY(INT, "elasticity.max_train_batch_size", "null", .nullable = true, .above = true,
        .most = ZR_ELASTIC_MOST_SAMPLES, .needs = ELASTICITY,
        .help = "largest batch, in samples; needed"),
    KEY(LIST, "elasticity.micro_batch_sizes", "null", .nullable = true, .needs = ELASTICITY,
        .help = "micro-batches to choose from; needed"),
    KEY(INT, "elasticity.min_gpus", "1", .above = true, .most = ZR_ELASTIC_MOST_SAMPLES,
        .needs = ELASTICITY,
        .help = "fewest ranks"),
    KEY(INT, "elasticity.max_gpus", "10000", .above = true, .most = ZR_ELASTIC_MOST_SAMPLES,
        .needs = ELASTICITY,
        .help = "most ranks"),
    KEY(INT, "elasticity.num_gpus_per_node", "1", .above = true, .most = ZR_ELASTIC_MOST_SAMPLES,
        .needs = ELASTICITY,
        .help = "version 0.2: ranks of a machine, which come and go together"),
    KEY(INT, "elasticity.model_parallel_size", "1", .above = true, .most = ZR_ELASTIC_MOST_SAMPLES,
        .needs = ELASTICITY,
        .help = "ranks of one model; it must equal the tensor ranks (tensor_parallel.autotp_size), "
                "and above 1 it needs version 0.2"),
    KEY(INT, "elasticity.min_time", "0",
        NO_EFFECT("it tells a scheduler how often it may change the ranks"),
        .help = "minutes between two changes"),
    KEY(BOOL, "elasticity.prefer_larger_batch", "true", .needs = ELASTICITY,
        .help = "of batches that equally many numbers of ranks can share the larger; false: the "
                "smaller"),
    KEY(BOOL, "elasticity.ignore_non_elastic_batch_info", "false", .needs = ELASTICITY,
        .help = "ignore other keys of the file for the batch, which are refused otherwise, as "
                "flags for it always are"),
    KEY(NUMBER, "elasticity.version", "0.2", .needs = ELASTICITY,
        .help = "version of the rule: 0.1, or 0.2, which counts machines and gives other numbers "
                "of ranks a batch of their own"),
    KEY(ENUM, "checkpoint.tag_validation", "Warn", .any_case = true, .choices = "Ignore|Warn|Fail",
        NO_EFFECT("ranks cannot save under different names"),
        .help = "compare the names that ranks save under"),
    KEY(BOOL, "checkpoint.load_universal", "false",
        NO_EFFECT("weights load at any number of ranks as they are"),
        .help = "load a universal checkpoint"),
    KEY(BOOL, "checkpoint.use_node_local_storage", "false", NO_EFFECT(ONE_SAVE),
        .help = "save on every machine"),
    KEY(BOOL, "checkpoint.parallel_write.pipeline_stage", "false", NO_EFFECT(ONE_SAVE),
        .help = "pipeline stages write in parallel"),
    KEY(BOOL, "checkpoint.checkpoint_serialization", "true", NO_EFFECT(ONE_SAVE),
        .help = "serialise when saving"),
    KEY(ANY, "checkpoint.writer", "null", .nullable = true, NO_EFFECT(ONE_SAVE),
        .help = "how files are written"),
};
// clang-format on
const int zr_keys_elasticity_count = ZR_COUNT(zr_keys_elasticity);
