// Elementwise operations, column sums, embedding, bytes: ref compared with formulas in this file,
// and cpu with ref.
#include "compute/compute.h"
#include "compute_check.h"

#include <string.h>

enum { PAIRS = STORAGE_TYPES * STORAGE_TYPES };
static const int64_t counts[] = {0, 1, 3, 17, 64, 128, 768, 1000, 40001};

// ---- sums ----

static void add_one(zr_queue *queue, zero_dtype stream, zero_dtype dtype, int64_t n, int64_t shift)
{
    const zr_sum sum = {.stream = stream, .dtype = dtype, .n = n};
    int64_t all = n + shift;
    float size = stream == ZERO_F16 ? 6e4f : 1e30f; // overflows fp16
    void *a = array_random(stream, all, 1, size), *b = array_random(dtype, all, 2, 6e4f),
         *out = array_new(stream, all);
    float *want = array_floats(stream, array_at(stream, a, shift), n),
          *branch = array_floats(dtype, array_at(dtype, b, shift), n);
    for (int64_t i = 0; i < n; i++)
        want[i] += branch[i];
    zr_run(queue, zr_op_add(&sum, array_at(stream, a, shift), array_at(dtype, b, shift),
                            array_at(stream, out, shift)));
    check_stored("add", stream, array_at(stream, out, shift), want, n);
    zr_run(queue, zr_op_add(&sum, array_at(stream, a, shift), array_at(dtype, b, shift),
                            array_at(stream, a, shift)));
    check_stored("add in place", stream, array_at(stream, a, shift), want, n);
    array_free(a);
    array_free(b);
    array_free(out);
    floats_free(want);
    floats_free(branch);
}

static void add_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int k = 0; k < ZR_COUNT(counts); k++)
        for (int pair = 0; pair < PAIRS; pair++) {
            zero_dtype stream = storage_types[pair / STORAGE_TYPES],
                       dtype = storage_types[pair % STORAGE_TYPES];
            add_one(queue, stream, dtype, counts[k], k % 2);
            add_one(ref, stream, dtype, counts[k], 0);
        }
}

static void add_agrees(void **state) { check_each_kernels(add_body); }

static float *column_sum_of(zr_queue *queue, zero_dtype dtype, int64_t rows, int64_t width,
                            const void *x, bool add)
{
    float *out = add ? floats_random(width, 7, 1) : floats_new(width);
    const zr_matrix matrix = {.dtype = dtype, .rows = rows, .width = width, .add = add};
    void *scratch = scratch_new(queue, (zr_op){.kind = ZR_OP_column_sum, .shape.matrix = matrix});
    zr_run(queue, zr_op_column_sum(&matrix, x, out, scratch));
    array_free(scratch);
    return out;
}

static void column_sum_one(zr_queue *const queues[3], zero_dtype dtype, int64_t rows, int64_t width)
{
    void *stored = array_random(dtype, rows * width, 3, 1);
    float *x = array_floats(dtype, stored, rows * width), *before = floats_random(width, 7, 1);
    float *plain = floats_new(width), *sum[3];
    for (int add = 0; add < 2; add++) {
        for (int64_t j = 0; j < width; j++) {
            long double total = add ? before[j] : 0;
            for (int64_t i = 0; i < rows; i++)
                total += x[i * width + j];
            plain[j] = (float)total;
        }
        for (int q = 0; q < 3; q++)
            sum[q] = column_sum_of(queues[q], dtype, rows, width, stored, add);
        check_close("column sum of ref", sum[2], plain, width, 1e-7, 1e-12);
        check_close("column sum", sum[0], plain, width, 1e-6, 3e-8 * (double)rows + 1e-6);
        check_same_bits("column sum at one thread", sum[0], sum[1], width * 4);
        for (int q = 0; q < 3; q++)
            floats_free(sum[q]);
    }
    array_free(stored);
    floats_free(x);
    floats_free(before);
    floats_free(plain);
}

