// Adafactor on the whole path, compared with torch.optim.Adafactor's formulas in double: a matrix
// and a vector, whole or in tiles along either axis, some of whose gradients are always zero. The
// loss is the dot product with the batch, so that the batch is the gradient.
#include "base/errors.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <zero/engine.h>
#include <cmocka.h>

enum { ROWS = 6, COLUMNS = 8, MATRIX = ROWS * COLUMNS, VECTOR = 6, ELEMS = MATRIX + VECTOR };
enum { STEPS = 12, MOST_TILES = 3 };

// How the matrix, or the vector, is stored: one tile after another.
typedef struct cut {
    int axis, parts, tiles;
    int64_t widths[MOST_TILES]; // of each tile, in one part
} cut;

static const struct {
    cut matrix, vector;
} variants[] = {
    {{0, 1, 1, {ROWS}}, {0, 1, 1, {VECTOR}}},  {{0, 1, 2, {2, 4}}, {0, 1, 1, {VECTOR}}},
    {{1, 1, 2, {3, 5}}, {0, 1, 2, {1, 5}}},    {{0, 2, 2, {1, 2}}, {0, 1, 1, {VECTOR}}},
    {{1, 2, 3, {1, 2, 1}}, {0, 2, 2, {2, 1}}},
};

typedef struct dot { // a model
    char names[2 * MOST_TILES][16];
    zero_tensor_desc tensors[2 * MOST_TILES];
    zero_flat_param_desc flat_params[2 * MOST_TILES];
    int count; // of these, each of one tensor
    zero_unit unit;
    zero_model model;
} dot;

static int64_t elements_of(const zero_tensor_desc *t)
{
    return t->shape[0] * (t->dims == 2 ? t->shape[1] : 1);
}

// Returns the number, among the elements of the matrix and the vector, of an element of a tensor.
static int64_t place_of(const zero_tensor_desc *t, int64_t i)
{
    int64_t at[2] = {t->dims == 2 ? i / t->shape[1] : i, t->dims == 2 ? i % t->shape[1] : 0};
    if (t->tile.whole) {
        int64_t per = t->shape[t->tile.axis] / t->tp_parts, *a = &at[t->tile.axis];
        *a = *a / per * (t->tile.size / t->tp_parts) + t->tile.first + *a % per;
    }
    return t->dims == 2 ? at[0] * COLUMNS + at[1] : MATRIX + at[0];
}

static zero_status sizes(const zero_unit *unit, const zero_shape *shape, const zero_tensors *in,
                         zero_unit_sizes *out)
{
    *out = (zero_unit_sizes){.backward_reads = 1};
    return ZERO_OK;
}

static zero_status forward(zero_context *context, const zero_tensors *in, const zero_tensors *out)
{
    const zero_unit *unit = context->unit;
    const float *g = context->batch->at[0].data;
    *context->loss = 0;
    for (int p = 0; p < unit->flat_param_count; p++) {
        const zero_tensor_desc *t = unit->flat_params[p].tensors;
        const float *w = zero_parameter(context, p, 0);
        for (int64_t i = 0; i < elements_of(t); i++)
            *context->loss += (double)w[i] * g[place_of(t, i)];
    }
    return ZERO_OK;
}

static zero_status backward(zero_context *context, const zero_tensors *in,
                            const zero_tensors *d_out, const zero_tensors *d_in)
{
    const zero_unit *unit = context->unit;
    const float *g = context->batch->at[0].data;
    for (int p = 0, add; p < unit->flat_param_count; p++) {
        const zero_tensor_desc *t = unit->flat_params[p].tensors;
        float *d = zero_gradient(context, p, 0, &add);
        for (int64_t i = 0; i < elements_of(t); i++)
            d[i] = g[place_of(t, i)] * context->loss_factor;
    }
    return ZERO_OK;
}

static const zero_unit_ops ops = {
    .kind = "dot", .sizes = sizes, .forward = forward, .backward = backward};

