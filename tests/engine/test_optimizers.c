// Each optimizer on the whole path (configuration, step, update), 20 steps, compared with PyTorch.
// The model has one tensor, and its loss is the dot product with the batch, so that the batch is
// the gradient.
#include "optimizer_golden.h"
#include "config/optimizer_spec.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <zero/engine.h>
#include <cmocka.h>

enum { ROWS = 10, COLUMNS = 10, ELEMS = ROWS * COLUMNS, STEPS = 20 };

static zero_status sizes(const zero_unit *unit, const zero_shape *shape, const zero_tensors *in,
                         zero_unit_sizes *out)
{
    *out = (zero_unit_sizes){.backward_reads = 1};
    return ZERO_OK;
}

static zero_status forward(zero_context *context, const zero_tensors *in, const zero_tensors *out)
{
    const float *w = zero_parameter(context, 0, 0), *g = context->batch->at[0].data;
    *context->loss = 0;
    for (int i = 0; i < ELEMS; i++)
        *context->loss += (double)w[i] * g[i];
    return ZERO_OK;
}

static zero_status backward(zero_context *context, const zero_tensors *in,
                            const zero_tensors *d_out, const zero_tensors *d_in)
{
    int add;
    float *d = zero_gradient(context, 0, 0, &add);
    const float *g = context->batch->at[0].data;
    for (int i = 0; i < ELEMS; i++)
        d[i] = g[i] * context->loss_factor;
    return ZERO_OK;
}

static const zero_tensor_desc weight = {
    .name = "w", .dims = 2, .shape = {ROWS, COLUMNS}, .tp_axis = -1, .tp_parts = 1};
static const zero_flat_param_desc flat_param = {ZERO_TRAINABLE, 1, &weight};
static const zero_unit_ops ops = {
    .kind = "dot", .sizes = sizes, .forward = forward, .backward = backward};
static const zero_unit unit = {
    .name = "dot", .ops = &ops, .flat_param_count = 1, .flat_params = &flat_param};
static const zero_model model = {"dot", 1, &unit};

static float gradient_size = 1; // by which every gradient is multiplied

static zero_status run_step(zero_engine *engine, int s, zero_step_info *info, zero_error *error)
{
    float g[ELEMS];
    double loss;
    for (int i = 0; i < ELEMS; i++)
        g[i] = (float)(sin(0.1 * (100 * s + i)) * (1 + i % 7)) * gradient_size;
    zero_tensors batch = {1, {{g, ZERO_F32, 2, {1, ELEMS}}}};
    assert_int_equal(zero_forward(engine, &batch, &loss, error), ZERO_OK);
    assert_int_equal(zero_backward(engine, error), ZERO_OK);
    return zero_step(engine, info, error);
}

static void run_steps(zero_engine *engine, int steps, zero_step_info *info, zero_error *error)
{
    for (int s = 0; s < steps; s++)
        assert_int_equal(run_step(engine, s, info, error), ZERO_OK);
}

// p (ELEMS) after so many steps from the golden start.
static void train(const char *config, int steps, float *p, zero_step_info *info)
{
    zero_error error = {0};
    zero_comm *comm;
    zero_engine *engine;
    assert_int_equal(zero_comm_self(&comm, &error), ZERO_OK);
    zero_options options = {.struct_size = sizeof options,
                            .model = &model,
                            .comm = comm,
                            .config_text = config,
                            .shape = {.batch = 1, .seq = 1}};
    if (zero_initialize(&options, &engine, &error) != ZERO_OK)
        fail_msg("%s: %s", config, error.message);
    for (int i = 0; i < ELEMS; i++)
        p[i] = (float)cos(0.37 * i);
    assert_int_equal(zero_write_parameter(engine, "w", p, ELEMS, &error), ZERO_OK);
    run_steps(engine, steps, info, &error);
    assert_int_equal(zero_read_parameter(engine, "w", p, ELEMS, &error), ZERO_OK);
    zero_destroy(engine);
    zero_comm_destroy(comm);
}

