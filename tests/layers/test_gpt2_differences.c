// Gradients compared with finite differences: every layer by itself and every unit, with and
// without dropout (the same context draws the same masks), on every backend.
#include "base/random.h"
#include "layers/block.h"
#include "layers_harness.h"
#include "model/gpt2_model.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { BATCH = 2, SEQ = 7, ROWS = BATCH * SEQ, WIDTH = 16, INNER = 64, MOST = ROWS * INNER };

typedef struct array {
    float at[MOST] __attribute__((aligned(64)));
} array;

static zero_gpt2_config config_of(float dropout)
{
    zero_gpt2_config config = harness_tiny();
    config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = dropout;
    return config;
}

static void create(harness *net, const zr_backend *backend, float dropout)
{
    const zero_gpt2_config config = config_of(dropout);
    harness_create(net, &config, backend, (zero_shape){.batch = BATCH, .seq = SEQ, .threads = 2});
    net->targets[4] = -1;
}

static void each_backend(void (*check)(const zr_backend *backend))
{
    int run = 0;
    for (const zr_backend *const *backend = zr_backends(); *backend; backend++)
        if (harness_offered(*backend)) {
            check(*backend);
            run++;
        }
    assert_true(run > 0);
}

// ---- layers: the scalar is <output, weights> with fixed pseudo-random weights, whose gradient
// backward starts from

typedef struct layer_case {
    harness *net;
    zero_context context;
    zr_linear linear;
    zr_norm_layer norm;
    array x, y, weights, d, dx;
    int64_t outputs;
} layer_case;

static double weighted(const float *y, const float *weights, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)y[i] * weights[i];
    return sum;
}

static void layer_case_set(layer_case *c, harness *net, int64_t inputs, int64_t outputs)
{
    memset(c, 0, sizeof(*c));
    c->net = net;
    c->outputs = outputs;
    harness_context(net, 1, true, &c->context);
    zr_random_normal(1, 0, inputs, 1, c->x.at);
    zr_random_normal(2, 0, outputs, 1, c->weights.at);
    memcpy(c->d.at, c->weights.at, sizeof(float) * (size_t)outputs);
}

static void check_tensors(harness *net, const char *const *names, int count,
                          double (*value)(void *user), void *user)
{
    for (int i = 0; i < count; i++) {
        float *gradient;
        int64_t elements;
        float *parameter = harness_tensor(net, names[i], &gradient, &elements);
        harness_check_gradient(names[i], value, user, parameter, gradient, elements);
    }
}

static double linear_value(void *user)
{
    layer_case *c = user;
    assert_int_equal(zr_linear_forward(&c->context, &c->linear, c->x.at, c->y.at, NULL), ZERO_OK);
    return weighted(c->y.at, c->weights.at, c->outputs);
}

static void check_linear(const zr_backend *backend)
{
    static const char *const names[] = {"h.0.mlp.c_fc.weight", "h.0.mlp.c_fc.bias"};
    static layer_case c;
    harness net;
    create(&net, backend, 0);
    layer_case_set(&c, &net, ROWS * WIDTH, ROWS * INNER);
    const zr_lm_unit *hyper = c.context.unit->hyper;
    c.linear = (zr_linear){.rows = ROWS,
                           .in = WIDTH,
                           .out = INNER,
                           .weight = &hyper->tensor[ZR_FC_W],
                           .bias = &hyper->tensor[ZR_FC_B]};
    assert_true(zr_linear_scratch(&c.linear, NULL, 2) <= net.workspace.bytes);
    assert_int_equal(zr_linear_backward(&c.context, &c.linear, ZR_BACKWARD_WHOLE, c.x.at, c.d.at,
                                        c.dx.at, net.workspace.data),
                     ZERO_OK);
    harness_check_gradient("linear: x", linear_value, &c, c.x.at, c.dx.at, ROWS * WIDTH);
    check_tensors(&net, names, 2, linear_value, &c);
    harness_destroy(&net);
}

static double norm_value(void *user)
{
    layer_case *c = user;
    zr_norm_forward(&c->context, &c->norm, c->x.at, NULL, NULL, c->y.at, (zr_norm_statistics){0});
    return weighted(c->y.at, c->weights.at, c->outputs);
}

