// The loss over slices of a vocabulary: compared with the loss over the whole, by the same backend
// and by ref; and with the sums that the tree over slices makes.
#include "compute/compute.h"
#include "compute_check.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_SLICES = 8, MOST_ROWS = 40 };
static const float factor = 0.25f; // of gradients

// Rows of logits that the type holds exactly, and how they are cut: slice t has tokens
// [first[t], first[t + 1]).
typedef struct sliced {
    zr_loss loss; // of the whole, with its gradient
    float *logits;
    int32_t target[MOST_ROWS]; // of the whole; -1: the row does not count
    int slices;
    int64_t first[MOST_SLICES + 1];
} sliced;

// Cuts the vocabulary into slices of multiples of `unit`; the last ones may be shorter, or empty.
static void cut(sliced *s, int slices, int64_t unit)
{
    int64_t vocab = s->loss.vocab, step = ZR_ROUND_UP((vocab + slices - 1) / slices, unit);
    s->slices = slices;
    for (int t = 0; t <= slices; t++)
        s->first[t] = ZR_MIN(t * step, vocab);
}

// Aims at the first and the last token of every slice in turn, and at others; every seventh row
// does not count.
static void aim(sliced *s)
{
    for (int64_t i = 0; i < s->loss.rows; i++) {
        int t = (int)(i % s->slices);
        int64_t first = s->first[t], last = ZR_MAX(s->first[t + 1] - 1, 0);
        int64_t at[] = {first, last, (first + last) / 2, i * 31};
        s->target[i] = i % 7 == 6 ? -1 : (int32_t)(at[i / s->slices % 4] % s->loss.vocab);
    }
}

static sliced sliced_new(zero_dtype dtype, int64_t rows, int64_t vocab, float size)
{
    sliced s = {.loss = {.dtype = dtype, .rows = rows, .vocab = vocab, .gradient = true}};
    void *stored = array_random(dtype, rows * vocab, 9, size);
    s.logits = array_floats(dtype, stored, rows * vocab);
    array_free(stored);
    return s;
}

typedef struct answer { // losses, and gradients in the place of the logits
    float *row;
    void *logits;
} answer;

static answer whole_of(zr_queue *queue, const sliced *s)
{
    answer a = {.row = floats_new(s->loss.rows),
                .logits = array_of(s->loss.dtype, s->logits, s->loss.rows * s->loss.vocab)};
    zr_run(queue, zr_op_loss(&s->loss, s->target, &factor, NULL, a.logits, a.row));
    return a;
}

static void answer_free(answer *a)
{
    floats_free(a->row);
    array_free(a->logits);
}

static int64_t tokens_of(const sliced *s, int t) { return s->first[t + 1] - s->first[t]; }

static zr_loss loss_of(const sliced *s, int t)
{
    zr_loss loss = s->loss;
    loss.vocab = tokens_of(s, t);
    loss.slices = s->slices;
    return loss;
}

static void targets_of(const sliced *s, int t, int32_t *target)
{
    for (int64_t i = 0; i < s->loss.rows; i++)
        target[i] = s->target[i] < 0 ? ZR_TARGET_NONE : s->target[i] - (int32_t)s->first[t];
}

// Copies the logits of slice t out of those of the whole, or back.
static void slice_copy(const sliced *s, int t, void *whole, void *slice, bool back)
{
    zero_dtype dtype = s->loss.dtype;
    size_t bytes = (size_t)tokens_of(s, t) * zero_dtype_bytes(dtype);
    for (int64_t i = 0; i < s->loss.rows && bytes > 0; i++) {
        void *at = array_at(dtype, whole, i * s->loss.vocab + s->first[t]),
             *own = array_at(dtype, slice, i * tokens_of(s, t));
        memcpy(back ? at : own, back ? own : at, bytes);
    }
}

