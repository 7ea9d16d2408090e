// Rows of checkpoints: DeepSpeed lets a file set these for saving; the library decides them itself.
#include "config/key_rows.h"

#define ONE_SAVE "the library owns the save: each rank writes its own ranges of one file"

// clang-format off
const zr_key zr_keys_checkpoint[] = {
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
const int zr_keys_checkpoint_count = ZR_COUNT(zr_keys_checkpoint);