static void check_norm(const zr_backend *backend)
{
    static const char *const names[] = {"h.0.ln_2.weight", "h.0.ln_2.bias"};
    static layer_case c;
    static array mean, rstd;
    harness net;
    create(&net, backend, 0);
    layer_case_set(&c, &net, ROWS * WIDTH, ROWS * WIDTH);
    const zr_lm_unit *hyper = c.context.unit->hyper;
    c.norm =
        (zr_norm_layer){.norm = {.dtype = ZERO_F32, .rows = ROWS, .width = WIDTH, .epsilon = 1e-5f},
                        .gain = &hyper->tensor[ZR_LN2_W],
                        .bias = &hyper->tensor[ZR_LN2_B]};
    const zr_norm_statistics statistics = {.mean = mean.at, .rstd = rstd.at};
    const zr_norm_gradient gradient = {
        .dy = c.d.at, .x = c.x.at, .statistics = statistics, .dx = c.dx.at};
    zr_norm_forward(&c.context, &c.norm, c.x.at, NULL, NULL, c.y.at, statistics);
    const zr_division division = zr_division_of(hyper, ROWS, false);
    zr_norm_backward(&c.context, &c.norm, &division, &gradient, &(zr_gains){0}, NULL,
                     net.workspace.data);
    harness_check_gradient("norm: x", norm_value, &c, c.x.at, c.dx.at, ROWS * WIDTH);
    check_tensors(&net, names, 2, norm_value, &c);
    harness_destroy(&net);
}

// ---- units: a block's output against weights; the whole network's loss

typedef struct unit_case {
    harness *net;
    zero_context context;
    zero_tensors in, out;
    array x, y, weights;
} unit_case;

static double unit_value(void *user)
{
    unit_case *c = user;
    assert_int_equal(c->context.unit->ops->forward(&c->context, &c->in, &c->out), ZERO_OK);
    return weighted(c->y.at, c->weights.at, ROWS * WIDTH);
}

static void unit_case_set(unit_case *c, harness *net, int unit)
{
    memset(c, 0, sizeof(*c));
    c->net = net;
    harness_context(net, unit, true, &c->context);
    zr_random_normal(1, 0, ROWS * WIDTH, 1, c->x.at);
    zr_random_normal(2, 0, ROWS * WIDTH, 1, c->weights.at);
    c->in = c->out = net->boundary[1];
    c->in.at[0].data = c->x.at;
    c->out.at[0].data = c->y.at;
}

static void check_block(const zr_backend *backend)
{
    static unit_case c;
    static array d, dx;
    for (int in_place = 0; in_place < 2; in_place++)
        for (int dropped = 0; dropped < 2; dropped++) {
            harness net;
            create(&net, backend, dropped ? 0.3f : 0);
            unit_case_set(&c, &net, 1);
            unit_value(&c);
            memcpy(d.at, c.weights.at, sizeof(d));
            zero_tensors d_out = c.in, d_in = c.in;
            d_out.at[0].data = d.at;
            d_in.at[0].data = in_place ? d.at : dx.at;
            assert_int_equal(c.context.unit->ops->backward(&c.context, &c.in, &d_out, &d_in),
                             ZERO_OK);
            harness_check_gradient("block: x", unit_value, &c, c.x.at, d_in.at[0].data,
                                   ROWS * WIDTH);
            for (int t = 0; t < ZR_BLOCK_TENSORS; t++)
                check_tensors(&net, &net.model->units[1].flat_params[0].tensors[t].name, 1,
                              unit_value, &c);
            harness_destroy(&net);
        }
}

static double network_value(void *user) { return harness_forward(user, true); }

static void check_network(const zr_backend *backend)
{
    for (int dropped = 0; dropped < 2; dropped++) {
        harness net;
        create(&net, backend, dropped ? 0.2f : 0);
        harness_forward(&net, true);
        harness_backward(&net, true);
        for (int u = 0; u < net.model->unit_count; u++)
            for (int p = 0; p < net.model->units[u].flat_param_count; p++)
                for (int t = 0; t < net.model->units[u].flat_params[p].tensor_count; t++)
                    check_tensors(&net, &net.model->units[u].flat_params[p].tensors[t].name, 1,
                                  network_value, &net);
        harness_destroy(&net);
    }
}

// the head alone: the units before it would write its input anew
static double head_value(void *user)
{
    unit_case *c = user;
    assert_int_equal(c->context.unit->ops->forward(&c->context, &c->in, NULL), ZERO_OK);
    return c->net->loss;
}

static void check_head(const zr_backend *backend)
{
    static const char *const names[] = {"ln_f.weight", "ln_f.bias", "wte.weight"};
    static unit_case c;
    static array dx;
    harness net;
    create(&net, backend, 0);
    unit_case_set(&c, &net, 3);
    zero_tensors d_in = c.in;
    d_in.at[0].data = dx.at;
    assert_int_equal(c.context.unit->ops->forward_backward(&c.context, &c.in, &d_in), ZERO_OK);
    harness_check_gradient("head: x", head_value, &c, c.x.at, dx.at, ROWS * WIDTH);
    check_tensors(&net, names, 3, head_value, &c);
    harness_destroy(&net);
}

static void linear(void **state) { each_backend(check_linear); }
static void norm(void **state) { each_backend(check_norm); }
static void block(void **state) { each_backend(check_block); }
static void head(void **state) { each_backend(check_head); }
static void network(void **state) { each_backend(check_network); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear), cmocka_unit_test(norm),    cmocka_unit_test(block),
        cmocka_unit_test(head),   cmocka_unit_test(network),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
