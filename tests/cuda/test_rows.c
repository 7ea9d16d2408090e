// Norms, softmax and the loss on a card, compared with ref.
#include "cuda_direct.h"

static const cuda_tolerance exact = {0, 0};

// ---- norms ----

typedef struct norm_types {
    zero_dtype dtype, stream;
} norm_types;

static const norm_types types[] = {
    {ZERO_F32, ZERO_F32},  {ZERO_BF16, ZERO_BF16}, {ZERO_F16, ZERO_F16},
    {ZERO_BF16, ZERO_F32}, {ZERO_F16, ZERO_F32},
};

typedef struct matrix_size {
    int64_t rows, width;
} matrix_size;

static const matrix_size sizes[] = {{1, 72},   {33, 72},  {5, 77},  {5, 768},
                                    {1, 1600}, {1, 4096}, {97, 33}, {0, 72}};

// The operands of both directions; their numbers are those of the declarations.
typedef struct norm_case {
    zr_norm of;
    void *x, *branch, *gamma, *beta, *y, *dy, *sum, *dx;
    float *mean, *rstd, *dgamma, *dbeta;
} norm_case;

static norm_case norm_case_new(norm_types t, matrix_size s, bool rms)
{
    const int64_t n = s.rows * s.width;
    norm_case c = {.of = {.dtype = t.dtype,
                          .stream = t.stream,
                          .rows = s.rows,
                          .width = s.width,
                          .epsilon = 1e-5f,
                          .rms = rms},
                   .x = array_random(t.stream, n, 1, 2),
                   .branch = array_random(t.dtype, n, 2, 1),
                   .gamma = array_random(t.dtype, s.width, 3, 1),
                   .beta = rms ? NULL : array_random(t.dtype, s.width, 4, 1),
                   .y = array_new(t.dtype, n),
                   .dy = array_random(t.dtype, n, 5, 1),
                   .sum = array_random(t.stream, n, 11, 1),
                   .dx = array_random(t.stream, n, 6, 1),
                   .mean = floats_random(s.rows, 7, 0.3f),
                   .rstd = floats_random(s.rows, 8, 0.2f),
                   .dgamma = floats_random(s.width, 9, 1),
                   .dbeta = floats_random(s.width, 10, 1)};
    for (int64_t i = 0; i < s.rows; i++)
        c.rstd[i] += 0.8f;
    return c;
}

static void norm_case_free(norm_case *c)
{
    void *const arrays[] = {c->x, c->branch, c->gamma, c->beta, c->y, c->dy, c->sum, c->dx};
    float *const floats[] = {c->mean, c->rstd, c->dgamma, c->dbeta};
    for (int i = 0; i < ZR_COUNT(arrays); i++)
        array_free(arrays[i]);
    for (int i = 0; i < ZR_COUNT(floats); i++)
        floats_free(floats[i]);
}

static void check_forward(norm_case *c)
{
    enum { SUM = 2 };
    const cuda_tolerance near = {1e-6, 3e-6};
    const zr_norm *of = &c->of;
    cuda_check("norm",
               zr_op_norm_forward(of, c->x, NULL, NULL, c->gamma, c->beta, c->y, c->mean, c->rstd),
               near);
    cuda_check("norm, evaluated",
               zr_op_norm_forward(of, c->x, NULL, NULL, c->gamma, c->beta, c->y, NULL, NULL), near);
    cuda_check_one(
        "norm of a sum",
        zr_op_norm_forward(of, c->x, c->branch, c->sum, c->gamma, c->beta, c->y, c->mean, c->rstd),
        near, SUM, exact);
    cuda_check_one(
        "norm of a sum in place",
        zr_op_norm_forward(of, c->x, c->branch, c->x, c->gamma, c->beta, c->y, c->mean, c->rstd),
        near, SUM, exact);
    if (of->stream == of->dtype)
        cuda_check_one("norm of a sum over the branch",
                       zr_op_norm_forward(of, c->x, c->branch, c->branch, c->gamma, c->beta, c->y,
                                          c->mean, c->rstd),
                       near, SUM, exact);
}

