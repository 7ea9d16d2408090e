// The rows of `zero plan`: the plans of several stages and ranks, and which of them fits.
#include "report/planner.h"

#include "config/config_ranks.h"
#include "plan/exchanges.h"
#include "report/plan_time.h"

#include <assert.h>
#include <stdio.h>

enum { MOST_BATCH = 4096 };

static zr_checkpoint_layout kept_part(const zr_planner *p, const zr_plan *plan)
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

typedef struct row_making { // a row while the plans of its ranks are made
    const zr_planner *p;
    const zr_plan_point *at;
    zr_estimate *estimate;
    zr_plan_row *row;
    int64_t most; // bytes of the rank that needs most so far
} row_making;

typedef struct tensor_rank { // of a pipeline stage
    int stage, number;
    const zr_model_part *part; // NULL: as the first one
} tensor_rank;

// Compares dividing activation checkpoints with keeping them whole, if there is such a choice.
static zero_status compare_kept(const row_making *m, const tensor_rank *rank, const zr_plan *plan,
                                zero_error *error)
{
    zr_plan_row *row = m->row;
    zr_rank_plan otherwise;
    // Shallow copies that differ in one field.
    zr_estimate other = *m->estimate;
    zr_config config = *other.run.config;
    if (plan->tensor_ranks <= 1 || (row->keeps != ZR_KEEP_WHOLE && row->keeps != ZR_KEEP_SHARE))
        return ZERO_OK;
    config.partition_activations = row->keeps == ZR_KEEP_WHOLE;
    other.run.config = &config;
    zero_status status =
        zr_estimate_plan(&other, rank->stage, rank->number, rank->part, &otherwise, error);
    if (status == ZERO_OK) {
        row->kept = checkpoint_bytes(plan);
        row->kept_otherwise = checkpoint_bytes(otherwise.plan);
    }
    zr_rank_plan_free(&otherwise);
    return status;
}

// Adds up what brings the shares of activation checkpoints together in a step. Those of links are
// joined, too.
static void count_joins(const zr_plan *plan, zr_plan_row *row)
{
    for (int kind = 0; kind < ZR_PASSES; kind++) {
        const zr_pass *pass = &plan->program.passes[kind];
        for (int i = 0; i < pass->count && zr_pass_is_of_micro_batch(kind); i++)
            if (pass->at[i].code == ZR_JOIN && pass->at[i].slot.kind != ZR_SLOT_LINK) {
                row->joins += plan->settings.accumulation;
                row->joined += plan->settings.accumulation * pass->at[i].bytes;
            }
    }
}

static zero_status fill_row_from_plan(const row_making *m, const tensor_rank *rank,
                                      const zr_plan *plan, zero_error *error)
{
    const zr_plan_point *at = m->at;
    zr_plan_row *row = m->row;
    *row = (zr_plan_row){.stage = at->stage,
                         .ranks = at->ranks,
                         .tensor = plan->tensor_ranks,
                         .exchanged = zr_exchanged_bytes(plan),
                         .exchanges = zr_traffic_of_micro_batch(plan).exchanges,
                         .windows = plan->exchange_bytes + plan->shared_exchange_bytes,
                         .keeps = kept_part(m->p, plan),
                         .micro_batch = at->batch,
                         .largest = -1,
                         .pipeline = row->pipeline,
                         .network = row->network};
    for (int c = 0; c < ZERO_MEM_COUNT; c++)
        row->bytes[c] = plan->bytes[ZERO_TIER_device][c] + plan->bytes[ZERO_TIER_host][c];
    for (int t = 0; t < ZERO_TIER_COUNT; t++)
        row->tiers[t] = zr_plan_tier_bytes(plan, (zero_tier)t);
    count_joins(plan, row);
    return compare_kept(m, rank, plan, error);
}

// Adds a rank's plan to the row.
static zero_status add_rank_plan(row_making *m, const tensor_rank *rank, const zr_rank_plan *of,
                                 int64_t *most_of_stage, zero_error *error)
{
    zr_plan_row *row = m->row;
    int64_t bytes = zr_plan_total_bytes(of->plan);
    if (bytes > *most_of_stage && row->pipeline)
        zr_plan_pipeline_fill(of, row->pipeline);
    if (bytes > m->most)
        ZERO_TRY(fill_row_from_plan(m, rank, of->plan, error));
    if (row->network)
        zr_plan_network_add(row->network, of->plan);
    *most_of_stage = ZR_MAX(*most_of_stage, bytes);
    m->most = ZR_MAX(m->most, bytes);
    return ZERO_OK;
}

static zero_status plan_other_rank(row_making *m, const tensor_rank *rank, int64_t *most_of_stage,
                                   zero_error *error)
{
    zr_rank_plan of;
    zero_status status =
        zr_estimate_plan(m->estimate, rank->stage, rank->number, rank->part, &of, error);
    if (status == ZERO_OK)
        status = add_rank_plan(m, rank, &of, most_of_stage, error);
    zr_rank_plan_free(&of);
    return status;
}

// Adds the plans of a pipeline stage: that of the first tensor rank, and where machines count one
// for each kind of tensor ranks.
static zero_status add_stage(row_making *m, int stage, zero_error *error)
{
    int64_t most_of_stage = -1;
    const zr_plan_machines *machines = m->p->machines;
    const tensor_rank first = {.stage = stage};
    zero_status status = add_rank_plan(m, &first, &m->estimate->at[stage], &most_of_stage, error);
    for (int t = 1; machines && t < m->p->config->tensor && status == ZERO_OK; t++) {
        const tensor_rank other = {stage, t, &machines->parts[machines->part_of[t]]};
        if (zr_plan_machines_alike(machines, &m->row->network->mesh, stage, t) == t)
            status = plan_other_rank(m, &other, &most_of_stage, error);
    }
    return status;
}

