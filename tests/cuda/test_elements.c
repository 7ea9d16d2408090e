// Elementwise work and the embedding on a card, compared with ref.
#include "cuda_direct.h"

static const cuda_tolerance exact = {0, 0};
static const int64_t sizes[] = {1, 7, 8, 1003, 5000}; // the last fills more than one block
static const int64_t widths[] = {1, 72, 768, 1600, 4096};

// ---- activation functions ----

// Puts values where a function bends, or where e^x is 0 or infinite.
static void put_special(zero_dtype dtype, void *x, int64_t n)
{
    static const float special[] = {0,   -0.0f, 1e-6f, -1e-6f, 30,  -30,  5,   -5,
                                    -13, 13.5f, 300,   -300,   -88, 88.5, 1e4, -1e4f};
    for (int64_t i = 0; i < ZR_MIN(n, (int64_t)ZR_COUNT(special)) && n > 100; i++) {
        void *one = array_of(dtype, &special[i], 1);
        memcpy(array_at(dtype, x, i), one, zero_dtype_bytes(dtype));
        array_free(one);
    }
}

static void check_activations(zero_dtype dtype, int64_t n)
{
    const zr_elements of = {.dtype = dtype, .n = n};
    const cuda_tolerance tail = {1.5e-5, 1e-35}, slope = {1e-6, 3e-7};
    void *pre = array_random(dtype, n, 1, 6), *d = array_random(dtype, n, 2, 2),
         *out = array_new(dtype, n);
    put_special(dtype, pre, n);
    cuda_check("gelu", zr_op_gelu_forward(&of, pre, out), tail);
    cuda_check("gelu in place", zr_op_gelu_forward(&of, pre, pre), tail);
    cuda_check("gelu'", zr_op_gelu_backward(&of, pre, d), slope);
    cuda_check("gelu by erf", zr_op_gelu_erf_forward(&of, pre, out), tail);
    cuda_check("gelu' by erf", zr_op_gelu_erf_backward(&of, pre, d, out), slope);
    cuda_check("gelu' by erf over d", zr_op_gelu_erf_backward(&of, pre, d, d), slope);
    array_free(pre), array_free(d), array_free(out);
}

static void check_near_zero(zero_dtype dtype)
{
    enum { N = 1003 };
    const zr_elements of = {.dtype = dtype, .n = N};
    void *pre = array_random(dtype, N, 3, 4), *out = array_new(dtype, N);
    cuda_check("gelu", zr_op_gelu_forward(&of, pre, out), (cuda_tolerance){5e-7, 1e-7});
    cuda_check("gelu by erf", zr_op_gelu_erf_forward(&of, pre, out), (cuda_tolerance){5e-7, 1e-7});
    array_free(pre), array_free(out);
}

static void gelu_bends(void **state)
{
    for (int t = 0; t < STORAGE_TYPES; t++) {
        check_near_zero(storage_types[t]);
        for (int s = 0; s < ZR_COUNT(sizes); s++)
            check_activations(storage_types[t], sizes[s]);
    }
}

static void check_gates(zero_dtype dtype, int64_t n)
{
    const zr_elements of = {.dtype = dtype, .n = n};
    const cuda_tolerance near = {1e-6, 3e-6};
    // up begins one element after gate, where nothing is aligned.
    void *both = array_random(dtype, n + 1, 1, 6), *d = array_random(dtype, n, 2, 1),
         *up = array_random(dtype, n, 3, 3), *d_gate = array_new(dtype, n),
         *d_up = array_new(dtype, n), *after = array_at(dtype, both, 1);
    put_special(dtype, both, n + 1);
    cuda_check("silu gate", zr_op_silu_gate_forward(&of, both, up, d_up), near);
    cuda_check("silu gate, unaligned", zr_op_silu_gate_forward(&of, both, after, d_up), near);
    cuda_check("silu gate over up", zr_op_silu_gate_forward(&of, both, up, up), near);
    cuda_check("slopes", zr_op_silu_gate_backward(&of, both, up, d, d_gate, d_up), near);
    cuda_check("slopes, unaligned", zr_op_silu_gate_backward(&of, both, after, d, d_gate, d_up),
               near);
    cuda_check("slopes in place", zr_op_silu_gate_backward(&of, both, up, d, up, d), near);
    array_free(both), array_free(d), array_free(up), array_free(d_gate), array_free(d_up);
}

