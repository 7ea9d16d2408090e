// Models that are unlike GPT-2: frozen flat parameters, buffers, units without flat parameters or
// without reads in backward, borrowed flat parameters, a single unit, fused or not. For each, the
// stages agree bit for bit, through skipped steps and evaluations between steps, and so do the
// stages of pipelines.
//
// One kind of unit is enough: y = x * p (or x + p, or x / 2) + 0.1 * buffer, times (1 + e) if it
// borrows e. Flat parameters are longer than a chunk, so that ranks share them.
#include "../base/scratch_directory.h"
#include "harness.h"

#include "engine/engine_api.h"
#include "engine/buffers.h"
#include "setup/initialize.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zero/grid.h>
#include <cmocka.h>

#define WIDTH 5000
#define BATCH 2
#define STEPS 4
enum { MOST_RANKS = 20, MOST_MICRO_BATCHES = 3 };

// neither of the first two: halves, without a flat parameter
typedef struct kind {
    bool multiplies, adds, has_buffer, first, last;
} kind;

typedef struct operands {
    const float *x, *p, *buffer, *e;
} operands;

static const kind *kind_of(const zero_unit *unit) { return unit->hyper; }

static zero_status sizes(const zero_unit *unit, const zero_shape *shape, const zero_tensors *in,
                         zero_unit_sizes *out)
{
    const kind *k = kind_of(unit);
    *out = (zero_unit_sizes){
        .saved_bytes = 12, .workspace_bytes = 20, .backward_reads = k->adds ? 0 : 0xff};
    if (!k->last)
        out->out =
            (zero_tensors){1, {{.dtype = ZERO_F32, .dims = 2, .shape = {shape->batch, WIDTH}}}};
    return ZERO_OK;
}

static operands find(const zero_context *context, const zero_tensors *in, bool backward)
{
    const kind *k = kind_of(context->unit);
    bool reads = k->multiplies || (k->adds && !backward);
    return (operands){
        .x = k->first ? context->batch->at[0].data : in->at[0].data,
        .p = reads ? zero_parameter(context, 0, 0) : NULL,
        .buffer = k->has_buffer ? zero_parameter(context, 1, 0) : NULL,
        .e = context->unit->borrowed_count
                 ? zero_parameter(context, context->unit->flat_param_count, 0)
                 : NULL,
    };
}

static float before_borrowed(const kind *k, const operands *o, int64_t b, int i)
{
    float x = o->x[b * WIDTH + i];
    float y = k->multiplies ? x * o->p[i] : k->adds ? x + (o->p ? o->p[i] : 0) : x * 0.5f;
    return o->buffer ? y + 0.1f * o->buffer[i] : y;
}

static zero_status forward(zero_context *context, const zero_tensors *in, const zero_tensors *out)
{
    const kind *k = kind_of(context->unit);
    operands o = find(context, in, false);
    double squares = 0;
    for (int64_t b = 0; b < context->shape.batch; b++)
        for (int i = 0; i < WIDTH; i++) {
            float y = before_borrowed(k, &o, b, i) * (o.e ? 1 + o.e[i] : 1);
            squares += (double)y * y;
            if (!k->last)
                ((float *)out->at[0].data)[b * WIDTH + i] = y;
        }
    if (k->last)
        *context->loss = squares / (double)context->shape.batch / WIDTH;
    return ZERO_OK;
}

static void put(float *gradient, int add, int i, float value)
{
    if (gradient)
        gradient[i] = add ? gradient[i] + value : value;
}

