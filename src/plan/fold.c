// What one walk over the program finds: messages and their hash, the bytes that ranks exchange, and
// the bytes that move between tiers (contracts 5 and 8). The engine counts the same as it runs.
#include "plan/plan_parts.h"

#include "base/traffic.h"
#include "plan/exchanges.h"
#include "plan/accumulators.h"

// Says whether an instruction's message counts. ZR_FRESH stands for the same messages as
// ZR_OUTDATED, and ZR_REWRITTEN holds only after something other than an update has written
// weights.
static bool is_counted_when(zr_when when) { return when != ZR_FRESH && when != ZR_REWRITTEN; }

static void add_message(zr_traffic_plan *traffic, const zr_plan *plan, const zr_instruction *i)
{
    zero_comm_op op = i->code == ZR_GATHER ? ZERO_COMM_all_gather : ZERO_COMM_reduce_scatter;
    traffic->hash =
        zr_message_fold(traffic->hash, op, i->flat_param, plan->flat_params[i->flat_param].shard);
    traffic->messages++;
    traffic->calls[op]++;
    traffic->bytes[op] += i->bytes;
    if (i->code == ZR_REDUCE && plan->flat_params[i->flat_param].gradient_bits)
        traffic->coded += i->bytes;
}

// What has come is counted where it was not mapped, too.
void zr_link_fold(const zr_plan *plan, zr_code code, int link, int64_t bytes,
                  zr_traffic_plan *traffic)
{
    zero_comm_op op = code == ZR_SEND ? ZERO_COMM_send : ZERO_COMM_recv;
    traffic->hash = zr_message_fold(traffic->hash, op, link, bytes);
    traffic->messages++;
    traffic->calls[op]++;
    traffic->bytes[op] += code == ZR_SEND || !plan->pipeline->mapped ? bytes : 0;
}

static void fold_messages(const zr_plan *plan, zr_pass_kind kind, zr_pass_traffic *traffic)
{
    const zr_pass *pass = &plan->program.passes[kind];
    *traffic = zr_traffic_none();
    for (const zr_instruction *i = pass->at; i < pass->at + pass->count; i++) {
        if ((i->code == ZR_GATHER || i->code == ZR_REDUCE) && is_counted_when(i->when))
            add_message(&traffic->data, plan, i);
        if (i->code == ZR_CALL)
            zr_exchanges_fold(plan, &plan->units[i->unit].sizes, (zr_call)i->what, traffic);
        if (i->code == ZR_JOIN)
            zr_join_fold(plan, i, traffic);
        if (i->code == ZR_SEND || i->code == ZR_RECEIVE)
            zr_link_fold(plan, i->code, i->slot.index, i->bytes, &traffic->pipeline);
    }
}

static zero_tier tier_of_slot(const zr_plan *plan, const zr_instruction *i)
{
    switch (i->slot.kind) {
    case ZR_SLOT_FETCHED: return plan->flat_params[i->flat_param].parameter_tier;
    case ZR_SLOT_TRAVELLED: return plan->flat_params[i->flat_param].state_tier;
    case ZR_SLOT_PARKED: return plan->settings.tiering.optimizer;
    default: return plan->settings.activation_checkpoint_tier;
    }
}

// Adds what a FETCH or STORE moves. Parameters and sums pass through host memory on their way; what
// they move between host and device is counted at GATHER and REDUCE.
static void add_travel(const zr_plan *plan, const zr_instruction *i, zr_moved *moved)
{
    zero_tier tier = tier_of_slot(plan, i);
    bool through_host = i->slot.kind == ZR_SLOT_FETCHED || i->slot.kind == ZR_SLOT_TRAVELLED;
    bool comes = i->code == ZR_FETCH;
    if (tier != ZERO_TIER_device && !through_host)
        *(comes ? &moved->to_device : &moved->to_host) += i->bytes;
    if (tier == ZERO_TIER_nvme)
        *(comes ? &moved->nvme_read : &moved->nvme_written) += i->bytes;
}

void zr_instruction_moves(const zr_plan *plan, const zr_instruction *i, zr_moved *moved)
{
    const zr_flat_param *flat_param = i->flat_param >= 0 ? &plan->flat_params[i->flat_param] : NULL;
    if (i->code == ZR_FETCH || i->code == ZR_STORE)
        add_travel(plan, i, moved);
    bool gathers = i->code == ZR_GATHER && i->from.buffer != ZR_BUFFER_NONE;
    if (gathers && flat_param->parameter_tier != ZERO_TIER_device)
        moved->to_device += zr_flat_param_own_bytes(flat_param, flat_param->shard);
    if (i->code == ZR_REDUCE && flat_param->state_tier != ZERO_TIER_device)
        moved->to_host += zr_flat_param_sum_bytes(flat_param);
}

// Adds what a pass moves. Kept flat parameters are gathered by both kinds of pass, whichever comes
// first.
static void fold_moves(zr_plan *plan, zr_pass_kind kind, zr_moved *always, zr_moved *kept)
{
    const zr_pass *pass = &plan->program.passes[kind];
    for (const zr_instruction *i = pass->at; i < pass->at + pass->count; i++)
        zr_instruction_moves(plan, i,
                             i->when == ZR_OUTDATED ? kept
                             : i->when == ZR_LATER  ? &plan->moves.earlier_sum
                                                    : always);
}

void zr_plan_fold(zr_plan *plan)
{
    zr_moves *moves = &plan->moves;
    zr_moved kept = {0}; // by training
    for (int kind = 0; kind < ZR_PASSES; kind++) {
        bool trains = zr_pass_is_of_micro_batch(kind);
        fold_messages(plan, kind, &plan->traffic[kind]);
        if (trains || kind == ZR_PASS_EVALUATION || kind >= ZR_PASS_COUNT)
            fold_moves(plan, kind, trains ? &moves->micro_batch : &moves->forward,
                       trains ? &kept : &moves->kept);
    }
}
