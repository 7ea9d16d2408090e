#include "pipeline_fixture.h"

#include "model/pipeline_stage_cut.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEP = 64, FLOATS = STEP / (int)sizeof(float) };

int64_t pipeline_boundary_bytes(int unit) { return (unit + 1) * (int64_t)STEP; }
int64_t pipeline_saved_bytes(int unit) { return (2 * unit + 3) * (int64_t)STEP; }
int64_t pipeline_held_bytes(int unit) { return (unit + 2) * (int64_t)STEP; }

static zero_status part(zero_context *context, const zero_tensors *in, const zero_tensors *d_out,
                        const zero_tensors *d_in)
{
    return ZERO_ERR_INTERNAL;
}

static zero_status weight(zero_context *context, const zero_tensors *in)
{
    return ZERO_ERR_INTERNAL;
}

static zero_status weight_of_kept(zero_context *context, const zero_tensors *in)
{
    return ZERO_ERR_INTERNAL;
}

// A unit finds its number in the width of what enters it.
static zero_status sizes(const zero_unit *unit, const zero_shape *shape, const zero_tensors *in,
                         zero_unit_sizes *out)
{
    bool last = strcmp(unit->ops->kind, "last") == 0;
    int number = in->count ? (int)(in->at[0].shape[1] / FLOATS) : 0;
    bool splits = unit->ops->backward_input != NULL;
    *out = (zero_unit_sizes){.saved_bytes = (size_t)pipeline_saved_bytes(number) - 4,
                             .workspace_bytes = 50,
                             .backward_reads = number > 0,
                             .backward_reads_streamed = number > 0,
                             .held_bytes = splits ? (size_t)pipeline_held_bytes(number) - 4 : 0,
                             .weight_reads = unit->ops->backward_weight == weight};
    out->out.count = last ? 0 : 1;
    out->out.at[0] =
        (zero_tensor){.dtype = ZERO_F32, .dims = 2, .shape = {1, (number + 1) * FLOATS}};
    return ZERO_OK;
}

void pipeline_build(pipeline_model *model, int blocks, pipeline_style style)
{
    fixture *f = &model->f;
    if (style.streamed)
        fixture_build_streamed(f, blocks, 1000, 96);
    else
        fixture_build(f, blocks, 1000, 96);
    model->first = model->block = *f->units[0].ops;
    model->last = *f->units[blocks + 1].ops;
    model->first.sizes = model->block.sizes = model->last.sizes = sizes;
    if (style.splits) {
        model->block.backward_input = part;
        model->block.backward_weight = style.keeps ? weight_of_kept : weight;
    }
    if (style.apart)
        model->last.forward_backward = NULL;
    for (int u = 0; u < blocks + 2; u++)
        f->units[u].ops = u == 0 ? &model->first : u <= blocks ? &model->block : &model->last;
    f->units[blocks + 1].borrowed_count = 0;
    if (!style.divided)
        return;
    fixture_build(&model->whole, blocks, 1000, 96);
    model->whole.units[blocks + 1].borrowed_count = 0;
    f->model.whole = &model->whole.model;
}

zr_pipeline pipeline_of(zr_pipeline_kind kind, int stages, int chunks, int micro_batches)
{
    return (zr_pipeline){.kind = kind,
                         .stages = stages,
                         .chunks = chunks,
                         .micro_batches = micro_batches,
                         .steps = zr_pipeline_is_asynchronous(kind) ? 3 : 1};
}

static void stop(const char *what, const zero_error *error)
{
    fprintf(stderr, "%s: %s\n", what, error->message);
    abort();
}

static void make_stage(const zero_model *model, const zr_settings *settings, zr_machine machine,
                       int stage, pipeline_plans *out)
{
    zr_pipeline_part *part = &out->parts[stage];
    const zero_shape shape = {.batch = 2, .seq = 8};
    zr_unit_range ranges[ZR_MOST_CHUNKS];
    zero_error error = {0};
    part->stage = stage;
    for (int c = 0; c < part->pipeline.chunks; c++) {
        int number = zr_pipeline_chunk(&part->pipeline, stage, c);
        ranges[c] = (zr_unit_range){out->first_unit[number], out->first_unit[number + 1]};
    }
    if (zr_pipeline_stage_cut(model, ranges, part->pipeline.chunks, false, &out->models[stage],
                              &error) != ZERO_OK)
        stop("cut", &error);
    machine.pipeline = part;
    if (zr_plan_create(out->models[stage], &shape, settings, &machine, &out->plans[stage],
                       &error) != ZERO_OK)
        stop("plan", &error);
}

