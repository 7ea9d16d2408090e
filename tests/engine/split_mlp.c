#include "split_mlp.h"

#include <stdio.h>
#include <string.h>

enum { C = SPLIT_WIDTH };

const char *const split_names[SPLIT_TENSORS] = {"in", "fc", "fc.bias", "proj", "proj.bias"};

static zero_tensors rows_of(const zero_shape *shape)
{
    return (zero_tensors){1, {{.dtype = ZERO_F32, .dims = 2, .shape = {shape->batch, C}}}};
}

static zero_status linear_sizes(const zero_unit *unit, const zero_shape *shape,
                                const zero_tensors *in, zero_unit_sizes *out)
{
    *out = (zero_unit_sizes){.out = rows_of(shape)};
    return ZERO_OK;
}

static zero_status linear_forward(zero_context *context, const zero_tensors *in,
                                  const zero_tensors *out)
{
    const float *x = context->batch->at[0].data, *w = zero_parameter(context, 0, 0);
    float *y = out->at[0].data;
    for (int64_t b = 0; b < context->shape.batch; b++)
        for (int o = 0; o < C; o++) {
            float sum = 0;
            for (int i = 0; i < C; i++)
                sum += x[b * C + i] * w[o * C + i];
            y[b * C + o] = sum;
        }
    return ZERO_OK;
}

static zero_status linear_backward(zero_context *context, const zero_tensors *in,
                                   const zero_tensors *d_out, const zero_tensors *d_in)
{
    const float *x = context->batch->at[0].data, *dy = d_out->at[0].data;
    int add;
    float *dw = zero_gradient(context, 0, 0, &add);
    for (int o = 0; o < C; o++)
        for (int i = 0; i < C; i++) {
            float sum = 0;
            for (int64_t b = 0; b < context->shape.batch; b++)
                sum += dy[b * C + o] * x[b * C + i];
            dw[o * C + i] = sum;
        }
    return ZERO_OK;
}

static zero_status mlp_sizes(const zero_unit *unit, const zero_shape *shape, const zero_tensors *in,
                             zero_unit_sizes *out)
{
    const split_hyper *hyper = unit->hyper;
    int64_t share = (shape->batch * C + hyper->ranks - 1) / hyper->ranks;
    *out = (zero_unit_sizes){
        .out = rows_of(shape),
        .saved_bytes = (size_t)(shape->batch * hyper->inner) * sizeof(float),
        .backward_reads = 1,
        .exchange_count = 2,
        .exchanges = {{ZERO_EXCHANGE_SUM, 0, 0, share, ZERO_F32, 1},
                      {ZERO_EXCHANGE_SUM, 1, 0, share, ZERO_F32, 1}},
        .exchange_bytes = (size_t)(hyper->ranks * share) * sizeof(float),
    };
    return ZERO_OK;
}

static zero_status mlp_forward(zero_context *context, const zero_tensors *in,
                               const zero_tensors *out)
{
    const split_hyper *hyper = context->unit->hyper;
    const float *fc = zero_parameter(context, 0, 0), *bias = zero_parameter(context, 0, 1),
                *proj = zero_parameter(context, 0, 2), *last = zero_parameter(context, 1, 0);
    const float *x = in->at[0].data;
    float *s = context->saved, *y = out->at[0].data;
    int64_t inner = hyper->inner, batch = context->shape.batch;
    memset(y, 0, (size_t)(batch * C) * sizeof *y);
    for (int64_t b = 0; b < batch; b++)
        for (int64_t j = 0; j < inner; j++) {
            float sum = bias[j];
            for (int i = 0; i < C; i++)
                sum += x[b * C + i] * fc[j * C + i];
            s[b * inner + j] = sum;
            for (int o = 0; o < C; o++)
                y[b * C + o] += (sum + sum * sum * 0.1f) * proj[o * inner + j];
        }
    zero_status status = zero_tensor_sum(context, y, batch * C);
    for (int64_t i = 0; i < batch * C; i++)
        y[i] += last[i % C];
    return status;
}

static void mlp_last_bias(zero_context *context, const float *dy)
{
    int add;
    float *d_last = zero_gradient(context, 1, 0, &add);
    for (int o = 0; o < C; o++) {
        d_last[o] = 0;
        for (int64_t b = 0; b < context->shape.batch; b++)
            d_last[o] += dy[b * C + o];
    }
}

static zero_status mlp_backward(zero_context *context, const zero_tensors *in,
                                const zero_tensors *d_out, const zero_tensors *d_in)
{
    const split_hyper *hyper = context->unit->hyper;
    const float *fc = zero_parameter(context, 0, 0), *proj = zero_parameter(context, 0, 2);
    const float *x = in->at[0].data, *s = context->saved, *dy = d_out->at[0].data;
    float *dx = d_in->at[0].data;
    int64_t inner = hyper->inner, batch = context->shape.batch;
    int add;
    float *d_fc = zero_gradient(context, 0, 0, &add), *d_bias = zero_gradient(context, 0, 1, &add),
          *d_proj = zero_gradient(context, 0, 2, &add);
    memset(dx, 0, (size_t)(batch * C) * sizeof *dx);
    memset(d_fc, 0, (size_t)(inner * C) * sizeof *d_fc);
    memset(d_bias, 0, (size_t)inner * sizeof *d_bias);
    memset(d_proj, 0, (size_t)(inner * C) * sizeof *d_proj);
    for (int64_t b = 0; b < batch; b++)
        for (int64_t j = 0; j < inner; j++) {
            float v = s[b * inner + j], dh = 0;
            for (int o = 0; o < C; o++) {
                dh += dy[b * C + o] * proj[o * inner + j];
                d_proj[o * inner + j] += dy[b * C + o] * (v + v * v * 0.1f);
            }
            float ds = dh * (1 + 0.2f * v);
            d_bias[j] += ds;
            for (int i = 0; i < C; i++) {
                d_fc[j * C + i] += ds * x[b * C + i];
                dx[b * C + i] += ds * fc[j * C + i];
            }
        }
    mlp_last_bias(context, dy);
    return zero_tensor_sum(context, dx, batch * C);
}

