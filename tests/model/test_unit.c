// The unit interface: what zr_model_check refuses, initial values, and randomness as a function of
// its key.
#include "no_arithmetic.h"
#include "model/unit.h"
#include "base/alloc.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static zero_status no_both(zero_context *context, const zero_tensors *in, const zero_tensors *d_in)
{
    return ZERO_OK;
}

typedef struct fixture { // a correct model of two units, for each case to break in one place
    zero_unit_ops ops[2];
    zero_tensor_desc tensors[3];
    zero_flat_param_desc flat_params[3];
    zero_flat_param_ref borrowed[2];
    zero_unit units[2];
    zero_model model;
} fixture;

static void fixture_set(fixture *f)
{
    memset(f, 0, sizeof(*f));
    f->ops[0] = f->ops[1] = no_ops;
    f->tensors[0] =
        (zero_tensor_desc){.name = "a", .dims = 2, .shape = {6, 4}, .tp_axis = 0, .tp_parts = 3};
    f->tensors[1] =
        (zero_tensor_desc){.name = "b", .dims = 1, .shape = {5}, .tp_axis = -1, .tp_parts = 1};
    f->tensors[2] =
        (zero_tensor_desc){.name = "c", .dims = 1, .shape = {7}, .tp_axis = -1, .tp_parts = 1};
    f->flat_params[0] = (zero_flat_param_desc){
        .kind = ZERO_TRAINABLE, .tensor_count = 1, .tensors = &f->tensors[0]};
    f->flat_params[1] =
        (zero_flat_param_desc){.kind = ZERO_FROZEN, .tensor_count = 1, .tensors = &f->tensors[1]};
    f->flat_params[2] =
        (zero_flat_param_desc){.kind = ZERO_BUFFER, .tensor_count = 1, .tensors = &f->tensors[2]};
    f->borrowed[0] = (zero_flat_param_ref){.unit = 0, .flat_param = 1};
    f->borrowed[1] = (zero_flat_param_ref){.unit = 0, .flat_param = 0};
    f->units[0] = (zero_unit){
        .name = "first", .ops = &f->ops[0], .flat_param_count = 2, .flat_params = f->flat_params};
    f->units[1] = (zero_unit){.name = "last",
                              .ops = &f->ops[1],
                              .flat_param_count = 1,
                              .flat_params = &f->flat_params[2],
                              .borrowed_count = 2,
                              .borrowed = f->borrowed};
    f->model = (zero_model){.name = "m", .unit_count = 2, .units = f->units};
}

static void break_no_units(fixture *f) { f->model.unit_count = 0; }
static void break_unit_name(fixture *f) { f->units[1].name = ""; }
static void break_unit_twice(fixture *f) { f->units[1].name = "first"; }
static void break_backward(fixture *f) { f->ops[1].backward = NULL; }
static void break_forward(fixture *f) { f->ops[0].forward = NULL; }
static void break_sizes(fixture *f) { f->ops[0].sizes = NULL; }
static void break_ops(fixture *f) { f->units[0].ops = NULL; }
static void break_both(fixture *f) { f->ops[0].forward_backward = no_both; }
static zero_status no_weight(zero_context *context, const zero_tensors *in)
{
    return ZERO_ERR_INTERNAL;
}

static void break_weight(fixture *f) { f->ops[0].backward_input = f->ops[0].backward; }
static void break_input(fixture *f) { f->ops[1].backward_weight = no_weight; }
static void break_count(fixture *f)
{
    f->units[1].borrowed_count = ZERO_MAX_FLAT_PARAMS + ZERO_MAX_STREAMED;
}
static void break_flat_params(fixture *f) { f->units[0].flat_params = NULL; }
static void break_flat_param_kind(fixture *f) { f->flat_params[0].kind = (zero_class)7; }
static void break_flat_param_empty(fixture *f) { f->flat_params[0].tensor_count = 0; }
static void break_later(fixture *f) { f->borrowed[0].unit = 1; }
static void break_flat_param_index(fixture *f) { f->borrowed[0].flat_param = 2; }
static void break_borrowed_twice(fixture *f) { f->borrowed[1].flat_param = 1; }
static void break_tensor_name(fixture *f) { f->tensors[0].name = NULL; }
static void break_tensor_twice(fixture *f) { f->tensors[2].name = "a"; }
static void break_dims(fixture *f) { f->tensors[0].dims = 5; }
static void break_empty(fixture *f) { f->tensors[0].shape[1] = 0; }
static void break_huge(fixture *f)
{
    f->tensors[0].shape[0] = f->tensors[0].shape[1] = (int64_t)1 << 32;
}
static void break_init(fixture *f) { f->tensors[0].init_value = NAN; }
static void break_axis(fixture *f) { f->tensors[1].tp_axis = 1; }
static void break_parts(fixture *f) { f->tensors[0].tp_parts = 4; }