static void test_against_pytorch(void **state)
{
    for (int c = 0; c < OPTIMIZER_GOLDENS; c++) {
        const optimizer_golden *golden = &optimizer_goldens[c];
        char config[512];
        float p[ELEMS];
        zero_step_info info;
        snprintf(config, sizeof config,
                 "{\"gradient_clipping\": 0, \"optimizer\": {\"type\": \"%s\", \"params\": {%s}}}",
                 golden->type, golden->params);
        train(config, STEPS, p, &info);
        for (int i = 0; i < ELEMS; i++)
            if (!(fabs(p[i] - golden->p[i]) < 5e-6))
                fail_msg("%s {%s}, element %d: %.9g, the oracle %.9g", golden->type, golden->params,
                         i, p[i], golden->p[i]);
    }
}

// Muon's are whole trainings (tests/oracle/muon_steps.py): a model of one unit has no matrix.
static void each_optimizer_has_a_golden(void **state)
{
    bool has[ZR_OPTIMIZER_KINDS] = {false};
    for (int c = 0; c < OPTIMIZER_GOLDENS; c++) {
        const optimizer_golden *golden = &optimizer_goldens[c];
        bool adam_w_mode = !strstr(golden->params, "\"adam_w_mode\": false");
        int kind = zr_optimizer_find(golden->type, adam_w_mode);
        assert_in_range(kind, 0, ZR_OPTIMIZER_KINDS - 1);
        has[kind] = true;
    }
    for (int kind = 0; kind < ZR_OPTIMIZER_KINDS; kind++)
        if (!has[kind] && kind != ZR_OPTIMIZER_MUON)
            fail_msg("tests/oracle/optimizers.py does not write a row of %s",
                     zr_optimizer_traits_of((zr_optimizer_kind)kind)->name);
}

// Three updates by the formulas in double.
static void averages_may_stay_uncorrected(void **state)
{
    static const char *const types[] = {"AdamW", "LAMB"};
    for (int lamb = 0; lamb < 2; lamb++) {
        char config[256];
        float got[ELEMS];
        double p[ELEMS], m[ELEMS] = {0}, v[ELEMS] = {0}, u[ELEMS];
        zero_step_info info;
        snprintf(
            config, sizeof config,
            "{\"gradient_clipping\": 0, \"optimizer\": {\"type\": \"%s\", \"params\": {\"lr\": "
            "0.01, \"eps\": 1e-6, \"bias_correction\": false}}}",
            types[lamb]);
        train(config, 3, got, &info);
        for (int i = 0; i < ELEMS; i++)
            p[i] = (float)cos(0.37 * i);
        for (int s = 0; s < 3; s++) {
            double x = 0, of_u = 0;
            for (int i = 0; i < ELEMS; i++) {
                double g = (float)(sin(0.1 * (100 * s + i)) * (1 + i % 7));
                m[i] = 0.9 * m[i] + 0.1 * g;
                v[i] = 0.999 * v[i] + 0.001 * g * g;
                u[i] = m[i] / (sqrt(v[i]) + 1e-6);
                x += p[i] * p[i];
                of_u += u[i] * u[i];
            }
            double ratio = lamb ? fmin(fmax(sqrt(x) / sqrt(of_u), 0.01), 10) : 1;
            for (int i = 0; i < ELEMS; i++)
                p[i] -= 0.01 * ratio * u[i];
        }
        for (int i = 0; i < ELEMS; i++)
            if (!(fabs(got[i] - p[i]) < 2e-6))
                fail_msg("%s, element %d: %.9g, not %.9g", types[lamb], i, got[i], p[i]);
    }
}

// LAMB's first direction without decay is the sign of the gradient, and |p| is less than 10, so the
// ratio of both is below 1; bounds that it does not reach take its place.
static void test_lamb_bounds(void **state)
{
    static const double bounds[][2] = {{0.01, 0.25}, {4, 8}}, ratios[] = {0.25, 4};
    for (int c = 0; c < 2; c++) {
        char config[256];
        float p[ELEMS];
        zero_step_info info;
        snprintf(config, sizeof config,
                 "{\"gradient_clipping\": 0, \"optimizer\": {\"type\": \"LAMB\", \"params\": "
                 "{\"lr\": 0.01, \"weight_decay\": 0, \"min_coeff\": %g, \"max_coeff\": %g}}}",
                 bounds[c][0], bounds[c][1]);
        train(config, 1, p, &info);
        for (int i = 1; i < ELEMS; i++)
            assert_true(fabs(p[i] - (cos(0.37 * i) - copysign(0.01 * ratios[c], sin(0.1 * i)))) <
                        1e-6);
    }
}

