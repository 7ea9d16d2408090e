// Elementwise work on parts of a whole, compared with the whole: dropout of some of the elements,
// biases and positions that are added to sums of slices, and calls without a row.
#include "compute/compute.h"
#include "compute_check.h"

#include <string.h>

enum { PAIRS = STORAGE_TYPES * STORAGE_TYPES };

// ---- dropout ----

static const zr_step_values step = {.seed = 0x123456789abcdefull, .step = 3};

static void dropout_part(zr_queue *queue, int pair, int64_t n, int64_t first, float p)
{
    zero_dtype from = storage_types[pair / STORAGE_TYPES], to = storage_types[pair % STORAGE_TYPES];
    const zr_dropout dropout = {.from = from,
                                .to = to,
                                .n = n,
                                .p = p,
                                .mask = {.micro_batch = 1, .unit = 2, .site = 4},
                                .first = first};
    void *x = array_random(from, n, 1, 3), *got = array_new(to, n);
    float *want = array_floats(from, x, n);
    for (int64_t i = 0; i < n && p > 0; i++) {
        bool kept = zr_dropout_keep(zr_mask_key(&dropout.mask, &step), (uint64_t)(first + i), p);
        want[i] = kept ? want[i] * (1 / (1 - p)) : 0;
    }
    zr_run(queue, zr_op_dropout(&dropout, &step, x, got));
    check_stored("dropout of a part", to, got, want, n);
    array_free(x);
    array_free(got);
    floats_free(want);
}

static void dropout_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    static const int64_t firsts[] = {0, 1, 2, 3, 5, 61, 62, 63, 64, 12347, (1ll << 40) + 3};
    static const int64_t counts[] = {0, 1, 3, 61, 64, 130, 1000};
    for (int f = 0; f < ZR_COUNT(firsts); f++)
        for (int k = 0; k < ZR_COUNT(counts); k++)
            for (int pair = 0; pair < PAIRS; pair++) {
                dropout_part(queue, pair, counts[k], firsts[f], 0.3f);
                dropout_part(ref, pair, counts[k], firsts[f], 0.3f);
            }
    dropout_part(queue, 0, 70001, 7, 0.5f);
    dropout_part(queue, 0, 100, 7, 0);
}

static void a_part_draws_the_mask_of_the_whole(void **state) { check_each_kernels(dropout_body); }

// ---- biases ----