static zero_status backward(zero_context *context, const zero_tensors *in,
                            const zero_tensors *d_out, const zero_tensors *d_in)
{
    const kind *k = kind_of(context->unit);
    operands o = find(context, in, true);
    int add[3] = {0};
    float *dp = context->unit->flat_param_count ? zero_gradient(context, 0, 0, &add[0]) : NULL;
    float *next = o.buffer ? zero_gradient(context, 1, 0, &add[1]) : NULL;
    float *de = o.e ? zero_gradient(context, context->unit->flat_param_count, 0, &add[2]) : NULL;
    for (int i = 0; i < WIDTH; i++) {
        float sums[3] = {0}, scale = o.e ? 1 + o.e[i] : 1;
        for (int64_t b = 0; b < context->shape.batch; b++) {
            float x = o.x[b * WIDTH + i], y = before_borrowed(k, &o, b, i);
            float d =
                k->last ? context->loss_factor * 2 * y * scale / (float)context->shape.batch / WIDTH
                        : ((float *)d_out->at[0].data)[b * WIDTH + i];
            sums[0] += k->multiplies ? d * scale * x : d * scale;
            sums[1] += x;
            sums[2] += d * y;
            if (d_in->count)
                ((float *)d_in->at[0].data)[b * WIDTH + i] = d * scale *
                                                             (k->multiplies ? o.p[i]
                                                              : k->adds     ? 1
                                                                            : 0.5f);
        }
        put(dp, add[0], i, sums[0]);
        put(next, add[1], i, sums[1]);
        put(de, add[2], i, sums[2]);
    }
    return ZERO_OK;
}

static zero_status both(zero_context *context, const zero_tensors *in, const zero_tensors *d_in)
{
    const zero_tensors none = {0};
    zero_status status = forward(context, in, &none);
    return status == ZERO_OK ? backward(context, in, &none, d_in) : status;
}

static const zero_unit_ops plain = {
    .kind = "plain", .sizes = sizes, .forward = forward, .backward = backward};
static const zero_unit_ops fused = {.kind = "fused",
                                    .sizes = sizes,
                                    .forward = forward,
                                    .backward = backward,
                                    .forward_backward = both};

#define TENSOR(text, spread)                                                                       \
    {                                                                                              \
        .name = text, .dims = 1, .shape = {WIDTH}, .init = ZERO_INIT_NORMAL, .init_value = spread, \
        .tp_axis = -1                                                                              \
    }
static const zero_tensor_desc tensors[] = {TENSOR("a", 1), TENSOR("b", 0.5f),      TENSOR("c", 1),
                                           TENSOR("d", 1), TENSOR("d.mean", 0.1f), TENSOR("f", 1)};
static const zero_flat_param_desc a = {ZERO_TRAINABLE, 1, &tensors[0]},
                                  b = {ZERO_TRAINABLE, 1, &tensors[1]},
                                  c = {ZERO_FROZEN, 1, &tensors[2]};
static const zero_flat_param_desc d[] = {{ZERO_TRAINABLE, 1, &tensors[3]},
                                         {ZERO_BUFFER, 1, &tensors[4]}},
                                  f = {ZERO_TRAINABLE, 1, &tensors[5]};
static const zero_flat_param_desc frozen_a = {ZERO_FROZEN, 1, &tensors[0]},
                                  frozen_f = {ZERO_FROZEN, 1, &tensors[5]};
static const zero_flat_param_ref of_first = {0, 0};

static const kind first = {.multiplies = true, .first = true}, adds = {.adds = true}, halves = {0},
                  inner = {.multiplies = true};
static const kind counts = {.multiplies = true, .has_buffer = true},
                  last = {.multiplies = true, .last = true};
static const kind alone = {.multiplies = true, .first = true, .last = true},
                  bare = {.first = true, .last = true};

#define UNIT(text, table, what, owned, flat_params)                                                \
    {                                                                                              \
        text, table, what, owned, flat_params, 0, NULL                                             \
    }
#define BORROWS(text, table, what, owned, flat_params)                                             \
    {                                                                                              \
        text, table, what, owned, flat_params, 1, &of_first                                        \
    }
static const zero_unit mixed_units[] = {
    UNIT("u0", &plain, &first, 1, &a),    UNIT("u1", &plain, &adds, 1, &b),
    UNIT("u2", &plain, &halves, 0, NULL), BORROWS("u3", &plain, &inner, 1, &c),
    UNIT("u4", &plain, &counts, 2, d),    BORROWS("u5", &plain, &last, 1, &f)};
static const zero_unit fused_units[] = {UNIT("u0", &plain, &first, 1, &a),
                                        UNIT("u4", &plain, &counts, 2, d),
                                        BORROWS("u5", &fused, &last, 1, &f)};
static const zero_unit frozen_units[] = {UNIT("u0", &plain, &first, 1, &frozen_a),
                                         BORROWS("u1", &fused, &last, 1, &frozen_f)};