// Makes the parts of slice t, `group` rows a call.
static void parts_of(zr_queue *queue, const sliced *s, int t, const void *logits, int64_t group,
                     zr_loss_part *parts)
{
    int32_t target[MOST_ROWS];
    targets_of(s, t, target);
    for (int64_t i = 0; i < s->loss.rows; i += group) {
        zr_loss loss = loss_of(s, t);
        loss.rows = ZR_MIN(group, s->loss.rows - i);
        zr_run(queue,
               zr_op_loss_parts(&loss, target + i,
                                array_at(loss.dtype, (void *)logits, i * loss.vocab), parts + i));
    }
}

static void finish(zr_queue *queue, const sliced *s, int t, const zr_loss_part *parts,
                   int64_t stride, answer *a, void *logits)
{
    int32_t target[MOST_ROWS];
    zr_loss loss = loss_of(s, t), only = loss;
    loss.stride = only.stride = stride;
    only.gradient = false;
    float *row = floats_new(loss.rows);
    targets_of(s, t, target);
    zr_run(queue, zr_op_loss_finish(&only, parts, target, NULL, NULL, NULL, a->row));
    zr_run(queue, zr_op_loss_finish(&loss, parts, target, &factor, NULL, logits, row));
    check_same_bits("loss without gradient", a->row, row, loss.rows * 4);
    floats_free(row);
}

// stride: rows between the parts of one slice and those of the next.
static answer slices_of(zr_queue *queue, const sliced *s, int64_t group, int64_t stride)
{
    int64_t rows = s->loss.rows, n = rows * s->loss.vocab;
    answer a = {.row = floats_new(rows), .logits = array_of(s->loss.dtype, s->logits, n)};
    zr_loss_part *parts = calloc((size_t)(s->slices * stride + 1), sizeof *parts);
    void *logits[MOST_SLICES];
    assert_non_null(parts);
    for (int t = 0; t < s->slices; t++) {
        logits[t] = array_new(s->loss.dtype, rows * tokens_of(s, t));
        slice_copy(s, t, a.logits, logits[t], false);
        parts_of(queue, s, t, logits[t], group, parts + t * stride);
    }
    for (int t = 0; t < s->slices; t++) {
        finish(queue, s, t, parts, stride, &a, logits[t]);
        slice_copy(s, t, a.logits, logits[t], true);
        array_free(logits[t]);
    }
    free(parts);
    return a;
}

static void answers_same(const char *what, const sliced *s, const answer *got, const answer *want)
{
    check_same_bits(what, got->row, want->row, s->loss.rows * 4);
    check_same_array(what, s->loss.dtype, got->logits, want->logits, s->loss.rows * s->loss.vocab);
}

static void answers_close(const sliced *s, const answer *got, const answer *want)
{
    check_close("loss", got->row, want->row, s->loss.rows, 1e-6, 3e-7);
    check_close_as("gradient", s->loss.dtype, got->logits, want->logits,
                   s->loss.rows * s->loss.vocab, 2e-6, 2e-7 * factor);
}

static void check_sliced(zr_queue *queue, zr_queue *single, zr_queue *ref, const sliced *s)
{
    int64_t rows = s->loss.rows;
    answer got = slices_of(queue, s, rows + 1, rows), one = slices_of(single, s, 1, rows + 3),
           some = slices_of(queue, s, 4, rows);
    answer whole = whole_of(queue, s), oracle = whole_of(ref, s);
    answers_same("rows one at a time, by one thread", s, &got, &one);
    answers_same("rows in groups", s, &got, &some);
    answers_close(s, &got, &whole);
    answers_close(s, &got, &oracle);
    if (s->slices == 1) {
        check_same_bits("loss of one slice", got.row, whole.row, rows * 4);
        if (s->loss.dtype != ZERO_F32)
            answers_same("gradient of one slice", s, &got, &whole);
    }
    answer *all[] = {&got, &one, &some, &whole, &oracle};
    for (int i = 0; i < ZR_COUNT(all); i++)
        answer_free(all[i]);
}

static void check_cuts(zr_queue *queue, zr_queue *single, zr_queue *ref, sliced *s)
{
    static const int counts[] = {1, 2, 3, 4, 8};
    for (int k = 0; k < ZR_COUNT(counts); k++)
        for (int64_t unit = 1; unit <= 16; unit += 15) {
            cut(s, counts[k], unit);
            aim(s);
            check_sliced(queue, single, ref, s);
        }
}

