// Memory-centric tiling: in a tiled model, forward and the gradients of weights and biases have the
// bits of the whole operators, except where oneDNN multiplies bf16; the gradient of the input is
// the same up to rounding. On every backend, with one and two threads, in every type.
#include "base/dtype.h"
#include "golden.h"
#include "layers/lm_units.h"
#include "layers_harness.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

typedef struct streams { // counts what comes and goes, and in which order
    struct zr_accessor base;
    const struct zr_accessor *inner;
    int open, last, calls;
    bool descending;
} streams;

static const void *parameter(const struct zr_accessor *self, const zero_context *context,
                             int flat_param, int tensor)
{
    const streams *s = (const streams *)self;
    return s->inner->parameter(s->inner, context, flat_param, tensor);
}

static zero_status begin(const struct zr_accessor *self, zero_context *context, int flat_param)
{
    streams *s = (streams *)self;
    assert_int_equal(s->open, -1);
    assert_true(s->last < 0 || flat_param == (s->descending ? s->last - 1 : s->last + 1));
    s->open = flat_param;
    return s->inner->begin(s->inner, context, flat_param);
}

static zero_status end(const struct zr_accessor *self, zero_context *context, int flat_param)
{
    streams *s = (streams *)self;
    assert_int_equal(s->open, flat_param);
    s->last = flat_param;
    s->open = -1;
    s->calls++;
    return ZERO_OK;
}

static const float *gradient_of(harness *net, const char *name, int64_t *elements)
{
    float *gradient;
    harness_tensor(net, name, &gradient, elements);
    return gradient;
}

// The whole tensor's gradient put together of its tiles'.
static void join(harness *tiled, const char *name, float *out)
{
    for (int u = 0; u < tiled->model->unit_count; u++)
        for (int p = 0; p < tiled->model->units[u].flat_param_count; p++) {
            const zero_tensor_desc *tensor = &tiled->model->units[u].flat_params[p].tensors[0];
            if (!tensor->tile.whole || strcmp(tensor->tile.whole, name) != 0)
                continue;
            int64_t elements, stretch, at;
            const float *gradient = gradient_of(tiled, tensor->name, &elements);
            for (int64_t done = 0; done < elements; done += stretch) {
                stretch = zr_tile_stretch(tensor, done, elements - done, &at);
                memcpy(out + at, gradient + done, sizeof *out * (size_t)stretch);
            }
        }
}

// Parameters of the whole model into the tiles.
static void copy_parameters(harness *whole, harness *tiled)
{
    for (int u = 0; u < tiled->model->unit_count; u++)
        for (int p = 0; p < tiled->model->units[u].flat_param_count; p++)
            for (int t = 0; t < tiled->model->units[u].flat_params[p].tensor_count; t++) {
                const zero_tensor_desc *tensor = &tiled->model->units[u].flat_params[p].tensors[t];
                int64_t elements, of_whole, stretch, at;
                float *unused;
                float *to = harness_tensor(tiled, tensor->name, &unused, &elements);
                const float *from =
                    harness_tensor(whole, tensor->tile.whole ? tensor->tile.whole : tensor->name,
                                   &unused, &of_whole);
                for (int64_t done = 0; done < elements; done += stretch) {
                    stretch = zr_tile_stretch(tensor, done, elements - done, &at);
                    memcpy(to + done, from + at, sizeof *to * (size_t)stretch);
                }
            }
}

static zero_gpt2_config shape_of(int tiles)
{
    zero_gpt2_config config = harness_tiny();
    config.n_layer = 1;
    config.n_embd = 128;
    config.n_head = 4;
    config.vocab_size = 200;
    config.tiles_embedding = config.tiles_attention = config.tiles_mlp = tiles;
    return config;
}

// Whether the products are oneDNN's in this type, whose blocks, and sums, are other ones for a tile
// than for the whole.
static bool rounds_by_shape(const zr_backend *backend, zero_dtype dtype)
{
    return dtype == ZERO_BF16 && strcmp(backend->path(), "amx") == 0;
}

