// Stages 1 (P_os) and 2 (P_os+g): a rank keeps the optimizer states of its own shards and, at stage
// 2, only the gradients of these. At both stages it updates the own shards, and the new parameters
// are all-gathered. The stages differ only in when gradient bytes are held (reduction.c): in a
// whole window, or in slots that are given back once they are reduced.
#include "plan/emit.h"
#include "plan/piece_sums.h"
#include "plan/ties.h"

void zr_emit_bind_whole(zr_emitter *e, int visit, int visits)
{
    const zr_visit *wanted = &e->plan->visits[visit];
    for (int i = 0; i < wanted->piece_count; i++) {
        int p = wanted->pieces[i];
        zr_emit_bind(e, p, (zr_place){ZR_SPACE_PARAMETERS, e->plan->pieces[p].full_first});
    }
}

// What this rank has of a tied piece's tied copy is its shard, at every stage.
static zr_when when_of(const zr_piece *piece, zr_when trained, zr_when others)
{
    if (!zr_piece_collects(piece))
        return others;
    return piece->tied_copy ? ZR_ALWAYS : trained;
}

void zr_emit_gather_replica(zr_emitter *e, zr_when when, int p)
{
    const zr_plan *plan = e->plan;
    const zr_piece *piece = &plan->pieces[p];
    zr_emit(e, &(zr_instruction){.code = ZR_GATHER,
                                 .when = when,
                                 .piece = p,
                                 .place = {ZR_SPACE_PARAMETERS, piece->full_first},
                                 .bytes = (plan->ranks - 1) * zr_piece_shard_bytes(piece),
                                 .slot = {ZR_SLOT_GATHER, p}});
}

// Gathers every rank's shards into every replica. All exchanges begin before the first is awaited.
void zr_emit_gather_replicas(zr_emitter *e, zr_when trained, zr_when others)
{
    const zr_plan *plan = e->plan;
    for (int p = 0; p < plan->piece_count; p++)
        if (!zr_piece_is_late(plan, &plan->pieces[p]))
            zr_emit_gather_replica(e, when_of(&plan->pieces[p], trained, others), p);
    for (int p = 0; p < plan->piece_count; p++)
        if (!zr_piece_is_late(plan, &plan->pieces[p]))
            zr_emit_await(e, when_of(&plan->pieces[p], trained, others), ZR_SLOT_GATHER, p);
}

// Waits until peers have copied this shard after the last update.
static void await_copied(zr_emitter *e, int piece)
{
    zr_emit_await_readers(e, ZR_CHANGED, ZR_SPACE_PARAMETERS, piece);
}

static void gather_updated(zr_emitter *e) { zr_emit_gather_replicas(e, ZR_ALWAYS, ZR_REWRITTEN); }

const zr_stage_emitter zr_emit_stage12 = {
    .acquire = zr_emit_bind_whole,
    .before_update = await_copied,
    .publish = gather_updated,
};