static zero_status loss_sizes(const zero_unit *unit, const zero_shape *shape,
                              const zero_tensors *in, zero_unit_sizes *out)
{
    *out = (zero_unit_sizes){0};
    return ZERO_OK;
}

static zero_status loss_forward(zero_context *context, const zero_tensors *in,
                                const zero_tensors *out)
{
    const float *y = in->at[0].data, *target = context->batch->at[1].data;
    double sum = 0;
    for (int64_t i = 0; i < context->shape.batch * C; i++)
        sum += (double)(y[i] - target[i]) * (y[i] - target[i]);
    *context->loss = sum / (double)context->shape.batch;
    return ZERO_OK;
}

static zero_status loss_backward(zero_context *context, const zero_tensors *in,
                                 const zero_tensors *d_out, const zero_tensors *d_in)
{
    const float *y = in->at[0].data, *target = context->batch->at[1].data;
    float *dy = d_in->at[0].data, factor = context->loss_factor * 2 / (float)context->shape.batch;
    for (int64_t i = 0; i < context->shape.batch * C; i++)
        dy[i] = factor * (y[i] - target[i]);
    return ZERO_OK;
}

static const zero_unit_ops linear = {.kind = "linear",
                                     .sizes = linear_sizes,
                                     .forward = linear_forward,
                                     .backward = linear_backward};
static const zero_unit_ops mlp = {
    .kind = "mlp", .sizes = mlp_sizes, .forward = mlp_forward, .backward = mlp_backward};
static const zero_unit_ops loss = {
    .kind = "loss", .sizes = loss_sizes, .forward = loss_forward, .backward = loss_backward};

static zero_tensor_desc tensor_of(const char *name, int dims, int64_t rows, int64_t columns)
{
    return (zero_tensor_desc){.name = name,
                              .dims = dims,
                              .shape = {rows, columns},
                              .init = ZERO_INIT_NORMAL,
                              .init_value = 0.1f,
                              .tp_axis = -1,
                              .tp_parts = 1};
}

void split_whole(split_mlp *m, int64_t inner)
{
    *m = (split_mlp){.hyper = {inner, 1}};
    m->tensors[0] = tensor_of(split_names[0], 2, C, C);
    m->tensors[1] = tensor_of(split_names[1], 2, inner, C);
    m->tensors[2] = tensor_of(split_names[2], 1, inner, 0);
    m->tensors[3] = tensor_of(split_names[3], 2, C, inner);
    m->tensors[4] = tensor_of(split_names[4], 1, C, 0);
    m->flat_params[0] = (zero_flat_param_desc){ZERO_TRAINABLE, 1, &m->tensors[0]};
    m->flat_params[1] = (zero_flat_param_desc){ZERO_TRAINABLE, 3, &m->tensors[1]};
    m->flat_params[2] = (zero_flat_param_desc){ZERO_TRAINABLE, 1, &m->tensors[4]};
    m->units[0] = (zero_unit){"in", &linear, &m->hyper, 1, &m->flat_params[0], 0, NULL};
    m->units[1] = (zero_unit){"mlp", &mlp, &m->hyper, 2, &m->flat_params[1], 0, NULL};
    m->units[2] = (zero_unit){"loss", &loss, &m->hyper, 0, NULL, 0, NULL};
    m->model = (zero_model){"split", 3, m->units};
}

void split_part(split_mlp *m, const split_mlp *whole, int rank, int ranks)
{
    static const int axes[] = {0, 0, 1}; // of fc, its bias, and proj
    int64_t inner = whole->hyper.inner, step = (inner + ranks - 1) / ranks;
    int64_t first = rank * step < inner ? rank * step : inner;
    int64_t here = step < inner - first ? step : inner - first;
    split_whole(m, inner);
    m->hyper = (split_hyper){here, ranks};
    m->model.whole = &whole->model;
    for (int t = 0; t < 3; t++) {
        zero_tensor_desc *tensor = &m->tensors[1 + t];
        snprintf(m->names[t], sizeof m->names[t], "%s/%d", split_names[1 + t], rank);
        tensor->name = m->names[t];
        tensor->tile = (zero_tile){split_names[1 + t], axes[t], first, inner};
        tensor->shape[axes[t]] = here;
    }
}

int64_t split_elements(const split_mlp *whole, int tensor)
{
    const zero_tensor_desc *t = &whole->tensors[tensor];
    return t->shape[0] * (t->dims > 1 ? t->shape[1] : 1);
}
