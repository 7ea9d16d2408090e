#include "fixture.h"

#include "setup/run_setup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALL_DTYPES (1u << ZERO_F32 | 1u << ZERO_BF16 | 1u << ZERO_F16)

const zr_tiering fixture_on_nvme = {
    .parameters = ZERO_TIER_nvme,
    .optimizer = ZERO_TIER_nvme,
    .sub_group = 10000,
    .read_ahead = true,
    .write_behind = true,
    .visits_ahead = 2,
    .block = 1 << 20,
};
const zr_tiering fixture_on_host = {.parameters = ZERO_TIER_host, .optimizer = ZERO_TIER_host};

static zero_status sizes(const zero_unit *unit, const zero_shape *shape, const zero_tensors *in,
                         zero_unit_sizes *out)
{
    bool last = unit->borrowed_count > 0;
    *out = (zero_unit_sizes){.saved_bytes = 100,
                             .workspace_bytes = 50,
                             .backward_reads = last        ? 3
                                               : in->count ? 1
                                                           : 0,
                             .backward_reads_streamed = last || in->count};
    out->out.count = last ? 0 : 1;
    out->out.at[0] =
        (zero_tensor){.dtype = ZERO_F32, .dims = 2, .shape = {shape->batch, shape->seq}};
    return ZERO_OK;
}

static zero_status forward(zero_context *context, const zero_tensors *in, const zero_tensors *out)
{
    return ZERO_ERR_INTERNAL;
}
static zero_status backward(zero_context *context, const zero_tensors *in,
                            const zero_tensors *d_out, const zero_tensors *d_in)
{
    return ZERO_ERR_INTERNAL;
}
static zero_status both(zero_context *context, const zero_tensors *in, const zero_tensors *d_in)
{
    return ZERO_ERR_INTERNAL;
}

static const zero_unit_ops inner = {.kind = "inner",
                                    .dtypes = ALL_DTYPES,
                                    .sizes = sizes,
                                    .forward = forward,
                                    .backward = backward};
static const zero_unit_ops last = {.kind = "last",
                                   .dtypes = ALL_DTYPES,
                                   .sizes = sizes,
                                   .forward = forward,
                                   .backward = backward,
                                   .forward_backward = both};

static void add_unit(fixture *f, int u, const char *name, int tensors, int first_tensor,
                     const zero_unit_ops *ops)
{
    snprintf(f->unit_names[u], sizeof f->unit_names[u], "%s", name);
    f->flat_params[u] = (zero_flat_param_desc){ZERO_TRAINABLE, tensors, &f->tensors[first_tensor]};
    f->units[u] = (zero_unit){.name = f->unit_names[u],
                              .ops = ops,
                              .flat_param_count = 1,
                              .flat_params = &f->flat_params[u]};
}

// A flat parameter a tensor; those from `resident` on are streamed.
static void add_streamed_unit(fixture *f, int u, const char *name, int flat_params, int resident,
                              int first, const zero_unit_ops *ops)
{
    snprintf(f->unit_names[u], sizeof f->unit_names[u], "%s", name);
    for (int i = 0; i < flat_params; i++)
        f->flat_params[first + i] = (zero_flat_param_desc){.kind = ZERO_TRAINABLE,
                                                           .tensor_count = 1,
                                                           .tensors = &f->tensors[first + i],
                                                           .streamed = i >= resident};
    f->units[u] = (zero_unit){.name = f->unit_names[u],
                              .ops = ops,
                              .flat_param_count = flat_params,
                              .flat_params = &f->flat_params[first]};
}

static void add_tensor(fixture *f, int t, int dims, int64_t rows, int64_t columns)
{
    snprintf(f->names[t], sizeof f->names[t], "t%d", t);
    f->tensors[t] = (zero_tensor_desc){
        .name = f->names[t], .dims = dims, .shape = {rows, columns}, .tp_axis = -1, .tp_parts = 1};
}

