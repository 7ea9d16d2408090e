// The rows of `zero plan`: the plans of several stages and ranks, and which of them fits.
#include "tools/planner.h"

#include "config/config_ranks.h"
#include "plan/exchanges.h"
#include "setup/machine_facts.h"

#include <assert.h>

enum { MOST_BATCH = 4096 };

zero_status zr_planner_make(const zr_planner *p, int stage, int ranks, int64_t batch, zr_plan **out,
                            zero_error *error)
{
    zr_settings settings = p->settings;
    zr_machine machine = p->machine;
    zero_shape shape = {.batch = batch, .seq = p->seq, .threads = machine.threads};
    settings.stage = stage;
    machine.ranks = ranks;
    zr_machine_expect(&machine, p->config->tensor, 0);
    machine.mapped = ranks <= ZERO_MAX_RANKS; // more ranks cannot be on one machine
    machine.machine_ranks = (int)settings.kept_by;
    return zr_plan_create(p->part.model, &shape, &settings, &machine, out, error);
}

static zr_kept_part kept_part(const zr_planner *p, const zr_plan *plan)
{
    if (plan->segment_count < 2) // the batch enters the first segment
        return ZR_KEEP_NONE;
    if (p->config->sequence_parallel)
        return ZR_KEEP_ROWS;
    return plan->checkpoint_shares > 1 ? ZR_KEEP_SHARE : ZR_KEEP_WHOLE;
}

static int64_t checkpoint_bytes(const zr_plan *plan)
{
    int64_t bytes = 0;
    for (int t = 0; t < ZERO_TIER_COUNT; t++)
        bytes += plan->bytes[t][ZERO_MEM_checkpoints];
    return bytes;
}

// Compares dividing activation checkpoints with keeping them whole, if there is such a choice.
static zero_status compare_kept(const zr_planner *p, const zr_plan *plan, zr_plan_row *row,
                                zero_error *error)
{
    zr_planner other = *p;
    zr_plan *otherwise = NULL;
    if (plan->tensor_ranks <= 1 || (row->keeps != ZR_KEEP_WHOLE && row->keeps != ZR_KEEP_SHARE))
        return ZERO_OK;
    other.settings.partition_activations = row->keeps == ZR_KEEP_WHOLE;
    ZERO_TRY(zr_planner_make(&other, row->stage, row->ranks, row->micro_batch, &otherwise, error));
    row->kept = checkpoint_bytes(plan);
    row->kept_otherwise = checkpoint_bytes(otherwise);
    zr_plan_destroy(otherwise);
    return ZERO_OK;
}

// Adds up what brings the shares of activation checkpoints together in a step.
static void count_joins(const zr_plan *plan, zr_plan_row *row)
{
    const zr_pass *pass = &plan->program.passes[ZR_PASS_MICRO_BATCH];
    for (int i = 0; i < pass->count; i++)
        if (pass->at[i].code == ZR_JOIN) {
            row->joins += plan->settings.accumulation;
            row->joined += plan->settings.accumulation * pass->at[i].bytes;
        }
}

static zero_status plan_row(const zr_planner *p, int stage, int ranks, int64_t batch,
                            zr_plan_row *row, zero_error *error)
{
    zr_plan *plan = NULL;
    ZERO_TRY(zr_planner_make(p, stage, ranks, batch, &plan, error));
    *row = (zr_plan_row){.stage = stage,
                         .ranks = ranks,
                         .tensor = plan->tensor_ranks,
                         .exchanged = zr_exchanged_bytes(plan),
                         .exchanges = plan->traffic[ZR_PASS_MICRO_BATCH].exchanges,
                         .windows = plan->exchange_bytes + plan->shared_exchange_bytes,
                         .keeps = kept_part(p, plan),
                         .micro_batch = batch,
                         .largest = -1};
    for (int c = 0; c < ZERO_MEM_COUNT; c++)
        row->bytes[c] = plan->bytes[ZERO_TIER_device][c] + plan->bytes[ZERO_TIER_host][c];
    for (int t = 0; t < ZERO_TIER_COUNT; t++)
        row->tiers[t] = zr_plan_tier_bytes(plan, (zero_tier)t);
    count_joins(plan, row);
    zero_status status = compare_kept(p, plan, row, error);
    zr_plan_destroy(plan);
    return status;
}

