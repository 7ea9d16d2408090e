#include "chain.h"

#include "base/numbers.h"
#include "compute/compute.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { C = CHAIN_WIDTH, B = CHAIN_BATCH };

// ---- the arithmetic, of units and of the emulation ----

static void layer_forward(const float *w, const float *b, const float *x, float *s, float *y)
{
    for (int r = 0; r < B; r++)
        for (int o = 0; o < C; o++) {
            float sum = b[o];
            for (int i = 0; i < C; i++)
                sum += w[o * C + i] * x[r * C + i];
            s[r * C + o] = sum;
            y[r * C + o] = sum + sum * sum * 0.1f;
        }
}

// dx: NULL for the first layer.
static void layer_backward(const float *w, const float *x, const float *s, const float *dy,
                           float *dx, float *dw, float *db)
{
    memset(dw, 0, CHAIN_WEIGHTS * sizeof *dw);
    memset(db, 0, C * sizeof *db);
    if (dx)
        memset(dx, 0, CHAIN_VALUES * sizeof *dx);
    for (int r = 0; r < B; r++)
        for (int o = 0; o < C; o++) {
            float ds = dy[r * C + o] * (1 + 0.2f * s[r * C + o]);
            db[o] += ds;
            for (int i = 0; i < C; i++) {
                dw[o * C + i] += ds * x[r * C + i];
                if (dx)
                    dx[r * C + i] += ds * w[o * C + i];
            }
        }
}

static double loss_of(const float *y, const float *target)
{
    double sum = 0;
    for (int i = 0; i < CHAIN_VALUES; i++)
        sum += (double)(y[i] - target[i]) * (y[i] - target[i]);
    return sum / (2 * B);
}

static void loss_backward(const float *y, const float *target, float factor, float *dy)
{
    for (int i = 0; i < CHAIN_VALUES; i++)
        dy[i] = factor * (y[i] - target[i]) / (float)B;
}

// ---- the units ----

static zero_status unit_sizes(const zero_unit *unit, const zero_shape *shape,
                              const zero_tensors *in, zero_unit_sizes *out)
{
    bool last = *(const int *)unit->hyper == CHAIN_LAYERS - 1;
    *out = (zero_unit_sizes){.saved_bytes = 2 * CHAIN_VALUES * sizeof(float), .backward_reads = 1};
    if (!last)
        out->out = (zero_tensors){1, {{.dtype = ZERO_F32, .dims = 2, .shape = {shape->batch, C}}}};
    return ZERO_OK;
}

static const float *input_of(const zero_context *context, const zero_tensors *in)
{
    return in->count ? in->at[0].data : context->batch->at[0].data;
}

static zero_status unit_forward(zero_context *context, const zero_tensors *in,
                                const zero_tensors *out)
{
    float values[2 * CHAIN_VALUES];
    float *s = context->training ? context->saved : values;
    float *y = out->count ? out->at[0].data : s + CHAIN_VALUES;
    layer_forward(zero_parameter(context, 0, 0), zero_parameter(context, 0, 1),
                  input_of(context, in), s, y);
    if (!out->count)
        *context->loss = loss_of(y, context->batch->at[1].data);
    return ZERO_OK;
}

static zero_status unit_backward(zero_context *context, const zero_tensors *in,
                                 const zero_tensors *d_out, const zero_tensors *d_in)
{
    int add;
    float dy[CHAIN_VALUES];
    const float *s = context->saved;
    float *dw = zero_gradient(context, 0, 0, &add), *db = zero_gradient(context, 0, 1, &add);
    if (d_out->count)
        memcpy(dy, d_out->at[0].data, sizeof dy);
    else
        loss_backward(s + CHAIN_VALUES, context->batch->at[1].data, context->loss_factor, dy);
    layer_backward(zero_parameter(context, 0, 0), input_of(context, in), s, dy,
                   d_in->count ? d_in->at[0].data : NULL, dw, db);
    return ZERO_OK;
}

static const zero_unit_ops ops = {
    .kind = "layer", .sizes = unit_sizes, .forward = unit_forward, .backward = unit_backward};