// Multiplies a(rows, 1) by b(1, width); the sums are exact, because there is one product a sum.
static void *product_of(zr_queue *queue, zero_dtype dtype, zero_dtype out, int64_t rows,
                        int64_t width, const void *a, const void *b, const void *bias)
{
    zero_error error = {0};
    const zr_product product = {.dtype = dtype,
                                .out = out,
                                .m = rows,
                                .n = width,
                                .k = 1,
                                .epilogue = bias ? ZR_EPILOGUE_BIAS : ZR_EPILOGUE_NONE};
    void *d = array_new(out, rows * width);
    if (check_run(queue, zr_op_product(&product, a, b, bias, d), &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return d;
}

// Returns values that every storage type holds.
static void *some(zero_dtype dtype, int64_t count, uint64_t seed, float size)
{
    void *stored = array_random(ZERO_BF16, count, seed, size);
    float *values = array_floats(ZERO_BF16, stored, count);
    void *array = array_of(dtype, values, count);
    floats_free(values);
    array_free(stored);
    return array;
}

static void bias_one(zr_queue *queue, zero_dtype dtype, int64_t rows, int64_t width)
{
    const zr_matrix matrix = {.dtype = dtype, .rows = rows, .width = width};
    void *a = some(dtype, rows, 1, 8), *b = some(dtype, width, 2, 8),
         *bias = some(dtype, width, 3, 30);
    void *want = product_of(queue, dtype, dtype, rows, width, a, b, bias);
    float *sum = product_of(queue, dtype, ZERO_F32, rows, width, a, b, NULL);
    void *got = array_new(dtype, rows * width), *bare = array_new(dtype, rows * width);
    zr_run(queue, zr_op_add_bias(&matrix, sum, bias, got));
    zr_run(queue, zr_op_add_bias(&matrix, sum, NULL, bare));
    check_same_array("sum and bias", dtype, got, want, rows * width);
    check_stored("sum without a bias", dtype, bare, sum, rows * width);
    if (dtype == ZERO_F32) {
        zr_run(queue, zr_op_add_bias(&matrix, sum, bias, sum));
        check_same_array("in place", dtype, sum, want, rows * width);
    }
    void *all[] = {a, b, bias, want, sum, got, bare};
    for (int i = 0; i < ZR_COUNT(all); i++)
        array_free(all[i]);
}

static void bias_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    static const int64_t rows[] = {0, 1, 5, 40, 300}, widths[] = {1, 3, 17, 64, 768};
    for (int r = 0; r < ZR_COUNT(rows); r++)
        for (int w = 0; w < ZR_COUNT(widths); w++)
            for (int t = 0; t < STORAGE_TYPES; t++) {
                bias_one(queue, storage_types[t], rows[r], widths[w]);
                if (queue->threads == 1)
                    bias_one(ref, storage_types[t], rows[r], widths[w]);
            }
}

static void a_bias_is_added_as_a_product_adds_it(void **state) { check_each_cpu(bias_body); }

// ---- positions ----

enum { VOCAB = 11, SEQ = 6, ROWS = 4 * SEQ };

typedef struct tables {
    zero_dtype dtype;
    int64_t width;
    void *tokens, *positions; // (VOCAB, width), (SEQ, width)
    int32_t ids[ROWS];
} tables;

static tables tables_new(zero_dtype dtype, int64_t width)
{
    float *tokens = floats_random(VOCAB * width, 2, 1),
          *positions = floats_random(SEQ * width, 3, 1);
    tokens[0] = tokens[width] = positions[0] = -0.0f;
    tables t = {.dtype = dtype,
                .width = width,
                .tokens = array_of(dtype, tokens, VOCAB * width),
                .positions = array_of(dtype, positions, SEQ * width)};
    for (int i = 0; i < ROWS; i++)
        t.ids[i] = i * i % VOCAB;
    floats_free(tokens);
    floats_free(positions);
    return t;
}

static void tables_free(tables *t)
{
    array_free(t->tokens);
    array_free(t->positions);
}

// Looks up the rows of a slice of the tokens, and adds them to x.
static void slice_add(zr_queue *queue, const tables *t, int64_t first, int64_t end, float *x)
{
    const zr_embedding embedding = {.vocab = end - first,
                                    .dtype = t->dtype,
                                    .stream = ZERO_F32,
                                    .rows = ROWS,
                                    .seq = SEQ,
                                    .width = t->width};
    int32_t own[ROWS];
    int64_t n = ROWS * t->width;
    float *rows = floats_new(n);
    for (int i = 0; i < ROWS; i++)
        own[i] = t->ids[i] >= first && t->ids[i] < end ? t->ids[i] - (int32_t)first : -1;
    zr_run(queue, zr_op_fill(&(zr_bytes){n * 4}, rows));
    zr_run(queue,
           zr_op_embedding_forward(&embedding, own, array_at(t->dtype, t->tokens, first * t->width),
                                   NULL, rows));
    for (int64_t i = 0; i < n; i++)
        x[i] = first == 0 ? rows[i] : x[i] + rows[i];
    floats_free(rows);
}

// What embedding_forward gives with positions, whose -0 becomes +0.
static float *embedded(zr_queue *queue, const tables *t, bool positions)
{
    float *out = floats_new(ROWS * t->width);
    zr_run(queue, zr_op_embedding_forward(&(zr_embedding){.vocab = VOCAB,
                                                          .dtype = t->dtype,
                                                          .stream = ZERO_F32,
                                                          .rows = ROWS,
                                                          .seq = SEQ,
                                                          .width = t->width},
                                          t->ids, t->tokens, positions ? t->positions : NULL, out));
    for (int64_t i = 0; i < ROWS * t->width; i++)
        out[i] = out[i] == 0 ? 0 : out[i];
    return out;
}

static void slices_embed(zr_queue *queue, const tables *t, int slices, bool positions)
{
    int64_t n = ROWS * t->width, step = (VOCAB + slices - 1) / slices;
    float *x = floats_new(n), *want = embedded(queue, t, positions);
    for (int64_t first = 0; first < VOCAB; first += step)
        slice_add(queue, t, first, ZR_MIN(first + step, VOCAB), x);
    zr_run(queue,
           zr_op_add_positions(
               &(zr_embedding){
                   .dtype = t->dtype, .rows = ROWS, .seq = SEQ, .first = 0, .width = t->width},
               positions ? t->positions : NULL, x));
    check_same_bits("rows of slices", x, want, n * 4);
    floats_free(x);
    floats_free(want);
}

// The rows from `first` on have the positions that they have among all rows.
static void rows_embed(zr_queue *queue, const tables *t, int64_t first)
{
    int64_t rows = ROWS - first, at = first * t->width;
    float *x = floats_new(ROWS * t->width), *want = embedded(queue, t, true);
    slice_add(queue, t, 0, VOCAB, x);
    zr_run(queue,
           zr_op_add_positions(
               &(zr_embedding){
                   .dtype = t->dtype, .rows = rows, .seq = SEQ, .first = first, .width = t->width},
               t->positions, x + at));
    check_same_bits("rows from a certain one on", x + at, want + at, rows * t->width * 4);
    floats_free(x);
    floats_free(want);
}

static void positions_of(zr_queue *queue, zero_dtype dtype, int64_t width)
{
    tables t = tables_new(dtype, width);
    for (int slices = 1; slices <= 8; slices *= 2) {
        slices_embed(queue, &t, slices, true);
        slices_embed(queue, &t, slices, false);
    }
    for (int64_t first = 0; first <= ROWS; first += 5)
        rows_embed(queue, &t, first);
    rows_embed(queue, &t, ROWS);
    tables_free(&t);
}

static void positions_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    static const int64_t widths[] = {1, 3, 17, 64, 768};
    for (int w = 0; w < ZR_COUNT(widths); w++)
        for (int t = 0; t < STORAGE_TYPES; t++) {
            positions_of(queue, storage_types[t], widths[w]);
            positions_of(ref, storage_types[t], widths[w]);
        }
}

