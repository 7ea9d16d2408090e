// Products on the card compared with ref: every combination of arguments and types, with epilogues
// by cuBLASLt and by kernels; exact sums bit by bit; what is chosen once a shape. This program,
// started with PLANT=NAME, makes a mistake on purpose, and is to fail.
#define _GNU_SOURCE
#include "base/dtype.h"
#include "cuda/queue.h"
#include "cuda_check.h"

#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

typedef struct shape {
    int64_t m, n, k;
} shape;

static const shape shapes[] = {
    {1, 72, 40},    {33, 72, 72},  {5, 7, 3},    {33, 1003, 24}, {1, 1003, 768},
    {33, 24, 1003}, {33, 768, 72}, {3, 8, 2050}, {4, 5, 0},      {0, 5, 3},
    {9, 0, 7},      {2, 16, 0},    {64, 8, 1},   {130, 16, 9},   {17, 33, 129},
};

// Combinations: bits 0, 1: transposed; bit 2: gelu_a; from bit 3 on one of these.
enum { PLAIN, BIASED, SLOPED, ADDED, ENDINGS };
enum { COMBINATIONS = 8 * ENDINGS, LARGE = 1 << 19 };

static zr_product product_of(shape s, int combination, zero_dtype dtype, zero_dtype out)
{
    static const zr_epilogue epilogue[ENDINGS] = {
        [BIASED] = ZR_EPILOGUE_BIAS, [SLOPED] = ZR_EPILOGUE_GELU_BACKWARD};
    return (zr_product){
        .dtype = dtype,
        .out = out,
        .m = s.m,
        .n = s.n,
        .k = s.k,
        .trans_a = combination & 1,
        .trans_b = combination & 2,
        .gelu_a = combination & 4,
        .add = combination >> 3 == ADDED,
        .epilogue = epilogue[combination >> 3],
    };
}

static int64_t operand_count(const zr_product *p)
{
    return p->epilogue == ZR_EPILOGUE_GELU_BACKWARD ? p->m * p->n : p->n;
}

// As tests/compute/test_product.c allows: errors of about sqrt(k) roundings of sums that are about
// sqrt(k) large, four times over; and two elements of gelu(A) at the other neighbour. The slope of
// gelu multiplies a 16-bit D that was rounded before, where a kernel does it.
static cuda_tolerance tolerance_of(const zr_product *p, bool by_kernels)
{
    const double step = p->dtype == ZERO_BF16 ? 0x1p-8 : p->dtype == ZERO_F16 ? 0x1p-11 : 0;
    const double root = sqrt((double)p->k);
    const bool twice = by_kernels && p->epilogue == ZR_EPILOGUE_GELU_BACKWARD && p->out != ZERO_F32;
    return (cuda_tolerance){4e-7 + (twice ? step : 0),
                            4 * 0x1p-24 * (1 + root) * (2 + root) + (p->gelu_a ? 4 * step : 0)};
}

static void check_product(const zr_product *p, bool by_kernels)
{
    void *a = array_random(p->dtype, ZR_A_ROWS(p) * ZR_A_STEP(p), 1, p->gelu_a ? 2 : 1),
         *b = array_random(p->dtype, p->k * p->n, 2, 1),
         *operand = array_random(p->dtype, operand_count(p), 3, 2),
         *d = array_random(p->out, p->m * ZR_D_STEP(p), 4, 1);
    char name[160];
    snprintf(name, sizeof name,
             "m %d, n %d, k %d, types %d and %d%s%s%s%s, epilogue %d, steps %d and %d%s", (int)p->m,
             (int)p->n, (int)p->k, (int)p->dtype, (int)p->out, p->trans_a ? ", trans_a" : "",
             p->trans_b ? ", trans_b" : "", p->gelu_a ? ", gelu_a" : "", p->add ? ", add" : "",
             (int)p->epilogue, (int)p->a_step, (int)p->d_step, by_kernels ? " by a kernel" : "");
    cuda_check(name, zr_op_product(p, a, b, p->epilogue ? operand : NULL, d),
               tolerance_of(p, by_kernels));
    array_free(a);
    array_free(b);
    array_free(operand);
    array_free(d);
}