static void broken_models_are_refused(void **state)
{
    static const struct {
        void (*apply)(fixture *f);
        const char *message;
    } cases[] = {
        {break_no_units, "has no units"},
        {break_unit_name, "unit number 1 has no name"},
        {break_unit_twice, "two units are named \"first\""},
        {break_backward, "unit \"last\" lacks one of kind, sizes, forward, backward"},
        {break_forward, "unit \"first\" lacks"},
        {break_sizes, "unit \"first\" lacks"},
        {break_ops, "unit \"first\" lacks"},
        {break_both, "unit \"first\" offers forward_backward"},
        {break_weight, "unit \"first\" has backward_input without backward_weight"},
        {break_input, "unit \"last\" has backward_weight without backward_input"},
        {break_count,
         "owns 1 and borrows 1056 flat parameters: at most 32 together, and 1024 streamed ones"},
        {break_flat_params, "announces flat parameters"},
        {break_flat_param_kind, "of no known class"},
        {break_flat_param_empty, "flat parameter 0 of unit \"first\" has no tensors"},
        {break_later, "only earlier units can lend"},
        {break_flat_param_index, "borrows flat parameter 2 of unit \"first\", which owns 2"},
        {break_borrowed_twice, "borrows flat parameter 1 of unit \"first\" twice"},
        {break_tensor_name, "a tensor without a name"},
        {break_tensor_twice, "two tensors are named \"a\""},
        {break_dims, "tensor \"a\" has 5 dimensions"},
        {break_empty, "tensor \"a\" is empty: its dimension 1 is 0"},
        {break_huge, "more elements than can be addressed"},
        {break_init, "no usable initialisation"},
        {break_axis, "tensor \"b\" is split on axis 1, but has 1 dimensions"},
        {break_parts, "6 on axis 0 is not divisible into 4 parts"},
    };
    fixture f;
    zero_error error;
    fixture_set(&f);
    assert_int_equal(zr_model_check(&f.model, &error), ZERO_OK);
    f.ops[1].forward_backward = no_both;
    assert_int_equal(zr_model_check(&f.model, &error), ZERO_OK); // the last unit may
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        fixture_set(&f);
        cases[i].apply(&f);
        assert_int_equal(zr_model_check(&f.model, &error), ZERO_ERR_USAGE);
        if (!strstr(error.message, cases[i].message))
            fail_msg("case %d: \"%s\" does not say \"%s\"", i, error.message, cases[i].message);
    }
    fixture_set(&f);
    zr_alloc_fail_at(1);
    assert_int_equal(zr_model_check(&f.model, &error), ZERO_ERR_MEMORY);
    zr_alloc_fail_at(0);
}

static void buffers_are_not_parameters(void **state)
{
    fixture f;
    fixture_set(&f);
    assert_int_equal(zr_model_parameters(&f.model), 24 + 5);
}

#define SAMPLES 40000

static void moments(const float *x, int64_t count, double *mean, double *deviation)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < count; i++)
        sum += x[i];
    *mean = sum / (double)count;
    for (int64_t i = 0; i < count; i++)
        squares += (x[i] - *mean) * (x[i] - *mean);
    *deviation = sqrt(squares / (double)count);
}

static void initial_values_have_their_distribution(void **state)
{
    static float x[SAMPLES];
    const zero_tensor_desc normal = {
        .name = "n", .dims = 1, .shape = {SAMPLES}, .init = ZERO_INIT_NORMAL, .init_value = 0.02f};
    const zero_tensor_desc uniform = {
        .name = "u", .dims = 1, .shape = {SAMPLES}, .init = ZERO_INIT_UNIFORM, .init_value = 0.5f};
    const zero_tensor_desc constant = {
        .name = "c", .dims = 1, .shape = {SAMPLES}, .init_value = 1.5f};
    double mean, deviation;
    zr_tensor_initialise(&normal, 1, 0, SAMPLES, x);
    moments(x, SAMPLES, &mean, &deviation);
    assert_true(fabs(mean) < 5 * 0.02 / 200); // five standard errors
    assert_true(fabs(deviation / 0.02 - 1) < 0.02);
    int64_t far = 0;
    for (int64_t i = 0; i < SAMPLES; i++)
        far += fabsf(x[i]) > 2 * 0.02f;
    // 4.55 % lie outside two deviations
    assert_true(far > 0.040 * SAMPLES && far < 0.051 * SAMPLES);
    zr_tensor_initialise(&uniform, 1, 0, SAMPLES, x);
    moments(x, SAMPLES, &mean, &deviation);
    assert_true(fabs(mean) < 0.01);
    assert_true(fabs(deviation * sqrt(12.0) - 1) < 0.02);
    zr_tensor_initialise(&constant, 1, 3, SAMPLES - 3, x);
    for (int64_t i = 0; i < SAMPLES - 3; i++)
        assert_true(x[i] == 1.5f);
}

