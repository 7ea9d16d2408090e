#include "window_runs.h"

#include "base/random.h"
#include "engine/engine_api.h"
#include "engine/rank_grid.h"
#include "model/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MOST_MICRO_BATCHES = 64, MOST_BATCH = 2, MOST_TENSORS = 128 };

static const windows_case *running;
static windows_result *result;
static zero_step_info told[WINDOWS_RANKS][WINDOWS_STEPS];
static _Atomic int unlike; // ranks that do not hold what was planned

zero_llama_config windows_llama(void)
{
    zero_llama_config config = harness_llama();
    config.n_layer = 4;
    config.tied = 0;
    return config;
}

windows_case windows_case_of(const zero_llama_config *llama, const char *schedule, int stages)
{
    windows_case c = {.base = {.ranks = 1,
                               .stage = 1,
                               .accumulation = 4,
                               .batch = 1,
                               .llama = llama,
                               .schedule = schedule,
                               .stages = stages},
                      .lengths = {3, 2, 2}};
    if (!schedule) {
        c.libzero = "\"delayed_update\": {\"start_step\": 1}";
        c.base.tiers = "\"offload_optimizer\": {\"device\": \"cpu\"}";
    }
    return c;
}

zero_status windows_train(zero_engine *engine, const harness_case *base, int64_t steps,
                          zero_step_info *infos, zero_error *error)
{
    static _Thread_local harness_rows all[MOST_MICRO_BATCHES];
    zero_tensors batches[MOST_MICRO_BATCHES];
    int64_t step, g, each = zero_accumulation(engine);
    int stage, stages, data;
    zero_position(engine, &step, &g);
    zero_grid_of(engine, ZERO_AXIS_pipeline, &stage, &stages);
    zero_grid_of(engine, ZERO_AXIS_data, NULL, &data);
    if (steps * each > MOST_MICRO_BATCHES || base->batch > MOST_BATCH)
        abort();
    for (int64_t k = 0; k < steps * each; k++)
        batches[k] = harness_micro_batch(base, step + k / each, g + k % each * data, &all[k]);
    bool reads = stage == 0 || stage == stages - 1;
    const zero_tensors *own = reads ? batches : NULL;
    if (steps == 1 && step % 2) // that is the same, by the call for one step
        return zero_train_batch(engine, own, each, infos, error);
    return zero_train_window(engine, own, steps, infos, error);
}

static int64_t length_of(int window)
{
    bool pipelined = running->base.stages > 1;
    return pipelined && running->lengths[window % WINDOWS_MOST]
               ? running->lengths[window % WINDOWS_MOST]
               : 1;
}

static zero_status train(zero_engine *engine, zero_step_info *infos, zero_error *error)
{
    int64_t step, none, end = running->steps ? running->steps : WINDOWS_STEPS;
    zero_position(engine, &step, &none);
    for (int window = 0; step < end; window++) {
        int64_t steps = ZR_MIN(length_of(window), end - step);
        ZERO_TRY(windows_train(engine, &running->base, steps, &infos[step], error));
        step += steps;
        if (running->save && step == running->save_at)
            ZERO_TRY(zero_save_checkpoint(engine, running->save, error));
        if (running->between)
            ZERO_TRY(running->between(engine, step, error));
    }
    return ZERO_OK;
}

zero_status windows_evaluate(zero_engine *engine, double *loss, zero_error *error)
{
    harness_rows r;
    harness_batch(999, 0, 1, r.tokens, r.targets);
    const zero_tensors batch = harness_tensors(1, r.tokens, r.targets);
    return zero_evaluate(engine, &batch, loss, error);
}

typedef struct moment {
    zero_engine *engine;
    float *to; // of the whole model
    int flat_param;
    const zr_portion *portion;
} moment;

// Returns where the values of the tensor of that number begin.
static int64_t place_of(const zero_model *model, int number)
{
    int64_t at = 0;
    for (zr_tensor_walk w = zr_tensors_of(model); w.desc && w.number < number; zr_tensors_next(&w))
        at += zr_tensor_desc_elements(w.desc);
    return at;
}

static void copy_part(void *user, const zr_plan_tensor *tensor, int64_t first, int64_t count)
{
    const moment *m = user;
    const zero_model *model = zr_engine_plan(m->engine)->model;
    int64_t at = place_of(model->whole ? model->whole : model, tensor->number);
    if (at + tensor->count > WINDOWS_ELEMS)
        abort();
    memcpy(m->to + at + first - tensor->first, zr_portion_at(m->portion, first),
           (size_t)count * sizeof(float));
}

static zero_status take_portion(void *user, const zr_portion *portion, zero_error *error)
{
    moment *m = user;
    m->portion = portion;
    zr_for_parts(&zr_engine_plan(m->engine)->flat_params[m->flat_param], portion->span, copy_part,
                 m);
    return ZERO_OK;
}