static zero_status make_network(const zr_planner *p, const zr_plan_point *at, zr_plan_row *row,
                                zero_error *error)
{
    zr_mesh mesh;
    if (!p->machines)
        return ZERO_OK;
    ZERO_TRY(
        zr_mesh_create(at->ranks, 0, p->config->tensor, p->config->pipeline.stages, &mesh, error));
    return zr_plan_network_make(p->machines, &mesh, &row->network, error);
}

// Fills the row with the plan of the rank that needs most.
static zero_status fill_row_of_neediest(const zr_planner *p, const zr_plan_point *at,
                                        zr_estimate *estimate, zr_plan_row *row, zero_error *error)
{
    row_making making = {.p = p, .at = at, .estimate = estimate, .row = row, .most = -1};
    ZERO_TRY(make_network(p, at, row, error));
    for (int s = 0; s < estimate->stages; s++)
        ZERO_TRY(add_stage(&making, s, error));
    zr_plan_time_of(p, at, estimate, row);
    return ZERO_OK;
}

static zero_status plan_row(const zr_planner *p, const zr_plan_point *at, zr_plan_row *row,
                            zero_error *error)
{
    zr_plan_asked asked;
    zr_estimate estimate;
    *row = (zr_plan_row){0};
    zr_planner_ask(p, at, p->machine.threads, &asked);
    zero_status status = zr_estimate_make(&asked.question, &estimate, error);
    if (status == ZERO_OK && estimate.run.division)
        status = zr_plan_pipeline_make(p->model, estimate.run.division, &row->pipeline, error);
    if (status == ZERO_OK)
        status = fill_row_of_neediest(p, at, &estimate, row, error);
    if (row->pipeline)
        estimate.run.division = NULL; // because it is the row's now
    zr_estimate_free(&estimate);
    return status;
}

void zr_plan_rows_free(zr_plan_row *rows, int count)
{
    for (int i = 0; i < count; i++) {
        zr_plan_pipeline_free(rows[i].pipeline);
        zr_plan_network_free(rows[i].network);
    }
}

bool zr_planner_has_stage(const zr_planner *p, int stage)
{
    const zr_offload_config *offload = &p->config->offload;
    const zr_pipeline_spec *pipeline = &p->config->pipeline;
    char why[ZR_PIPELINE_WHY];
    if (zr_pipeline_refuses_zero(pipeline->kind, pipeline->stages, stage, why))
        return false;
    return stage >= zr_offload_least_stage(offload->parameters != ZERO_TIER_device,
                                           offload->optimizer != ZERO_TIER_device,
                                           offload->ratio < 1);
}

bool zr_planner_is_limited(const zr_planner *p)
{
    return p->options->memory > 0 || p->config->offload.device_memory > 0 ||
           p->config->offload.host_memory > 0;
}

void zr_planner_ask(const zr_planner *p, const zr_plan_point *at, int threads, zr_plan_asked *out)
{
    // A shallow copy is enough, because only plain fields are changed.
    out->config = *p->config;
    out->config.stage = at->stage;
    out->config.ranks = at->ranks / zr_config_model_ranks(p->config);
    out->question = (zr_estimate_question){
        .model = p->model,
        .name = p->subject.name,
        .config = &out->config,
        .seq = p->subject.seq,
        .micro_batch = at->batch,
        .ranks = at->ranks,
        .together = zr_planner_together(p, at->ranks),
        .job = p->machines ? &p->machines->job : NULL,
        .replicas = p->machines ? p->machines->replicas : 0,
        .threads = threads,
        .machine = p->machine,
    };
    out->question.machine.memory_limit = zr_planner_memory(p, at->ranks);
}

// Returns whether a micro-batch of this size fits. A size that cannot even be planned does not fit.
static bool micro_batch_fits(const zr_planner *p, const zr_plan_point *at)
{
    zr_plan_asked asked;
    zr_estimate estimate;
    zr_planner_ask(p, at, p->machine.threads, &asked);
    bool does = zr_estimate_make(&asked.question, &estimate, NULL) == ZERO_OK && estimate.fits;
    zr_estimate_free(&estimate);
    return does;
}

bool zr_planner_advise(const zr_planner *p, const zr_plan_point *at, char *out, size_t size)
{
    zr_plan_asked asked;
    zr_estimate estimate;
    zr_planner_ask(p, at, p->machine.threads, &asked);
    asked.question.advise = true;
    out[0] = 0;
    if (zr_estimate_make(&asked.question, &estimate, NULL) == ZERO_OK)
        snprintf(out, size, "%s", estimate.advice);
    zr_estimate_free(&estimate);
    return out[0];
}

static int64_t largest_batch(const zr_planner *p, int stage, int ranks)
{
    int64_t low = 0, high = 1;
    while (high <= MOST_BATCH && micro_batch_fits(p, &(zr_plan_point){stage, ranks, high})) {
        low = high;
        high *= 2;
    }
    high = ZR_MIN(high, MOST_BATCH + 1);
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        if (micro_batch_fits(p, &(zr_plan_point){stage, ranks, middle}))
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
            zr_plan_row *row = &rows[(*count)++];
            ZERO_TRY(plan_row(p, &(zr_plan_point){stage, ranks, batch}, row, error));
            row->largest = largest;
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