static const zero_unit alone_unit = UNIT("u0", &plain, &alone, 1, &a),
                       alone_fused = UNIT("u0", &fused, &alone, 1, &a);
static const zero_unit bare_unit = UNIT("u0", &plain, &bare, 0, NULL);
// Borrows nothing.
static const zero_unit chain_units[] = {
    UNIT("u0", &plain, &first, 1, &a),    UNIT("u1", &plain, &adds, 1, &b),
    UNIT("u2", &plain, &halves, 0, NULL), UNIT("u3", &plain, &inner, 1, &c),
    UNIT("u4", &plain, &counts, 2, d),    UNIT("u5", &fused, &last, 1, &f)};
static const zero_model chain = {"chain", 6, chain_units};
static const zero_model models[] = {
    {"mixed", 6, mixed_units}, {"mixed, fused", 3, fused_units},  {"frozen", 2, frozen_units},
    {"alone", 1, &alone_unit}, {"alone, fused", 1, &alone_fused}, {"bare", 1, &bare_unit}};

typedef struct job {
    zero_comm *comm;
    const zero_model *model;
    int stage, accumulation;
    const char *optimizer;
    // Pipeline stages, and how they are said; 0: there is no pipeline.
    int stages;
    const char *schedule, *split;
    bool shares; // what units borrow is summed as with a pipeline
    // Directories of checkpoints: load before the first step, save after the last; NULL: none.
    const char *load, *save;
    bool guarded; // a guard reads buffers beside every step
    uint64_t hash;
} job;

static void must(zero_status status, const zero_error *error, const job *job)
{
    if (status == ZERO_OK)
        return;
    fprintf(stderr, "%s, stage %d, rank %d: %s\n", job->model->name, job->stage,
            zero_comm_rank(job->comm), error->message);
    abort();
}

static void fold(uint64_t *hash, const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        *hash = (*hash ^ ((const unsigned char *)data)[i]) * 1099511628211u;
}

static void fill(int64_t step, int64_t g, float *x)
{
    for (int i = 0; i < BATCH * WIDTH; i++)
        x[i] = (float)((i * 7919 + step * 131 + g * 17) % 1000) / 1000 - 0.5f;
    if (step == 2 && g == 0)
        x[3] = INFINITY; // this step is skipped, by all ranks
}

typedef struct reader { // that a guard lets read the buffer beside a step
    int flat_param;
    const char *own; // (bytes) the rank's shard of it
    size_t bytes;
    char before[3 * ZR_CHUNK * sizeof(float)]; // a buffer has three chunks
    int calls, changed;                        // changed: calls after the buffer was overwritten
} reader;

static zero_status await_reader(void *user, int flat_param, zero_error *error)
{
    reader *r = user;
    bool is_read = flat_param == r->flat_param;
    r->calls += is_read;
    r->changed += is_read && memcmp(r->own, r->before, r->bytes) != 0;
    return ZERO_OK;
}

static void begin_guard(zero_engine *engine, reader *r)
{
    const zr_flat_param *flat_params = zr_engine_plan(engine)->flat_params;
    *r = (reader){0};
    while (flat_params[r->flat_param].kind != ZERO_BUFFER)
        r->flat_param++;
    r->own = zr_own_parameters(engine, r->flat_param);
    r->bytes = (size_t)zr_flat_param_shard_bytes(&flat_params[r->flat_param]);
    memcpy(r->before, r->own, r->bytes);
    zr_engine_guard(engine, &(zr_guard){await_reader, r});
}

// Whoever reads the buffer is waited for before it changes, and after that it does change.
static void end_guard(zero_engine *engine, const reader *r, bool skipped)
{
    bool kept = memcmp(r->own, r->before, r->bytes) == 0;
    zr_engine_guard(engine, NULL);
    if (r->calls == !skipped && !r->changed && kept == skipped)
        return;
    fprintf(stderr, "a reader of the buffer is waited for %d times, %d of them too late\n",
            r->calls, r->changed);
    abort();
}