static void any_range_gives_the_same_values(void **state)
{
    enum { COUNT = 1000 };
    static const int64_t starts[] = {0, 1, 2, 3, 5, 64, 511, 997}, counts[] = {1, 2, 3, 7, 64, 333};
    for (int kind = ZERO_INIT_NORMAL; kind <= ZERO_INIT_UNIFORM; kind++) {
        const zero_tensor_desc tensor = {.name = "t",
                                         .dims = 1,
                                         .shape = {COUNT},
                                         .init = (zero_init_kind)kind,
                                         .init_value = 1};
        float whole[COUNT], part[COUNT];
        zr_tensor_initialise(&tensor, 9, 0, COUNT, whole);
        for (int s = 0; s < ZR_COUNT(starts); s++)
            for (int c = 0; c < ZR_COUNT(counts); c++) {
                int64_t count = ZR_MIN(counts[c], COUNT - starts[s]);
                zr_tensor_initialise(&tensor, 9, starts[s], count, part);
                assert_memory_equal(part, whole + starts[s], sizeof(float) * (size_t)count);
            }
    }
}

static void seed_and_name_decide(void **state)
{
    const zero_tensor_desc
        a = {.name = "a", .dims = 1, .shape = {8}, .init = ZERO_INIT_NORMAL, .init_value = 1},
        b = {.name = "b", .dims = 1, .shape = {8}, .init = ZERO_INIT_NORMAL, .init_value = 1};
    const zero_tensor_desc wide = {
        .name = "a", .dims = 2, .shape = {4, 8}, .init = ZERO_INIT_NORMAL, .init_value = 1};
    float x[8], y[8];
    zr_tensor_initialise(&a, 1, 0, 8, x);
    zr_tensor_initialise(&wide, 1, 0, 8, y);
    assert_memory_equal(x, y, sizeof(x));
    zr_tensor_initialise(&b, 1, 0, 8, y);
    assert_memory_not_equal(x, y, sizeof(x));
    zr_tensor_initialise(&a, 2, 0, 8, y);
    assert_memory_not_equal(x, y, sizeof(x));
}

static void every_part_of_the_key_matters(void **state)
{
    const zero_context base = {
        .struct_size = sizeof(base), .unit_index = 2, .seed = 3, .step = 4, .micro_batch = 5};
    zero_context other[4] = {base, base, base, base};
    other[0].unit_index++;
    other[1].seed++;
    other[2].step++;
    other[3].micro_batch++;
    uint64_t word = zero_random(&base, 6, 7);
    assert_int_equal(word, zero_random(&base, 6, 7));
    assert_int_not_equal(word, zero_random(&base, 7, 7));
    assert_int_not_equal(word, zero_random(&base, 6, 8));
    for (int i = 0; i < ZR_COUNT(other); i++) {
        assert_int_not_equal(zr_context_key(&base, 6), zr_context_key(&other[i], 6));
        assert_int_not_equal(word, zero_random(&other[i], 6, 7));
    }
}

// Element e of a whole tensor is e, so the values of a tile show its place.
static void collect(const zero_tensor_desc *tile, int64_t start, int64_t count, int64_t *out)
{
    zr_rectangle at;
    for (int64_t done = 0, n; done < count; done += n) {
        n = zr_tile_rectangle(tile, start + done, count - done, &at);
        assert_int_equal(n, at.rows * at.width);
        for (int64_t i = 0; i < n; i++)
            out[done + i] = at.first + i / at.width * at.stride + i % at.width;
    }
}

static void expect_places(const zero_tensor_desc *tile, int count, const int64_t *expected)
{
    int64_t found[64];
    for (int start = 0; start <= count; start++)
        for (int end = start; end <= count; end++) {
            collect(tile, start, end - start, found);
            assert_memory_equal(found, expected + start, (size_t)(end - start) * sizeof *found);
        }
}

static void tiles_are_rectangles(void **state)
{
    // Columns 2 and 3 of (3, 5).
    zero_tensor_desc tile = {.dims = 2, .shape = {3, 2}, .tile = {"whole", 1, 2, 5}};
    expect_places(&tile, 6, (int64_t[]){2, 3, 7, 8, 12, 13});
    // Rows 1 and 2 of (4, 3).
    tile = (zero_tensor_desc){.dims = 2, .shape = {2, 3}, .tile = {"whole", 0, 1, 4}};
    expect_places(&tile, 6, (int64_t[]){3, 4, 5, 6, 7, 8});
    // The second half of each of three matrices (2, 4) next to each other.
    tile =
        (zero_tensor_desc){.dims = 2, .shape = {2, 6}, .tp_parts = 3, .tile = {"whole", 1, 2, 12}};
    expect_places(&tile, 12, (int64_t[]){2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23});
    // The same of their biases.
    tile = (zero_tensor_desc){.dims = 1, .shape = {6}, .tp_parts = 3, .tile = {"whole", 0, 2, 12}};
    expect_places(&tile, 6, (int64_t[]){2, 3, 6, 7, 10, 11});
    zr_rectangle at;
    tile.shape[0] = 0;
    assert_int_equal(zr_tile_rectangle(&tile, 0, 0, &at), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_models_are_refused),
        cmocka_unit_test(buffers_are_not_parameters),
        cmocka_unit_test(initial_values_have_their_distribution),
        cmocka_unit_test(any_range_gives_the_same_values),
        cmocka_unit_test(seed_and_name_decide),
        cmocka_unit_test(every_part_of_the_key_matters),
        cmocka_unit_test(tiles_are_rectangles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