static void add_tiles(dot *d, const char *name, const zero_tensor_desc *whole, const cut *cut)
{
    int64_t first = 0;
    for (int i = 0; i < cut->tiles; i++, d->count++) {
        zero_tensor_desc *t = &d->tensors[d->count];
        *t = *whole;
        t->name = name;
        t->tp_parts = cut->parts;
        if (cut->tiles > 1) {
            snprintf(d->names[d->count], sizeof d->names[0], "%s.%d", name, i);
            t->name = d->names[d->count];
            t->tile = (zero_tile){name, cut->axis, first, whole->shape[cut->axis]};
            t->shape[cut->axis] = cut->widths[i] * cut->parts;
            first += cut->widths[i];
        }
        d->flat_params[d->count] = (zero_flat_param_desc){ZERO_TRAINABLE, 1, t};
    }
}

static void build(dot *d, int variant)
{
    const zero_tensor_desc matrix = {.dims = 2, .shape = {ROWS, COLUMNS}, .tp_axis = -1},
                           vector = {.dims = 1, .shape = {VECTOR}, .tp_axis = -1};
    *d = (dot){0};
    add_tiles(d, "w", &matrix, &variants[variant].matrix);
    add_tiles(d, "v", &vector, &variants[variant].vector);
    d->unit = (zero_unit){
        .name = "dot", .ops = &ops, .flat_param_count = d->count, .flat_params = d->flat_params};
    d->model = (zero_model){"dot", 1, &d->unit};
}

// Row 3 of the matrix and element 2 of the vector never have a gradient.
static float gradient_at(int s, int i)
{
    if ((i < MATRIX && i / COLUMNS == 3) || i == MATRIX + 2)
        return 0;
    return (float)(sin(0.1 * (100 * s + i)) * (1 + i % 7));
}

static float start_at(int i) { return (float)cos(0.37 * i); }

typedef struct numbers { // of the optimizer
    double lr, decay, least_root, least_scale, d, weight_decay;
} numbers;

static double root_mean_square(const double *x, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += x[i] * x[i];
    return sqrt(sum / count);
}

// The last lines of torch's step, for a tensor whose variances are known.
static void apply(const numbers *n, int t, double *p, const double *variance, const double *g,
                  int count)
{
    double u[MATRIX],
        alpha = fmax(n->least_scale, root_mean_square(p, count)) * fmin(n->lr, 1 / sqrt(t));
    for (int i = 0; i < count; i++)
        u[i] = g[i] / sqrt(fmax(variance[i], n->least_root * n->least_root));
    double denominator = fmax(1, root_mean_square(u, count) / n->d);
    for (int i = 0; i < count; i++)
        p[i] = p[i] * (1 - n->lr * n->weight_decay) - alpha / denominator * u[i];
}

static void reference(const numbers *n, double *p)
{
    double rows[ROWS] = {0}, columns[COLUMNS] = {0}, of_vector[VECTOR] = {0};
    for (int i = 0; i < ELEMS; i++)
        p[i] = start_at(i);
    for (int t = 1; t <= STEPS; t++) {
        double g[ELEMS], variance[MATRIX], take = pow(t, n->decay), mean = 0;
        for (int i = 0; i < ELEMS; i++)
            g[i] = gradient_at(t - 1, i);
        for (int r = 0; r < ROWS; r++) {
            double square = root_mean_square(g + r * COLUMNS, COLUMNS);
            rows[r] += take * (square * square - rows[r]);
            mean += rows[r] / ROWS;
        }
        for (int c = 0; c < COLUMNS; c++) {
            double square = 0;
            for (int r = 0; r < ROWS; r++)
                square += g[r * COLUMNS + c] * g[r * COLUMNS + c] / ROWS;
            columns[c] += take * (square - columns[c]);
        }
        for (int i = 0; i < MATRIX; i++)
            variance[i] = rows[i / COLUMNS] * columns[i % COLUMNS] / fmax(mean, n->least_root);
        apply(n, t, p, variance, g, MATRIX);
        for (int i = 0; i < VECTOR; i++)
            of_vector[i] += take * (g[MATRIX + i] * g[MATRIX + i] - of_vector[i]);
        apply(n, t, p + MATRIX, of_vector, g + MATRIX, VECTOR);
    }
}

