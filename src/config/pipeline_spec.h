// What a configuration says of a pipeline: how many stages it has, in which order they work, and
// how units are divided among them.
#ifndef ZR_CONFIG_PIPELINE_SPEC_H
#define ZR_CONFIG_PIPELINE_SPEC_H

#include "base/errors.h"

// The schedules of the literature. The first four are synchronous: a step's update comes after all
// of its micro-batches, so they all compute the same.
typedef enum zr_pipeline_kind {
    ZR_PIPELINE_1F1B,        // PipeDream-flush: one forward, one backward
    ZR_PIPELINE_GPIPE,       // all forwards, then all backwards
    ZR_PIPELINE_INTERLEAVED, // 1F1B over several chunks of each stage (Megatron-LM)
    ZR_PIPELINE_ZB_H1,       // zero bubble H1: weight gradients fill what would be bubbles
    ZR_PIPELINE_PIPEDREAM,   // asynchronous: each stage updates as soon as it can
    ZR_PIPELINE_2BW,         // asynchronous: two versions of the weights (PipeDream-2BW)
    ZR_PIPELINE_KIND_COUNT
} zr_pipeline_kind;

// How units are divided among the pipeline stages unless a split is given.
typedef enum zr_split_method {
    ZR_SPLIT_BEST,       // the least largest stage, by time, within the memory limit
    ZR_SPLIT_UNIFORM,    // equal numbers of units
    ZR_SPLIT_PARAMETERS, // equal numbers of parameters
    ZR_SPLIT_TYPE,       // equal numbers of units whose kind or name matches a regular expression
    ZR_SPLIT_METHOD_COUNT
} zr_split_method;

enum {
    ZR_MOST_PIPELINE_STAGES = 256,
    ZR_MOST_CHUNKS = 8
}; // stages of a pipeline; chunks of a stage

typedef struct zr_pipeline_spec {
    int stages; // 1: there is no pipeline
    zr_pipeline_kind kind;
    int chunks; // of each stage, 1 unless interleaved
    zr_split_method method;
    const char *regex; // of ZR_SPLIT_TYPE; else NULL
    // The first unit of each chunk of the whole model, in order, as a key or a flag gives it.
    int split_count; // stages * chunks; 0 if no split is given
    int split[ZR_MOST_PIPELINE_STAGES * ZR_MOST_CHUNKS];
    int64_t checkpoint_interval; // units between two activation checkpoints; 0: as
                                 // activation_checkpointing says
    int64_t flush_every;         // asynchronous: steps after which the pipeline drains
    bool exact; // a shared table is summed as two contributions, at any number of stages
} zr_pipeline_spec;

const char *zr_pipeline_kind_name(zr_pipeline_kind kind); // "1f1b", "zb-h1"
bool zr_pipeline_is_asynchronous(zr_pipeline_kind kind);
// Reads "1f1b", "interleaved:2", ... into *kind and *chunks. Returns false if there is no such
// schedule; then ZR_PIPELINE_KINDS lists them.
bool zr_pipeline_kind_read(const char *text, zr_pipeline_kind *kind, int *chunks);
#define ZR_PIPELINE_KINDS "1f1b, gpipe, interleaved:CHUNKS (2 to 8), zb-h1, pipedream, 2bw"

enum { ZR_PIPELINE_WHY = 200 };
// Returns whether a schedule refuses this number of micro-batches of a data rank and step, and
// writes what is wrong with it, and what would do. Used by the configuration and by simulations.
bool zr_pipeline_refuses_count(zr_pipeline_kind kind, int stages, int64_t micro_batches,
                               char why[static ZR_PIPELINE_WHY]);
// The same for a stage of ZeRO.
bool zr_pipeline_refuses_zero(zr_pipeline_kind kind, int stages, int zero_stage,
                              char why[static ZR_PIPELINE_WHY]);

#endif