static zero_tensor_desc tensor_of(const char *name, int dims, float deviation)
{
    return (zero_tensor_desc){.name = name,
                              .dims = dims,
                              .shape = {C, dims > 1 ? C : 0},
                              .init = ZERO_INIT_NORMAL,
                              .init_value = deviation,
                              .tp_axis = -1,
                              .tp_parts = 1};
}

const zero_model *chain_model(void)
{
    static char names[CHAIN_LAYERS][3][16];
    static int numbers[CHAIN_LAYERS];
    static zero_tensor_desc tensors[CHAIN_LAYERS][2];
    static zero_flat_param_desc flat_params[CHAIN_LAYERS];
    static zero_unit units[CHAIN_LAYERS];
    static const zero_model model = {"chain", CHAIN_LAYERS, units};
    for (int l = 0; l < CHAIN_LAYERS; l++) {
        snprintf(names[l][0], sizeof names[l][0], "layer.%d", l);
        snprintf(names[l][1], sizeof names[l][1], "layer.%d.w", l);
        snprintf(names[l][2], sizeof names[l][2], "layer.%d.b", l);
        numbers[l] = l;
        tensors[l][0] = tensor_of(names[l][1], 2, 0.4f);
        tensors[l][1] = tensor_of(names[l][2], 1, 0.1f);
        flat_params[l] = (zero_flat_param_desc){ZERO_TRAINABLE, 2, tensors[l]};
        units[l] = (zero_unit){names[l][0], &ops, &numbers[l], 1, &flat_params[l], 0, NULL};
    }
    return &model;
}

void chain_batch(int64_t step, int64_t g, chain_samples *out)
{
    for (int i = 0; i < CHAIN_VALUES; i++) {
        out->x[i] = (float)((step * 53 + g * 29 + i * 17) % 23) / 23 - 0.5f;
        out->target[i] = (float)((step * 31 + g * 11 + i * 7) % 19) / 19 - 0.5f;
    }
}

zero_tensors chain_tensors(chain_samples *samples)
{
    return (zero_tensors){
        2, {{samples->x, ZERO_F32, 2, {B, C}}, {samples->target, ZERO_F32, 2, {B, C}}}};
}

// ---- the emulation ----

typedef struct layer {                           // of the emulation
    float weights[CHAIN_STEPS + 1][CHAIN_LAYER]; // after so many updates
    float m[CHAIN_LAYER], v[CHAIN_LAYER];
    float sum[CHAIN_LAYER]; // of gradients of this step
} layer;

typedef struct emulation {
    const chain_run *run;
    zr_queue *queue;
    layer layers[CHAIN_LAYERS];
} emulation;

// Computes one micro-batch of one data rank; its gradients go into `out`.
static double pass(emulation *e, int step, int k, int rank, float out[CHAIN_LAYERS][CHAIN_LAYER])
{
    const chain_run *run = e->run;
    chain_samples samples;
    float x[CHAIN_LAYERS + 1][CHAIN_VALUES], s[CHAIN_LAYERS][CHAIN_VALUES], d[2][CHAIN_VALUES];
    const float *w[CHAIN_LAYERS];
    chain_batch(step, (int64_t)k * run->data + rank, &samples);
    memcpy(x[0], samples.x, sizeof x[0]);
    for (int l = 0; l < CHAIN_LAYERS; l++) {
        w[l] = e->layers[l].weights[run->updates_of(run, run->stage_of[l], step, k)];
        layer_forward(w[l], w[l] + CHAIN_WEIGHTS, x[l], s[l], x[l + 1]);
    }
    float factor = (float)(1.0 / (double)(run->accumulation * run->data));
    loss_backward(x[CHAIN_LAYERS], samples.target, factor, d[CHAIN_LAYERS % 2]);
    for (int l = CHAIN_LAYERS - 1; l >= 0; l--)
        layer_backward(w[l], x[l], s[l], d[(l + 1) % 2], d[l % 2], out[l], out[l] + CHAIN_WEIGHTS);
    return loss_of(x[CHAIN_LAYERS], samples.target);
}

