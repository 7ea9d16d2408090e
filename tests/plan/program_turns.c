#include "program_turns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

zr_pass_kind program_pass_of(const zr_action *action)
{
    static const zr_chunk_part parts[] = {[ZR_ACT_FORWARD] = ZR_CHUNK_FORWARD,
                                          [ZR_ACT_BACKWARD] = ZR_CHUNK_BACKWARD,
                                          [ZR_ACT_WEIGHT] = ZR_CHUNK_WEIGHT};
    return zr_chunk_pass(parts[action->act], action->chunk);
}

static uint32_t holds_of(bool first, bool stale)
{
    return 1u << ZR_ALWAYS | 1u << (first ? ZR_FIRST : ZR_LATER) |
           1u << (first && stale ? ZR_STALE : ZR_FRESH);
}

// Lists the passes of a step. stale: kept pieces have to be gathered.
static int list_step(const zr_plan *plan, bool stale, program_turn *out)
{
    int count = 0;
    for (int k = 0; k < 2 && !plan->pipeline; k++)
        out[count++] =
            (program_turn){.pass = ZR_PASS_MICRO_BATCH, .holds = holds_of(k == 0, stale)};
    for (int a = 0; a < plan->action_count; a++)
        if (plan->actions[a].act != ZR_ACT_UPDATE)
            out[count++] =
                (program_turn){.pass = program_pass_of(&plan->actions[a]),
                               .holds = holds_of(plan->actions[a].micro_batch == 0, stale)};
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