// Values of that type, which are the same bits but where products round by their shape.
static void same_values(const zr_backend *backend, zero_dtype products, zero_dtype dtype,
                        const void *got_, const void *want_, int64_t elements)
{
    if (!rounds_by_shape(backend, products)) {
        assert_memory_equal(got_, want_, (size_t)elements * zero_dtype_bytes(dtype));
        return;
    }
    float *got = malloc(sizeof *got * (size_t)elements),
          *want = malloc(sizeof *want * (size_t)elements);
    zr_widen(dtype, got_, elements, got);
    zr_widen(dtype, want_, elements, want);
    assert_true(harness_error(got, want, elements) < 1e-2);
    free(got), free(want);
}

// Returns the multiplications of all products that the units list.
static int64_t multiplications(const harness *net)
{
    int64_t sum = 0;
    for (int u = 0; u < net->model->unit_count; u++)
        for (int i = 0; i < net->sizes[u].product_count; i++) {
            const zero_product_shape *product = &net->sizes[u].products[i];
            sum += product->m * product->n * product->k * product->calls;
        }
    return sum;
}

static void compare(const zr_backend *backend, zero_dtype dtype, int threads, int tiles)
{
    static const char *const exact[] = {"wte.weight", "h.0.mlp.c_proj.weight"};
    harness whole, tiled;
    zero_shape shape = {.batch = 2, .seq = 8, .threads = threads, .dtype = dtype};
    zero_gpt2_config plain = shape_of(0), cut = shape_of(tiles);
    harness_create(&whole, &plain, backend, shape);
    harness_create(&tiled, &cut, backend, shape);
    assert_int_equal(multiplications(&tiled), multiplications(&whole));
    copy_parameters(&whole, &tiled);
    double a = harness_forward(&whole, true), b = harness_forward(&tiled, true);
    assert_true(a == b || (rounds_by_shape(backend, dtype) && fabs(a - b) < 1e-3));
    // all of the block's forward
    same_values(backend, dtype, whole.boundary[2].at[0].dtype, tiled.boundary[2].at[0].data,
                whole.boundary[2].at[0].data, 2 * 8 * 128);
    static float logits[2][16 * 200];
    golden_decode(&whole, whole.tokens, 2, 8, 3, false, logits[0]);
    golden_decode(&tiled, tiled.tokens, 2, 8, 3, false, logits[1]);
    same_values(backend, dtype, ZERO_F32, logits[1], logits[0], 16 * 200);
    harness_backward(&whole, true);
    harness_backward(&tiled, true);
    for (int i = 0; i < ZR_COUNT(exact); i++) {
        int64_t elements;
        const float *want = gradient_of(&whole, exact[i], &elements);
        float *got = malloc(sizeof *got * (size_t)elements);
        join(&tiled, exact[i], got);
        double error = harness_error(got, want, elements);
        assert_true(error < (dtype == ZERO_F32 ? 1e-5 : 2e-2));
        free(got);
    }
    harness_destroy(&whole);
    harness_destroy(&tiled);
}

static void a_tiled_model_is_the_same_model(void **state)
{
    static const zero_dtype dtypes[] = {ZERO_F32, ZERO_BF16, ZERO_F16};
    for (const zr_backend *const *backend = zr_backends(); *backend; backend++)
        for (int d = 0; d < ZR_COUNT(dtypes) && harness_offered(*backend); d++)
            for (int threads = 1; threads <= 2; threads++)
                for (int tiles = 2; tiles <= 4; tiles += 2)
                    compare(*backend, dtypes[d], threads, tiles);
}

