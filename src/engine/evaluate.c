// Evaluation and inference: units run forward, each with its parameters acquired.
#include "engine/far_check.h"
#include "engine/interpret.h"
#include "engine/step.h"
#include "model/pipeline_stage_cut.h"
#include "plan/exchanges.h"
#include "plan/plan_parts.h"

#include <string.h>

// Begins one pass of an evaluation. Visits of units announce what ranks exchange in it.
static void begin_pass(zero_engine *engine, zr_pass_kind kind, bool outdated, zr_unit_fn visit,
                       void *user)
{
    zr_program_begin(engine, kind, 1u << (outdated ? ZR_OUTDATED : ZR_FRESH));
    engine->cursor.visit = visit;
    engine->cursor.user = user;
    engine->expected = zr_traffic_none();
}

static zero_status end_pass(zero_engine *engine, zr_pass_kind kind, zero_error *error)
{
    ZERO_TRY(zr_program_run_until(engine, engine->cursor.pass->count, error));
    return zr_step_check_messages(engine, kind, &engine->expected, error);
}

static bool begin_visits(zero_engine *engine)
{
    bool outdated = zr_step_begin_gathers(engine);
    engine->view.context.training = 0;
    zr_grid_hash_reset(&engine->grid);
    zr_tier_traffic_begin(engine);
    zr_tier_traffic_expect_gathers(engine, &engine->plan->moves.forward, outdated);
    return outdated;
}

static zero_status visit_units(zero_engine *engine, zr_unit_fn visit, void *user, zero_error *error)
{
    bool outdated = begin_visits(engine);
    begin_pass(engine, ZR_PASS_EVALUATION, outdated, visit, user);
    ZERO_TRY(end_pass(engine, ZR_PASS_EVALUATION, error));
    return zr_tier_traffic_check(engine, error);
}

zero_status zr_engine_visit_units(zero_engine *engine, zr_unit_fn visit, void *user,
                                  zero_error *error)
{
    ZERO_TRY(zr_engine_between_steps(engine, "inference", error));
    return zr_step_end_waits(engine, visit_units(engine, visit, user, error), error);
}

typedef struct evaluation { // boundaries of a batch that may be smaller than the engine's
    zero_engine *engine;
    double *loss;
    zero_tensors in;
    zero_unit_sizes sizes;
} evaluation;

// Brings the batch to where the units of the current chunk find it.
static zero_status send_batch(const evaluation *e, zero_error *error)
{
    zr_far_place_batch(e->engine, e->loss);
    return zr_far_send_batch(e->engine, error);
}

// Returns the bytes of a message with a boundary of these shapes. Shares of tensor ranks are as
// planned, whatever the shapes.
static int64_t message_bytes_of_link(const zero_engine *engine, const zr_link *link,
                                     const zero_tensors *boundary)
{
    return engine->plan->pipeline->divides ? link->message : zr_boundary_bytes(boundary);
}

static zero_status evaluate_unit(void *user, zero_context *context, zero_error *error)
{
    evaluation *e = user;
    zero_engine *engine = e->engine;
    const zr_chunk_plan *chunk = &engine->plan->chunks[engine->now.chunk];
    ZERO_TRY(context->unit->ops->sizes(context->unit, &context->shape, &e->in, &e->sizes));
    zr_tensor_exchange_expect(engine, &e->sizes);
    zero_tensors out;
    zr_engine_place(engine, engine->now.unit, &e->sizes.out, &out);
    ZERO_TRY(context->unit->ops->forward(context, &e->in, &out));
    e->in = out;
    if (engine->now.unit + 1 < chunk->end_unit || chunk->output < 0)
        return ZERO_OK;
    const zr_link *link = &engine->plan->links[chunk->output];
    engine->cursor.bytes_out = message_bytes_of_link(engine, link, &out);
    zr_link_fold(engine->plan, ZR_SEND, chunk->output, engine->cursor.bytes_out,
                 &engine->expected.pipeline);
    return ZERO_OK;
}

// Finds what enters a chunk for a batch of this shape: the sizes of all units before it follow from
// each other.
static zero_status find_input(evaluation *e, const zr_chunk_plan *chunk, zero_error *error)
{
    const zero_engine *engine = e->engine;
    const zr_pipeline_part *part = engine->plan->pipeline;
    zero_tensors shapes = {0};
    for (int u = 0; u < part->first_unit[chunk->number]; u++) {
        const zero_unit *unit = &zr_pipeline_stage_origin(engine->plan->model)->units[u];
        ZERO_TRY(unit->ops->sizes(unit, &engine->view.context.shape, &shapes, &e->sizes));
        shapes = e->sizes.out;
    }
    zr_engine_place_input(engine, chunk->first_unit, &shapes, &e->in);
    return ZERO_OK;
}