static void column_sum_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    static const int64_t rows[] = {0, 1, 5, 33, 64, 2111};
    zr_queue *queues[] = {queue, single, ref};
    for (int r = 0; r < ZR_COUNT(rows); r++)
        for (int k = 1; k < 8; k++)
            for (int t = 0; t < STORAGE_TYPES; t++)
                if (t == 0 || (r + k + t) % 2)
                    column_sum_one(queues, storage_types[t], rows[r],
                                   rows[r] > 100 ? ZR_MIN(counts[k], 130) : counts[k]);
}

static void column_sum_agrees(void **state) { check_each_kernels(column_sum_body); }

// ---- conversions ----

// The same bits, or both not a number, with any bits.
static void check_same_values(const char *what, zero_dtype dtype, const void *got_,
                              const void *want_, int64_t n)
{
    float *got = array_floats(dtype, got_, n), *want = array_floats(dtype, want_, n);
    for (int64_t i = 0; i < n; i++)
        if (isnan(want[i]) ? !isnan(got[i]) : memcmp(got + i, want + i, sizeof(float)) != 0)
            fail_msg("%s[%lld of %lld]: %a, should be %a", what, (long long)i, (long long)n,
                     (double)got[i], (double)want[i]);
    floats_free(got);
    floats_free(want);
}

enum { PATTERNS = 0x10000, NEAR = 11 };

// Every number of 16 bits; of fp32 every upper half with the lower halves about which rounding to
// either type turns.
static void *every_number(zero_dtype dtype)
{
    static const uint32_t low[NEAR] = {0,      1,      0x0fff, 0x1000, 0x1001, 0x2fff,
                                       0x3000, 0x7fff, 0x8000, 0x8001, 0xffff};
    void *all = array_new(dtype, PATTERNS * NEAR);
    for (uint32_t i = 0; i < PATTERNS * NEAR; i++) {
        uint32_t bits = (i / NEAR) << 16 | low[i % NEAR];
        uint16_t half = (uint16_t)i;
        if (dtype == ZERO_F32)
            memcpy(array_at(dtype, all, i), &bits, sizeof(bits));
        else
            memcpy(array_at(dtype, all, i), &half, sizeof(half));
    }
    return all;
}

static void convert_one(zr_queue *queue, zr_queue *ref, zero_dtype from, zero_dtype to)
{
    void *x = every_number(from), *got = array_new(to, PATTERNS * NEAR),
         *want = array_new(to, PATTERNS * NEAR);
    float *values = array_floats(from, x, PATTERNS * NEAR);
    void *plain = array_of(to, values, PATTERNS * NEAR);
    int64_t n = from == ZERO_F32 ? PATTERNS * NEAR : PATTERNS;
    zr_run(queue, zr_op_convert(&(zr_conversion){from, to, n}, x, got));
    zr_run(ref, zr_op_convert(&(zr_conversion){from, to, n}, x, want));
    check_same_values("convert", to, got, want, n);
    check_same_values("convert of ref", to, want, plain, n);
    for (int k = 0; k < ZR_COUNT(counts); k++) {
        void *start = array_at(from, x, 1), *part = array_new(to, counts[k] + 1);
        zr_run(queue,
               zr_op_convert(&(zr_conversion){from, to, counts[k]}, start, array_at(to, part, 1)));
        check_same_values("convert, unaligned", to, array_at(to, part, 1), array_at(to, plain, 1),
                          counts[k]);
        array_free(part);
    }
    array_free(x);
    array_free(got);
    array_free(want);
    array_free(plain);
    floats_free(values);
}

static void convert_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int pair = 0; pair < PAIRS; pair++)
        convert_one(queue, ref, storage_types[pair / STORAGE_TYPES],
                    storage_types[pair % STORAGE_TYPES]);
}

enum { FEW = 203 };

