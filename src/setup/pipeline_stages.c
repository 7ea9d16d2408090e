#include "setup/pipeline_stages.h"

#include "layers/layers.h"
#include "model/pipeline_stage_cut.h"
#include "plan/pipeline/stage_split.h"
#include "setup/model_part.h"
#include "setup/run_setup.h"

#include <string.h>

zr_pipeline zr_pipeline_of(const zr_config *config)
{
    const zr_pipeline_spec *spec = &config->pipeline;
    return (zr_pipeline){
        .kind = spec->kind,
        .stages = spec->stages,
        .chunks = spec->chunks,
        .micro_batches = (int)config->accumulation,
        .steps = zr_pipeline_is_asynchronous(spec->kind) ? (int)spec->flush_every : 1,
    };
}

// Allocates a part with its two lists, in one block.
static zr_pipeline_part *part_alloc(const zr_pipeline *pipeline, zero_error *error)
{
    size_t chunks = (size_t)(pipeline->stages * pipeline->chunks);
    zr_pipeline_part *part = zr_alloc(sizeof *part + chunks * sizeof *part->share +
                                          (chunks + 1) * sizeof *part->first_unit,
                                      error);
    if (!part)
        return NULL;
    double *share = (double *)(void *)(part + 1);
    *part = (zr_pipeline_part){
        .pipeline = *pipeline, .share = share, .first_unit = (const int *)(share + chunks)};
    return part;
}

zero_status zr_pipeline_stages_copy(const zr_pipeline_part *part, zr_pipeline_part **out,
                                    zero_error *error)
{
    size_t chunks = (size_t)(part->pipeline.stages * part->pipeline.chunks);
    zr_pipeline_part *copy = part_alloc(&part->pipeline, error);
    *out = copy;
    if (!copy)
        return ZERO_ERR_MEMORY;
    int *first_unit = (int *)copy->first_unit;
    double *share = (double *)copy->share;
    memcpy(first_unit, part->first_unit, (chunks + 1) * sizeof *first_unit);
    memcpy(share, part->share, chunks * sizeof *share);
    *copy = *part;
    copy->first_unit = first_unit;
    copy->share = share;
    return ZERO_OK;
}

void zr_pipeline_stages_free(zr_pipeline_part *part) { zr_free(part); }

void zr_pipeline_stages_place(zr_pipeline_part *part, const zr_config *config,
                              const zero_model *model, int stage, bool mapped)
{
    part->stage = stage;
    part->mapped = mapped;
    // With divided rows, boundaries are shares already.
    part->divides = !mapped && config->tensor > 1 && model->whole && !config->sequence_parallel;
}

static void fill_part(zr_pipeline_part *part, const zr_pipeline_split *split,
                      const zr_unit_cost *costs)
{
    int chunks = part->pipeline.stages * part->pipeline.chunks;
    int *first = (int *)part->first_unit;
    double *share = (double *)part->share, all = 0;
    memcpy(first, split->first, ((size_t)chunks + 1) * sizeof *first);
    for (int c = 0; c < chunks; c++) {
        share[c] = 0;
        for (int u = first[c]; u < first[c + 1]; u++)
            share[c] += costs[u].time;
        all += share[c];
    }
    for (int c = 0; c < chunks; c++)
        share[c] /= all;
}

static zero_status split_units(const zr_pipeline_question *q, const zr_pipeline *pipeline,
                               const zr_unit_cost *costs, zr_pipeline_part **out, zero_error *error)
{
    int sets[ZR_MOST_PIPELINE_STAGES * ZR_MOST_CHUNKS],
        versions[ZR_MOST_PIPELINE_STAGES * ZR_MOST_CHUNKS];
    zr_pipeline_split split = {0};
    for (int s = 0; s < pipeline->stages; s++)
        for (int c = 0; c < pipeline->chunks; c++) {
            int chunk = zr_pipeline_chunk(pipeline, s, c);
            sets[chunk] = zr_pipeline_buffers(pipeline, s, c).sets;
            versions[chunk] = zr_pipeline_versions(pipeline, s);
        }
    const zr_division_of_units of = {.units = costs,
                                     .count = q->whole->unit_count,
                                     .stages = pipeline->stages,
                                     .chunks = pipeline->chunks,
                                     .sets = sets,
                                     .versions = versions,
                                     .memory_limit = q->memory_limit};
    zero_status status = zr_pipeline_split_make(&q->config->pipeline, &of, &split, error);
    if (status == ZERO_OK)
        *out = part_alloc(pipeline, error);
    if (status == ZERO_OK && *out)
        (*out)->exact = q->config->pipeline.exact;
    if (status == ZERO_OK && *out)
        (*out)->checkpoint_interval = q->config->pipeline.checkpoint_interval;
    if (status == ZERO_OK && *out)
        fill_part(*out, &split, costs);
    zr_pipeline_split_free(&split);
    return status != ZERO_OK ? status : *out ? ZERO_OK : ZERO_ERR_MEMORY;
}

