// A linear whose adapter has magnitudes, compared with the formulas of model/lora.h in double,
// which form W + s B A and its norms: forward, and all gradients of a whole and of a split
// backward; with and without dropout and gelu, weights lying either way. And one that has a slice's
// columns of a weight, whose norms other slices have a part of.
#include "layers/linear.h"
#include "layers/magnitude.h"
#include "model/unit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { ROWS = 5, IN = 24, OUT = 40, RANK = 3, TENSORS = 5 };
enum { WEIGHT, BIAS, A, B, MAGNITUDE };
#define SCALE 0.75f

typedef struct bench { // a linear of one unit, whose flat parameters have a tensor each
    struct zr_accessor accessor;
    struct zr_sink sink;
    _Alignas(64) float values[TENSORS][OUT * IN], gradients[TENSORS][OUT * IN];
    _Alignas(64) float x[ROWS * IN], y[ROWS * OUT], dy[ROWS * OUT], dx[ROWS * IN];
    zr_tensor_handle handles[TENSORS];
    _Alignas(64) char of_products[1 << 20];
    zr_step_values step;
    float squares[OUT]; // of the norms that other slices have a part of
    double of_all;      // the factor of these norms, compared with those of this slice alone
    zr_linear linear;
    zero_context context;
    void *scratch;
    size_t scratch_bytes;
} bench;

typedef struct wanted {
    double y[ROWS * OUT], dx[ROWS * IN], da[RANK * IN], db[OUT * RANK], dm[OUT];
} wanted;

static const void *parameter(const struct zr_accessor *self, const zero_context *context,
                             int flat_param, int tensor)
{
    return ((const bench *)self)->values[flat_param];
}

static float *gradient(const struct zr_sink *self, zero_context *context, int flat_param,
                       int tensor, int *add)
{
    bench *of = (bench *)((char *)self - offsetof(bench, sink));
    assert_true(flat_param >= A); // nothing else trains
    *add = 0;
    return of->gradients[flat_param];
}

static void fill(float *to, int count, uint64_t seed, float size)
{
    for (int i = 0; i < count; i++)
        to[i] = size * ((float)(zr_philox4x32(seed, 9, (uint64_t)i).v[0] % 2001) / 1000 - 1);
}

static bench *bench_new(const char *backend, bool outputs_first, bool gelu, float dropout)
{
    static const int64_t of[] = {OUT * IN, OUT, RANK * IN, OUT * RANK, OUT};
    bench *b = aligned_alloc(64, (sizeof *b + 63) / 64 * 64);
    assert_non_null(b);
    memset(b, 0, sizeof *b);
    b->accessor.parameter = parameter;
    b->sink.gradient = gradient;
    for (int t = 0; t < TENSORS; t++) {
        fill(b->values[t], (int)of[t], (uint64_t)t, 0.5f);
        b->handles[t] = (zr_tensor_handle){.flat_param = t, .tiles = 1, .trains = t >= A};
    }
    for (int i = 0; i < OUT; i++)
        b->values[MAGNITUDE][i] += 2;
    fill(b->x, ROWS * IN, 10, 1);
    fill(b->dy, ROWS * OUT, 11, 1);
    b->step = (zr_step_values){.seed = 42, .step = 7};
    b->of_all = 1;
    b->linear = (zr_linear){.gelu = gelu,
                            .outputs_first = outputs_first,
                            .rows = ROWS,
                            .in = IN,
                            .out = OUT,
                            .weight = &b->handles[WEIGHT],
                            .bias = &b->handles[BIAS],
                            .low_rank = {.rank = RANK,
                                         .scale = SCALE,
                                         .a = &b->handles[A],
                                         .b = &b->handles[B],
                                         .magnitude = &b->handles[MAGNITUDE],
                                         .dropout = dropout,
                                         .mask = {.micro_batch = 1, .unit = 2, .site = 3}}};
    b->context = (zero_context){
        .values = &b->step, .accessor = &b->accessor, .sink = &b->sink, .threads = 2};
    assert_int_equal(zr_queue_open(backend, NULL, 2, &b->context.queue, NULL), ZERO_OK);
    b->context.queue->scratch = b->of_products;
    b->context.queue->scratch_bytes = sizeof b->of_products;
    b->scratch_bytes = (zr_linear_scratch(&b->linear, NULL, 2) + 63) / 64 * 64;
    b->scratch = aligned_alloc(64, b->scratch_bytes + 64);
    assert_non_null(b->scratch);
    memset(b->scratch, 0xff, b->scratch_bytes + 64);
    return b;
}