// Each rank tells the moments of its own shards.
static zero_status tell_moments(zero_engine *engine, zero_error *error)
{
    static const zr_vector vectors[] = {ZR_VECTOR_STATE0, ZR_VECTOR_STATE1};
    for (int v = 0; v < 2 && !running->base.slices; v++)
        for (int p = 0; p < zr_engine_plan(engine)->flat_param_count; p++) {
            moment m = {.engine = engine, .to = result->moments[v], .flat_param = p};
            if (zr_engine_has_state(engine, p, vectors[v]))
                ZERO_TRY(zr_engine_vector_each(engine, p, vectors[v], ZR_PORTIONS_READ,
                                               take_portion, &m, error));
        }
    return ZERO_OK;
}

static zero_status drive(zero_engine *engine, zero_error *error)
{
    int rank = zr_engine_comm(engine)->rank;
    zero_memory memory;
    double evaluated, finished;
    ZERO_TRY(train(engine, told[rank], error));
    ZERO_TRY(windows_evaluate(engine, &evaluated, error));
    ZERO_TRY(zero_finish_update(engine, error));
    ZERO_TRY(windows_evaluate(engine, &finished, error));
    ZERO_TRY(tell_moments(engine, error));
    zero_memory_report(engine, &memory);
    unlike += memcmp(memory.planned, memory.held, sizeof memory.held) != 0;
    if (rank == 0) {
        result->evaluated = evaluated;
        result->finished = finished;
    }
    return ZERO_OK;
}

void windows_see(zero_engine *engine, const void *data, size_t bytes)
{
    if (zr_engine_comm(engine)->rank == 0)
        result->seen = zr_hash_bytes(data, bytes, result->seen);
}

static const char *comma(const char *text) { return text && *text ? ", " : ""; }

static void write_config(const windows_case *c, char *out, size_t size)
{
    char flush[64] = "";
    int most = 1;
    for (int i = 0; i < WINDOWS_MOST; i++)
        most = ZR_MAX(most, c->lengths[i]);
    if (c->base.stages > 1)
        snprintf(flush, sizeof flush, "\"pipeline\": {\"flush_every\": %d}", most);
    bool two = *flush && c->libzero;
    snprintf(out, size, "%s%s\"libzero\": {%s%s%s}", c->more ? c->more : "", comma(c->more), flush,
             two ? ", " : "", c->libzero ? c->libzero : "");
}

// Compares all of two steps but the padding between fields; a norm may be no number.
static bool is_same_step(const zero_step_info *a, const zero_step_info *b)
{
    const double x[] = {a->loss, a->lr, a->grad_norm, a->loss_scale},
                 y[] = {b->loss, b->lr, b->grad_norm, b->loss_scale};
    return a->step == b->step && a->updated == b->updated && a->skipped == b->skipped &&
           a->samples == b->samples && memcmp(x, y, sizeof x) == 0;
}

static void expect_all_tell_the_same(const harness_case *base, int steps)
{
    int world = base->ranks * ZR_MAX(base->stages, 1) * (base->slices ? base->tensor : 1);
    for (int r = 1; r < world; r++)
        for (int s = 0; s < steps; s++)
            if (!is_same_step(&told[r][s], &told[0][s]))
                fail_msg("rank %d tells another step %d than rank 0", r, s);
}

void windows_run(const windows_case *c, windows_result *out)
{
    char precision[1024];
    harness_case run = c->base;
    write_config(c, precision, sizeof precision);
    run.precision = precision;
    run.drive = drive;
    memset(out, 0, sizeof *out);
    memset(told, 0, sizeof told);
    running = c;
    result = out;
    unlike = 0;
    harness_run(&run, &out->run);
    memcpy(out->info, told[0], sizeof out->info);
    while (out->first < WINDOWS_STEPS - 1 && !out->info[out->first].step)
        out->first++;
    expect_all_tell_the_same(&run, WINDOWS_STEPS);
    assert_int_equal(unlike, 0);
}

const char *windows_difference(const windows_result *a, const windows_result *b)
{
    static char text[32];
    for (int s = a->first; s < WINDOWS_STEPS; s++) {
        snprintf(text, sizeof text, "step %d", s);
        if (!is_same_step(&a->info[s], &b->info[s]))
            return text;
    }
    if (a->run.elems != b->run.elems ||
        memcmp(a->run.parameters, b->run.parameters, (size_t)a->run.elems * sizeof(float)) != 0)
        return "parameters";
    if (memcmp(a->moments, b->moments, sizeof a->moments) != 0)
        return "moments";
    if (a->evaluated != b->evaluated)
        return "evaluation";
    if (a->seen != b->seen)
        return "view between steps";
    return a->finished == b->finished ? NULL : "evaluation after zero_finish_update";
}

void windows_expect_same(const windows_result *a, const windows_result *b, const char *what)
{
    const char *text = windows_difference(a, b);
    if (text)
        fail_msg("%s: another %s", what, text);
}
