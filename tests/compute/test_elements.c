// Elementwise operations, column sums, embedding, bytes: ref against formulas of this file, cpu against ref.
#include "compute_check.h"

#include <string.h>

static const int64_t counts[] = {0, 1, 3, 17, 64, 128, 768, 1000, 40001};

// ---- GELU ----

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static void ref_gelu_is_right(void **state)
{
    zr_queue *ref = check_queue("ref", NULL, 1);
    for (float x = -8; x < 8; x += 0.37f) {
        float y, d = 2, want = (float)gelu(x), slope = (float)(2 * (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5);
        ref->backend->elements->gelu_forward(ref, ZERO_F32, 1, &x, &y);
        ref->backend->elements->gelu_backward(ref, ZERO_F32, 1, &x, &d);
        check_close("gelu", &y, &want, 1, 2e-7, 1e-14);
        check_close("gelu'", &d, &slope, 1, 1e-6, 1e-8);
    }
    check_queue_close(ref);
}

static float *gelu_inputs(int64_t n)
{
    static const float special[] = {0, -0.0f, 1e-30f, -1e-30f, 1e30f, -1e30f, NAN, 100, -100, 10, -10};
    float *x = floats_random(n, 8, 12);
    for (int64_t i = 0; n > 100 && i < ZR_COUNT(special); i++)
        x[i * 3] = special[i];
    return x;
}

static void gelu_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int k = 0; k < ZR_COUNT(counts); k++) {
        int64_t n = counts[k];
        zr_queue *queues[] = {queue, single, ref};
        float *x = gelu_inputs(n), *y[3], *d[3];
        for (int q = 0; q < 3; q++) {
            y[q] = floats_new(n);
            d[q] = floats_random(n, 5, 1);
            queues[q]->backend->elements->gelu_forward(queues[q], ZERO_F32, n, x, y[q]);
            queues[q]->backend->elements->gelu_backward(queues[q], ZERO_F32, n, x, d[q]);
        }
        check_close("gelu", y[0], y[2], n, 1.5e-5,
                    1e-35); // relative, into the tail, where e^-87 carries the error of its exponent
        check_close("gelu near zero and above", y[0], y[2], n, 5e-7, 1e-7);
        check_close("gelu'", d[0], d[2], n, 1e-6, 3e-7);
        check_same_bits("gelu at one thread", y[0], y[1], n * 4);
        check_same_bits("gelu' at one thread", d[0], d[1], n * 4);
        for (int q = 0; q < 3; q++) {
            floats_free(y[q]);
            floats_free(d[q]);
        }
        floats_free(x);
    }
}

static void cpu_gelu_agrees(void **state)
{
    check_each_cpu(gelu_body);
}

// ---- sums ----

static void add_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int k = 0; k < ZR_COUNT(counts); k++) {
        int64_t n = counts[k];
        float *a = floats_random(n, 1, 1e30f), *b = floats_random(n, 2, 1), *out = floats_new(n), *want = floats_new(n);
        for (int64_t i = 0; i < n; i++)
            want[i] = a[i] + b[i];
        queue->backend->elements->add(queue, ZERO_F32, n, a, b, out);
        check_same_bits("add", out, want, n * 4);
        ref->backend->elements->add(ref, ZERO_F32, n, a, b, b);
        check_same_bits("add of ref", b, want, n * 4);
        floats_free(b);
        b = floats_random(n, 2, 1);
        queue->backend->elements->add(queue, ZERO_F32, n, a, b, a);
        check_same_bits("add in place", a, want, n * 4);
        floats_free(a);
        floats_free(b);
        floats_free(out);
        floats_free(want);
    }
}

static void add_agrees(void **state)
{
    check_each_cpu(add_body);
}

static float *column_sum_of(zr_queue *queue, int64_t rows, int64_t width, const float *x, bool add)
{
    float *out = add ? floats_random(width, 7, 1) : floats_new(width);
    float *scratch = floats_new((int64_t)queue->backend->elements->column_sum_scratch(queue, rows, width) / 4);
    queue->backend->elements->column_sum(queue, ZERO_F32, rows, width, x, out, add, scratch);
    floats_free(scratch);
    return out;
}