// The product is rounded once, to the type of the result.
static void scale_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    const float by = 0.3f;
    float x[FEW], want[FEW];
    for (int i = 0; i < FEW; i++) {
        x[i] = (float)(i - FEW / 2) * 0.7f;
        want[i] = x[i] * by;
    }
    for (int t = 0; t < STORAGE_TYPES; t++) {
        zero_dtype to = storage_types[t];
        void *got = array_new(to, FEW + 1), *plain = array_of(to, want, FEW);
        zr_run(ref, zr_op_scale(&(zr_scaling){to, FEW, by}, x, got));
        check_same_values("scale of ref", to, got, plain, FEW);
        zr_run(queue, zr_op_scale(&(zr_scaling){to, FEW, by}, x, array_at(to, got, 1)));
        check_same_values("scale, unaligned", to, array_at(to, got, 1), plain, FEW);
        array_free(got);
        array_free(plain);
    }
    zr_run(queue, zr_op_scale(&(zr_scaling){ZERO_F32, FEW, by}, x, x));
    assert_memory_equal(x, want, sizeof x);
}

static void scale_agrees(void **state) { check_each_kernels(scale_body); }

// Both products and their sum are rounded once, to the type of the result; in place, too.
static void weighted_sum_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int k = 0; k < ZR_COUNT(counts); k++)
        for (int t = 0; t < STORAGE_TYPES; t++) {
            const int64_t n = counts[k];
            const zr_weighted weighted = {storage_types[t], n, -4.7f, 0.3f};
            float *sum = floats_random(n, 1, 2), *want = floats_new(n);
            void *stored = array_random(storage_types[t], n + 1, 2, 1),
                 *x = array_at(storage_types[t], stored, k % 2),
                 *got = array_new(storage_types[t], n);
            float *values = array_floats(storage_types[t], x, n);
            for (int64_t i = 0; i < n; i++)
                want[i] = (float)(-4.7f * (double)sum[i] + 0.3f * (double)values[i]);
            zr_run(ref, zr_op_weighted_sum(&weighted, sum, x, got));
            check_stored("weighted sum of ref", storage_types[t], got, want, n);
            zr_run(queue, zr_op_weighted_sum(&weighted, sum, x, x));
            check_close_as("weighted sum", storage_types[t], x, got, n, 1e-7, 1e-6);
            floats_free(sum);
            floats_free(want);
            floats_free(values);
            array_free(stored);
            array_free(got);
        }
}

static void weighted_sum_agrees(void **state) { check_each_kernels(weighted_sum_body); }

static void convert_agrees(void **state) { check_each_kernels(convert_body); }

// ---- dropout ----

static const zr_step_values step = {.seed = 0x123456789abcdefull, .step = 3};

static void dropout_one(zr_queue *queue, zr_queue *ref, zero_dtype from, zero_dtype to, int64_t n,
                        float p)
{
    const zr_dropout dropout = {
        .from = from, .to = to, .n = n, .p = p, .mask = {.micro_batch = 1, .unit = 2, .site = 4}};
    uint64_t key = zr_mask_key(&dropout.mask, &step);
    void *x = array_random(from, n, 1, 3), *got = array_new(to, n), *want = array_new(to, n);
    if (n > 20) {
        float beyond[2] = {INFINITY, 6e4f};
        void *stored = array_of(from, beyond, 2);
        memcpy(array_at(from, x, 7), stored, 2 * zero_dtype_bytes(from));
        array_free(stored);
    }
    float *plain = array_floats(from, x, n);
    for (int64_t i = 0; i < n; i++)
        plain[i] = zr_dropout_keep(key, (uint64_t)i, p) ? plain[i] * (1 / (1 - p)) : 0;
    zr_run(queue, zr_op_dropout(&dropout, &step, x, got));
    check_stored("dropout", to, got, plain, n);
    zr_run(ref, zr_op_dropout(&dropout, &step, x, want));
    check_stored("dropout of ref", to, want, plain, n);
    if (from == to) {
        zr_run(queue, zr_op_dropout(&dropout, &step, x, x));
        check_stored("dropout in place", to, x, plain, n);
    }
    array_free(x);
    array_free(got);
    array_free(want);
    floats_free(plain);
}

static void dropout_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    static const float p[] = {0, 0.1f, 0.5f, 1};
    for (int k = 0; k < ZR_COUNT(counts); k++)
        for (int pair = 0; pair < PAIRS; pair++)
            if (pair == 0 || counts[k] < 10000)
                for (int j = 0; j < ZR_COUNT(p); j++)
                    dropout_one(queue, ref, storage_types[pair / STORAGE_TYPES],
                                storage_types[pair % STORAGE_TYPES], counts[k], p[j]);
}