// The narrowest leaves slices empty; in the widest, slices are wider than a span of fp32 sums.
static void slices_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    static const int64_t vocabs[] = {1, 5, 257, 2500}, rows[] = {1, MOST_ROWS, MOST_ROWS, 8};
    static const float sizes[] = {0, 5, 80};
    for (int v = 0; v < ZR_COUNT(vocabs); v++)
        for (int k = 0; k < ZR_COUNT(sizes) * STORAGE_TYPES; k++) {
            sliced s = sliced_new(storage_types[k % STORAGE_TYPES], rows[v], vocabs[v],
                                  sizes[k / STORAGE_TYPES]);
            check_cuts(queue, single, ref, &s);
            if (queue->threads == 1 && vocabs[v] < 1000)
                check_cuts(ref, ref, ref, &s);
            floats_free(s.logits);
        }
}

static void slices_are_the_whole(void **state) { check_each_kernels(slices_body); }

// Rows whose first slice has nothing above -infinity, or no row of any slice has, or one is
// infinite or not a number, alone in its slice or not.
static void extremes_of(zr_queue *queue, zr_queue *single, zr_queue *ref, zero_dtype dtype)
{
    enum { ROWS = 7, WIDTH = 32, HALF = 16 };
    sliced s = sliced_new(dtype, ROWS, WIDTH, 1);
    float large = dtype == ZERO_F16 ? 65504 : 0x1p100f;
    for (int64_t j = 0; j < WIDTH; j++) {
        if (j < HALF)
            s.logits[j] = s.logits[WIDTH + j] = s.logits[4 * WIDTH + j] = -INFINITY;
        s.logits[2 * WIDTH + j] = -INFINITY;
        s.logits[3 * WIDTH + j] = j % 2 ? large : -large;
    }
    s.logits[4 * WIDTH + 3] = INFINITY - INFINITY;
    s.logits[5 * WIDTH + 20] = INFINITY;
    s.logits[6 * WIDTH + 20] = INFINITY - INFINITY;
    for (int slices = 1; slices <= 4; slices++) {
        static const int32_t target[ROWS] = {HALF + 1, 2, 3, 5, 6, 7, 8};
        cut(&s, slices, 1);
        memcpy(s.target, target, sizeof(target));
        answer got = slices_of(queue, &s, ROWS, ROWS), whole = whole_of(queue, &s);
        answers_close(&s, &got, &whole);
        assert_true(isfinite(got.row[0]) && got.row[1] == INFINITY);
        for (int i = 4; i < ROWS; i++)
            assert_true(isnan(got.row[i]));
        answer_free(&got);
        answer_free(&whole);
    }
    floats_free(s.logits);
}

static void extremes_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int t = 0; t < STORAGE_TYPES; t++) {
        extremes_of(queue, single, ref, storage_types[t]);
        extremes_of(ref, ref, ref, storage_types[t]);
    }
}

static void slices_bear_extremes(void **state) { check_each_kernels(extremes_body); }

// ---- the parts themselves ----

static void part_is(const zr_loss_part *got, float largest, float aimed, double sum)
{
    if (got->largest != largest || got->aimed != aimed || fabs(got->sum - sum) > 1e-6)
        fail_msg("part %g, %g, %g, should be %g, %g, %g", (double)got->largest, (double)got->aimed,
                 got->sum, (double)largest, (double)aimed, sum);
}