static void column_sum_one(zr_queue *queue, zr_queue *single, zr_queue *ref, int64_t rows, int64_t width)
{
    float *x = floats_random(rows * width, 3, 1), *before = floats_random(width, 7, 1), *plain = floats_new(width);
    for (int add = 0; add < 2; add++) {
        for (int64_t j = 0; j < width; j++) {
            long double sum = add ? before[j] : 0;
            for (int64_t i = 0; i < rows; i++)
                sum += x[i * width + j];
            plain[j] = (float)sum;
        }
        float *got = column_sum_of(queue, rows, width, x, add), *one = column_sum_of(single, rows, width, x, add);
        float *want = column_sum_of(ref, rows, width, x, add);
        check_close("column sum of ref", want, plain, width, 1e-7, 1e-12);
        check_close("column sum", got, plain, width, 1e-6, 3e-8 * (double)rows + 1e-6);
        check_same_bits("column sum at one thread", got, one, width * 4);
        floats_free(got);
        floats_free(one);
        floats_free(want);
    }
    floats_free(x);
    floats_free(before);
    floats_free(plain);
}

static void column_sum_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    static const int64_t rows[] = {0, 1, 5, 33, 64, 2111};
    for (int r = 0; r < ZR_COUNT(rows); r++)
        for (int k = 1; k < 8; k++)
            column_sum_one(queue, single, ref, rows[r], rows[r] > 100 ? ZR_MIN(counts[k], 130) : counts[k]);
}

static void column_sum_agrees(void **state)
{
    check_each_cpu(column_sum_body);
}

// ---- dropout ----

static void dropout_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    static const float p[] = {0, 0.1f, 0.5f, 1};
    for (int k = 0; k < ZR_COUNT(counts); k++)
        for (int j = 0; j < ZR_COUNT(p); j++) {
            int64_t n = counts[k];
            float *x = floats_random(n, 1, 3), *got = floats_new(n), *want = floats_new(n);
            if (n > 20)
                x[7] = INFINITY;
            queue->backend->elements->dropout(queue, ZERO_F32, n, p[j], 0x123456789abcdefull, x, got);
            ref->backend->elements->dropout(ref, ZERO_F32, n, p[j], 0x123456789abcdefull, x, want);
            check_close("dropout", got, want, n, 0, 0);
            for (int64_t i = 0; i < n; i++)
                assert_true(zr_dropout_keep(0x123456789abcdefull, (uint64_t)i, p[j]) ? got[i] == x[i] * (1 / (1 - p[j]))
                                                                                     : got[i] == 0);
            queue->backend->elements->dropout(queue, ZERO_F32, n, p[j], 0x123456789abcdefull, x, x);
            check_same_bits("dropout in place", x, got, n * 4);
            floats_free(x);
            floats_free(got);
            floats_free(want);
        }
}

static void dropout_agrees(void **state)
{
    check_each_cpu(dropout_body);
}

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
    float *d, *tokens, *positions;
} embedding_case;

static void forward_plainly(const embedding_case *c, bool positions, float *out)
{
    for (int64_t i = 0; i < c->rows; i++)
        for (int64_t j = 0; j < c->width; j++)
            out[i * c->width + j] = c->tokens[c->ids[i] * c->width + j]
                                    + (positions ? c->positions[i % c->seq * c->width + j] : 0);
}

static void backward_plainly(const embedding_case *c, float *tokens, float *positions, bool add)
{
    memset(tokens, 0, add ? 0 : sizeof(float) * (size_t)(VOCAB * c->width));
    memset(positions, 0, add ? 0 : sizeof(float) * (size_t)(MAX_SEQ * c->width));
    for (int64_t i = 0; i < c->rows; i++)
        for (int64_t j = 0; j < c->width; j++) {
            tokens[c->ids[i] * c->width + j] += c->d[i * c->width + j];
            positions[i % c->seq * c->width + j] += c->d[i * c->width + j];
        }
}