static void dropout_agrees(void **state) { check_each_kernels(dropout_body); }

static void dropout_keeps_as_many_as_it_should(void **state)
{
    enum { N = 200000 };
    for (int k = 0; k < 3; k++) {
        float p = k == 0 ? 0.1f : k == 1 ? 0.5f : 0.9f;
        int64_t kept = 0, pairs = 0;
        bool before = false;
        for (int64_t i = 0; i < N; i++) {
            bool keep = zr_dropout_keep(7 + (uint64_t)k, (uint64_t)i, p);
            kept += keep;
            pairs += keep && before;
            before = keep;
        }
        double q = 1 - (double)p, deviation = sqrt(q * p / N);
        assert_true(fabs((double)kept / N - q) < 4 * deviation);
        assert_true(fabs((double)pairs / N - q * q) < 8 * deviation); // neighbours are independent
    }
    assert_true(zr_dropout_keep(1, 2, 0));
    assert_false(zr_dropout_keep(1, 2, 1));
}

// ---- embedding ----

enum { VOCAB = 11, MAX_SEQ = 9 };

typedef struct embedding_case {
    int64_t rows, seq, width;
    int32_t ids[64];
    zero_dtype dtype, stream;
    void *d, *tokens, *positions;
} embedding_case;

static void forward_plainly(const embedding_case *c, bool positions, float *out)
{
    float *token = array_floats(c->dtype, c->tokens, VOCAB * c->width),
          *position = array_floats(c->dtype, c->positions, MAX_SEQ * c->width);
    for (int64_t i = 0; i < c->rows; i++)
        for (int64_t j = 0; j < c->width; j++)
            out[i * c->width + j] = token[c->ids[i] * c->width + j] +
                                    (positions ? position[i % c->seq * c->width + j] : 0);
    floats_free(token);
    floats_free(position);
}

static void backward_plainly(const embedding_case *c, float *tokens, float *positions, bool add)
{
    float *d = array_floats(c->stream, c->d, c->rows * c->width);
    memset(tokens, 0, add ? 0 : sizeof(float) * (size_t)(VOCAB * c->width));
    memset(positions, 0, add ? 0 : sizeof(float) * (size_t)(MAX_SEQ * c->width));
    for (int64_t i = 0; i < c->rows; i++)
        for (int64_t j = 0; j < c->width; j++) {
            tokens[c->ids[i] * c->width + j] += d[i * c->width + j];
            positions[i % c->seq * c->width + j] += d[i * c->width + j];
        }
    floats_free(d);
}

static void embedding_forward_one(zr_queue *queue, const embedding_case *c, bool positions)
{
    int64_t n = c->rows * c->width;
    void *out = array_new(c->stream, n);
    float *want = floats_new(n);
    zr_run(queue, zr_op_embedding_forward(&(zr_embedding){.vocab = VOCAB,
                                                          .dtype = c->dtype,
                                                          .stream = c->stream,
                                                          .rows = c->rows,
                                                          .seq = c->seq,
                                                          .width = c->width},
                                          c->ids, c->tokens, positions ? c->positions : NULL, out));
    forward_plainly(c, positions, want);
    check_stored("embedding", c->stream, out, want, n);
    array_free(out);
    floats_free(want);
}