// Adds the gradients of all data ranks to those of earlier micro-batches.
static void add_micro_batch(emulation *e, int step, int k, zr_exact *loss)
{
    float of_rank[2][CHAIN_LAYERS][CHAIN_LAYER];
    for (int r = 0; r < e->run->data; r++)
        zr_exact_add(loss, pass(e, step, k, r, of_rank[r]));
    for (int l = 0; l < CHAIN_LAYERS; l++)
        for (int i = 0; i < CHAIN_LAYER; i++) {
            float sum = of_rank[0][l][i] + (e->run->data > 1 ? of_rank[1][l][i] : 0);
            e->layers[l].sum[i] = k ? e->layers[l].sum[i] + sum : sum;
        }
}

static double norm_of(const emulation *e)
{
    zr_exact sum;
    zr_exact_zero(&sum);
    for (int l = 0; l < CHAIN_LAYERS; l++) {
        static const zr_squares weights = {.count = CHAIN_WEIGHTS},
                                biases = {.first = CHAIN_WEIGHTS, .count = C};
        double squares[2];
        assert_true(zr_squares_parts(&weights) == 1 && zr_squares_parts(&biases) == 1);
        zr_run(e->queue, zr_op_square_sums(&weights, e->layers[l].sum, &squares[0]));
        zr_run(e->queue, zr_op_square_sums(&biases, e->layers[l].sum + CHAIN_WEIGHTS, &squares[1]));
        zr_exact_add(&sum, squares[0]);
        zr_exact_add(&sum, squares[1]);
    }
    return sqrt(zr_exact_value(&sum));
}

static void update_range(emulation *e, layer *at, int step, float scale, int first, int count)
{
    const zr_update update = {
        .kind = ZR_UPDATE_ADAMW, .epsilon = 1e-8, .weight_decay = count > C ? 0.1 : 0};
    const zr_update_values values = {
        .lr = e->run->lr[step],
        .beta1 = 0.9,
        .beta2 = 0.999,
        .first = step == 0,
        .correction1 = 1 - __builtin_pow(0.9, step + 1),
        .correction2 = 1 - __builtin_pow(0.999, step + 1),
        .gradient_scale = scale,
    };
    const zr_range_states states = {.master = at->weights[step + 1] + first,
                                    .state0 = at->m + first,
                                    .state1 = at->v + first,
                                    .gradient = at->sum + first,
                                    .gradient_dtype = ZERO_F32};
    zr_run(e->queue, zr_op_update_of(&update, &values, count, &states));
}

// Makes the weights after one more update from the newest ones.
static void update_all(emulation *e, int step, double norm)
{
    double limit = e->run->clipping;
    float scale = (float)(limit > 0 && limit < norm + 1e-6 ? limit / (norm + 1e-6) : 1);
    for (int l = 0; l < CHAIN_LAYERS; l++) {
        layer *at = &e->layers[l];
        memcpy(at->weights[step + 1], at->weights[step], sizeof at->weights[0]);
        update_range(e, at, step, scale, 0, CHAIN_WEIGHTS);
        update_range(e, at, step, scale, CHAIN_WEIGHTS, C);
    }
}

void chain_emulate(const chain_run *run, chain_result *out)
{
    static emulation e;
    memset(&e, 0, sizeof e);
    e.run = run;
    assert_int_equal(zr_queue_open("ref", NULL, 1, &e.queue, NULL), ZERO_OK);
    for (int l = 0; l < CHAIN_LAYERS; l++)
        memcpy(e.layers[l].weights[0], run->start + l * CHAIN_LAYER, sizeof e.layers[l].weights[0]);
    for (int step = 0; step < CHAIN_STEPS; step++) {
        zr_exact loss;
        zr_exact_zero(&loss);
        for (int k = 0; k < run->accumulation; k++)
            add_micro_batch(&e, step, k, &loss);
        out->loss[step] = zr_exact_value(&loss) / (run->accumulation * run->data);
        out->norm[step] = norm_of(&e);
        update_all(&e, step, out->norm[step]);
    }
    for (int l = 0; l < CHAIN_LAYERS; l++)
        memcpy(out->weights + l * CHAIN_LAYER, e.layers[l].weights[CHAIN_STEPS],
               sizeof e.layers[l].weights[0]);
    zr_queue_close(e.queue);
}