static void one_step(job *job, zero_engine *engine)
{
    static _Thread_local reader reader;
    static _Thread_local float all[MOST_MICRO_BATCHES][BATCH * WIDTH];
    float *x = all[0];
    zero_tensors batches[MOST_MICRO_BATCHES], half = {1, {{x, ZERO_F32, 2, {1, WIDTH}}}};
    zero_step_info info = {0};
    zero_error error;
    double loss = 0;
    int64_t step, g;
    int data;
    zero_position(engine, &step, &g);
    zero_grid_of(engine, ZERO_AXIS_data, NULL, &data);
    for (int k = 0; k < job->accumulation; k++) {
        fill(step, g + (int64_t)k * data, all[k]);
        batches[k] = (zero_tensors){1, {{all[k], ZERO_F32, 2, {BATCH, WIDTH}}}};
    }
    if (job->guarded)
        begin_guard(engine, &reader);
    for (int k = 0; k < job->accumulation && !job->stages; k++) {
        must(zero_forward(engine, &batches[k], &loss, &error), &error, job);
        must(zero_backward(engine, &error), &error, job);
        must(zero_step(engine, &info, &error), &error, job);
    }
    if (job->stages)
        must(zero_train_batch(engine, batches, job->accumulation, &info, &error), &error, job);
    if (job->guarded)
        end_guard(engine, &reader, info.skipped);
    for (int i = 0; i < WIDTH; i++)
        x[i] = (float)(i % 13);
    must(zero_evaluate(engine, &half, &loss, &error), &error, job);
    fold(&job->hash, &info.skipped, sizeof info.skipped);
    fold(&job->hash, &loss, sizeof loss);
    if (isfinite(info.loss))
        fold(&job->hash, &info.loss, sizeof info.loss);
}

// Returns how many ranks compute each micro-batch: two hold and compute the same.
static int ranks_each(void) { return harness_wants_twice() ? 2 : 1; }

static void *run_rank(void *argument)
{
    job *self = argument;
    char config[512];
    static _Thread_local float values[WIDTH];
    int each = ranks_each();
    zero_engine *engine;
    zero_error error;
    snprintf(config, sizeof config,
             "{\"gradient_accumulation_steps\": %d, \"gradient_clipping\": 0.5, "
             "\"zero_optimization\": {\"stage\": %d, \"reduce_bucket_size\": 9000},"
             " \"libzero\": {\"exact_pipeline\": %s}, "
             "\"optimizer\": {\"type\": \"%s\", \"params\": {\"lr\": 0.01}}}",
             self->accumulation, self->stage, self->shares ? "true" : "false", self->optimizer);
    zero_options options = {.struct_size = sizeof options,
                            .model = self->model,
                            .comm = self->comm,
                            .config_text = config,
                            .shape = {.batch = BATCH, .seq = 1},
                            .backend = "ref"};
    const zr_trial trial = {.unsplit = each > 1,
                            .parallel = {.tensor = each,
                                         .pipeline = self->stages,
                                         .schedule = self->schedule,
                                         .split = self->split}};
    must(zr_initialize(&options, &trial, &engine, &error), &error, self);
    if (self->load)
        must(zero_load_checkpoint(engine, self->load, &error), &error, self);
    for (int step = 0; step < (self->save ? STEPS - 1 : self->load ? 1 : STEPS); step++)
        one_step(self, engine);
    if (self->save)
        must(zero_save_checkpoint(engine, self->save, &error), &error, self);
    for (int u = 0; u < self->model->unit_count; u++)
        for (int p = 0; p < self->model->units[u].flat_param_count; p++) {
            must(zero_read_parameter(engine, self->model->units[u].flat_params[p].tensors[0].name,
                                     values, WIDTH, &error),
                 &error, self);
            fold(&self->hash, values, sizeof values);
        }
    must(zero_comm_barrier(self->comm, &error), &error, self);
    zero_destroy(engine);
    return NULL;
}

static uint64_t run(job what, int data)
{
    zero_comm *comms[MOST_RANKS];
    job jobs[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    int ranks = data * ranks_each() * (what.stages ? what.stages : 1);
    zero_error error;
    what.hash = 14695981039346656037u;
    must(zero_comm_threads(ranks, NULL, comms, &error), &error, &what);
    for (int r = 0; r < ranks; r++) {
        jobs[r] = what;
        jobs[r].comm = comms[r];
        assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &jobs[r]), 0);
    }
    for (int r = 0; r < ranks; r++)
        pthread_join(threads[r], NULL);
    for (int r = 0; r < ranks; r++) {
        zero_comm_destroy(comms[r]);
        assert_true(jobs[r].hash == jobs[0].hash);
    }
    return jobs[0].hash;
}

