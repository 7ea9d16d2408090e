#include "commands/bench_engine.h"

#include "comm/agreement.h"
#include "layers/layers.h"
#include "setup/initialize.h"

#include <stdio.h>
#include <string.h>

enum { CONFIG_BYTES = 512, DEFAULT_MICRO_BATCH = 4 };

static zero_status read_bench_engine_shape(const zero_bench_options *options, zr_bench_engine *e,
                                           zero_error *error)
{
    const zr_subject_question question = {.new_spec =
                                              options->new_spec ? options->new_spec : "gpt2",
                                          .seq = options->seq,
                                          .logger = &options->logger};
    ZERO_TRY(zr_model_choice_read(&question, &e->subject, error));
    e->micro_batch = options->micro_batch ? options->micro_batch : DEFAULT_MICRO_BATCH;
    return zr_lm_create(&e->subject.model, &e->model, error);
}

// PipeDream's stages cannot clip by a norm that all of them have to know.
static const char *clipping_of(const zero_bench_options *options)
{
    const char *alone = zr_pipeline_kind_name(ZR_PIPELINE_PIPEDREAM);
    bool is = options->parallel.schedule && !strcmp(options->parallel.schedule, alone);
    return is ? "\"gradient_clipping\": 0, " : "";
}

static zero_status make_engine(const zr_bench *bench, const zero_bench_options *options,
                               zr_bench_engine *e, zero_error *error)
{
    char config[CONFIG_BYTES];
    snprintf(config, sizeof config,
             "{\"train_micro_batch_size_per_gpu\": %lld, \"gradient_accumulation_steps\": %lld, "
             "\"zero_optimization\": {\"stage\": %d}, %s"
             "\"libzero\": {\"dtype\": \"%s\"}}",
             (long long)e->micro_batch,
             (long long)(options->accumulation ? options->accumulation : 1), options->stage,
             clipping_of(options), options->dtype ? options->dtype : "fp32");
    zero_options engine = {.struct_size = sizeof engine,
                           .model = e->model,
                           .comm = bench->meter.comm,
                           .config_text = config,
                           .shape = {.batch = e->micro_batch, .seq = e->subject.seq},
                           .threads = bench->meter.threads,
                           .seed = 1337,
                           .total_steps = 1000,
                           .logger = options->logger};
    const zr_trial flags = {.parallel = options->parallel};
    return zr_initialize(&engine, &flags, &e->engine, error);
}

zero_status zr_bench_engine_open(const zr_bench *bench, const zero_bench_options *options,
                                 zr_bench_engine *out, zero_error *error)
{
    *out = (zr_bench_engine){0};
    ZERO_TRY(zr_comm_agree(bench->meter.comm, read_bench_engine_shape(options, out, error), error));
    return make_engine(bench, options, out, error);
}

void zr_bench_engine_close(zr_bench_engine *engine)
{
    zero_destroy(engine->engine);
    zr_lm_free(engine->model);
    zr_model_choice_free(&engine->subject);
    *engine = (zr_bench_engine){0};
}