static void bench_free(bench *b)
{
    for (int i = 0; i < 64; i++)
        assert_int_equal(((unsigned char *)b->scratch)[b->scratch_bytes + (size_t)i], 0xff);
    assert_int_equal(zr_queue_check(b->context.queue, NULL), ZERO_OK);
    zr_queue_close(b->context.queue);
    free(b->scratch);
    free(b);
}

static double gelu_of(double x, double *slope)
{
    double u = sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x), t = tanh(u);
    *slope = 0.5 * (1 + t) +
             0.5 * x * (1 - t * t) * sqrt(2 / 3.14159265358979323846) * (1 + 3 * 0.044715 * x * x);
    return 0.5 * x * (1 + t);
}

typedef struct read_values { // of x
    double whole[ROWS * IN], dropped[ROWS * IN], slope[ROWS * IN], kept[ROWS * IN];
} read_values;

static void read_x(const bench *b, read_values *out)
{
    const zr_low_rank *of = &b->linear.low_rank;
    uint64_t key = zr_mask_key(&of->mask, &b->step);
    for (int i = 0; i < ROWS * IN; i++) {
        out->whole[i] = b->x[i];
        out->slope[i] = 1;
        if (b->linear.gelu)
            out->whole[i] = gelu_of(b->x[i], &out->slope[i]);
        out->kept[i] = zr_dropout_keep(key, (uint64_t)i, of->dropout) ? 1 / (1 - of->dropout) : 0;
        if (!(of->dropout > 0))
            out->kept[i] = 1;
        out->dropped[i] = out->whole[i] * out->kept[i];
    }
}

static double weight_at(const bench *b, int o, int i)
{
    return b->values[WEIGHT][b->linear.outputs_first ? o * IN + i : i * OUT + o];
}

static double delta_at(const bench *b, int o, int i) // s B A
{
    double sum = 0;
    for (int k = 0; k < RANK; k++)
        sum += (double)b->values[B][o * RANK + k] * b->values[A][k * IN + i];
    return SCALE * sum;
}

static double norm_of(const bench *b, int o)
{
    double sum = 0;
    for (int i = 0; i < IN; i++)
        sum += pow(weight_at(b, o, i) + delta_at(b, o, i), 2);
    return sqrt(sum) * b->of_all;
}

// Adds what one element of y, and of its gradient, says.
static void add_element(const bench *b, const read_values *x, int r, int o, double norm, wanted *w)
{
    double c = b->values[MAGNITUDE][o] / norm, dy = b->dy[r * OUT + o], whole = 0, dropped = 0,
           low = 0;
    for (int i = 0; i < IN; i++) {
        int at = r * IN + i;
        whole += weight_at(b, o, i) * x->whole[at];
        dropped += weight_at(b, o, i) * x->dropped[at];
        low += delta_at(b, o, i) * x->dropped[at];
        w->dx[at] += x->slope[at] * dy *
                     (weight_at(b, o, i) +
                      x->kept[at] * ((c - 1) * weight_at(b, o, i) + c * delta_at(b, o, i)));
        for (int k = 0; k < RANK; k++) {
            w->da[k * IN + i] += SCALE * c * dy * b->values[B][o * RANK + k] * x->dropped[at];
            w->db[o * RANK + k] += SCALE * c * dy * b->values[A][k * IN + i] * x->dropped[at];
        }
    }
    w->y[r * OUT + o] = whole + (c - 1) * dropped + c * low;
    if (zr_tensor_exists(b->linear.bias))
        w->y[r * OUT + o] += b->values[BIAS][o];
    w->dm[o] += dy * (dropped + low) / norm;
}