// Of every shape some combinations, and each with some shape and type.
static void check_types(zero_dtype dtype, zero_dtype out, bool by_kernels)
{
    for (int s = 0; s < ZR_COUNT(shapes); s++)
        for (int c = 0; c < COMBINATIONS; c++) {
            zr_product p = product_of(shapes[s], c, dtype, out);
            int64_t work = p.m * p.n * p.k;
            bool skipped = (c + 3 * s + (int)dtype + 2 * (int)out) % (work < LARGE ? 8 : 23);
            if ((p.add && out != ZERO_F32) || (by_kernels && !p.epilogue) || skipped)
                continue;
            check_product(&p, by_kernels);
        }
}

static void check_all_types(bool by_kernels)
{
    for (int t = 0; t < STORAGE_TYPES; t++) {
        check_types(storage_types[t], storage_types[t], by_kernels);
        if (storage_types[t] != ZERO_F32)
            check_types(storage_types[t], ZERO_F32, by_kernels);
    }
}

static void products_agree_with_ref(void **state) { check_all_types(false); }

// The products of a head whose logits have space between their rows; the last has no products.
static void rows_may_lie_apart(void **state)
{
    const int64_t tokens[] = {1, 63, 65, 1003, 0};
    for (int i = 0; i < STORAGE_TYPES * ZR_COUNT(tokens); i++) {
        const int64_t n = tokens[i / STORAGE_TYPES], step = ZR_ROUND_UP(n + 1, (int64_t)64);
        const zr_product of[] = {
            {.m = 33, .n = n, .k = 24, .trans_b = true, .d_step = step},
            {.m = n, .n = 24, .k = 33, .trans_a = true, .add = i % 2, .a_step = step},
            {.m = 33, .n = 24, .k = n, .a_step = step},
            {.m = 3, .n = 24, .k = n, .a_step = step, .d_step = 32},
        };
        for (int k = 0; k < ZR_COUNT(of); k++) {
            zr_product p = of[k];
            p.dtype = storage_types[i % STORAGE_TYPES];
            p.out = k % 2 ? ZERO_F32 : p.dtype;
            check_product(&p, false);
        }
    }
}

static void epilogues_of_kernels_agree_with_ref(void **state)
{
    static const char *const refusals[] = {"none", "late"};
    for (int i = 0; i < ZR_COUNT(refusals); i++) {
        cuda_check_end(); // with what it has chosen
        setenv("EMULATED_EPILOGUES", refusals[i], 1);
        cuda_check_begin();
        check_all_types(true);
    }
    cuda_check_end();
    unsetenv("EMULATED_EPILOGUES");
    cuda_check_begin();
}

// Sums of small integers are exact: any element left out, taken twice or from elsewhere shows.
static void *integers(zero_dtype dtype, int64_t count, uint64_t seed)
{
    float *values = floats_new(count);
    for (int64_t i = 0; i < count; i++)
        values[i] = (float)((int64_t)((uint64_t)i * 2654435761u * seed >> 7) % 9 - 4);
    void *array = array_of(dtype, values, count);
    floats_free(values);
    return array;
}

static void check_integers(const zr_product *p)
{
    void *a = integers(p->dtype, p->m * p->k, 1), *b = integers(p->dtype, p->k * p->n, 3),
         *bias = integers(p->dtype, p->n, 5), *d = integers(p->out, p->m * p->n, 7);
    cuda_check("integers", zr_op_product(p, a, b, p->epilogue ? bias : NULL, d),
               (cuda_tolerance){0, 0});
    array_free(a);
    array_free(b);
    array_free(bias);
    array_free(d);
}

static void sums_of_integers_are_exact(void **state)
{
    static const shape some[] = {{72, 72, 72}, {5, 33, 17}, {1, 8, 100}};
    for (int s = 0; s < ZR_COUNT(some); s++)
        for (int t = 0; t < STORAGE_TYPES; t++)
            for (int c = 0; c < COMBINATIONS; c++) {
                zr_product p = product_of(some[s], c, storage_types[t], ZERO_F32);
                if (!p.gelu_a && p.epilogue != ZR_EPILOGUE_GELU_BACKWARD && (c + s + t) % 2)
                    check_integers(&p);
            }
}

// ---- what is asked of cuBLASLt ----

static zr_cuda_card *card_of_tests(void) { return zr_cuda_queue_of(cuda_check_queue())->card; }

static const zr_blas *real_blas;
static _Atomic int asked, multiplied;
static int refuse_first, pause_for; // pause_for: microseconds before each product