void fixture_build(fixture *f, int blocks, int64_t vocab, int64_t width)
{
    *f = (fixture){0};
    add_tensor(f, 0, 2, vocab, width);
    add_unit(f, 0, "embedding", 1, 0, &inner);
    for (int b = 0; b < blocks; b++) {
        char name[16];
        snprintf(name, sizeof name, "h.%d", b);
        add_tensor(f, 2 * b + 1, 2, width, 4 * width);
        add_tensor(f, 2 * b + 2, 1, 4 * width, 0);
        add_unit(f, b + 1, name, 2, 2 * b + 1, &inner);
    }
    add_tensor(f, 2 * blocks + 1, 1, width, 0);
    add_unit(f, blocks + 1, "head", 1, 2 * blocks + 1, &last);
    f->units[blocks + 1].borrowed_count = 1;
    f->units[blocks + 1].borrowed = f->borrowed;
    f->model = (zero_model){"fixture", blocks + 2, f->units};
}

// Cuts a tensor along its last axis, or along its first one where rows are said.
static void cut_tensor(fixture *f, const fixture *whole, int t, int axis, int rank, int ranks)
{
    zero_tensor_desc *tensor = &f->tensors[t];
    int64_t size = tensor->shape[axis], step = (size + ranks - 1) / ranks;
    int64_t first = ZR_MIN(rank * step, size);
    snprintf(f->names[t], sizeof f->names[t], "%.20s/%d", whole->names[t], rank);
    tensor->name = f->names[t];
    tensor->tile = (zero_tile){whole->tensors[t].name, axis, first, size};
    tensor->shape[axis] = ZR_MIN(step, size - first);
}

void fixture_cut(fixture *f, const fixture *whole, int rank, int ranks)
{
    int blocks = whole->model.unit_count - 2;
    const zero_tensor_desc *block = &whole->tensors[1];
    fixture_build(f, blocks, whole->tensors[0].shape[0], block->shape[0]);
    cut_tensor(f, whole, 0, 0, rank, ranks);
    for (int t = 1; t <= 2 * blocks; t++)
        cut_tensor(f, whole, t, f->tensors[t].dims - 1, rank, ranks);
    f->model.name = "part";
    f->model.whole = &whole->model;
}

void fixture_build_streamed(fixture *f, int blocks, int64_t vocab, int64_t width)
{
    *f = (fixture){.borrowed = {{0, 0}, {0, 1}}};
    int first = 2;
    add_tensor(f, 0, 2, vocab / 2, width);
    add_tensor(f, 1, 2, vocab - vocab / 2, width);
    add_streamed_unit(f, 0, "embedding", 2, 0, 0, &inner);
    for (int b = 0; b < blocks; b++, first += 3) {
        char name[16];
        snprintf(name, sizeof name, "h.%d", b);
        add_tensor(f, first, 1, 4 * width, 0);
        add_tensor(f, first + 1, 2, width, 2 * width);
        add_tensor(f, first + 2, 2, width, 2 * width);
        add_streamed_unit(f, b + 1, name, 3, 1, first, &inner);
    }
    add_tensor(f, first, 1, width, 0);
    add_streamed_unit(f, blocks + 1, "head", 1, 1, first, &last);
    f->units[blocks + 1].borrowed_count = 2;
    f->units[blocks + 1].borrowed = f->borrowed;
    f->model = (zero_model){"fixture", blocks + 2, f->units};
}

zr_plan *fixture_plan(const fixture *f, int stage, int ranks, int64_t accumulation, bool mapped)
{
    return fixture_plan_in(f, ZERO_F32, stage, ranks, accumulation, mapped);
}

zr_settings fixture_settings(zero_dtype dtype, int stage, int64_t accumulation)
{
    return (zr_settings){.stage = stage,
                         .precision = zr_precision_of(dtype, accumulation),
                         .accumulation = accumulation,
                         .state_vectors = 2,
                         .reduce_bucket = 500000000,
                         .prefetch_bucket = 50000000};
}

static zr_plan *plan_of(const fixture *f, const zr_settings *settings, const zr_machine *machine)
{
    zero_shape shape = {.batch = 2, .seq = 8};
    zero_error error = {0};
    zr_plan *plan = NULL;
    if (zr_plan_create(&f->model, &shape, settings, machine, &plan, &error) != ZERO_OK) {
        fprintf(stderr, "plan: %s\n", error.message);
        abort();
    }
    return plan;
}