static void check_backward(norm_case *c)
{
    enum { DX = 6 };
    const cuda_tolerance of_sums = {1e-6, 1e-6 * (double)(4 + c->of.rows)}, near = {1e-6, 6e-6};
    for (int add = 0; add < 2; add++) {
        c->of.add_parameters = add;
        cuda_check_one("norm'",
                       zr_op_norm_backward(&c->of, c->dy, c->x, c->gamma, c->mean, c->rstd, NULL,
                                           c->sum, c->dgamma, c->dbeta, NULL),
                       of_sums, DX, near);
    }
    cuda_check_one("norm' in place",
                   zr_op_norm_backward(&c->of, c->dy, c->x, c->gamma, c->mean, c->rstd, c->dx,
                                       c->dx, c->dgamma, c->dbeta, NULL),
                   of_sums, DX, near);
    cuda_check_one("norm', parameters frozen",
                   zr_op_norm_backward(&c->of, c->dy, c->x, c->gamma, c->mean, c->rstd, c->sum,
                                       c->dx, NULL, NULL, NULL),
                   of_sums, DX, near);
    if (c->of.rms && c->of.stream == c->of.dtype)
        cuda_check_one("norm' over dy",
                       zr_op_norm_backward(&c->of, c->dy, c->x, c->gamma, c->mean, c->rstd, NULL,
                                           c->dy, c->dgamma, NULL, NULL),
                       of_sums, DX, near);
}

static void norms_agree(void **state)
{
    for (int t = 0; t < ZR_COUNT(types); t++)
        for (int s = 0; s < ZR_COUNT(sizes); s++)
            for (int rms = 0; rms < 2; rms++) {
                norm_case c = norm_case_new(types[t], sizes[s], rms);
                check_forward(&c);
                check_backward(&c);
                norm_case_free(&c);
            }
}

// Far from zero a mean that is rounded would spoil the distances from it.
static void norm_far_from_zero(void **state)
{
    norm_case c = norm_case_new(types[0], (matrix_size){7, 1000}, false);
    float *x = c.x;
    for (int64_t i = 0; i < 7000; i++)
        x[i] = 1000 + x[i] / 20;
    cuda_check("norm far from zero",
               zr_op_norm_forward(&c.of, x, NULL, NULL, c.gamma, c.beta, c.y, NULL, NULL),
               (cuda_tolerance){1e-6, 1e-5});
    norm_case_free(&c);
}

// What is added to the gradients of parameters is what would have been set.
static void norm_gradients_are_added(void **state)
{
    enum { ROWS = 70, WIDTH = 72, SCRATCH = 9 };
    norm_case c = norm_case_new(types[3], (matrix_size){ROWS, WIDTH}, false);
    pinned dy = pinned_of(c.dy, ROWS * WIDTH * 2), x = pinned_of(c.x, ROWS * WIDTH * 4),
           gamma = pinned_of(c.gamma, WIDTH * 2), mean = pinned_of(c.mean, ROWS * 4),
           rstd = pinned_of(c.rstd, ROWS * 4), dx = pinned_of(NULL, ROWS * WIDTH * 4), sums[2][2];
    for (int add = 0; add < 2; add++) {
        c.of.add_parameters = add;
        sums[add][0] = pinned_of(c.dgamma, WIDTH * 4);
        sums[add][1] = pinned_of(c.dbeta, WIDTH * 4);
        run_directly(zr_op_norm_backward(&c.of, dy.at, x.at, gamma.at, (float *)(void *)mean.at,
                                         (float *)(void *)rstd.at, NULL, dx.at,
                                         (float *)(void *)sums[add][0].at,
                                         (float *)(void *)sums[add][1].at, NULL),
                     SCRATCH);
    }
    for (int i = 0; i < 2; i++)
        check_added("gradients", (float *)(void *)sums[1][i].at, i ? c.dbeta : c.dgamma,
                    (float *)(void *)sums[0][i].at, WIDTH);
    pinned *const all[] = {&dy, &x,          &gamma,      &mean,       &rstd,
                           &dx, &sums[0][0], &sums[0][1], &sums[1][0], &sums[1][1]};
    for (int i = 0; i < ZR_COUNT(all); i++)
        pinned_free(all[i]);
    norm_case_free(&c);
}

