// Rows of pipelines: names and defaults are those of DeepSpeed 0.19.8 in its section pipeline; what
// DeepSpeed has no key for is in ours.
#include "config/config_ranks.h"
#include "config/key_rows.h"
#include "config/settings.h"

#define BY_ROWS "tensor ranks always divide by rows what they pass on to the next pipeline stage"

// clang-format off
const zr_key zr_keys_pipeline[] = {
    KEY(INT, ZR_PIPELINE_STAGES, "auto", .nullable = true, .above = true,
        .most = ZR_MOST_PIPELINE_STAGES, AGREES(1),
        .help = "pipeline stages: ranks that compute different units of one model (--pipeline); "
                "auto, null, 1: one, which is no pipeline, unless the flag says more"),
    KEY(STRING, ZR_PIPELINE_PARTITION, "best",
        .help = "how units are divided among pipeline stages: best (the least largest stage, by "
                "time), uniform (numbers of units), parameters, type:REGEX (numbers of units whose "
                "kind or name matches the extended regular expression, in any case); DeepSpeed "
                "itself does not have profile"),
    KEY(BOOL, "pipeline.seed_layers", "false",
        NO_EFFECT("every element of every layer has random bits of its own"),
        .help = "a seed for each layer"),
    KEY(INT, ZR_PIPELINE_INTERVAL, "0", .most = 1e6, FIELD(pipeline.checkpoint_interval),
        .help = "units between two activation checkpoints; 0: as activation_checkpointing says"),
    KEY(BOOL, "pipeline.use_reentrant", "true",
        NO_EFFECT("there is one implementation of activation checkpoints"),
        .help = "which of PyTorch's implementations of checkpoints"),
    KEY(BOOL, "pipeline.pipe_partitioned", "true", .allowed = "true", .reason = BY_ROWS,
        .help = "divide the activations that pipeline stages pass on among tensor ranks"),
    KEY(BOOL, "pipeline.grad_partitioned", "true", .allowed = "true", .reason = BY_ROWS,
        .help = "divide the gradients that pipeline stages pass back among tensor ranks"),
    KEY(STRING, ZR_PIPELINE_SCHEDULE, "1f1b", .nullable = true, AGREES(0),
        .read_flag = zr_schedule_of_flag, .same = zr_schedule_is_same,
        .help = "in which order pipeline stages work (--schedule): 1f1b, gpipe, interleaved:CHUNKS "
                "(each stage has 2 to 8 chunks of the model; 2 if no number is given) and zb-h1 "
                "have the same bits; asynchronous ones, without a bubble between steps, have "
                "others: 2bw (each step with weights one update old) and pipedream (each pipeline "
                "stage updates by itself); null: 1f1b"),
    KEY(LIST, ZR_PIPELINE_SPLIT, "null", .nullable = true, AGREES(0),
        .read_flag = zr_split_of_flag, .same = zr_split_is_same,
        .help = "the first unit of each chunk (of each pipeline stage, where it has one), in "
                "ascending order from 0, which need not be said: [0, 6], [6] (--split); null: as "
                "pipeline.partition says"),
    KEY(INT, ZR_PIPELINE_FLUSH, "8", .above = true, .most = 1e6, FIELD(pipeline.flush_every),
        .help = "pipedream, 2bw: steps after which the pipeline drains, where zero train evaluates "
                "and saves"),
    KEY(BOOL, "libzero.exact_pipeline", "false", FIELD(pipeline.exact),
        .help = "losses and weights are the same bits at any number of pipeline stages where the "
                "last unit shares a table with the first: its gradient is one sum for each of the "
                "two, also without a pipeline"),
};
// clang-format on
const int zr_keys_pipeline_count = ZR_COUNT(zr_keys_pipeline);
