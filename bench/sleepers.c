#include "sleepers.h"

#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <zero/context.h>

static void nap(const zero_context *context)
{
    const sleepers *s = context->unit->hyper;
    struct timespec rest = {.tv_nsec = s->nap[context->unit - s->units]};
    while (nanosleep(&rest, &rest) != 0)
        ;
}

static bool is_last(const zero_unit *unit)
{
    const sleepers *s = unit->hyper;
    return unit == &s->units[s->model.unit_count - 1];
}

static zero_status sizes(const zero_unit *unit, const zero_shape *shape, const zero_tensors *in,
                         zero_unit_sizes *out)
{
    *out = (zero_unit_sizes){.held_bytes = sizeof(float)};
    if (!is_last(unit))
        out->out = (zero_tensors){1, {{.dtype = ZERO_F32, .dims = 1, .shape = {shape->batch}}}};
    return ZERO_OK;
}

static void fill(const zero_tensors *tensors, float value)
{
    if (tensors->count)
        *(float *)tensors->at[0].data = value;
}

static zero_status forward(zero_context *context, const zero_tensors *in, const zero_tensors *out)
{
    nap(context);
    fill(out, 1);
    if (is_last(context->unit))
        *context->loss = 1;
    return ZERO_OK;
}

static zero_status backward_input(zero_context *context, const zero_tensors *in,
                                  const zero_tensors *d_out, const zero_tensors *d_in)
{
    nap(context);
    fill(d_in, 1);
    return ZERO_OK;
}

static zero_status backward_weight(zero_context *context, const zero_tensors *in)
{
    int add;
    float *gradient = zero_gradient(context, 0, 0, &add);
    nap(context);
    *gradient = add ? *gradient + 1 : 1;
    return ZERO_OK;
}

static zero_status backward(zero_context *context, const zero_tensors *in,
                            const zero_tensors *d_out, const zero_tensors *d_in)
{
    backward_input(context, in, d_out, d_in);
    return backward_weight(context, in);
}

static const zero_unit_ops ops = {.kind = "sleeper",
                                  .sizes = sizes,
                                  .forward = forward,
                                  .backward = backward,
                                  .backward_input = backward_input,
                                  .backward_weight = backward_weight};

void sleepers_make(sleepers *s, int units, const long *naps)
{
    *s = (sleepers){.model = {"sleepers", units, s->units}};
    for (int u = 0; u < units; u++) {
        s->nap[u] = naps[u];
        snprintf(s->names[u][0], sizeof s->names[u][0], "u.%d", u);
        snprintf(s->names[u][1], sizeof s->names[u][1], "w.%d", u);
        s->tensors[u] =
            (zero_tensor_desc){s->names[u][1], 1, {1}, .init = ZERO_INIT_CONSTANT, .tp_axis = -1};
        s->flat_params[u] = (zero_flat_param_desc){ZERO_TRAINABLE, 1, &s->tensors[u]};
        s->units[u] = (zero_unit){s->names[u][0], &ops, s, 1, &s->flat_params[u]};
    }
}

zero_status sleepers_step(zero_engine *engine, int micro_batches, zero_error *error)
{
    float sample = 0;
    zero_tensors batches[SLEEPERS_MOST];
    zero_step_info info;
    for (int k = 0; k < micro_batches; k++)
        batches[k] =
            (zero_tensors){1, {{.data = &sample, .dtype = ZERO_F32, .dims = 1, .shape = {1}}}};
    return zero_train_batch(engine, batches, micro_batches, &info, error);
}