// The bits of a norm are the same where its rows begin at other addresses.
static void norm_begins_anywhere(void **state)
{
    enum { ROWS = 3, WIDTH = 768, BYTES = ROWS * WIDTH * 2 };
    norm_case c = norm_case_new(types[1], (matrix_size){ROWS, WIDTH}, false);
    pinned y[2], gamma = pinned_of(c.gamma, WIDTH * 2), beta = pinned_of(c.beta, WIDTH * 2);
    for (int shift = 0; shift < 2; shift++) {
        pinned x = pinned_of(NULL, BYTES + 2);
        y[shift] = pinned_of(NULL, BYTES + 2);
        memcpy(x.at + 2 * shift, c.x, BYTES);
        run_directly(zr_op_norm_forward(&c.of, x.at + 2 * shift, NULL, NULL, gamma.at, beta.at,
                                        y[shift].at + 2 * shift, NULL, NULL),
                     -1);
        pinned_free(&x);
    }
    check_same_bits("norm", y[1].at + 2, y[0].at, BYTES);
    pinned_free(&y[0]), pinned_free(&y[1]), pinned_free(&gamma), pinned_free(&beta);
    norm_case_free(&c);
}

// ---- the loss ----

enum { ROW_LOSS = 4, FINISHED_LOSS = 5 }; // operands of loss and loss_finish

typedef struct loss_case {
    zr_loss of;
    int32_t *target;
    float *weight, *row_loss, factor;
    void *logits;
} loss_case;

// Rows that ascend make every thread find a larger element again and again; some logits are
// -infinity, and some rows do not count. step: of zr_loss.
static loss_case loss_case_new(zero_dtype dtype, int64_t rows, int64_t vocab, int64_t step,
                               int32_t none)
{
    const int64_t row_step = step ? step : vocab, n = rows * row_step;
    float *logits = floats_random(n, 1, 6);
    loss_case c = {
        .of = {.dtype = dtype, .rows = rows, .vocab = vocab, .gradient = true, .step = step},
        .target = (int32_t *)(void *)floats_new(rows),
        .weight = floats_random(rows, 2, 1),
        .row_loss = floats_new(rows),
        .factor = 0.37f};
    for (int64_t i = 0; i < rows; i++)
        c.target[i] = i % 5 == 3 ? none : (int32_t)(i * 7919 % vocab);
    for (int64_t i = 0; i < n; i++) {
        int64_t row = i / row_step, j = i % row_step;
        if (row % 3 == 1)
            logits[i] += 0.01f * (float)(j % 3000);
        if (row % 4 == 2 && j % 11 == 5 && j != c.target[row])
            logits[i] = -INFINITY;
    }
    c.logits = array_of(dtype, logits, n);
    floats_free(logits);
    return c;
}

static void loss_case_free(loss_case *c)
{
    floats_free((float *)(void *)c->target);
    floats_free(c->weight), floats_free(c->row_loss), array_free(c->logits);
}

static void check_loss(zero_dtype dtype, int64_t rows, int64_t vocab, int64_t step)
{
    loss_case c = loss_case_new(dtype, rows, vocab, step, -1);
    const cuda_tolerance gradient = {2e-6, 2e-7}, loss = {1e-6, 3e-7};
    cuda_check_one("loss", zr_op_loss(&c.of, c.target, &c.factor, NULL, c.logits, c.row_loss),
                   gradient, ROW_LOSS, loss);
    cuda_check_one("loss with weights",
                   zr_op_loss(&c.of, c.target, &c.factor, c.weight, c.logits, c.row_loss), gradient,
                   ROW_LOSS, loss);
    c.of.gradient = false;
    cuda_check("loss alone", zr_op_loss(&c.of, c.target, NULL, NULL, c.logits, c.row_loss), loss);
    loss_case_free(&c);
}

static void losses_agree(void **state)
{
    for (int t = 0; t < STORAGE_TYPES; t++) {
        check_loss(storage_types[t], 33, 1, t == 1 ? 64 : 0);
        check_loss(storage_types[t], 9, 72, 0);
        check_loss(storage_types[t], 33, 1003, 0);
        check_loss(storage_types[t], 33, 1003, 1024);
        check_loss(storage_types[t], t == 1 ? 4 : 1, 50257, t == 2 ? 0 : 50304);
    }
}