static zr_blas_status count_asked(zr_blas_handle handle, zr_blas_product product, zr_blas_layout a,
                                  zr_blas_layout b, zr_blas_layout c, zr_blas_layout d,
                                  zr_blas_wishes wishes, int most, zr_blas_choice choices[],
                                  int *found)
{
    asked++;
    return real_blas->cublasLtMatmulAlgoGetHeuristic(handle, product, a, b, c, d, wishes, most,
                                                     choices, found);
}

static zr_blas_status count_multiplied(zr_blas_handle handle, zr_blas_product product,
                                       const void *alpha, const void *a, zr_blas_layout a_layout,
                                       const void *b, zr_blas_layout b_layout, const void *beta,
                                       const void *c, zr_blas_layout c_layout, void *d,
                                       zr_blas_layout d_layout, const zr_blas_algorithm *algorithm,
                                       void *workspace, size_t workspace_bytes,
                                       zr_cuda_stream stream)
{
    static zr_blas_algorithm first;
    multiplied++;
    if (refuse_first && multiplied == 1)
        first = *algorithm;
    if (refuse_first && memcmp(&first, algorithm, sizeof first) == 0)
        return ZR_CUBLAS_STATUS_NOT_SUPPORTED;
    if (pause_for)
        usleep((useconds_t)pause_for); // so that threads meet
    return real_blas->cublasLtMatmul(handle, product, alpha, a, a_layout, b, b_layout, beta, c,
                                     c_layout, d, d_layout, algorithm, workspace, workspace_bytes,
                                     stream);
}

// Puts counting functions in place of the card's, until uncount.
static void count(void)
{
    static zr_blas counting;
    real_blas = card_of_tests()->blas;
    counting = *real_blas;
    counting.cublasLtMatmulAlgoGetHeuristic = count_asked;
    counting.cublasLtMatmul = count_multiplied;
    card_of_tests()->blas = &counting;
    asked = multiplied = 0;
}

static void uncount(void) { card_of_tests()->blas = real_blas; }

static void a_shape_is_chosen_for_once(void **state)
{
    zr_product p = product_of((shape){6, 56, 11}, 8 * BIASED, ZERO_BF16, ZERO_BF16);
    count();
    check_product(&p, false); // three times
    assert_int_equal(asked, 1);
    assert_int_equal(multiplied, 3);
    p.gelu_a = true; // of no other shape
    check_product(&p, false);
    assert_int_equal(asked, 1);
    p.trans_b = true;
    check_product(&p, false);
    assert_int_equal(asked, 2);
    uncount();
}

// ---- several queues ----

enum { SIDE = 40, SHAPES = 24, AREA = SIDE * SIDE };

typedef struct worker { // with a queue of its own
    pthread_t thread;
    zr_queue *queue;
    float *pinned; // a, b and bias, then SHAPES results, (AREA) each
    float *card;
    void *scratch;
    size_t scratch_bytes;
} worker;

