// Stages 0 to 2: every rank has a replica of all parameters, or the ranks of a machine have one
// copy of those that are frozen. emit_reduce_scatter.c writes the instructions that reduce
// gradients, shard by shard at every stage.
//
// Stage 0, plain data parallelism (the baseline of section 5): every rank keeps gradients and
// optimizer states whole, too. The sum of the gradients is gathered once a step, because each rank
// then updates everything.
//
// Stages 1 (P_os) and 2 (P_os+g): a rank keeps the optimizer states of its own shards and, at stage
// 2, only the gradients of these. At both stages it updates the own shards, and the new parameters
// are all-gathered. The stages differ only in when gradient bytes are held (reduction.c): in a
// whole window, or in slots that are given back once they are reduced.
#include "plan/emit.h"
#include "plan/accumulators.h"

static void bind_whole(zr_emitter *e, int visit, int visits)
{
    const zr_visit *wanted = &e->plan->visits[visit];
    for (int i = 0; i < wanted->flat_param_count; i++) {
        int p = wanted->flat_params[i];
        zr_emit_bind(e, p, zr_flat_param_place(&e->plan->flat_params[p]));
    }
}

// What this rank has of a tied flat parameter's tied copy is its shard, at every stage.
static zr_when when_to_gather(const zr_flat_param *flat_param, zr_when trained, zr_when others)
{
    if (!zr_flat_param_collects(flat_param))
        return others;
    return flat_param->tied_copy ? ZR_ALWAYS : trained;
}

// Begins to gather shards; `bytes` bytes come.
static void gather_shards(zr_emitter *e, zr_when when, int p, zr_buffer_ref place, int64_t bytes)
{
    zr_emit(e, &(zr_instruction){.code = ZR_GATHER,
                                 .when = when,
                                 .flat_param = p,
                                 .place = place,
                                 .bytes = bytes,
                                 .slot = {ZR_SLOT_GATHER, p}});
}

void zr_emit_gather_replica(zr_emitter *e, zr_when when, int p)
{
    const zr_flat_param *flat_param = &e->plan->flat_params[p];
    int comes = (e->plan->ranks - 1) / (flat_param->shared ? e->plan->machine_ranks : 1);
    gather_shards(e, when, p, zr_flat_param_place(flat_param),
                  comes * zr_flat_param_shard_bytes(flat_param));
}

// A late tied copy is gathered elsewhere. In a map of all ranks, every shard is where all read it.
static bool has_to_come(const zr_plan *plan, const zr_flat_param *flat_param)
{
    return !flat_param->late && !(flat_param->shared && plan->mapped);
}

// Gathers every rank's shards into every replica. All exchanges begin before the first is awaited.
static void gather_replicas(zr_emitter *e, zr_when trained, zr_when others)
{
    const zr_plan *plan = e->plan;
    for (int p = 0; p < plan->flat_param_count; p++)
        if (has_to_come(plan, &plan->flat_params[p]))
            zr_emit_gather_replica(e, when_to_gather(&plan->flat_params[p], trained, others), p);
    for (int p = 0; p < plan->flat_param_count; p++)
        if (has_to_come(plan, &plan->flat_params[p]))
            zr_emit_await(e, when_to_gather(&plan->flat_params[p], trained, others), ZR_SLOT_GATHER,
                          p);
}

// Waits until peers have copied this shard after the last update.
static void await_copied(zr_emitter *e, int flat_param)
{
    zr_emit_await_readers(e, ZR_CHANGED, ZR_BUFFER_PARAMETERS, flat_param);
}

static void gather_updated(zr_emitter *e) { gather_replicas(e, ZR_ALWAYS, ZR_REWRITTEN); }

const zr_stage_emitter zr_emit_stage12 = {
    .acquire = bind_whole,
    .before_update = await_copied,
    .publish = gather_updated,
};

static void gather_gradients(zr_emitter *e)
{
    const zr_plan *plan = e->plan;
    for (int p = 0; p < plan->flat_param_count; p++) {
        const zr_flat_param *flat_param = &plan->flat_params[p];
        if (!zr_flat_param_collects(flat_param))
            continue;
        zr_emit_await_readers(e, ZR_ALWAYS, flat_param->whole.buffer, p);
        gather_shards(e, ZR_ALWAYS, p, flat_param->whole,
                      (plan->ranks - 1) * zr_flat_param_sum_bytes(flat_param));
    }
    for (int p = 0; p < plan->flat_param_count; p++)
        if (zr_flat_param_collects(&plan->flat_params[p]))
            zr_emit_await(e, ZR_ALWAYS, ZR_SLOT_GATHER, p);
}

// Gathers replicas only after something other than an update has written weights, because only then
// they differ.
static void gather_rewritten(zr_emitter *e) { gather_replicas(e, ZR_REWRITTEN, ZR_REWRITTEN); }

const zr_stage_emitter zr_emit_stage0 = {
    .acquire = bind_whole,
    .boundary = gather_gradients,
    .publish = gather_rewritten,
};