bool zr_planner_has_stage(const zr_planner *p, int stage)
{
    const zr_offload_config *offload = &p->config->offload;
    bool part = offload->optimizer != ZERO_TIER_device && offload->ratio < 1;
    return stage >= (offload->parameters != ZERO_TIER_device || part ? 3
                     : offload->optimizer != ZERO_TIER_device        ? 1
                                                                     : 0);
}

bool zr_planner_is_limited(const zr_planner *p)
{
    return p->options->memory > 0 || p->config->offload.device_memory > 0 ||
           p->config->offload.host_memory > 0;
}

// Returns whether a micro-batch of this size fits. A size that cannot even be planned does not fit.
static bool fits(const zr_planner *p, int stage, int ranks, int64_t batch)
{
    zr_plan *plan = NULL;
    zr_machine machine = {.memory_limit = p->options->memory};
    zr_machine_limit(&machine, &p->config->offload, ranks);
    zero_status status = zr_planner_make(p, stage, ranks, batch, &plan, NULL);
    bool does = status == ZERO_OK && zr_plan_fits(plan, &machine);
    zr_plan_destroy(plan);
    return does;
}

static int64_t largest_batch(const zr_planner *p, int stage, int ranks)
{
    int64_t low = 0, high = 1;
    while (high <= MOST_BATCH && fits(p, stage, ranks, high)) {
        low = high;
        high *= 2;
    }
    high = ZR_MIN(high, MOST_BATCH + 1);
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        if (fits(p, stage, ranks, middle))
            low = middle;
        else
            high = middle;
    }
    return low;
}

int zr_planner_ranks(const zr_planner *p, int out[ZR_PLANNER_USUAL])
{
    static const int usual[ZR_PLANNER_USUAL] = {1, 2, 4, 8, 16, 64};
    const zr_elastic *elastic = p->config->elastic;
    int count = zr_planner_is_limited(p) ? ZR_PLANNER_USUAL : 4,
        model = zr_config_model_ranks(p->config);
    if (elastic && !p->options->ranks)
        count = ZR_MIN(count, elastic->count);
    for (int i = 0; i < count; i++)
        out[i] = p->options->ranks ? p->options->ranks
                 : elastic         ? (int)ZR_MIN(elastic->ranks[i] * model, INT32_MAX)
                                   : usual[i] * model;
    return p->options->ranks ? 1 : count;
}

int64_t zr_planner_batch(const zr_planner *p, int ranks)
{
    zr_elastic_batch shared = {.micro = p->config->micro_batch};
    if (p->config->elastic)
        zr_elastic_share(p->config->elastic, ranks / zr_config_model_ranks(p->config), &shared);
    return shared.micro;
}

zero_status zr_planner_rows(const zr_planner *p, zr_plan_row rows[ZR_PLANNER_MOST_ROWS], int *count,
                            zero_error *error)
{
    bool asks = zr_planner_is_limited(p) && !p->options->ranks && !p->config->elastic;
    int shown[ZR_PLANNER_USUAL], numbers = zr_planner_ranks(p, shown);
    *count = 0;
    for (int i = 0; i < numbers; i++) {
        int ranks = shown[i];
        for (int stage = 0; stage <= 3; stage++) {
            if (!zr_planner_has_stage(p, stage))
                continue;
            int64_t largest = zr_planner_is_limited(p) ? largest_batch(p, stage, ranks) : -1;
            int64_t batch = asks && largest > 0 ? largest : asks ? 1 : zr_planner_batch(p, ranks);
            assert(*count < ZR_PLANNER_MOST_ROWS); // 4 stages of ZR_PLANNER_USUAL numbers of ranks
            ZERO_TRY(plan_row(p, stage, ranks, batch, &rows[*count], error));
            rows[*count].largest = largest;
            (*count)++;
        }
    }
    return ZERO_OK;
}

// Elasticity determines the micro-batch, so that one must fit, not just any.
const zr_plan_row *zr_planner_least(const zr_planner *p, const zr_plan_row *rows, int count)
{
    for (int i = 0; i < count; i++)
        if (rows[i].largest >= (p->config->elastic ? rows[i].micro_batch : 1))
            return &rows[i];
    return NULL;
}
