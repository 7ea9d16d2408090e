// The model and engine of a benchmark, as its options describe them.
#ifndef ZR_COMMANDS_BENCH_ENGINE_H
#define ZR_COMMANDS_BENCH_ENGINE_H

#include "setup/model_choice.h"
#include "commands/bench_shared.h"
#include <zero/engine.h>

typedef struct zr_bench_engine {
    zr_model_choice subject;
    zero_model *model;
    zero_engine *engine;
    int64_t micro_batch;
} zr_bench_engine;

// Makes both. Collective. zr_bench_engine_close accepts a zeroed structure, and one for which this
// has failed.
zero_status zr_bench_engine_open(const zr_bench *bench, const zero_bench_options *options,
                                 zr_bench_engine *out, zero_error *error);
void zr_bench_engine_close(zr_bench_engine *engine);

#endif
