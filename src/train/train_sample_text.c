// Samples of text between the steps of a training, as zero_generate would make them from the
// current weights.
#include "infer/generate_loop.h"
#include "train/training.h"

typedef struct sample {
    zr_prompts prompts;
    zr_sampling how;
} sample;

// A token that ends a text does not end a sample, because a model has learnt from whole documents
// what comes after it.
static zero_status prepare_sample(const zr_train_subject *subject, int64_t seed, sample *out,
                                  zero_error *error)
{
    static const char *const none[] = {""};
    *out = (sample){0};
    ZERO_TRY(zr_prompts_encode(subject->tokenizer, NULL, none, 1, &out->prompts, error));
    out->how = (zr_sampling){.prompts = &out->prompts,
                             .tokens = ZR_MIN(200, 4 * subject->shape.positions),
                             .batch = 1,
                             .temperature = 0.8,
                             .top_p = 1,
                             .seed = (uint64_t)seed};
    return ZERO_OK;
}

bool zr_train_makes_samples(const zr_train *train)
{
    return train->asked.options->sample_every > 0 && !train->subject.model_config.labels.count &&
           !zr_engine_plan(train->run.engine)->pipeline;
}

void zr_train_warn_left_out_samples(const zr_train *train)
{
    if (train->asked.options->sample_every <= 0 || zr_train_makes_samples(train))
        return;
    if (train->subject.model_config.labels.count)
        zr_log(&train->logger, ZERO_LOG_WARNING,
               "--sample-every is left out: the model gives texts labels (--task classify), and "
               "continues none");
    else
        zr_log(&train->logger, ZERO_LOG_WARNING,
               "--sample-every is left out: no rank of a pipeline has all units, which generation "
               "needs; zero generate --model on what this run saves writes text from it");
}

zero_status zr_train_sample_check(const zr_train_subject *subject, zero_engine *engine,
                                  zero_error *error)
{
    sample s;
    ZERO_TRY(prepare_sample(subject, 0, &s, error));
    zero_status status = zr_generate_check_memory(engine, &subject->model_config, &s.how, error);
    zr_prompts_free(&s.prompts);
    return status;
}

static int append_text(void *user, int64_t prompt, const char *text, size_t length)
{
    zr_buffer_append(user, text, length);
    return 0;
}

// It is the same on every rank.
static zero_status generate_sample(zr_train *train, int64_t seed, zr_buffer *out, zero_error *error)
{
    const zr_train_subject *subject = &train->subject;
    const zr_sample_sink sink = {.emit = append_text, .user = out};
    sample s;
    if (train->comm->rank == 0 && !train->run.samples.engine)
        ZERO_TRY(zr_generation_times_count(train->run.engine, &train->run.samples, error));
    ZERO_TRY(prepare_sample(subject, seed, &s, error));
    s.how.times = train->comm->rank == 0 ? &train->run.samples : NULL;
    zero_status status = zr_generate_loop(train->run.engine, &subject->model_config,
                                          subject->tokenizer, &s.how, &sink, error);
    zr_prompts_free(&s.prompts);
    if (status == ZERO_OK && out->failed)
        status = zr_fail(error, ZERO_ERR_MEMORY, "no memory for a sample of %lld tokens",
                         (long long)s.how.tokens);
    return status;
}

zero_status zr_train_sample(zr_train *train, int64_t step, zero_error *error)
{
    zr_buffer text = {0};
    zr_time_part before = zr_run_clock_turn(&train->run.clock, ZR_TIME_GENERATION);
    zero_status status = generate_sample(train, train->resolved.seed + step, &text, error);
    zr_run_clock_turn(&train->run.clock, before);
    const zero_event event = {.kind = ZERO_EVENT_SAMPLE,
                              .step = step,
                              .total_steps = train->resolved.steps,
                              .text = text.data ? text.data : ""};
    if (status == ZERO_OK)
        zr_train_tell(train, &event);
    zr_buffer_free(&text);
    return status;
}

double zr_train_predict_samples(const zr_train *train, const zr_rate_book *book)
{
    zero_error error = {0};
    zr_generation_forecast forecast;
    if (!train->run.samples.engine)
        return 0;
    zero_status status = zr_generation_predict(&train->run.samples, book,
                                               train->asked.options->backend, &forecast, &error);
    if (status != ZERO_OK)
        zr_log(&train->logger, ZERO_LOG_WARNING, "no prediction of samples: %s", error.message);
    return status != ZERO_OK || zr_generation_is_guess(&forecast)
               ? 0
               : forecast.seconds[ZR_GENERATION_READS] + forecast.seconds[ZR_GENERATION_WRITES];
}
