#include "plan/unit_costs.h"

#include "base/dtype.h"
#include "model/unit.h"
#include "plan/plan_parts.h"
#include "plan/stage_traits.h"

typedef struct counting { // the costs of a model's units
    const zero_model *model;
    const zr_settings *settings;
    const zr_stage_traits *traits; // of the settings' stage
    int ranks;
    int64_t segments; // that are computed again; 0: nothing is
    bool alone;       // the schedule is asynchronous
    int steps;        // whose sums there are at one time
} counting;

static int64_t padded_elems(const counting *c, const zero_flat_param_desc *flat_param)
{
    zero_dtype moments = c->settings->precision.moments;
    int64_t elems = 0, align = zr_tensor_align(c->settings);
    for (int t = 0; t < flat_param->tensor_count; t++)
        elems = ZR_ROUND_UP(elems, align) + zr_tensor_desc_elements(&flat_param->tensors[t]);
    return zr_shard_elems(flat_param->kind, moments, elems, c->ranks) * c->ranks;
}

static int64_t parameter_bytes(const counting *c, const zero_flat_param_desc *flat_param)
{
    bool buffer = flat_param->kind == ZERO_BUFFER;
    zero_dtype dtype = zr_class_dtype(flat_param->kind, c->settings->precision.parameters);
    bool away = !buffer && c->settings->tiering.parameters == ZERO_TIER_nvme;
    int64_t bytes = padded_elems(c, flat_param) * (int64_t)zero_dtype_bytes(dtype);
    if (!c->traits->shards_parameters)
        return bytes;
    return away ? 0 : bytes / c->ranks;
}

static bool has_gradient(const counting *c, const zero_flat_param_desc *flat_param)
{
    return flat_param->kind == ZERO_TRAINABLE && !c->settings->inference;
}

// Returns the bytes of whole gradients, where there are any, and of the owner's sums.
static int64_t gradient_bytes(const counting *c, const zero_flat_param_desc *flat_param)
{
    const zr_settings *settings = c->settings;
    const zr_precision *precision = &settings->precision;
    int64_t padded = padded_elems(c, flat_param);
    bool whole = !c->traits->shards_gradients;
    bool in_place = whole && settings->accumulation == 1 &&
                    precision->accumulator == precision->gradients &&
                    settings->tiering.optimizer == ZERO_TIER_device;
    bool sums = !in_place && settings->tiering.optimizer != ZERO_TIER_nvme;
    if (!has_gradient(c, flat_param))
        return 0;
    return (whole ? padded * (int64_t)zero_dtype_bytes(precision->gradients) : 0) +
           (sums ? padded / c->ranks * zr_accumulators(settings) * c->steps *
                       (int64_t)zero_dtype_bytes(precision->accumulator)
                 : 0);
}

static int64_t optimizer_bytes(const counting *c, const zero_flat_param_desc *flat_param)
{
    const zr_settings *settings = c->settings;
    int64_t elems = padded_elems(c, flat_param) / (c->traits->shards_optimizer ? c->ranks : 1),
            bytes = 0;
    if (!has_gradient(c, flat_param))
        return 0;
    for (int v = 0; v < ZR_VECTOR_GRADIENT; v++)
        if (zr_settings_have_vector(settings, c->alone, v) &&
            zr_vector_tier(settings->tiering.optimizer, v) != ZERO_TIER_nvme)
            bytes += zr_vector_bytes(settings, v, elems);
    return bytes;
}

static void count_states(const counting *c, int u, zr_unit_cost *out)
{
    const zero_unit *unit = &c->model->units[u];
    for (int i = 0; i < unit->flat_param_count + unit->borrowed_count; i++) {
        const zero_flat_param_desc *flat_param =
            zr_flat_param_desc(c->model, zr_unit_flat_param(c->model, u, i));
        bool owned = i < unit->flat_param_count;
        out->version += parameter_bytes(c, flat_param);
        out->states += parameter_bytes(c, flat_param) + gradient_bytes(c, flat_param);
        out->states += owned ? optimizer_bytes(c, flat_param) : 0;
        if (owned && flat_param->kind == ZERO_TRAINABLE)
            out->parameters += zr_flat_param_desc_elements(flat_param);
    }
}