static void parts_agree(void **state)
{
    const int64_t vocabs[] = {0, 1, 72, 1003};
    const cuda_tolerance near = {1e-6, 0};
    for (int t = 0; t < STORAGE_TYPES; t++)
        for (int v = 0; v < ZR_COUNT(vocabs); v++) {
            const int64_t step = v % 2 ? ZR_ROUND_UP(vocabs[v], (int64_t)64) : 0;
            loss_case c =
                loss_case_new(storage_types[t], 21, ZR_MAX(vocabs[v], 1), step, ZR_TARGET_NONE);
            zr_loss_part *parts = (zr_loss_part *)(void *)floats_new(4 * 21);
            c.of.vocab = vocabs[v];
            c.target[4] = -7;                       // in a slice before
            c.target[5] = (int32_t)vocabs[v] + 2;   // in a slice after
            for (int64_t j = 0; j < vocabs[v]; j++) // no logit of this row is above -infinity
                memcpy(array_at(c.of.dtype, c.logits, 6 * ZR_LOGIT_STEP(&c.of) + j),
                       c.of.dtype == ZERO_F32    ? (const void *)&(float){-INFINITY}
                       : c.of.dtype == ZERO_BF16 ? (const void *)&(uint16_t){0xff80}
                                                 : (const void *)&(uint16_t){0xfc00},
                       zero_dtype_bytes(c.of.dtype));
            cuda_check("parts", zr_op_loss_parts(&c.of, c.target, c.logits, parts), near);
            floats_free((float *)(void *)parts);
            loss_case_free(&c);
        }
}

// Finishes slice 0 of a vocabulary that has `slices` alike, whose parts come from ref.
static void check_finish(zr_queue *ref, zero_dtype dtype, int slices)
{
    enum { ROWS = 17, VOCAB = 100, STEP = 128, STRIDE = ROWS + 2 };
    loss_case c = loss_case_new(dtype, ROWS, VOCAB, slices % 2 ? STEP : 0, ZR_TARGET_NONE);
    const cuda_tolerance gradient = {2e-6, 2e-7}, loss = {1e-6, 3e-7};
    zr_loss_part *parts = (zr_loss_part *)(void *)floats_new(4 * STRIDE * slices);
    int32_t *aims = (int32_t *)(void *)floats_new(ROWS);
    memset(parts, 0, sizeof *parts * (size_t)(STRIDE * slices));
    for (int slice = 0; slice < slices; slice++) {
        void *logits = slice ? array_random(dtype, ROWS * STEP, 50 + (uint64_t)slice, 5) : NULL;
        for (int i = 0; i < ROWS; i++) // every third row's target lies in the last slice
            aims[i] = c.target[i] < 0
                          ? ZR_TARGET_NONE
                          : c.target[i] + (i % 3 ? 0 : (slices - 1) * VOCAB) - slice * VOCAB;
        zr_run(ref,
               zr_op_loss_parts(&c.of, aims, slice ? logits : c.logits, parts + slice * STRIDE));
        if (slice == 0)
            memcpy(c.row_loss, aims, sizeof *aims * ROWS);
        array_free(logits);
    }
    memcpy(aims, c.row_loss, sizeof *aims * ROWS);
    c.of.slices = slices;
    c.of.stride = STRIDE;
    cuda_check_one("finished",
                   zr_op_loss_finish(&c.of, parts, aims, &c.factor, NULL, c.logits, c.row_loss),
                   gradient, FINISHED_LOSS, loss);
    cuda_check_one("finished with weights",
                   zr_op_loss_finish(&c.of, parts, aims, &c.factor, c.weight, c.logits, c.row_loss),
                   gradient, FINISHED_LOSS, loss);
    c.of.gradient = false;
    cuda_check("finished without gradient",
               zr_op_loss_finish(&c.of, parts, aims, NULL, NULL, NULL, c.row_loss), loss);
    floats_free((float *)(void *)parts), floats_free((float *)(void *)aims);
    loss_case_free(&c);
}

static void slices_are_joined(void **state)
{
    zr_queue *ref = check_queue("ref", NULL, 1);
    for (int t = 0; t < STORAGE_TYPES; t++)
        for (int slices = 1; slices <= 7; slices++)
            check_finish(ref, storage_types[t], slices);
    check_queue_close(ref);
}