static zero_status evaluate_chunk(evaluation *e, int c, bool outdated, zero_error *error)
{
    zero_engine *engine = e->engine;
    const zr_plan *plan = engine->plan;
    const zr_chunk_plan *chunk = &plan->chunks[c];
    zr_pass_kind kind = zr_chunk_pass(ZR_CHUNK_EVALUATION, c);
    engine->now.chunk = c;
    ZERO_TRY(send_batch(e, error));
    ZERO_TRY(find_input(e, chunk, error));
    begin_pass(engine, kind, outdated, evaluate_unit, e);
    if (chunk->input >= 0) {
        engine->cursor.bytes_in = message_bytes_of_link(engine, &plan->links[chunk->input], &e->in);
        zr_link_fold(plan, ZR_RECEIVE, chunk->input, engine->cursor.bytes_in,
                     &engine->expected.pipeline);
        // What has come in shares is brought together.
        const zr_pass *pass = &plan->program.passes[kind];
        for (int i = 0; i < pass->count; i++)
            if (pass->at[i].code == ZR_JOIN)
                zr_join_fold(plan, &pass->at[i], &engine->expected);
    }
    return end_pass(engine, kind, error);
}

// Runs the chunks of this stage, one after another.
static zero_status evaluate_chunks(evaluation *e, zero_error *error)
{
    zero_engine *engine = e->engine;
    bool outdated = begin_visits(engine);
    engine->now.set = 0;
    engine->now.turn = engine->steps.evaluations++;
    for (int c = 0; c < engine->plan->chunk_count; c++) {
        zr_step_begin_work(engine, c, -1);
        zero_status status = evaluate_chunk(e, c, outdated, error);
        if (status != ZERO_OK)
            return zr_step_say_work(engine, c, "evaluation", status, error);
    }
    zr_step_begin_work(engine, -1, -1);
    return zr_tier_traffic_check(engine, error);
}

static zero_status evaluate_units(evaluation *e, zero_error *error)
{
    ZERO_TRY(send_batch(e, error));
    return visit_units(e->engine, evaluate_unit, e, error);
}

zero_status zr_engine_evaluate(zero_engine *engine, const zero_tensors *batch, double *loss,
                               zero_error *error)
{
    const zero_shape *limit = &engine->plan->shape;
    // This comes before anything changes that a backward under way needs.
    ZERO_TRY(zr_engine_between_steps(engine, "zero_evaluate", error));
    if (!batch || batch->count < 1 || batch->at[0].dims < 1 || !loss)
        return zr_step_missing("zero_evaluate", loss ? "batch" : "loss", error);
    ZERO_TRY(zr_far_check_batch(engine->queue->device, "zero_evaluate", batch, error));
    zero_shape shape = {.batch = batch->at[0].shape[0],
                        .seq = limit->seq,
                        .threads = limit->threads,
                        .dtype = limit->dtype};
    if (limit->seq > 1 && batch->at[0].dims > 1)
        shape.seq = batch->at[0].shape[1];
    if (shape.batch < 1 || shape.batch > limit->batch || shape.seq < 1 || shape.seq > limit->seq)
        return zr_fail(
            error, ZERO_ERR_USAGE,
            "zero_evaluate: a batch of %lld x %lld; this engine takes at most %lld x %lld",
            (long long)shape.batch, (long long)shape.seq, (long long)limit->batch,
            (long long)limit->seq);
    if (engine->grid.tensor)
        ZERO_TRY(zr_step_end_waits(
            engine, zr_samples_compare_tensor(engine, zr_samples_fold(batch, 0), error), error));
    engine->view.batch = *batch;
    engine->view.context.shape = shape;
    evaluation evaluation = {.engine = engine, .loss = loss};
    zero_status status = engine->plan->pipeline ? evaluate_chunks(&evaluation, error)
                                                : evaluate_units(&evaluation, error);
    if (status == ZERO_OK)
        status = zr_far_bring_loss(engine, error);
    return zr_step_end_waits(engine, status, error);
}

// Sends the last rank's loss to all ranks of a pipeline, and compares in the same message the
// batches of the first rank and the last.
static zero_status share_loss(zero_engine *engine, const zero_tensors *batch, double *loss,
                              zero_error *error)
{
    zero_comm *pipeline = engine->grid.pipeline;
    if (!pipeline)
        return ZERO_OK;
    int64_t words[3] = {0}; // of the loss; hashes of the two batches
    int64_t hash = (int64_t)(zr_samples_fold(batch, 0) >> 1);
    if (pipeline->rank == 0)
        words[1] = hash;
    if (pipeline->rank == pipeline->size - 1) {
        memcpy(words, loss, sizeof *loss);
        words[2] = hash;
    }
    ZERO_TRY(zr_comm_all_reduce_small(pipeline, words, 3, ZERO_I64, ZR_SUM, error));
    memcpy(loss, words, sizeof *loss);
    return words[1] == words[2] ? ZERO_OK : zr_samples_refuse_pipeline_ends(engine, error);
}

zero_status zero_evaluate(zero_engine *engine, const zero_tensors *batch, double *loss,
                          zero_error *error)
{
    ZR_NEED(error, engine);
    ZERO_TRY(zr_engine_evaluate(engine, batch, loss, error));
    return zr_step_end_waits(engine, share_loss(engine, batch, loss, error), error);
}
