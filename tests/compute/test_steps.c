// Rows that lie apart: logits with space between their rows, what is multiplied into them and by
// them. Bits are those of dense rows, and the space between stays as it was.
#include "compute_check.h"

#include <string.h>

enum { ROWS = 5, VOCAB = 19, STEP = 24, WIDTH = 7 };

// Returns rows of `width` elements, STEP apart; free it with array_free.
static void *spread(zero_dtype dtype, const void *dense, int64_t rows, int64_t width)
{
    const size_t size = zero_dtype_bytes(dtype);
    char *apart = array_random(dtype, rows * STEP, 77, 3);
    for (int64_t row = 0; row < rows; row++)
        memcpy(apart + (size_t)(row * STEP) * size,
               (const char *)dense + (size_t)(row * width) * size, (size_t)width * size);
    return apart;
}

// Checks that the rows are those of `dense`, and that nothing was written between them.
static void check_apart(const char *what, zero_dtype dtype, const void *got, const void *dense,
                        int64_t rows, int64_t width)
{
    void *want = spread(dtype, dense, rows, width);
    check_same_array(what, dtype, got, want, rows * STEP);
    array_free(want);
}

// d: dense; apart: the same with d_step.
static void check_result(zr_queue *queue, zero_dtype dtype, bool trans_b)
{
    zr_product p = {
        .dtype = dtype, .out = dtype, .m = ROWS, .n = VOCAB, .k = WIDTH, .trans_b = trans_b};
    void *a = array_random(dtype, ROWS * WIDTH, 1, 1),
         *b = array_random(dtype, WIDTH * VOCAB, 2, 1), *d = array_new(dtype, ROWS * VOCAB);
    zr_run(queue, zr_op_product(&p, a, b, NULL, d));
    void *apart = spread(dtype, d, ROWS, VOCAB);
    for (int64_t row = 0; row < ROWS; row++)
        memset(array_at(dtype, apart, row * STEP), 0, VOCAB * zero_dtype_bytes(dtype));
    p.d_step = STEP;
    zr_run(queue, zr_op_product(&p, a, b, NULL, apart));
    check_apart("D apart", dtype, apart, d, ROWS, VOCAB);
    array_free(a), array_free(b), array_free(d), array_free(apart);
}

// A of (ROWS, VOCAB), which is multiplied as it lies, or turned and added to what is there.
static void check_operand(zr_queue *queue, zero_dtype dtype, bool turned)
{
    zr_product p = {.dtype = dtype,
                    .out = ZERO_F32,
                    .m = turned ? VOCAB : ROWS,
                    .n = WIDTH,
                    .k = turned ? ROWS : VOCAB,
                    .trans_a = turned,
                    .add = turned};
    void *a = array_random(dtype, ROWS * VOCAB, 3, 1), *b = array_random(dtype, p.k * WIDTH, 4, 1),
         *apart = spread(dtype, a, ROWS, VOCAB);
    float *want = floats_random(p.m * WIDTH, 5, 1), *got = floats_copy(want, p.m * WIDTH);
    zr_run(queue, zr_op_product(&p, a, b, NULL, want));
    p.a_step = STEP;
    zr_run(queue, zr_op_product(&p, apart, b, NULL, got));
    check_same_bits("A apart", got, want, p.m * WIDTH * (int64_t)sizeof *got);
    floats_free(want), floats_free(got);
    array_free(a), array_free(b), array_free(apart);
}

static void products_take_rows_that_lie_apart(void **state)
{
    zr_queue *ref = check_queue("ref", NULL, 1);
    for (int t = 0; t < STORAGE_TYPES; t++)
        for (int turned = 0; turned < 2; turned++) {
            check_result(ref, storage_types[t], turned);
            check_operand(ref, storage_types[t], turned);
        }
    check_queue_close(ref);
}

typedef struct answer {
    float loss[ROWS];
    zr_loss_part parts[2 * ROWS];
    void *logits;
} answer;

static answer answer_of(zr_queue *queue, zr_loss loss, bool in_parts, void *logits)
{
    static const int32_t target[ROWS] = {3, VOCAB - 1, -1, 0, 7};
    static const float factor = 0.25f;
    int32_t own[ROWS];
    answer out = {.logits = logits};
    for (int row = 0; row < ROWS; row++)
        own[row] = target[row] < 0 ? ZR_TARGET_NONE : target[row];
    if (!in_parts) {
        zr_run(queue, zr_op_loss(&loss, target, &factor, NULL, logits, out.loss));
        return out;
    }
    for (int slice = 0; slice < 2; slice++) // two alike
        zr_run(queue, zr_op_loss_parts(&loss, own, logits, out.parts + slice * ROWS));
    zr_run(queue, zr_op_loss_finish(&loss, out.parts, own, &factor, NULL, logits, out.loss));
    return out;
}

static void check_loss(zr_queue *queue, zero_dtype dtype, bool in_parts)
{
    zr_loss loss = {.dtype = dtype,
                    .rows = ROWS,
                    .vocab = VOCAB,
                    .gradient = true,
                    .slices = 2,
                    .stride = ROWS};
    void *dense = array_random(dtype, ROWS * VOCAB, 6, 4),
         *apart = spread(dtype, dense, ROWS, VOCAB);
    const answer want = answer_of(queue, loss, in_parts, dense);
    loss.step = STEP;
    const answer got = answer_of(queue, loss, in_parts, apart);
    check_same_bits("losses", got.loss, want.loss, sizeof got.loss);
    check_same_bits("parts", got.parts, want.parts, sizeof got.parts);
    check_apart("gradients", dtype, apart, dense, ROWS, VOCAB);
    array_free(dense), array_free(apart);
}

static void losses_of(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int t = 0; t < STORAGE_TYPES; t++)
        for (int in_parts = 0; in_parts < 2; in_parts++) {
            check_loss(queue, storage_types[t], in_parts);
            check_loss(ref, storage_types[t], in_parts);
        }
}

static void losses_take_rows_that_lie_apart(void **state) { check_each_kernels(losses_of); }

static void refusal_of(zr_queue *queue, zr_product p, const char *why)
{
    float zeros[64] = {0};
    zero_error error = {0};
    p.m = p.n = p.k = 2;
    assert_int_equal(check_run(queue, zr_op_product(&p, zeros, zeros, zeros, zeros), &error),
                     ZERO_ERR_UNSUPPORTED);
    if (!strstr(error.message, why))
        fail_msg("%s", error.message);
}

static void refusals(zr_queue *queue)
{
    refusal_of(queue, (zr_product){.d_step = 4, .epilogue = ZR_EPILOGUE_BIAS}, "plain products");
    refusal_of(queue, (zr_product){.a_step = 4, .gelu_a = true}, "plain products");
    refusal_of(queue, (zr_product){.a_step = 1}, "lie 1 and 2 apart");
    refusal_of(queue, (zr_product){.d_step = 1}, "lie 2 and 1 apart");
}

static void refusals_of_cpu(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    refusals(queue);
    refusal_of(queue, (zr_product){.d_step = 4}, "the processor multiplies no rows");
    refusal_of(queue, (zr_product){.a_step = 4}, "the processor multiplies no rows");
}

static void what_is_not_computed_is_refused(void **state)
{
    zr_queue *ref = check_queue("ref", NULL, 1);
    refusals(ref);
    check_queue_close(ref);
    check_each_cpu(refusals_of_cpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_take_rows_that_lie_apart),
        cmocka_unit_test(losses_take_rows_that_lie_apart),
        cmocka_unit_test(what_is_not_computed_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