static void test_stages_agree(void **state)
{
    static const char *const optimizers[] = {"AdamW", "LAMB"};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (int o = 0; o < 2; o++)
            for (int ranks = 1; ranks <= 3; ranks++)
                for (int k = 1; k <= 3 - 2 * o; k += 2) {
                    job job = {.model = &models[m], .accumulation = k, .optimizer = optimizers[o]};
                    uint64_t baseline = run(job, ranks);
                    for (job.stage = 1; job.stage <= 3; job.stage++)
                        assert_true(run(job, ranks) == baseline);
                }
}

static void buffers_wait_for_who_reads_them_beside_the_step(void **state)
{
    for (int stage = 0; stage <= 3; stage++)
        for (int ranks = 1; ranks <= 3; ranks += 2) {
            job job = {.model = &models[0],
                       .stage = stage,
                       .accumulation = 2,
                       .optimizer = "AdamW",
                       .guarded = true};
            run(job, ranks);
        }
}

typedef struct pipe { // u2, which has nothing to train or to save, may be a stage of its own
    int stages;
    const char *schedule, *split;
} pipe_of_units;

static const pipe_of_units pipes[] = {{2, "1f1b", "0,3"},
                                      {3, "gpipe", "0,2,3"},
                                      {3, "zb-h1", "0,1,4"},
                                      {3, "interleaved:2", NULL},
                                      {5, "1f1b", "0,1,2,3,5"}};
enum { PIPES = sizeof pipes / sizeof *pipes };

static job piped(const pipe_of_units *pipe, job job)
{
    job.stages = pipe->stages;
    job.schedule = pipe->schedule;
    job.split = pipe->split;
    return job;
}

static void expect_pipelines(const job *of, int data)
{
    uint64_t baseline = run(*of, data);
    for (int p = 0; p < PIPES; p++)
        if (run(piped(&pipes[p], *of), data) != baseline)
            fail_msg("%s, stage %d, %d data ranks, %s: other bits", of->model->name, of->stage,
                     data, pipes[p].split ? pipes[p].split : pipes[p].schedule);
}

// With interleaved:2 the first stage has u0 and u3, which borrows from it, in two chunks.
static void pipelines_agree(void **state)
{
    static const char *const optimizers[] = {"AdamW", "LAMB"};
    for (int stage = 0; stage <= 3; stage++)
        for (int data = 1; data <= 2; data++) {
            job job = {.model = &chain,
                       .stage = stage,
                       .accumulation = 3,
                       .optimizer = optimizers[(stage + data) % 2]};
            expect_pipelines(&job, data);
            job.model = &models[0];
            job.shares = true;
            expect_pipelines(&job, data);
        }
}

// Weights, states and buffers of units are saved by the stages that have them.
static void pipelines_go_on_from_each_other(void **state)
{
    scratch *made = *state;
    char path[PIPES + 1][320];
    job plain_job = {.model = &chain, .stage = 1, .accumulation = 3, .optimizer = "AdamW"};
    for (int p = 0; p <= PIPES; p++) {
        job saves = p < PIPES ? piped(&pipes[p], plain_job) : plain_job;
        snprintf(path[p], sizeof path[p], "%s/%d", made->directory, p);
        saves.save = path[p];
        run(saves, 1);
    }
    plain_job.load = path[PIPES];
    uint64_t baseline = run(plain_job, 1);
    for (int from = 0; from <= PIPES; from++)
        for (int to = 0; to <= PIPES; to++) {
            job loads = to < PIPES ? piped(&pipes[to], plain_job) : plain_job;
            loads.load = path[from];
            if (run(loads, 1) != baseline)
                fail_msg("saved by %d, goes on as %d: other bits", from, to);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages_agree),
        cmocka_unit_test(buffers_wait_for_who_reads_them_beside_the_step),
        cmocka_unit_test(pipelines_agree),
        cmocka_unit_test_setup_teardown(pipelines_go_on_from_each_other, scratch_open,
                                        scratch_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