static void positions_follow_the_sum_of_slices(void **state) { check_each_kernels(positions_body); }

// ---- nothing at all ----

// No function touches an array without elements, which may be NULL.
static void empty_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    zr_queue *queues[] = {queue, ref};
    for (int k = 0; k < ZR_COUNT(queues) * STORAGE_TYPES; k++) {
        zr_queue *q = queues[k / STORAGE_TYPES];
        zero_dtype dtype = storage_types[k % STORAGE_TYPES];
        float one[] = {3}, two[] = {4};
        zr_run(q, zr_op_gelu_forward(&(zr_elements){dtype, 0}, NULL, NULL));
        zr_run(q, zr_op_gelu_backward(&(zr_elements){dtype, 0}, NULL, NULL));
        zr_run(q, zr_op_silu_gate_forward(&(zr_elements){dtype, 0}, NULL, NULL, NULL));
        zr_run(q, zr_op_silu_gate_backward(&(zr_elements){dtype, 0}, NULL, NULL, NULL, NULL, NULL));
        zr_run(q, zr_op_add(&(zr_sum){.stream = dtype, .dtype = dtype, .n = 0}, NULL, NULL, NULL));
        zr_run(q, zr_op_dropout(
                      &(zr_dropout){.from = dtype, .to = dtype, .n = 0, .p = 0.5f, .first = 3},
                      &step, NULL, NULL));
        zr_run(q, zr_op_add_bias(&(zr_matrix){.dtype = dtype, .rows = 0, .width = 1}, NULL, one,
                                 NULL));
        zr_run(q, zr_op_convert(&(zr_conversion){.from = dtype, .to = dtype, .n = 0}, NULL, NULL));
        zr_run(
            q,
            zr_op_embedding_forward(
                &(zr_embedding){
                    .vocab = 1, .dtype = dtype, .stream = dtype, .rows = 0, .seq = 1, .width = 1},
                NULL, one, one, NULL));
        zr_run(q, zr_op_add_positions(
                      &(zr_embedding){.dtype = dtype, .rows = 0, .seq = 1, .first = 0, .width = 1},
                      one, NULL));
        zr_run(q, zr_op_copy(&(zr_bytes){0}, NULL, NULL));
        zr_run(q, zr_op_copy_rows(
                      &(zr_strided){.rows = 0, .bytes = 4, .from_stride = 4, .to_stride = 4}, NULL,
                      NULL));
        zr_run(q, zr_op_copy_rows(
                      &(zr_strided){.rows = 3, .bytes = 0, .from_stride = 4, .to_stride = 4}, NULL,
                      NULL));
        zr_run(q, zr_op_fill(&(zr_bytes){0}, NULL));
        zr_run(q, zr_op_column_sum(&(zr_matrix){.dtype = dtype, .rows = 0, .width = 1, .add = true},
                                   NULL, one, NULL));
        zr_run(q, zr_op_embedding_backward(&(zr_embedding){.stream = dtype,
                                                           .rows = 0,
                                                           .seq = 1,
                                                           .width = 1,
                                                           .vocab = 1,
                                                           .add_tokens = true,
                                                           .positions = 1,
                                                           .add_positions = true},
                                           NULL, NULL, two, two));
        assert_true(one[0] == 3 && two[0] == 4);
        zr_run(q,
               zr_op_column_sum(&(zr_matrix){.dtype = dtype, .rows = 0, .width = 1, .add = false},
                                NULL, one, NULL));
        zr_run(q, zr_op_embedding_backward(&(zr_embedding){.stream = dtype,
                                                           .rows = 0,
                                                           .seq = 1,
                                                           .width = 1,
                                                           .vocab = 1,
                                                           .add_tokens = false,
                                                           .positions = 0,
                                                           .add_positions = false},
                                           NULL, NULL, two, NULL));
        assert_true(one[0] == 0 && two[0] == 0);
    }
}

static void no_rows_are_no_work(void **state) { check_each_kernels(empty_body); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_draws_the_mask_of_the_whole),
        cmocka_unit_test(a_bias_is_added_as_a_product_adds_it),
        cmocka_unit_test(positions_follow_the_sum_of_slices),
        cmocka_unit_test(no_rows_are_no_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