zero_status zr_pipeline_stages_simulate(const zr_pipeline_part *part, zr_simulation *out,
                                        zero_error *error)
{
    const zr_pipeline *pipeline = &part->pipeline;
    int chunks = pipeline->stages * pipeline->chunks;
    bool weights = zr_pipeline_has_weights(pipeline->kind);
    zr_chunk_cost *costs = zr_alloc((size_t)chunks * sizeof *costs, error);
    *out = (zr_simulation){0};
    if (!costs)
        return ZERO_ERR_MEMORY;
    // Backward has two products for each one of forward: one for the input, one for the weights.
    for (int c = 0; c < chunks; c++) {
        double third = part->share[c] / 3;
        costs[c].act[ZR_ACT_FORWARD] = third;
        costs[c].act[ZR_ACT_BACKWARD] = weights ? third : 2 * third;
        costs[c].act[ZR_ACT_WEIGHT] = third;
    }
    zero_status status = zr_simulate(pipeline, NULL, costs, out, error);
    zr_free(costs);
    return status;
}

static zero_status compute_unit_costs(const zr_pipeline_question *q, const zero_model *model,
                                      zr_unit_cost *out, zero_error *error)
{
    const zr_settings settings = zr_settings_of(q->config, false);
    return zr_unit_costs(model, &q->shape, &settings, q->config->pipeline.kind, q->config->ranks,
                         out, error);
}

// Makes the units' bytes those of the first tensor rank, which has most, on every rank alike. Times
// stay the whole model's, so a division does not depend on the tensor ranks unless memory is short.
static zero_status count_slices(const zr_pipeline_question *q, zr_unit_cost *costs,
                                zero_error *error)
{
    size_t count = (size_t)q->whole->unit_count;
    zr_model_part part = {0};
    zr_unit_cost *slices = zr_alloc(count * sizeof *slices, error);
    if (!slices)
        return ZERO_ERR_MEMORY;
    zero_status status = zr_model_part_make(q->whole, q->whole->name, q->config, 0, &part, error);
    if (status == ZERO_OK)
        status = compute_unit_costs(q, part.model, slices, error);
    for (size_t u = 0; u < count && status == ZERO_OK; u++) {
        costs[u].states = slices[u].states;
        costs[u].version = slices[u].version;
        costs[u].activations = slices[u].activations;
        costs[u].workspace = slices[u].workspace;
    }
    zr_free(slices);
    zr_model_part_free(&part);
    return status;
}

static zero_status divide_and_simulate(const zr_pipeline_question *q, zr_unit_cost *costs,
                                       zr_pipeline_part **out, zero_error *error)
{
    const zr_pipeline pipeline = zr_pipeline_of(q->config);
    zr_simulation simulation = {0};
    ZERO_TRY(zr_pipeline_check(&pipeline, error));
    ZERO_TRY(compute_unit_costs(q, q->whole, costs, error));
    if (q->config->tensor > 1 && zr_lm_config_of(q->whole))
        ZERO_TRY(count_slices(q, costs, error));
    ZERO_TRY(split_units(q, &pipeline, costs, out, error));
    zero_status status = zr_pipeline_stages_simulate(*out, &simulation, error);
    zr_simulation_free(&simulation);
    return status;
}

zero_status zr_pipeline_stages_divide(const zr_pipeline_question *q, zr_pipeline_part **out,
                                      zero_error *error)
{
    *out = NULL;
    zr_unit_cost *costs = zr_alloc((size_t)q->whole->unit_count * sizeof *costs, error);
    zero_status status = costs ? divide_and_simulate(q, costs, out, error) : ZERO_ERR_MEMORY;
    zr_free(costs);
    if (status == ZERO_OK)
        return ZERO_OK;
    zr_pipeline_stages_free(*out);
    *out = NULL;
    return status;
}

zero_status zr_pipeline_stages_cut(const zero_model *model, const zr_pipeline_part *part, int stage,
                                   bool exact, zero_model **out, zero_error *error)
{
    zr_unit_range ranges[ZR_MOST_CHUNKS] = {{0, model->unit_count}};
    int count = part ? part->pipeline.chunks : 1;
    for (int c = 0; c < count && part; c++) {
        int number = zr_pipeline_chunk(&part->pipeline, stage, c);
        ranges[c] = (zr_unit_range){part->first_unit[number], part->first_unit[number + 1]};
    }
    return zr_pipeline_stage_cut(model, ranges, count, exact, out, error);
}