static double flops_of_products(const zero_unit_sizes *sizes)
{
    double flops = 0;
    for (int i = 0; i < sizes->product_count; i++) {
        const zero_product_shape *p = &sizes->products[i];
        flops += 2.0 * (double)p->m * (double)p->n * (double)p->k * p->calls;
    }
    return flops;
}

// Says whether the boundary that a unit writes enters a segment after the first: the segments are
// those of a run without a pipeline.
static bool ends_segment(const counting *c, int u)
{
    int64_t units = c->model->unit_count - 1;
    for (int64_t s = 1; s < c->segments; s++)
        if (s * units / c->segments == u + 1)
            return true;
    return false;
}

static void count_activations(const counting *c, int u, const zero_unit_sizes *sizes,
                              zr_unit_cost *out)
{
    bool last = u == c->model->unit_count - 1;
    int64_t saved = ZR_ROUND_UP((int64_t)sizes->saved_bytes, ZR_ACTIVATION_ALIGN);
    int64_t boundary = zr_boundary_bytes(&sizes->out);
    bool away = c->settings->activation_checkpoint_tier == ZERO_TIER_nvme;
    out->time = flops_of_products(sizes);
    out->workspace = (int64_t)sizes->workspace_bytes;
    out->activations = saved + boundary;
    if (c->segments == 0 || last)
        return;
    int64_t units = (c->model->unit_count - 2) / c->segments + 1; // of the largest segment
    out->time *= 4.0 / 3;
    out->activations = ends_segment(c, u) && !away ? boundary : 0;
    out->workspace += units * (saved + boundary);
}

static zero_status count_costs_of_units(const counting *c, const zero_shape *shape,
                                        zr_unit_cost *out, zero_error *error)
{
    zero_unit_sizes sizes = {0};
    int64_t total = 0;
    for (int u = 0; u < c->model->unit_count; u++) {
        const zero_unit *unit = &c->model->units[u];
        const zero_tensors in = sizes.out;
        ZERO_TRY(zr_unit_find_sizes(unit, NULL, shape, c->settings->precision.name, &in, &total,
                                    &sizes, error));
        out[u] = (zr_unit_cost){.name = unit->name, .kind = unit->ops->kind};
        count_activations(c, u, &sizes, &out[u]);
        count_states(c, u, &out[u]);
    }
    return ZERO_OK;
}

// If no unit lists products, nothing is known of their times.
static void give_equal_times_if_none(zr_unit_cost *units, int count)
{
    double total = 0;
    for (int u = 0; u < count; u++)
        total += units[u].time;
    for (int u = 0; u < count && total == 0; u++)
        units[u].time = 1;
}

zero_status zr_unit_costs(const zero_model *model, const zero_shape *shape,
                          const zr_settings *settings, zr_pipeline_kind kind, int data_ranks,
                          zr_unit_cost *out, zero_error *error)
{
    zero_shape asked = *shape;
    asked.dtype = settings->precision.parameters;
    const counting c = {.model = model,
                        .settings = settings,
                        .traits = zr_stage_traits_of(settings->stage),
                        .ranks = data_ranks,
                        .alone = zr_pipeline_is_asynchronous(kind),
                        .steps = kind == ZR_PIPELINE_2BW ? 2 : 1,
                        .segments =
                            ZR_MIN(settings->activation_checkpoints, model->unit_count - 1)};
    ZERO_TRY(zr_model_check(model, error));
    ZERO_TRY(count_costs_of_units(&c, &asked, out, error));
    give_equal_times_if_none(out, model->unit_count);
    return ZERO_OK;
}
