#include "engine/far_check.h"

#include "layers/layers.h"
#include "model/pipeline_stage_cut.h"

typedef struct training {
    const zr_settings *settings;
    const zr_lm_config *config; // NULL: no language model
} training;

static bool updates_by_matrices(const training *t) { return t->settings->orthogonal; }
static bool updates_by_factors(const training *t) { return t->settings->factored; }
static bool has_blocks(const training *t)
{
    const zr_settings *s = t->settings;
    return s->weight_bits || s->gradient_bits ||
           (s->precision.moments == ZERO_U8 && s->state_vectors > 0);
}
static bool reads_more_of_a_batch(const training *t)
{
    return t->config && (t->config->documents || t->config->preference.kind);
}

static const struct {
    bool (*is_of)(const training *t);
    const char *what;
} on_the_host[] = {
    {updates_by_matrices, "Muon's exchange of matrices"},
    {updates_by_factors, "Adafactor's averages"},
    {has_blocks, "states, weights or gradients in blocks of codes"},
    {reads_more_of_a_batch, "documents and preferences of a micro-batch"},
};

const char *zr_far_refusal(const zr_settings *settings, const zr_lm_config *config)
{
    const training t = {settings, config};
    for (int i = 0; i < ZR_COUNT(on_the_host); i++)
        if (on_the_host[i].is_of(&t))
            return on_the_host[i].what;
    return NULL;
}

zero_status zr_far_check(const char *device, const zr_plan *plan, zero_error *error)
{
    const zero_model *model = zr_pipeline_stage_origin(plan->model);
    const char *what = zr_far_refusal(&plan->settings, zr_lm_config_of(plan->model));
    if (what)
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "device \"%s\": the host works on %s itself in this version, and cannot "
                       "read that device's memory",
                       device, what);
    for (int u = 0; u < model->unit_count; u++)
        if (!(model->units[u].ops->dtypes & ZERO_UNIT_DEVICE))
            return zr_fail(
                error, ZERO_ERR_UNSUPPORTED,
                "device \"%s\": unit \"%s\" (%s) reads and writes memory itself, and not "
                "through its queue alone (ZERO_UNIT_DEVICE in zero_unit_ops.dtypes)",
                device, model->units[u].name, model->units[u].ops->kind);
    return ZERO_OK;
}

// What a device can share with another rank is its own memory.
static bool holds(zr_device *device, const void *at)
{
    zr_share share;
    zero_error ignored;
    return device->ops->share(device, at, &share, &ignored) == ZERO_OK;
}

zero_status zr_far_check_batch(zr_device *device, const char *function, const zero_tensors *batch,
                               zero_error *error)
{
    for (int i = 0; zr_device_is_far(device) && i < batch->count; i++)
        if (holds(device, batch->at[i].data))
            return zr_fail(error, ZERO_ERR_USAGE,
                           "%s: tensor %d of the micro-batch lies in the memory of \"%s\"; the "
                           "host reads micro-batches, from its own memory",
                           function, i, device->ops->name);
    return ZERO_OK;
}