static void run_steps(zero_engine *engine)
{
    zero_error error = {0};
    for (int s = 0; s < STEPS; s++) {
        float g[ELEMS];
        double loss;
        zero_step_info info;
        for (int i = 0; i < ELEMS; i++)
            g[i] = gradient_at(s, i);
        const zero_tensors batch = {1, {{g, ZERO_F32, 2, {1, ELEMS}}}};
        assert_int_equal(zero_forward(engine, &batch, &loss, &error), ZERO_OK);
        assert_int_equal(zero_backward(engine, &error), ZERO_OK);
        assert_int_equal(zero_step(engine, &info, &error), ZERO_OK);
    }
}

static void train(const zero_model *model, const char *config, float *p)
{
    zero_error error = {0};
    zero_comm *comm;
    zero_engine *engine;
    assert_int_equal(zero_comm_self(&comm, &error), ZERO_OK);
    const zero_options options = {.struct_size = sizeof options,
                                  .model = model,
                                  .comm = comm,
                                  .config_text = config,
                                  .shape = {.batch = 1, .seq = 1}};
    if (zero_initialize(&options, &engine, &error) != ZERO_OK)
        fail_msg("%s: %s", config, error.message);
    for (int i = 0; i < ELEMS; i++)
        p[i] = start_at(i);
    assert_int_equal(zero_write_parameter(engine, "w", p, MATRIX, &error), ZERO_OK);
    assert_int_equal(zero_write_parameter(engine, "v", p + MATRIX, VECTOR, &error), ZERO_OK);
    run_steps(engine);
    assert_int_equal(zero_read_parameter(engine, "w", p, MATRIX, &error), ZERO_OK);
    assert_int_equal(zero_read_parameter(engine, "v", p + MATRIX, VECTOR, &error), ZERO_OK);
    zero_destroy(engine);
    zero_comm_destroy(comm);
}

static void test_every_cut(void **state)
{
    static const struct {
        const char *params;
        numbers n;
    } cases[] = {
        {"\"lr\": 0.05", {0.05, -0.8, FLT_EPSILON, 1e-3, 1, 0}},
        {"\"lr\": 0.1, \"eps\": [1e-30, 1.5], \"weight_decay\": 0.2, \"beta2_decay\": -0.5, "
         "\"d\": 1.25",
         {0.1, -0.5, 1e-30, 1.5, 1.25, 0.2}},
    };
    for (int c = 0; c < ZR_COUNT(cases); c++)
        for (int v = 0; v < ZR_COUNT(variants); v++) {
            char config[512];
            float p[ELEMS];
            double want[ELEMS];
            dot d;
            build(&d, v);
            snprintf(config, sizeof config,
                     "{\"gradient_clipping\": 0, \"libzero\": {\"decay_all\": true}, "
                     "\"optimizer\": {\"type\": \"Adafactor\", \"params\": {%s}}}",
                     cases[c].params);
            train(&d.model, config, p);
            reference(&cases[c].n, want);
            for (int i = 0; i < ELEMS; i++)
                if (!(fabs(p[i] - want[i]) < 2e-6))
                    fail_msg("case %d, variant %d, element %d: %.9g, not %.9g", c, v, i, p[i],
                             want[i]);
        }
}

static void test_three_dimensions_are_refused(void **state)
{
    static const char config[] = "{\"optimizer\": {\"type\": \"Adafactor\"}}";
    static const zero_tensor_desc cube = {
        .name = "cube", .dims = 3, .shape = {2, 3, 4}, .tp_axis = -1, .tp_parts = 1};
    static const zero_flat_param_desc flat_param = {ZERO_TRAINABLE, 1, &cube};
    const zero_unit unit = {
        .name = "dot", .ops = &ops, .flat_param_count = 1, .flat_params = &flat_param};
    const zero_model model = {"dot", 1, &unit};
    zero_error error = {0};
    zero_comm *comm;
    zero_engine *engine;
    assert_int_equal(zero_comm_self(&comm, &error), ZERO_OK);
    const zero_options options = {.struct_size = sizeof options,
                                  .model = &model,
                                  .comm = comm,
                                  .config_text = config,
                                  .shape = {.batch = 1, .seq = 1}};
    assert_int_equal(zero_initialize(&options, &engine, &error), ZERO_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "tensor \"cube\" has 3 dimensions"));
    zero_comm_destroy(comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_cut),
                                       cmocka_unit_test(test_three_dimensions_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
