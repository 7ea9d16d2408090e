#include "commands/bench_engine.h"

#include "base/json_writer.h"
#include "comm/agreement.h"
#include "layers/layers.h"
#include "setup/initialize.h"

#include <string.h>

enum { DEFAULT_MICRO_BATCH = 4 };

static zero_status choose_subject(const zero_bench_options *options, zr_bench_engine *e,
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
static bool cannot_clip(const zero_bench_options *options)
{
    const char *alone = zr_pipeline_kind_name(ZR_PIPELINE_PIPEDREAM);
    return options->parallel.schedule && !strcmp(options->parallel.schedule, alone);
}

static void write_config(const zero_bench_options *options, int64_t micro_batch, zr_buffer *out)
{
    zr_json_writer w = zr_json_writer_on(out, ZR_JSON_SPACED);
    zr_json_begin_object(&w, NULL);
    zr_json_integer(&w, "train_micro_batch_size_per_gpu", micro_batch);
    zr_json_integer(&w, "gradient_accumulation_steps",
                    options->accumulation ? options->accumulation : 1);
    zr_json_begin_object(&w, "zero_optimization");
    zr_json_integer(&w, "stage", options->stage);
    zr_json_end(&w);
    if (cannot_clip(options))
        zr_json_integer(&w, "gradient_clipping", 0);
    zr_json_begin_object(&w, "libzero");
    zr_json_text(&w, "dtype", options->dtype ? options->dtype : "fp32");
    zr_json_end(&w);
    zr_json_end(&w);
}

static zero_status make_engine(const zr_bench *bench, const zero_bench_options *options,
                               zr_bench_engine *e, zero_error *error)
{
    zr_buffer config = {0};
    write_config(options, e->micro_batch, &config);
    zero_options engine = {.struct_size = sizeof engine,
                           .model = e->model,
                           .comm = bench->meter.comm,
                           .config_text = config.data,
                           .shape = {.batch = e->micro_batch, .seq = e->subject.seq},
                           .threads = bench->meter.threads,
                           .seed = 1337,
                           .total_steps = 1000,
                           .logger = options->logger};
    const zr_trial flags = {.parallel = options->parallel};
    zero_status status = config.failed
                             ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for the configuration")
                             : zr_initialize(&engine, &flags, &e->engine, error);
    zr_buffer_free(&config);
    return status;
}

zero_status zr_bench_engine_open(const zr_bench *bench, const zero_bench_options *options,
                                 zr_bench_engine *out, zero_error *error)
{
    *out = (zr_bench_engine){0};
    ZERO_TRY(zr_comm_agree(bench->meter.comm, choose_subject(options, out, error), error));
    return make_engine(bench, options, out, error);
}

void zr_bench_engine_close(zr_bench_engine *engine)
{
    zero_destroy(engine->engine);
    zr_lm_free(engine->model);
    zr_model_choice_free(&engine->subject);
    *engine = (zr_bench_engine){0};
}