// g *= min(1, C / (norm + 1e-6)): above the limit, below it, and switched off; and with gradients
// so small that 1e-6 is a third of their norm.
static void test_clipping(void **state)
{
    static const struct {
        float size;
        double limit, lr;
    } cases[] = {
        {1, 0.5, 0.01}, {1, 1000, 0.01}, {1, 0, 0.01}, {1e-7f, 1e-6, 1e5}, {1e-7f, 3.2e-6, 1e5}};
    double unit_norm = 0;
    for (int i = 0; i < ELEMS; i++)
        unit_norm += pow((float)(sin(0.1 * i) * (1 + i % 7)), 2);
    unit_norm = sqrt(unit_norm);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char config[256];
        float p[ELEMS];
        zero_step_info info;
        double norm = (double)cases[c].size * unit_norm, limit = cases[c].limit;
        snprintf(config, sizeof config,
                 "{\"gradient_clipping\": %g, \"optimizer\": {\"type\": \"SGD\", \"params\": "
                 "{\"lr\": %g}}}",
                 limit, cases[c].lr);
        gradient_size = cases[c].size;
        train(config, 1, p, &info);
        gradient_size = 1;
        assert_true(fabs(info.grad_norm - norm) < 1e-5 * norm);
        double factor = limit > 0 ? fmin(1, limit / (norm + 1e-6)) : 1;
        double scale = cases[c].lr * factor * (double)cases[c].size;
        for (int i = 0; i < ELEMS; i++)
            assert_true(fabs(p[i] - ((float)cos(0.37 * i) - scale * sin(0.1 * i) * (1 + i % 7))) <
                        1e-6);
    }
}

// beta1 = 0.9 (1 + 0.05 (n - 2)) reaches 1 at n = 5, the sixth update: refused before the run where
// its length is known, else at that update.
static void test_momentum_stays_below_one(void **state)
{
    static const char config[] =
        "{\"scheduler\": {\"type\": \"OneCycle\", \"params\": {\"cycle_min_lr\": 1e-3, "
        "\"cycle_max_lr\": 1e-2, \"cycle_first_step_size\": 1, "
        "\"decay_step_size\": 1, \"decay_mom_rate\": 0.05}}}";
    static const char refusal[] =
        "scheduler.params.decay_mom_rate 0.05 takes beta1 to 1 or above at update 6 of ";
    zero_error error = {0};
    zero_comm *comm;
    zero_engine *engine;
    zero_step_info info;
    assert_int_equal(zero_comm_self(&comm, &error), ZERO_OK);
    zero_options options = {.struct_size = sizeof options,
                            .model = &model,
                            .comm = comm,
                            .config_text = config,
                            .shape = {.batch = 1, .seq = 1},
                            .total_steps = 6};
    assert_int_equal(zero_initialize(&options, &engine, &error), ZERO_ERR_CONFIG);
    assert_non_null(strstr(error.message, refusal));
    options.total_steps = 5;
    assert_int_equal(zero_initialize(&options, &engine, &error), ZERO_OK);
    zero_destroy(engine);
    options.total_steps = 0;
    assert_int_equal(zero_initialize(&options, &engine, &error), ZERO_OK);
    run_steps(engine, 5, &info, &error);
    assert_int_equal(run_step(engine, 5, &info, &error), ZERO_ERR_CONFIG);
    assert_non_null(strstr(error.message, refusal));
    zero_destroy(engine);
    zero_comm_destroy(comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_optimizer_has_a_golden),
                                       cmocka_unit_test(test_against_pytorch),
                                       cmocka_unit_test(averages_may_stay_uncorrected),
                                       cmocka_unit_test(test_lamb_bounds),
                                       cmocka_unit_test(test_clipping),
                                       cmocka_unit_test(test_momentum_stays_below_one)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
