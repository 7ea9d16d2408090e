// A whole step in one call: the one loop over micro-batches. In a pipeline it runs this stage's
// list of actions (plan/pipeline.h), each of which is a pass of one chunk for one micro-batch.
#include "base/message.h"
#include "engine/interpret.h"
#include "engine/same_samples.h"
#include "engine/step.h"

#include <stdio.h>

typedef struct step { // that runs
    zero_engine *engine;
    const zero_tensors *batches; // (accumulation); NULL: this stage reads none
    bool stale;                  // the step gathers kept pieces
} step;

static zr_pass_kind pass_of(const zr_action *action)
{
    static const zr_chunk_part parts[] = {[ZR_ACT_FORWARD] = ZR_CHUNK_FORWARD,
                                          [ZR_ACT_BACKWARD] = ZR_CHUNK_BACKWARD,
                                          [ZR_ACT_WEIGHT] = ZR_CHUNK_WEIGHT};
    return zr_chunk_pass(parts[action->act], action->chunk);
}

// Makes the engine compute the action's micro-batch, in its set of the chunk's activations.
static void set_action(const step *s, const zr_action *action)
{
    static const zero_tensors none;
    zero_engine *engine = s->engine;
    int k = action->micro_batch;
    zr_step_begin_work(engine, action->chunk, k);
    engine->chunk = action->chunk;
    engine->micro_batch = k;
    engine->turn = k;
    engine->set = k % engine->plan->chunks[action->chunk].buffers.sets;
    zr_step_set_micro_batch(engine, s->batches ? &s->batches[k] : &none, &engine->losses[k]);
    if (action->act == ZR_ACT_FORWARD && action->chunk == 0)
        zr_moves_expect_micro_batch(engine, s->stale && k == 0);
}

static void record_action(zero_engine *engine, const zr_action *action, zr_activity what,
                          int64_t begin)
{
    _Static_assert((int)ZR_RECORD_CHUNKS >= (int)ZR_MOST_CHUNKS,
                   "each chunk has a number in records");
    if (engine->recorder)
        engine->recorder->unit = -1;
    zr_recorder_add(engine->recorder, what, begin, 0, 0,
                    zr_record_action(action->micro_batch, action->chunk));
}

static zero_status run_action(const step *s, const zr_action *action, zero_error *error)
{
    static const zr_activity phases[] = {[ZR_ACT_FORWARD] = ZR_ACTIVITY_forward,
                                         [ZR_ACT_BACKWARD] = ZR_ACTIVITY_backward,
                                         [ZR_ACT_WEIGHT] = ZR_ACTIVITY_weight};
    zero_engine *engine = s->engine;
    int64_t begin = zr_recorder_begin(engine->recorder);
    zr_pass_kind kind = pass_of(action);
    bool ends = zr_chunk_is_last(engine->plan, &engine->plan->chunks[action->chunk]) &&
                action->act == ZR_ACT_BACKWARD;
    set_action(s, action);
    bool stale = s->stale && action->micro_batch == 0;
    ZERO_TRY(zr_program_run_pass(engine, kind, zr_step_holds(engine, stale), error));
    ZERO_TRY(zr_step_check_messages(engine, kind, error));
    engine->micro_batch_loss = engine->losses[action->micro_batch];
    if (ends)
        ZERO_TRY(zr_step_add_loss(engine, error));
    record_action(engine, action, phases[action->act], begin);
    return ZERO_OK;
}

static zero_status say_action(const zero_engine *engine, const zr_action *action,
                              zero_status status, zero_error *error)
{
    char what[64];
    snprintf(what, sizeof what, "%s of micro-batch %d", zr_act_name(action->act),
             action->micro_batch);
    return zr_step_say_work(engine, action->chunk, what, status, error);
}

static zero_status run_actions(const step *s, zero_error *error)
{
    const zr_plan *plan = s->engine->plan;
    for (int i = 0; i < plan->action_count; i++) {
        const zr_action *action = &plan->actions[i];
        zero_status status = run_action(s, action, error);
        if (status != ZERO_OK)
            return say_action(s->engine, action, status, error);
    }
    zr_step_begin_work(s->engine, -1, -1);
    return ZERO_OK;
}

// Says whether this rank has the first or the last unit, which read the batches.
static bool reads_batches(const zr_plan *plan)
{
    const zr_chunk_plan *first = &plan->chunks[0], *last = &plan->chunks[plan->chunk_count - 1];
    return !plan->pipeline || first->number == 0 || zr_chunk_is_last(plan, last);
}

static zero_status run_pipeline(zero_engine *engine, const zero_tensors *batches, int64_t count,
                                zero_step_info *info, zero_error *error)
{
    step s = {.engine = engine, .batches = batches};
    ZERO_TRY(zr_step_tell_begun(engine, error));
    zr_step_begin_sums(engine);
    for (int64_t k = 0; k < count && reads_batches(engine->plan); k++)
        engine->samples = zr_samples_fold(&batches[k], engine->samples);
    s.stale = zr_step_begin_gathers(engine);
    zr_grid_hash_reset(&engine->grid);
    ZERO_TRY(run_actions(&s, error));
    engine->micro_batch = count;
    *info = (zero_step_info){.step = engine->step};
    return zr_step_complete(engine, info, error);
}

static zero_status run_micro_batches(zero_engine *engine, const zero_tensors *batches,
                                     int64_t count, zero_step_info *info, zero_error *error)
{
    for (int64_t k = 0; k < count; k++) {
        double loss;
        ZERO_TRY(zero_forward(engine, &batches[k], &loss, error));
        ZERO_TRY(zero_backward(engine, error));
        ZERO_TRY(zero_step(engine, info, error));
    }
    return ZERO_OK;
}

zero_status zero_train_batch(zero_engine *engine, const zero_tensors *batches, int64_t count,
                             zero_step_info *info, zero_error *error)
{
    ZR_NEED(error, engine);
    const zr_plan *plan = engine->plan;
    ZERO_TRY(zr_engine_between_steps(engine, "zero_train_batch", error));
    if (plan->settings.inference)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_train_batch: this engine was made for inference; zero_evaluate is its "
                       "function");
    if (count != plan->settings.accumulation)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_train_batch: %lld micro-batches; a step has %lld "
                       "(gradient_accumulation_steps)",
                       (long long)count, (long long)plan->settings.accumulation);
    if (!info || (!batches && reads_batches(plan)))
        return zr_step_missing("zero_train_batch", info ? "batches" : "info", error);
    if (!plan->pipeline)
        return run_micro_batches(engine, batches, count, info, error);
    return zr_step_end_waits(engine, run_pipeline(engine, batches, count, info, error), error);
}