static void embedding_one(zr_queue *queue, const embedding_case *c)
{
    const zr_element_ops *ops = queue->backend->elements;
    int64_t n = c->rows * c->width, t = VOCAB * c->width, s = MAX_SEQ * c->width;
    for (int k = 0; k < 2; k++) {
        float *out = floats_new(n), *want = floats_new(n);
        ops->embedding_forward(queue, ZERO_F32, c->rows, c->seq, c->width, c->ids, c->tokens, k ? c->positions : NULL,
                               out);
        forward_plainly(c, k, want);
        check_same_bits("embedding", out, want, n * 4);
        float *tokens = k ? floats_copy(c->tokens, t) : floats_new(t), *tokens_want = floats_copy(c->tokens, t);
        float *positions = k ? floats_copy(c->positions, s) : floats_new(s),
              *positions_want = floats_copy(c->positions, s);
        backward_plainly(c, tokens_want, positions_want, k);
        ops->embedding_backward(queue, ZERO_F32, c->rows, c->seq, c->width, c->ids, c->d, VOCAB, tokens, k, MAX_SEQ,
                                positions, k);
        check_same_bits("gradient of tokens", tokens, tokens_want, t * 4);
        check_same_bits("gradient of positions", positions, positions_want, s * 4);
        ops->embedding_backward(queue, ZERO_F32, c->rows, c->seq, c->width, c->ids, c->d, VOCAB, tokens, false, 0, NULL,
                                false);
        backward_plainly(c, tokens_want, positions_want, false);
        check_same_bits("gradient of tokens alone", tokens, tokens_want, t * 4);
        float *all[] = {out, want, tokens, tokens_want, positions, positions_want};
        for (int i = 0; i < ZR_COUNT(all); i++)
            floats_free(all[i]);
    }
}

static void embedding_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int k = 1; k < 8; k++)
        for (int64_t batch = 0; batch < 8; batch += 7) {
            embedding_case c = {.seq = 8, .rows = batch * 8, .width = counts[k]};
            for (int64_t i = 0; i < c.rows; i++)
                c.ids[i] = (int32_t)(i * i % VOCAB);
            c.d = floats_random(c.rows * c.width, 1, 1);
            c.tokens = floats_random(VOCAB * c.width, 2, 1);
            c.positions = floats_random(MAX_SEQ * c.width, 3, 1);
            embedding_one(queue, &c);
            embedding_one(ref, &c);
            floats_free(c.d);
            floats_free(c.tokens);
            floats_free(c.positions);
        }
}

static void embedding_agrees(void **state)
{
    check_each_cpu(embedding_body);
}

// ---- bytes ----

static void bytes_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    static const int64_t sizes[] = {0, 1, 63, 4096, 4097, 1000003};
    zr_queue *queues[] = {queue, ref};
    for (int k = 0; k < ZR_COUNT(sizes) * 2; k++) {
        const zr_element_ops *ops = queues[k % 2]->backend->elements;
        int64_t bytes = sizes[k / 2], floats = (bytes + 3) / 4 + 1;
        float *from = floats_random(floats, 3, 1), *to = floats_new(floats), *untouched = floats_new(floats);
        ops->copy(queues[k % 2], bytes, from, to);
        check_same_bits("copy", to, from, bytes);
        check_same_bits("after the copy", (char *)to + bytes, (char *)untouched + bytes, floats * 4 - bytes);
        ops->zero(queues[k % 2], bytes, to);
        for (int64_t i = 0; i < bytes; i++)
            assert_true(((char *)to)[i] == 0);
        check_same_bits("after the zeros", (char *)to + bytes, (char *)untouched + bytes, floats * 4 - bytes);
        floats_free(from);
        floats_free(to);
        floats_free(untouched);
    }
}

static void bytes_are_moved(void **state)
{
    check_each_cpu(bytes_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ref_gelu_is_right), cmocka_unit_test(cpu_gelu_agrees),
        cmocka_unit_test(add_agrees),        cmocka_unit_test(column_sum_agrees),
        cmocka_unit_test(dropout_agrees),    cmocka_unit_test(dropout_keeps_as_many_as_it_should),
        cmocka_unit_test(embedding_agrees),  cmocka_unit_test(bytes_are_moved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
