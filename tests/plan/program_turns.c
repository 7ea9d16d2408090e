#include "program_turns.h"

#include "plan/pipeline/tied_weights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

bool program_has_pass(const zr_action *action) { return action->act < ZR_ACT_NORM; }

zr_pass_kind program_pass_of(const zr_action *action)
{
    static const zr_chunk_part parts[] = {[ZR_ACT_FORWARD] = ZR_CHUNK_FORWARD,
                                          [ZR_ACT_BACKWARD] = ZR_CHUNK_BACKWARD,
                                          [ZR_ACT_WEIGHT] = ZR_CHUNK_WEIGHT};
    return zr_chunk_pass(parts[action->act], action->chunk);
}

static uint32_t holds_of(bool first, bool outdated)
{
    return 1u << ZR_ALWAYS | 1u << (first ? ZR_FIRST : ZR_LATER) |
           1u << (first && outdated ? ZR_OUTDATED : ZR_FRESH);
}

// Lists the passes of a step. stale: kept flat parameters have to be gathered.
static int list_step(const zr_plan *plan, bool outdated, program_turn *out)
{
    int count = 0;
    for (int k = 0; k < 2 && !plan->pipeline; k++)
        out[count++] =
            (program_turn){.pass = ZR_PASS_MICRO_BATCH, .holds = holds_of(k == 0, outdated)};
    for (int a = 0; a < plan->action_count; a++)
        if (program_has_pass(&plan->actions[a]))
            out[count++] =
                (program_turn){.pass = program_pass_of(&plan->actions[a]),
                               .holds = holds_of(plan->actions[a].micro_batch == 0, outdated)};
    return count;
}

static int list_evaluation(const zr_plan *plan, program_turn *out)
{
    int count = plan->pipeline ? plan->chunk_count : 1;
    for (int c = 0; c < count; c++)
        out[c] = (program_turn){.pass = plan->pipeline ? zr_chunk_pass(ZR_CHUNK_EVALUATION, c)
                                                       : ZR_PASS_EVALUATION,
                                .holds = holds_of(true, true)};
    return count;
}

int program_turns(const zr_plan *plan, program_turn *out)
{
    assert_true(2 * plan->action_count + 16 < PROGRAM_MOST_TURNS);
    int count = list_step(plan, true, out);
    int evaluation = count;
    count += list_evaluation(plan, &out[count]);
    out[evaluation].changed = true;
    return count + list_step(plan, false, &out[count]);
}

// Lists the passes in which late tied copies take the updates `from` .. `end` - 1 of a window.
static int list_tied_weights(const zr_plan *plan, int64_t from, int64_t end, int window,
                             pipeline_turn *out)
{
    int count = 0, steps = plan->pipeline->pipeline.steps;
    for (int64_t slot = from; slot < end && zr_plan_tied_weights_are_late(plan); slot++)
        out[count++] = (pipeline_turn){
            .pass = ZR_PASS_TIED_WEIGHTS, .number = window * steps + (int)slot, .slot = (int)slot};
    return count;
}

// Lists the passes of a NORM or an UPDATE.
static int list_end_of_step(const zr_plan *plan, const zr_action *action, int window,
                            pipeline_turn *out)
{
    const zr_pipeline *pipeline = &plan->pipeline->pipeline;
    int count = 0, step = action->micro_batch / pipeline->micro_batches;
    pipeline_turn turn = {.number = window * pipeline->steps + step, .slot = step};
    turn.pass = ZR_PASS_BOUNDARY;
    if (action->act == ZR_ACT_NORM || pipeline->kind == ZR_PIPELINE_PIPEDREAM)
        out[count++] = turn;
    if (action->act == ZR_ACT_NORM)
        return count;
    for (turn.pass = ZR_PASS_TOTAL; turn.pass <= ZR_PASS_UPDATE; turn.pass++)
        out[count++] = turn;
    int64_t before = step ? zr_plan_tied_weights_taken(plan, step - 1) : 0;
    count += list_tied_weights(plan, before, zr_plan_tied_weights_taken(plan, step), window,
                               &out[count]);
    turn.pass = ZR_PASS_PUBLISH;
    out[count++] = turn;
    return count;
}

static int list_action(const zr_plan *plan, const zr_action *action, int window, pipeline_turn *out)
{
    int k = action->micro_batch;
    if (!program_has_pass(action))
        return list_end_of_step(plan, action, window, out);
    *out = (pipeline_turn){.pass = program_pass_of(action),
                           .set = k % plan->chunks[action->chunk].buffers.sets,
                           .number = window * zr_pipeline_window(&plan->pipeline->pipeline) + k,
                           .slot = k};
    return 1;
}

int pipeline_turns(const zr_plan *plan, int windows, int evaluations, pipeline_turn *out)
{
    int count = 0, trained = windows * zr_pipeline_window(&plan->pipeline->pipeline);
    assert_true(5 * windows * plan->action_count + evaluations * plan->chunk_count <
                PROGRAM_MOST_TURNS);
    int steps = plan->pipeline->pipeline.steps;
    for (int w = 0; w < windows; w++) {
        for (int a = 0; a < plan->action_count; a++)
            count += list_action(plan, &plan->actions[a], w, &out[count]);
        count += list_tied_weights(plan, zr_plan_tied_weights_taken(plan, steps - 1), steps, w,
                                   &out[count]);
    }
    for (int i = 0; i < evaluations * plan->chunk_count; i++) {
        int e = i / plan->chunk_count;
        out[count++] =
            (pipeline_turn){.pass = zr_chunk_pass(ZR_CHUNK_EVALUATION, i % plan->chunk_count),
                            .number = trained + e,
                            .slot = e};
    }
    return count;
}