static void silu_gates(void **state)
{
    for (int t = 0; t < STORAGE_TYPES; t++)
        for (int s = 0; s < ZR_COUNT(sizes); s++)
            check_gates(storage_types[t], sizes[s]);
}

// ---- sums, conversions, dropout: the bits of ref ----

static void check_pair(zero_dtype from, zero_dtype to, int64_t n)
{
    const zr_mask mask = {.micro_batch = 2, .unit = 5, .site = 3};
    const zr_step_values values = {.seed = 42, .step = 7};
    const int64_t firsts[] = {0, 1, 6, 11, ((int64_t)1 << 34) + 1};
    const float drops[] = {0, 0.1f, 0.5f, 1};
    void *x = array_random(from, n + 1, 1, 3), *branch = array_random(to, n, 2, 3),
         *out = array_new(to, n), *sum = array_new(from, n);
    put_special(from, x, n);
    cuda_check("add", zr_op_add(&(zr_sum){.stream = from, .dtype = to, .n = n}, x, branch, sum),
               exact);
    if (from == to)
        cuda_check(
            "add, unaligned",
            zr_op_add(&(zr_sum){.stream = from, .dtype = to, .n = n}, x, array_at(from, x, 1), sum),
            exact);
    cuda_check("convert", zr_op_convert(&(zr_conversion){from, to, n}, x, out), exact);
    for (int i = 0; i < ZR_COUNT(firsts); i++) {
        zr_dropout of = {from, to, n, drops[i % 4], mask, firsts[i]};
        cuda_check("dropout", zr_op_dropout(&of, of.p > 0 ? &values : NULL, x, out), exact);
        if (from == to)
            cuda_check("dropout in place", zr_op_dropout(&of, of.p > 0 ? &values : NULL, x, x),
                       exact);
    }
    array_free(x), array_free(branch), array_free(out), array_free(sum);
}

static void pairs_of_types_agree(void **state)
{
    for (int f = 0; f < STORAGE_TYPES; f++)
        for (int t = 0; t < STORAGE_TYPES; t++)
            for (int s = 0; s < ZR_COUNT(sizes); s++)
                check_pair(storage_types[f], storage_types[t], sizes[s]);
}

// What begins at any element has the bits of what is aligned.
static void operands_begin_anywhere(void **state)
{
    enum { N = 1003 };
    const zr_step_values values = {.seed = 1, .step = 2};
    for (int f = 0; f < STORAGE_TYPES; f++)
        for (int t = 0; t < STORAGE_TYPES; t++) {
            const zero_dtype from = storage_types[f], to = storage_types[t];
            const int64_t of_x = (int64_t)zero_dtype_bytes(from),
                          of_out = (int64_t)zero_dtype_bytes(to);
            void *first = array_random(from, N, 1, 3);
            pinned out[2][3];
            for (int shift = 0; shift < 2; shift++) {
                pinned x = pinned_of(NULL, (N + 1) * of_x);
                char *at = x.at + shift * of_x, *to_at[3];
                memcpy(at, first, (size_t)(N * of_x));
                for (int i = 0; i < 3; i++) {
                    out[shift][i] = pinned_of(NULL, (N + 1) * of_out);
                    to_at[i] = out[shift][i].at + shift * of_out;
                }
                run_directly(zr_op_convert(&(zr_conversion){from, to, N}, at, to_at[0]), -1);
                run_directly(zr_op_dropout(&(zr_dropout){from, to, N, 0.3f, .first = 5}, &values,
                                           at, to_at[1]),
                             -1);
                if (from == to)
                    run_directly(zr_op_gelu_forward(&(zr_elements){to, N}, at, to_at[2]), -1);
                pinned_free(&x);
            }
            for (int i = 0; i < 3; i++) {
                check_same_bits("unaligned", out[1][i].at + of_out, out[0][i].at, N * of_out);
                assert_int_equal((uint8_t)out[1][i].at[0], 0xff); // nothing is written before it
                assert_int_equal((uint8_t)out[0][i].at[N * of_out], 0xff); // and after it
                pinned_free(&out[0][i]), pinned_free(&out[1][i]);
            }
            array_free(first);
        }
}