void pipeline_plans_make(const zero_model *model, const zr_pipeline *pipeline,
                         const zr_settings *settings, const zr_machine *machine,
                         pipeline_plans *out)
{
    int chunks = pipeline->stages * pipeline->chunks;
    *out = (pipeline_plans){.count = pipeline->stages};
    for (int c = 0; c <= chunks; c++)
        out->first_unit[c] = (int)((int64_t)c * model->unit_count / chunks);
    for (int c = 0; c < chunks; c++)
        out->share[c] = 1.0 / chunks;
    for (int s = 0; s < pipeline->stages; s++) {
        out->parts[s] = (zr_pipeline_part){.pipeline = *pipeline,
                                           .first_unit = out->first_unit,
                                           .share = out->share,
                                           .mapped = machine->mapped};
        make_stage(model, settings, *machine, s, out);
    }
}

void pipeline_plans_free(pipeline_plans *plans)
{
    for (int s = 0; s < plans->count; s++) {
        zr_plan_destroy(plans->plans[s]);
        zr_pipeline_stage_free(plans->models[s]);
    }
}

void pipeline_plans_simple(const zr_pipeline *pipeline, pipeline_plans *out)
{
    static pipeline_model model;
    const zr_settings settings = fixture_settings(ZERO_F32, 2, pipeline->micro_batches);
    pipeline_build(&model, 9, (pipeline_style){0});
    pipeline_plans_make(&model.f.model, pipeline, &settings,
                        &(zr_machine){.ranks = 2, .threads = 1, .mapped = true}, out);
}

// What is not gone over one by one is drawn, always the same, so that all of it is met.
typedef struct walk {
    uint32_t state;
    pipeline_check check;
    pipeline_model models[7];
} walk;

static int draw(walk *w, int below)
{
    w->state = w->state * 1664525 + 1013904223;
    return (int)((w->state >> 16) % (uint32_t)below);
}

// Versions of the parameters are not on a farther tier (plan.c).
static bool is_planned(const zr_pipeline *pipeline, const zr_tiering *tiering)
{
    return tiering->parameters == ZERO_TIER_device || !zr_pipeline_is_asynchronous(pipeline->kind);
}

static void check_settings(walk *w, const zr_pipeline *pipeline, int stage,
                           const zr_tiering *tiering)
{
    pipeline_plans plans;
    zr_settings settings =
        fixture_settings(draw(w, 2) ? ZERO_BF16 : ZERO_F32, stage, pipeline->micro_batches);
    const pipeline_model *model = &w->models[draw(w, 7)];
    settings.tiering = *tiering;
    settings.activation_checkpoints = draw(w, 3) ? 0 : 1 + draw(w, 4);
    settings.activation_checkpoint_tier =
        settings.activation_checkpoints ? (zero_tier)draw(w, 3) : ZERO_TIER_device;
    settings.delayed = !zr_pipeline_is_asynchronous(pipeline->kind) && stage > 0 && !draw(w, 5);
    bool divided = model->f.model.whole != NULL;
    settings.partition_activations = divided;
    const zr_machine machine = {.ranks = 1 + draw(w, 3),
                                .tensor_ranks = divided ? 2 : 1,
                                .tensor_rank = divided,
                                .threads = 1,
                                .mapped = draw(w, 2)};
    pipeline_plans_make(&model->f.model, pipeline, &settings, &machine, &plans);
    w->check(&plans);
    pipeline_plans_free(&plans);
}

static void check_stages(walk *w, const zr_pipeline *pipeline)
{
    zero_error error;
    if (zr_pipeline_check(pipeline, &error) != ZERO_OK)
        return;
    for (int t = 0; t < PROGRAM_TIERINGS; t++)
        for (int stage = program_least_stage(&program_tierings[t]);
             stage < 4 && is_planned(pipeline, &program_tierings[t]); stage++)
            check_settings(w, pipeline, stage, &program_tierings[t]);
}

void pipeline_for_all(pipeline_check check)
{
    static walk w;
    w = (walk){.state = 1, .check = check};
    for (int i = 0; i < 6; i++)
        pipeline_build(&w.models[i], 9,
                       (pipeline_style){.streamed = i >= 4, .splits = i % 2, .apart = i / 2 == 1});
    pipeline_build(&w.models[6], 9, (pipeline_style){.divided = true});
    for (zr_pipeline_kind kind = 0; kind < ZR_PIPELINE_KIND_COUNT; kind++)
        for (int stages = 2; stages <= 4; stages++)
            for (int micro_batches = 1; micro_batches <= 8; micro_batches++) {
                int chunks = kind == ZR_PIPELINE_INTERLEAVED ? 2 : 1;
                const zr_pipeline pipeline = pipeline_of(kind, stages, chunks, micro_batches);
                check_stages(&w, &pipeline);
            }
}

static program_check each;

static void check_each(const pipeline_plans *stages)
{
    for (int s = 0; s < stages->count; s++)
        each(stages->plans[s]);
}

void pipeline_for_each(program_check check)
{
    each = check;
    pipeline_for_all(check_each);
}