static void parts_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    enum { ROWS = 5, WIDTH = 3 };
    static const float logits[ROWS * WIDTH] = {2, 1, 2, 2, 1,         2,         2,        1,
                                               2, 2, 1, 2, -INFINITY, -INFINITY, -INFINITY};
    static const int32_t target[ROWS] = {1, -1, WIDTH, ZR_TARGET_NONE, 0};
    zr_queue *queues[] = {queue, ref};
    for (int k = 0; k < ZR_COUNT(queues) * STORAGE_TYPES; k++) {
        zr_queue *q = queues[k / STORAGE_TYPES];
        zr_loss loss = {.dtype = storage_types[k % STORAGE_TYPES], .rows = ROWS, .vocab = WIDTH};
        void *stored = array_of(loss.dtype, logits, ROWS * WIDTH);
        zr_loss_part parts[ROWS];
        zr_run(q, zr_op_loss_parts(&loss, target, stored, parts));
        part_is(&parts[0], 2, 1, 2 + exp(-1));
        part_is(&parts[1], 2, -INFINITY, 2 + exp(-1));
        part_is(&parts[2], 2, -INFINITY, 2 + exp(-1));
        part_is(&parts[3], -INFINITY, -INFINITY, 0);
        part_is(&parts[4], -INFINITY, -INFINITY, 0);
        loss.vocab = 0;
        zr_run(q, zr_op_loss_parts(&loss, target, NULL, parts));
        for (int i = 0; i < ROWS; i++)
            part_is(&parts[i], -INFINITY, -INFINITY, 0);
        array_free(stored);
    }
}

static void a_part_is_what_it_says(void **state) { check_each_kernels(parts_body); }

// Sums of which 1 and 2^-53 are 1 again, so that their order shows in the last bit.
static float loss_of_sums(zr_queue *queue, int slices)
{
    zr_loss_part parts[MOST_SLICES];
    const zr_loss loss = {.rows = 1, .slices = slices, .stride = 1};
    const int32_t elsewhere = -1;
    float row;
    for (int t = 0; t < slices; t++)
        parts[t] = (zr_loss_part){.aimed = t ? -INFINITY : 0, .sum = t ? 0x1p-53 : 1};
    zr_run(queue, zr_op_loss_finish(&loss, parts, &elsewhere, NULL, NULL, NULL, &row));
    return row;
}

static void tree_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    zr_queue *queues[] = {queue, ref};
    for (int k = 0; k < ZR_COUNT(queues); k++) {
        assert_true(loss_of_sums(queues[k], 1) == 0);
        assert_true(loss_of_sums(queues[k], 2) == 0);
        assert_true(loss_of_sums(queues[k], 3) == 0);            // (0+1)+2
        assert_true(loss_of_sums(queues[k], 4) == 0x1p-52f);     // (0+1)+(2+3)
        assert_true(loss_of_sums(queues[k], 5) == 0x1p-51f);     // ((0+1)+(2+3))+4, to even
        assert_true(loss_of_sums(queues[k], 6) == 0x1p-51f);     // ((0+1)+(2+3))+(4+5)
        assert_true(loss_of_sums(queues[k], 8) == 3 * 0x1p-52f); // halves
    }
}

static void sums_follow_the_tree(void **state) { check_each_kernels(tree_body); }

// Without rows nothing is touched, and arrays may be NULL.
static void empty_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    zr_queue *queues[] = {queue, ref};
    for (int k = 0; k < ZR_COUNT(queues) * STORAGE_TYPES; k++) {
        zr_queue *q = queues[k / STORAGE_TYPES];
        zero_dtype dtype = storage_types[k % STORAGE_TYPES];
        const zr_loss loss = {.dtype = dtype, .vocab = 3, .gradient = true, .slices = 2};
        zr_run(q, zr_op_loss(&loss, NULL, &factor, NULL, NULL, NULL));
        zr_run(q, zr_op_loss_parts(&loss, NULL, NULL, NULL));
        zr_run(q, zr_op_loss_finish(&loss, NULL, NULL, &factor, NULL, NULL, NULL));
        zr_run(q, zr_op_softmax(&(zr_matrix){.dtype = dtype, .rows = 0, .width = 3}, NULL));
    }
}

static void no_rows_are_no_work(void **state) { check_each_kernels(empty_body); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_are_the_whole),   cmocka_unit_test(slices_bear_extremes),
        cmocka_unit_test(a_part_is_what_it_says), cmocka_unit_test(sums_follow_the_tree),
        cmocka_unit_test(no_rows_are_no_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
