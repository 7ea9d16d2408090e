// "bag" averages the rows of a table (V, C) that a sample's tokens select; "head" scores V classes
// by another table (V, C), by least squares. A micro-batch is tokens (batch, seq) and targets
// (batch, seq); the first target of a sample is its class.
#include "bag_of_words.h"

#include <string.h>

enum { V = BAG_VOCABULARY, C = BAG_WIDTH };

static zero_status bag_sizes(const zero_unit *unit, const zero_shape *shape, const zero_tensors *in,
                             zero_unit_sizes *out)
{
    const zero_tensor mean = {.dtype = ZERO_F32, .dims = 2, .shape = {shape->batch, C}};
    *out = (zero_unit_sizes){.out = {1, {mean}}};
    return ZERO_OK;
}

static zero_status bag_forward(zero_context *call, const zero_tensors *in, const zero_tensors *out)
{
    const float *table = zero_parameter(call, 0, 0);
    const int32_t *tokens = call->batch->at[0].data;
    int64_t batch = call->shape.batch, seq = call->shape.seq;
    float *mean = memset(out->at[0].data, 0, (size_t)batch * C * sizeof *mean);
    for (int64_t i = 0; i < batch * seq; i++)
        for (int c = 0; c < C; c++)
            mean[i / seq * C + c] += table[tokens[i] * C + c] / (float)seq;
    return ZERO_OK;
}

static float *zeroed_gradient(zero_context *call)
{
    int add;
    float *gradient = zero_gradient(call, 0, 0, &add);
    return add ? gradient : memset(gradient, 0, V * C * sizeof *gradient);
}

static zero_status bag_backward(zero_context *call, const zero_tensors *in,
                                const zero_tensors *d_out, const zero_tensors *d_in)
{
    float *d_table = zeroed_gradient(call);
    const float *d_mean = d_out->at[0].data;
    const int32_t *tokens = call->batch->at[0].data;
    int64_t batch = call->shape.batch, seq = call->shape.seq;
    for (int64_t i = 0; i < batch * seq; i++)
        for (int c = 0; c < C; c++)
            d_table[tokens[i] * C + c] += d_mean[i / seq * C + c] / (float)seq;
    return ZERO_OK;
}

static zero_status head_sizes(const zero_unit *unit, const zero_shape *shape,
                              const zero_tensors *in, zero_unit_sizes *out)
{
    size_t bytes = (size_t)shape->batch * V * sizeof(float);
    *out = (zero_unit_sizes){.saved_bytes = bytes, .backward_reads = 1};
    return ZERO_OK;
}

// Saves by how much each score misses (batch, V).
static zero_status head_forward(zero_context *call, const zero_tensors *in, const zero_tensors *out)
{
    const float *table = zero_parameter(call, 0, 0), *mean = in->at[0].data;
    const int32_t *targets = call->batch->at[1].data;
    float *miss = call->saved;
    *call->loss = 0;
    for (int64_t i = 0; i < call->shape.batch * V; i++) {
        miss[i] = i % V == targets[i / V * call->shape.seq] ? -1 : 0;
        for (int c = 0; c < C; c++)
            miss[i] += table[i % V * C + c] * mean[i / V * C + c];
        *call->loss += 0.5 * miss[i] * miss[i] / (double)call->shape.batch;
    }
    return ZERO_OK;
}

static zero_status head_backward(zero_context *call, const zero_tensors *in,
                                 const zero_tensors *d_out, const zero_tensors *d_in)
{
    const float *table = zero_parameter(call, 0, 0), *mean = in->at[0].data, *miss = call->saved;
    int64_t batch = call->shape.batch;
    float *d_table = zeroed_gradient(call);
    float *d_mean = memset(d_in->at[0].data, 0, (size_t)batch * C * sizeof *d_mean);
    for (int64_t i = 0; i < batch * V * C; i++) {
        int64_t score = i / C, b = score / V, v = score % V, c = i % C;
        float d = miss[score] * call->loss_factor / (float)batch;
        d_table[v * C + c] += d * mean[b * C + c];
        d_mean[b * C + c] += d * table[v * C + c];
    }
    return ZERO_OK;
}

#define TABLE                                                                                      \
    .dims = 2, .shape = {V, C}, .init = ZERO_INIT_NORMAL, .init_value = 0.1f, .tp_axis = -1,       \
    .tp_parts = 1
static const zero_tensor_desc tables[] = {{"bag.table", TABLE}, {"head.table", TABLE}};
static const zero_flat_param_desc flat_params[] = {{ZERO_TRAINABLE, 1, &tables[0]},
                                                   {ZERO_TRAINABLE, 1, &tables[1]}};
static const zero_unit_ops bag = {"bag", 0, bag_sizes, bag_forward, bag_backward};
static const zero_unit_ops head = {"head", 0, head_sizes, head_forward, head_backward};
static const zero_unit units[] = {{"bag", &bag, NULL, 1, &flat_params[0], 0, NULL},
                                  {"head", &head, NULL, 1, &flat_params[1], 0, NULL}};
const zero_model bag_of_words = {"bag of words", 2, units};