// One slice gives the bits of `loss`, and a row's part those that it has without the others.
static void one_slice_is_the_whole(void **state)
{
    enum { ROWS = 6, VOCAB = 1003 };
    for (int t = 0; t < STORAGE_TYPES; t++) {
        loss_case c = loss_case_new(storage_types[t], ROWS, VOCAB, 0, ZR_TARGET_NONE);
        const int64_t row = VOCAB * (int64_t)zero_dtype_bytes(c.of.dtype);
        pinned target = pinned_of(c.target, ROWS * 4), whole = pinned_of(c.logits, ROWS * row),
               sliced = pinned_of(c.logits, ROWS * row), parts = pinned_of(NULL, ROWS * 16),
               one = pinned_of(NULL, 16),
               loss[2] = {pinned_of(NULL, ROWS * 4), pinned_of(NULL, ROWS * 4)};
        int32_t *targets = (int32_t *)(void *)target.at;
        run_directly(
            zr_op_loss(&c.of, targets, &c.factor, NULL, whole.at, (float *)(void *)loss[0].at), -1);
        run_directly(zr_op_loss_parts(&c.of, targets, sliced.at, (zr_loss_part *)(void *)parts.at),
                     -1);
        c.of.rows = 1;
        for (int i = 0; i < ROWS; i++) {
            run_directly(zr_op_loss_parts(&c.of, targets + i, sliced.at + i * row,
                                          (zr_loss_part *)(void *)one.at),
                         -1);
            check_same_bits("part of a row", one.at, parts.at + 16 * i, 16);
        }
        c.of.rows = c.of.stride = ROWS;
        c.of.slices = 1;
        run_directly(zr_op_loss_finish(&c.of, (zr_loss_part *)(void *)parts.at, targets, &c.factor,
                                       NULL, sliced.at, (float *)(void *)loss[1].at),
                     -1);
        check_same_bits("loss", loss[1].at, loss[0].at, ROWS * 4);
        check_same_bits("gradient", sliced.at, whole.at, ROWS * row);
        pinned *const all[] = {&target, &whole, &sliced, &parts, &one, &loss[0], &loss[1]};
        for (int i = 0; i < ZR_COUNT(all); i++)
            pinned_free(all[i]);
        loss_case_free(&c);
    }
}

// ---- softmax, ids, sums ----

static void softmax_agrees(void **state)
{
    const matrix_size of[] = {{33, 1}, {33, 72}, {5, 1003}, {2, 9001}};
    for (int t = 0; t < STORAGE_TYPES; t++)
        for (int s = 0; s < ZR_COUNT(of); s++) {
            loss_case c = loss_case_new(storage_types[t], of[s].rows, of[s].width, 0, -1);
            cuda_check("softmax",
                       zr_op_softmax(&(zr_matrix){.dtype = storage_types[t],
                                                  .rows = of[s].rows,
                                                  .width = of[s].width},
                                     c.logits),
                       (cuda_tolerance){4e-6, 1e-37});
            loss_case_free(&c);
        }
}

static void ids_are_counted(void **state)
{
    enum { N = 1003 };
    int32_t *ids = (int32_t *)(void *)floats_new(N), *out = (int32_t *)(void *)floats_new(N);
    for (int i = 0; i < N; i++)
        ids[i] = i % 9 == 4 ? -i : i % 200;
    ids[7] = INT32_MAX;
    cuda_check("ids", zr_op_local_ids(&(zr_id_range){N, 30, 65}, ids, out), exact);
    cuda_check("no ids", zr_op_local_ids(&(zr_id_range){0, 30, 65}, NULL, NULL), exact);
    floats_free((float *)(void *)ids), floats_free((float *)(void *)out);
}

static void rows_are_summed(void **state)
{
    const int64_t counts[] = {0, 1, 33, 1024, 5003};
    const double divisors[] = {3, 0, 17, 1e9, 5003};
    for (int i = 0; i < ZR_COUNT(counts); i++) {
        float *x = floats_random(counts[i], 1, 10);
        double *out = (double *)(void *)floats_new(2);
        cuda_check("sum", zr_op_sum_rows(&(zr_row_sum){counts[i]}, &divisors[i], x, out), exact);
        floats_free(x), floats_free((float *)(void *)out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_agree),
        cmocka_unit_test(norm_far_from_zero),
        cmocka_unit_test(norm_gradients_are_added),
        cmocka_unit_test(norm_begins_anywhere),
        cmocka_unit_test(one_slice_is_the_whole),
        cmocka_unit_test(losses_agree),
        cmocka_unit_test(parts_agree),
        cmocka_unit_test(slices_are_joined),
        cmocka_unit_test(softmax_agrees),
        cmocka_unit_test(ids_are_counted),
        cmocka_unit_test(rows_are_summed),
    };
    return cmocka_run_group_tests(tests, cuda_check_setup, cuda_check_teardown);
}