static void *take(zr_memory kind, size_t bytes)
{
    void *at = NULL;
    zero_error error = {0};
    zr_device *device = cuda_check_queue()->device;
    if (device->ops->reserve(device, kind, bytes, &at, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return at;
}

static void worker_begin(worker *w, uint64_t seed)
{
    const size_t bytes = (3 + SHAPES) * AREA * sizeof(float);
    zr_product p = product_of((shape){SIDE, SIDE, SIDE}, PLAIN, ZERO_F32, ZERO_F32);
    zero_error error = {0};
    if (zr_queue_open("cuda", NULL, 1, &w->queue, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    w->scratch_bytes = zr_op_scratch(w->queue, zr_op_product(&p, NULL, NULL, NULL, NULL));
    w->scratch = take(ZR_MEMORY_DEVICE, w->scratch_bytes);
    w->pinned = take(ZR_MEMORY_PINNED, bytes);
    w->card = take(ZR_MEMORY_DEVICE, bytes);
    float *values = floats_random(3 * AREA, seed, 1);
    memcpy(w->pinned, values, 3 * AREA * sizeof *values);
    floats_free(values);
}

static void worker_end(worker *w)
{
    const size_t bytes = (3 + SHAPES) * AREA * sizeof(float);
    zr_device *device = cuda_check_queue()->device;
    device->ops->release(device, ZR_MEMORY_DEVICE, w->scratch, w->scratch_bytes);
    device->ops->release(device, ZR_MEMORY_PINNED, w->pinned, bytes);
    device->ops->release(device, ZR_MEMORY_DEVICE, w->card, bytes);
    zr_queue_close(w->queue);
}

// Multiplies shapes that nobody has multiplied before, each with another bias.
static void *multiply_all(void *user)
{
    worker *w = user;
    zr_queue with = zr_queue_with_scratch(w->queue, w->scratch, w->scratch_bytes);
    float *const a = w->card, *const b = a + AREA, *const bias = b + AREA;
    zr_run(&with, zr_op_copy(&(zr_bytes){.bytes = 3 * AREA * sizeof(float)}, w->pinned, a));
    for (int i = 0; i < 2 * SHAPES; i++) {
        zr_product p =
            product_of((shape){SIDE - i % SHAPES, SIDE, SIDE - 1}, 8 * BIASED, ZERO_F32, ZERO_F32);
        zr_run(&with, zr_op_product(&p, a, b, bias + 16 * (i % SHAPES),
                                    w->card + (3 + i % SHAPES) * AREA));
    }
    zr_run(&with, zr_op_copy(&(zr_bytes){.bytes = SHAPES * AREA * sizeof(float)}, bias + AREA,
                             w->pinned + 3 * AREA));
    return NULL;
}

static void finish(worker *w)
{
    zero_error error = {0};
    if (zr_mark_finish(zr_queue_mark(w->queue), 60, &error) != ZERO_OK)
        fail_msg("%s", error.message);
}

// What each multiplies while others do, it multiplies alone.
static void queues_of_threads_do_not_meet(void **state)
{
    static float together[SHAPES * AREA];
    worker workers[3];
    count();
    pause_for = 300;
    for (int i = 0; i < ZR_COUNT(workers); i++)
        worker_begin(&workers[i], 11 + (uint64_t)i);
    for (int i = 0; i < ZR_COUNT(workers); i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, multiply_all, &workers[i]), 0);
    for (int i = 0; i < ZR_COUNT(workers); i++)
        pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < ZR_COUNT(workers); i++) {
        const float *results = workers[i].pinned + 3 * AREA;
        finish(&workers[i]);
        memcpy(together, results, sizeof together);
        multiply_all(&workers[i]);
        finish(&workers[i]);
        for (int s = 0; s < SHAPES; s++) {
            assert_false(isnan(results[s * AREA]));
            check_same_bits("threads", together + s * AREA, results + s * AREA,
                            (SIDE - s) * SIDE * (int64_t)sizeof(float));
        }
    }
    pause_for = 0;
    assert_int_equal(asked, SHAPES); // by all together
    for (int i = 0; i < ZR_COUNT(workers); i++)
        worker_end(&workers[i]);
    uncount();
}

static void a_choice_that_is_refused_gives_way(void **state)
{
    zr_product p = product_of((shape){6, 56, 13}, PLAIN, ZERO_F32, ZERO_F32);
    count();
    refuse_first = 1;
    check_product(&p, false);
    assert_int_equal(asked, 1);
    assert_int_equal(multiplied, 4); // and the next choice is kept
    refuse_first = 0;
    uncount();
}

static void too_little_scratch_is_refused(void **state)
{
    zr_product p = product_of((shape){6, 8, 3}, PLAIN, ZERO_F32, ZERO_F32);
    size_t needed = zr_op_scratch(cuda_check_queue(), zr_op_product(&p, NULL, NULL, NULL, NULL));
    zr_queue with = zr_queue_with_scratch(cuda_check_queue(), NULL, needed - 1);
    zero_error error = {0};
    zr_run(&with, zr_op_product(&p, NULL, NULL, NULL, NULL));
    assert_int_not_equal(zr_queue_check(&with, &error), ZERO_OK);
    assert_non_null(strstr(error.message, "bytes of scratch"));
}

static void fewer_rows_need_no_more_scratch(void **state)
{
    for (int c = 0; c < COMBINATIONS; c++) {
        size_t before = 0;
        for (int64_t m = 0; m < 200; m++) {
            zr_product p = product_of((shape){m, 9, 7}, c, ZERO_BF16, ZERO_F32);
            size_t now =
                zr_op_scratch(cuda_check_queue(), zr_op_product(&p, NULL, NULL, NULL, NULL));
            assert_true(now >= before);
            before = now;
        }
    }
}

// ---- mistakes on purpose ----

static const char *const plants[] = {"stride", "transposition", "bias"};

static zr_blas_status plant_stride(zr_blas_layout *layout, unsigned type, uint64_t rows,
                                   uint64_t columns, int64_t stride)
{
    return real_blas->cublasLtMatrixLayoutCreate(layout, type, rows, columns, stride + 8);
}

static zr_blas_status plant_transposition(zr_blas_product product, unsigned attribute,
                                          const void *value, size_t bytes)
{
    uint32_t other = value && bytes == sizeof other && !*(const uint32_t *)value;
    return real_blas->cublasLtMatmulDescSetAttribute(
        product, attribute, attribute == ZR_CUBLASLT_MATMUL_DESC_TRANSA ? &other : value, bytes);
}

static zr_blas_status plant_bias(zr_blas_handle handle, zr_blas_product product, const void *alpha,
                                 const void *a, zr_blas_layout a_layout, const void *b,
                                 zr_blas_layout b_layout, const void *beta, const void *c,
                                 zr_blas_layout c_layout, void *d, zr_blas_layout d_layout,
                                 const zr_blas_algorithm *algorithm, void *workspace,
                                 size_t workspace_bytes, zr_cuda_stream stream)
{
    zr_cuda_address at = (uintptr_t)a;
    real_blas->cublasLtMatmulDescSetAttribute(product, ZR_CUBLASLT_MATMUL_DESC_BIAS_POINTER, &at,
                                              sizeof at);
    return real_blas->cublasLtMatmul(handle, product, alpha, a, a_layout, b, b_layout, beta, c,
                                     c_layout, d, d_layout, algorithm, workspace, workspace_bytes,
                                     stream);
}

static void plant(const char *name)
{
    static zr_blas planted;
    real_blas = card_of_tests()->blas;
    planted = *real_blas;
    if (strcmp(name, "stride") == 0)
        planted.cublasLtMatrixLayoutCreate = plant_stride;
    if (strcmp(name, "transposition") == 0)
        planted.cublasLtMatmulDescSetAttribute = plant_transposition;
    if (strcmp(name, "bias") == 0)
        planted.cublasLtMatmul = plant_bias;
    card_of_tests()->blas = &planted;
}

// Starts this program with a mistake. Returns its exit status.
static int run_planted(const char *name)
{
    char *const argv[] = {"/proc/self/exe", NULL};
    int status = -1;
    pid_t pid;
    setenv("PLANT", name, 1);
    posix_spawn_file_actions_t quiet;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", 1, 0);
    posix_spawn_file_actions_addopen(&quiet, 2, "/dev/null", 1, 0);
    assert_int_equal(posix_spawn(&pid, argv[0], &quiet, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&quiet);
    unsetenv("PLANT");
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void mistakes_are_seen(void **state)
{
    assert_int_equal(run_planted("nothing"), 0);
    for (int i = 0; i < ZR_COUNT(plants); i++) {
        int failed = run_planted(plants[i]);
        if (failed != 1)
            fail_msg("the planted mistake is not seen: %s (exit status %d)", plants[i], failed);
    }
}

static void planted_is_right(void **state)
{
    zr_product p = product_of((shape){72, 72, 72}, 8 * BIASED, ZERO_F32, ZERO_F32);
    plant(getenv("PLANT"));
    check_product(&p, false);
    check_integers(&p);
    uncount();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_agree_with_ref),
        cmocka_unit_test(rows_may_lie_apart),
        cmocka_unit_test(epilogues_of_kernels_agree_with_ref),
        cmocka_unit_test(sums_of_integers_are_exact),
        cmocka_unit_test(a_shape_is_chosen_for_once),
        cmocka_unit_test(queues_of_threads_do_not_meet),
        cmocka_unit_test(a_choice_that_is_refused_gives_way),
        cmocka_unit_test(too_little_scratch_is_refused),
        cmocka_unit_test(fewer_rows_need_no_more_scratch),
        cmocka_unit_test(mistakes_are_seen),
    };
    const struct CMUnitTest planted[] = {cmocka_unit_test(planted_is_right)};
    if (!getenv("PLANT"))
        return cmocka_run_group_tests(tests, cuda_check_setup, cuda_check_teardown);
    unsetenv("EMULATED_LEAKS"); // what a failed test has taken stays taken
    return cmocka_run_group_tests(planted, cuda_check_setup, cuda_check_teardown);
}
