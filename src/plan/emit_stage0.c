// Stage 0, plain data parallelism: every rank keeps parameters, gradients and optimizer states
// whole (the baseline of section 5). The gradient is reduced shard by shard, as in every stage, and
// gathered once a step, because each rank then updates everything.
#include "plan/emit.h"
#include "plan/accumulators.h"

static void gather_gradients(zr_emitter *e)
{
    const zr_plan *plan = e->plan;
    for (int p = 0; p < plan->flat_param_count; p++) {
        const zr_flat_param *flat_param = &plan->flat_params[p];
        if (!zr_flat_param_collects(flat_param))
            continue;
        zr_emit_await_readers(e, ZR_ALWAYS, flat_param->whole.buffer, p);
        zr_emit(e,
                &(zr_instruction){.code = ZR_GATHER,
                                  .flat_param = p,
                                  .place = flat_param->whole,
                                  .bytes = (plan->ranks - 1) * zr_flat_param_sum_bytes(flat_param),
                                  .slot = {ZR_SLOT_GATHER, p}});
    }
    for (int p = 0; p < plan->flat_param_count; p++)
        if (zr_flat_param_collects(&plan->flat_params[p]))
            zr_emit_await(e, ZR_ALWAYS, ZR_SLOT_GATHER, p);
}

// Gathers replicas only after something other than an update has written weights, because only then
// they differ.
static void gather_rewritten(zr_emitter *e)
{
    zr_emit_gather_replicas(e, ZR_REWRITTEN, ZR_REWRITTEN);
}

const zr_stage_emitter zr_emit_stage0 = {
    .acquire = zr_emit_bind_whole,
    .boundary = gather_gradients,
    .publish = gather_rewritten,
};