// Every value of a 16-bit type, and fp32 around each, rounds as on the host.
static void every_value_converts(void **state)
{
    enum { ALL = 1 << 16, EACH = 4 };
    float *wide = floats_new(ALL * EACH), *back = floats_new(ALL);
    uint16_t *halves = array_new(ZERO_F16, ALL), *out = array_new(ZERO_F16, ALL * EACH);
    for (int half = 0; half < 2; half++) {
        const zero_dtype type = half ? ZERO_F16 : ZERO_BF16;
        for (int i = 0; i < ALL; i++) {
            uint32_t bits;
            float value = half ? zr_f16_to_f32((uint16_t)i) : zr_bf16_to_f32((uint16_t)i);
            value = isnan(value) ? 1 : value;
            halves[i] = isnan(half ? zr_f16_to_f32((uint16_t)i) : zr_bf16_to_f32((uint16_t)i))
                            ? 0
                            : (uint16_t)i;
            memcpy(&bits, &value, 4);
            const uint32_t near[EACH] = {bits, bits + 1, bits + (half ? 0x1000 : 0x8000),
                                         bits + (half ? 0x1001 : 0x8001)};
            memcpy(wide + EACH * i, near, sizeof near);
            for (int k = 0; k < EACH; k++)
                if (isnan(wide[EACH * i + k]))
                    wide[EACH * i + k] = INFINITY;
        }
        cuda_check("widened", zr_op_convert(&(zr_conversion){type, ZERO_F32, ALL}, halves, back),
                   exact);
        cuda_check("rounded",
                   zr_op_convert(&(zr_conversion){ZERO_F32, type, ALL * EACH}, wide, out), exact);
    }
    floats_free(wide), floats_free(back), array_free(halves), array_free(out);
}

static void not_a_number_stays(void **state)
{
    const float values[] = {NAN, 1, -NAN, INFINITY, NAN, 0, 2, 3, NAN};
    enum { N = ZR_COUNT(values) };
    for (int f = 0; f < STORAGE_TYPES; f++)
        for (int t = 0; t < STORAGE_TYPES; t++) {
            void *x = array_of(storage_types[f], values, N), *out = array_new(storage_types[t], N);
            const zr_conversion of = {storage_types[f], storage_types[t], N};
            cuda_check("convert", zr_op_convert(&of, x, out), (cuda_tolerance){0, 1e-37});
            array_free(x), array_free(out);
        }
}

static void scales_and_biases(void **state)
{
    for (int t = 0; t < STORAGE_TYPES; t++)
        for (int s = 0; s < ZR_COUNT(sizes); s++) {
            zero_dtype to = storage_types[t];
            float *x = floats_random(sizes[s], 1, 3);
            void *out = array_new(to, sizes[s]);
            const zr_scaling by = {.to = to, .n = sizes[s], .by = 0.3f};
            cuda_check("scale", zr_op_scale(&by, x, out), exact);
            if (to == ZERO_F32)
                cuda_check("scale in place", zr_op_scale(&by, x, x), exact);
            floats_free(x), array_free(out);
        }
    for (int t = 0; t < STORAGE_TYPES; t++)
        for (int w = 0; w < ZR_COUNT(widths); w++) {
            const zr_matrix of = {.dtype = storage_types[t], .rows = 5, .width = widths[w]};
            const int64_t n = of.rows * of.width;
            float *sum = floats_random(n, 1, 3);
            void *bias = array_random(of.dtype, of.width, 2, 1), *out = array_new(of.dtype, n);
            cuda_check("bias", zr_op_add_bias(&of, sum, bias, out), exact);
            cuda_check("no bias", zr_op_add_bias(&of, sum, NULL, out), exact);
            if (of.dtype == ZERO_F32)
                cuda_check("bias in place", zr_op_add_bias(&of, sum, bias, sum), exact);
            floats_free(sum), array_free(bias), array_free(out);
        }
}

// ---- the embedding: the bits of ref ----

typedef struct table_case {
    int64_t rows, width, seq, vocab;
} table_case;

static const table_case tables[] = {
    {1, 72, 4, 1},     {33, 72, 8, 5},    {33, 77, 11, 40},
    {40, 1600, 16, 9}, {300, 40, 100, 3}, {9, 4096, 3, 1003},
};

static int32_t *ids_new(const table_case *c)
{
    int32_t *ids = (int32_t *)(void *)floats_new(c->rows);
    for (int64_t i = 0; i < c->rows; i++)
        ids[i] = i % 7 == 5 ? -1 - (int32_t)i : (int32_t)(i * i * 31 % c->vocab);
    return ids;
}