static void embedding_backward_one(zr_queue *queue, const embedding_case *c, bool add)
{
    int64_t t = VOCAB * c->width, s = MAX_SEQ * c->width;
    float *tokens = add ? floats_random(t, 2, 1) : floats_new(t),
          *tokens_want = floats_random(t, 2, 1);
    float *positions = add ? floats_random(s, 3, 1) : floats_new(s),
          *positions_want = floats_random(s, 3, 1);
    backward_plainly(c, tokens_want, positions_want, add);
    zr_run(queue, zr_op_embedding_backward(&(zr_embedding){.stream = c->stream,
                                                           .rows = c->rows,
                                                           .seq = c->seq,
                                                           .width = c->width,
                                                           .vocab = VOCAB,
                                                           .add_tokens = add,
                                                           .positions = MAX_SEQ,
                                                           .add_positions = add},
                                           c->ids, c->d, tokens, positions));
    check_same_bits("gradient of tokens", tokens, tokens_want, t * 4);
    check_same_bits("gradient of positions", positions, positions_want, s * 4);
    zr_run(queue, zr_op_embedding_backward(&(zr_embedding){.stream = c->stream,
                                                           .rows = c->rows,
                                                           .seq = c->seq,
                                                           .width = c->width,
                                                           .vocab = VOCAB,
                                                           .add_tokens = false,
                                                           .positions = 0,
                                                           .add_positions = false},
                                           c->ids, c->d, tokens, NULL));
    backward_plainly(c, tokens_want, positions_want, false);
    check_same_bits("gradient of tokens alone", tokens, tokens_want, t * 4);
    float *all[] = {tokens, tokens_want, positions, positions_want};
    for (int i = 0; i < ZR_COUNT(all); i++)
        floats_free(all[i]);
}

static void embedding_one(zr_queue *queue, zr_queue *ref, int64_t width, int64_t batch, int pair)
{
    embedding_case c = {.seq = 8,
                        .rows = batch * 8,
                        .width = width,
                        .dtype = storage_types[pair / STORAGE_TYPES],
                        .stream = storage_types[pair % STORAGE_TYPES]};
    for (int64_t i = 0; i < c.rows; i++)
        c.ids[i] = (int32_t)(i * i % VOCAB);
    c.d = array_random(c.stream, c.rows * width, 1, 1);
    c.tokens = array_random(c.dtype, VOCAB * width, 2, 1);
    c.positions = array_random(c.dtype, MAX_SEQ * width, 3, 1);
    for (int k = 0; k < 4; k++) {
        embedding_forward_one(k < 2 ? queue : ref, &c, k % 2);
        embedding_backward_one(k < 2 ? queue : ref, &c, k % 2);
    }
    array_free(c.d);
    array_free(c.tokens);
    array_free(c.positions);
}

static void embedding_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int k = 1; k < 8; k++)
        for (int64_t batch = 0; batch < 8; batch += 7)
            for (int pair = 0; pair < PAIRS; pair++)
                if (pair == 0 || counts[k] < 700)
                    embedding_one(queue, ref, counts[k], batch, pair);
}

static void embedding_agrees(void **state) { check_each_kernels(embedding_body); }

// ---- bytes ----

static void bytes_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    static const int64_t sizes[] = {0, 1, 63, 4096, 4097, 1000003};
    zr_queue *queues[] = {queue, ref};
    for (int k = 0; k < ZR_COUNT(sizes) * 2; k++) {
        int64_t bytes = sizes[k / 2], floats = (bytes + 3) / 4 + 1;
        float *from = floats_random(floats, 3, 1), *to = floats_new(floats),
              *untouched = floats_new(floats);
        zr_run(queues[k % 2], zr_op_copy(&(zr_bytes){bytes}, from, to));
        check_same_bits("copy", to, from, bytes);
        check_same_bits("after the copy", (char *)to + bytes, (char *)untouched + bytes,
                        floats * 4 - bytes);
        zr_run(queues[k % 2], zr_op_fill(&(zr_bytes){bytes}, to));
        for (int64_t i = 0; i < bytes; i++)
            assert_true(((char *)to)[i] == 0);
        check_same_bits("after the zeros", (char *)to + bytes, (char *)untouched + bytes,
                        floats * 4 - bytes);
        floats_free(from);
        floats_free(to);
        floats_free(untouched);
    }
}

static void bytes_are_moved(void **state) { check_each_kernels(bytes_body); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(add_agrees),
        cmocka_unit_test(column_sum_agrees),
        cmocka_unit_test(convert_agrees),
        cmocka_unit_test(scale_agrees),
        cmocka_unit_test(weighted_sum_agrees),
        cmocka_unit_test(dropout_agrees),
        cmocka_unit_test(dropout_keeps_as_many_as_it_should),
        cmocka_unit_test(embedding_agrees),
        cmocka_unit_test(bytes_are_moved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