// One linear operator on the same operands: y, dW and db bit for bit.
static void linear_bits(const zr_backend *backend, zero_dtype dtype, int threads, int tiles,
                        bool gelu)
{
    harness whole, tiled;
    zero_shape shape = {.batch = 2, .seq = 8, .threads = threads, .dtype = dtype};
    zero_gpt2_config plain = shape_of(0), cut = shape_of(tiles);
    int64_t rows = 16, in = gelu ? 512 : 128, out = gelu ? 128 : 512, elements;
    harness_create(&whole, &plain, backend, shape);
    harness_create(&tiled, &cut, backend, shape);
    copy_parameters(&whole, &tiled);
    harness_forward(&whole, true); // rounds the parameters
    harness_forward(&tiled, true);
    harness_forget(&whole);
    harness_forget(&tiled);
    harness *nets[] = {&whole, &tiled};
    char *x = aligned_alloc(64, 16 * 512 * 4), *dy = aligned_alloc(64, 16 * 512 * 4), *y[2], *dx[2];
    for (int64_t i = 0; i < 16 * 512; i++) {
        const float value[] = {sinf((float)i) * 0.7f, cosf((float)(3 * i)) * 0.3f};
        zr_narrow(dtype, &value[0], 1, x + i * (int64_t)zero_dtype_bytes(dtype));
        zr_narrow(dtype, &value[1], 1, dy + i * (int64_t)zero_dtype_bytes(dtype));
    }
    const char *weight = gelu ? "h.0.mlp.c_proj.weight" : "h.0.mlp.c_fc.weight",
               *bias = gelu ? "h.0.mlp.c_proj.bias" : "h.0.mlp.c_fc.bias";
    for (int n = 0; n < 2; n++) {
        zero_context context;
        harness_context(nets[n], 1, true, &context);
        streams order = {.base = {.parameter = parameter, .begin = begin, .end = end},
                         .inner = context.accessor,
                         .open = -1,
                         .last = -1};
        context.accessor = &order.base;
        const zr_lm_unit *hyper = context.unit->hyper;
        zr_linear linear = {.dtype = dtype,
                            .gelu = gelu,
                            .rows = rows,
                            .in = in,
                            .out = out,
                            .weight = &hyper->tensor[gelu ? ZR_MLP_PROJ_W : ZR_FC_W],
                            .bias = &hyper->tensor[gelu ? ZR_MLP_PROJ_B : ZR_FC_B]};
        y[n] = aligned_alloc(64, 16 * 512 * 4);
        dx[n] = aligned_alloc(64, 16 * 512 * 4);
        assert_int_equal(zr_linear_forward(&context, &linear, x, y[n], context.workspace), ZERO_OK);
        assert_int_equal(order.calls, n ? linear.weight->tiles : 0);
        order.last = -1;
        order.descending = true;
        assert_int_equal(zr_linear_backward(&context, &linear, ZR_BACKWARD_WHOLE, x, dy, dx[n],
                                            context.workspace),
                         ZERO_OK);
        assert_int_equal(order.calls, n ? 2 * linear.weight->tiles : 0);
        assert_true(n == 0 || linear.weight->tiles == tiles);
    }
    same_values(backend, dtype, dtype, y[1], y[0], rows * out);
    const float *want = gradient_of(&whole, weight, &elements);
    float *got = malloc(sizeof *got * (size_t)elements);
    join(&tiled, weight, got);
    same_values(backend, dtype, ZERO_F32, got, want, elements);
    want = gradient_of(&whole, bias, &elements);
    assert_memory_equal(gradient_of(&tiled, bias, &elements), want, sizeof *got * (size_t)elements);
    float *a = malloc(sizeof *a * (size_t)(rows * in)),
          *b = malloc(sizeof *b * (size_t)(rows * in));
    zr_widen(dtype, dx[0], rows * in, a);
    zr_widen(dtype, dx[1], rows * in, b);
    assert_true(harness_error(b, a, rows * in) < (dtype == ZERO_F32   ? 1e-6
                                                  : dtype == ZERO_F16 ? 2e-3
                                                                      : 1e-2));
    free(a), free(b), free(got), free(x), free(dy), free(y[0]), free(y[1]), free(dx[0]),
        free(dx[1]);
    harness_destroy(&whole);
    harness_destroy(&tiled);
}

static void a_tiled_operator_has_the_same_bits(void **state)
{
    static const zero_dtype dtypes[] = {ZERO_F32, ZERO_BF16, ZERO_F16};
    for (const zr_backend *const *backend = zr_backends(); *backend; backend++)
        for (int d = 0; d < ZR_COUNT(dtypes) && harness_offered(*backend); d++)
            for (int threads = 1; threads <= 2; threads++)
                for (int gelu = 0; gelu < 2; gelu++)
                    linear_bits(*backend, dtypes[d], threads, 2, gelu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tiled_model_is_the_same_model),
        cmocka_unit_test(a_tiled_operator_has_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