static void check_embedding(const table_case *c, zero_dtype dtype, zero_dtype stream)
{
    zr_embedding of = {.dtype = dtype,
                       .stream = stream,
                       .rows = c->rows,
                       .width = c->width,
                       .seq = c->seq,
                       .first = 3,
                       .vocab = c->vocab,
                       .positions = c->seq + 2};
    int32_t *ids = ids_new(c);
    void *tokens = array_random(dtype, c->vocab * c->width, 1, 1),
         *positions = array_random(dtype, c->seq * c->width, 2, 1),
         *out = array_random(stream, c->rows * c->width, 3, 1);
    float *x = floats_random(c->rows * c->width, 4, 1),
          *d_tokens = floats_random(c->vocab * c->width, 5, 1),
          *d_positions = floats_random(of.positions * c->width, 6, 1);
    x[0] = -0.0f;
    cuda_check("embedding", zr_op_embedding_forward(&of, ids, tokens, positions, out), exact);
    cuda_check("tokens alone", zr_op_embedding_forward(&of, ids, tokens, NULL, out), exact);
    cuda_check("positions", zr_op_add_positions(&of, positions, x), exact);
    cuda_check("no positions", zr_op_add_positions(&of, NULL, x), exact);
    for (int add = 0; add < 4; add++) {
        of.add_tokens = add & 1;
        of.add_positions = add & 2;
        cuda_check("embedding'", zr_op_embedding_backward(&of, ids, out, d_tokens, d_positions),
                   exact);
    }
    cuda_check("tokens' alone", zr_op_embedding_backward(&of, ids, out, d_tokens, NULL), exact);
    cuda_check("positions' alone", zr_op_embedding_backward(&of, ids, out, NULL, d_positions),
               exact);
    floats_free((float *)(void *)ids), array_free(tokens), array_free(positions), array_free(out);
    floats_free(x), floats_free(d_tokens), floats_free(d_positions);
}

static void embeddings_agree(void **state)
{
    for (int c = 0; c < ZR_COUNT(tables); c++)
        for (int t = 0; t < STORAGE_TYPES; t++) {
            check_embedding(&tables[c], storage_types[t], storage_types[t]);
            if (t && c % 2)
                check_embedding(&tables[c], storage_types[t], ZERO_F32);
        }
}

// ---- copies ----

static void rows_are_copied(void **state)
{
    const zr_strided shapes[] = {{1, 16, 16, 16}, {33, 64, 80, 112}, {33, 12, 36, 20},
                                 {33, 7, 11, 9},  {5, 6, 128, 64},   {300, 144, 288, 144},
                                 {0, 16, 16, 16}, {3, 0, 16, 16}};
    for (int i = 0; i < ZR_COUNT(shapes); i++) {
        const zr_strided *s = &shapes[i];
        float *from = floats_random(s->rows * s->from_stride / 4 + 4, 1, 1),
              *to = floats_random(s->rows * s->to_stride / 4 + 4, 2, 1);
        // `to` is an operand that is written in part: what lies between must stay.
        cuda_check("rows", zr_op_copy_rows(s, from, to), exact);
        floats_free(from), floats_free(to);
    }
}

static void nothing_is_done_to_nothing(void **state)
{
    const zr_elements none = {.dtype = ZERO_BF16, .n = 0};
    const zr_embedding of = {.width = 8, .seq = 4, .vocab = 5, .positions = 4};
    float *d_tokens = floats_random(40, 1, 1), *d_positions = floats_random(32, 2, 1);
    cuda_check("gelu", zr_op_gelu_forward(&none, NULL, NULL), exact);
    cuda_check("silu", zr_op_silu_gate_forward(&none, NULL, NULL, NULL), exact);
    cuda_check("convert", zr_op_convert(&(zr_conversion){0}, NULL, NULL), exact);
    cuda_check("embedding'", zr_op_embedding_backward(&of, NULL, NULL, d_tokens, d_positions),
               exact);
    floats_free(d_tokens), floats_free(d_positions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gelu_bends),           cmocka_unit_test(silu_gates),
        cmocka_unit_test(pairs_of_types_agree), cmocka_unit_test(operands_begin_anywhere),
        cmocka_unit_test(every_value_converts), cmocka_unit_test(not_a_number_stays),
        cmocka_unit_test(scales_and_biases),    cmocka_unit_test(embeddings_agree),
        cmocka_unit_test(rows_are_copied),      cmocka_unit_test(nothing_is_done_to_nothing),
    };
    return cmocka_run_group_tests(tests, cuda_check_setup, cuda_check_teardown);
}