zr_plan *fixture_plan_of(const fixture *f, const zr_settings *settings, int ranks, bool mapped)
{
    return plan_of(f, settings, &(zr_machine){.ranks = ranks, .threads = 1, .mapped = mapped});
}

zr_plan *fixture_plan_in(const fixture *f, zero_dtype dtype, int stage, int ranks,
                         int64_t accumulation, bool mapped)
{
    zr_settings settings = fixture_settings(dtype, stage, accumulation);
    return plan_of(f, &settings, &(zr_machine){.ranks = ranks, .threads = 1, .mapped = mapped});
}

zr_plan *fixture_plan_cut(const fixture *f, int stage, int data, int rank, int ranks)
{
    zr_settings settings = fixture_settings(ZERO_F32, stage, 1);
    return fixture_plan_set(f, &settings, data, rank, ranks);
}

zr_plan *fixture_plan_set(const fixture *f, const zr_settings *settings, int data, int rank,
                          int ranks)
{
    return plan_of(f, settings,
                   &(zr_machine){.ranks = data,
                                 .tensor_ranks = ranks,
                                 .tensor_rank = rank,
                                 .threads = 1,
                                 .mapped = true});
}

zr_plan *fixture_plan_on_machines(const fixture *f, int ranks, int machine_ranks, bool kept)
{
    zr_settings settings = fixture_settings(ZERO_F32, 3, 1);
    settings.kept_by = kept ? machine_ranks : 1;
    return fixture_plan_shared(f, &settings, ranks, machine_ranks);
}

zr_plan *fixture_plan_shared(const fixture *f, const zr_settings *settings, int ranks,
                             int machine_ranks)
{
    return plan_of(f, settings,
                   &(zr_machine){.ranks = ranks, .threads = 1, .machine_ranks = machine_ranks});
}

zr_plan *fixture_plan_on_tiers(const fixture *f, int stage, int ranks, int64_t accumulation,
                               const zr_tiering *tiering)
{
    zr_settings settings = fixture_settings(ZERO_BF16, stage, accumulation);
    settings.tiering = *tiering;
    return plan_of(f, &settings, &(zr_machine){.ranks = ranks, .threads = 1, .mapped = true});
}

zr_plan *fixture_plan_as_said(const fixture *f, const char *said)
{
    const zr_config_facts facts = {.world = 2, .micro_batch = 2, .auto_dtype = ZERO_BF16};
    const char *host = "{\"device\": \"cpu\"}";
    char text[512];
    zr_config *config = NULL;
    zero_error error = {0};
    snprintf(text, sizeof text,
             "{\"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": %s, \"offload_param\": "
             "%s, %s}}",
             host, host, said);
    if (zr_config_parse(text, strlen(text), "test", &config, &error) != ZERO_OK ||
        zr_config_resolve(config, &facts, NULL, &error) != ZERO_OK) {
        fprintf(stderr, "%s: %s\n", text, error.message);
        abort();
    }
    zr_tiering tiering = zr_settings_of(config, false).tiering;
    zr_config_destroy(config);
    return fixture_plan_on_tiers(f, 3, 2, 1, &tiering);
}

void fixture_for_stages(void (*check)(const zr_plan *plan))
{
    static const int ranks[] = {1, 2, 3, 4, 8, 64};
    fixture f;
    for (int blocks = 1; blocks <= 5; blocks += 2) {
        fixture_build(&f, blocks, 1000, 100);
        for (int stage = 0; stage < 4; stage++)
            for (int r = 0; r < ZR_COUNT(ranks); r++)
                for (int k = 1; k <= 3; k += 2)
                    for (zero_dtype dtype = ZERO_F32; dtype <= ZERO_F16; dtype++) {
                        zr_plan *plan = fixture_plan_in(&f, dtype, stage, ranks[r], k, k == 1);
                        check(plan);
                        zr_plan_destroy(plan);
                    }
    }
}