static void compute(const bench *b, wanted *out)
{
    read_values x;
    *out = (wanted){0};
    read_x(b, &x);
    for (int o = 0; o < OUT; o++) {
        double norm = norm_of(b, o);
        for (int r = 0; r < ROWS; r++)
            add_element(b, &x, r, o, norm, out);
    }
}

static void check(const char *what, const float *got, const double *want, int count)
{
    double most = 0, error = 0;
    for (int i = 0; i < count; i++) {
        most = fmax(most, fabs(want[i]));
        error = isnan(got[i]) ? INFINITY : fmax(error, fabs(got[i] - want[i]));
    }
    if (error > 1e-5 * most)
        fail_msg("%s: off by %g of %g", what, error, most);
}

static void check_gradients(const bench *b, const wanted *w)
{
    check("dx", b->dx, w->dx, ROWS * IN);
    check("dA", b->gradients[A], w->da, RANK * IN);
    check("dB", b->gradients[B], w->db, OUT * RANK);
    check("dm", b->gradients[MAGNITUDE], w->dm, OUT);
}

static void run(bench *b, unsigned parts)
{
    assert_int_equal(
        zr_linear_backward(&b->context, &b->linear, parts, b->x, b->dy, b->dx, b->scratch),
        ZERO_OK);
}

static void check_linear(const char *backend, bool gelu, bool outputs_first, float dropout)
{
    print_message("%s, %s, %s, dropout %g\n", backend, gelu ? "gelu" : "plain",
                  outputs_first ? "(out, in)" : "(in, out)", (double)dropout);
    bench *b = bench_new(backend, outputs_first, gelu, dropout);
    wanted *w = malloc(sizeof *w);
    assert_non_null(w);
    compute(b, w);
    assert_int_equal(zr_linear_forward(&b->context, &b->linear, b->x, b->y, b->scratch), ZERO_OK);
    check("y", b->y, w->y, ROWS * OUT);
    run(b, ZR_BACKWARD_WHOLE);
    check_gradients(b, w);
    memset(b->gradients, 0xff, sizeof b->gradients);
    memset(b->dx, 0xff, sizeof b->dx);
    run(b, ZR_BACKWARD_INPUT);
    run(b, ZR_BACKWARD_WEIGHT);
    check_gradients(b, w);
    free(w);
    bench_free(b);
}

// As check_linear, of a slice: the sums over slices are twice its own part.
static void check_columns(const char *backend, bool gelu, bool outputs_first, float dropout)
{
    static const zr_tensor_handle none = {.flat_param = -1};
    float part[OUT];
    bench *b = bench_new(backend, outputs_first, gelu, dropout);
    wanted *w = malloc(sizeof *w);
    assert_non_null(w);
    b->of_all = sqrt(2);
    b->linear.bias = &none;
    b->linear.low_rank.of_columns = true;
    b->linear.low_rank.squares = b->squares;
    b->linear.low_rank.part_magnitude = part;
    compute(b, w);
    zr_magnitude_squares(&b->context, &b->linear, b->squares, b->scratch);
    for (int o = 0; o < OUT; o++)
        b->squares[o] *= 2;
    zr_linear_forward_sum(&b->context, &b->linear, b->x, b->y, b->scratch);
    check("y of columns", b->y, w->y, ROWS * OUT);
    run(b, ZR_BACKWARD_WHOLE);
    assert_true(b->gradients[MAGNITUDE][0] == 0); // it is not whole
    memcpy(b->gradients[MAGNITUDE], part, sizeof part);
    check_gradients(b, w);
    free(w);
    bench_free(b);
}

typedef void (*linear_check)(const char *backend, bool gelu, bool outputs_first, float dropout);

static void each_linear(linear_check check_one)
{
    for (int ref = 0; ref < 2; ref++)
        for (int gelu = 0; gelu < 2; gelu++)
            for (int first = 0; first + gelu < 2; first++)
                for (int drops = 0; drops < 2; drops++)
                    check_one(ref ? "ref" : "cpu", gelu, first, drops ? 0.3f : 0);
}

static void linears(void **state) { each_linear(check_linear); }

static void slices_of_columns(void **state) { each_linear(check_columns); }

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(linears),
                                       cmocka_unit_test(slices_of_columns)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
