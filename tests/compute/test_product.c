// Matrix products: ref compared with the sum in long double; cpu with ref in every combination of
// arguments, types, paths and threads; and our own products, bit by bit, with the chain of
// additions that they promise.
#include "base/dtype.h"
#include "compute/compute.h"
#include "compute_check.h"

#include <stdlib.h>
#include <string.h>

#ifdef ZR_COMPUTE_ONEDNN
#include "compute/cpu/cpu_kernels.h"
#endif

typedef struct shape {
    int64_t m, n, k;
} shape;

// Up to 2 rows B is not packed, up to 32 it is in small blocks, cut at 64 of k, else at 256;
// threads share what has some million multiplications.
static const shape shapes[] = {
    {1, 1, 1},     {1, 7, 3},      {5, 1, 9},     {7, 6, 1},     {6, 16, 8},  {13, 31, 17},
    {3, 33, 300},  {2, 300, 129},  {8, 130, 41},  {0, 5, 3},     {4, 5, 0},   {2, 21, 0},
    {9, 0, 7},     {96, 64, 48},   {97, 259, 70}, {64, 192, 65}, {151, 9, 5}, {1, 257, 530},
    {34, 70, 815}, {35, 1570, 13}, {8, 1100, 40}, {4, 1100, 21},
};

#define LARGE (1 << 17) // multiplications: of such shapes every fifth combination is tried

// Combinations: bits 0, 1: transposed; bit 2: gelu_a; from bit 3 on one of these.
enum { PLAIN, BIASED, SLOPED, ADDED, ENDINGS };
#define COMBINATIONS (8 * ENDINGS)

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

typedef struct operands { // each begins `shift` elements behind its allocation
    int64_t shift;
    void *a, *b, *operand, *before;
} operands;

static void *operand_random(zero_dtype dtype, int64_t count, uint64_t seed, float size,
                            int64_t shift)
{
    void *array = array_new(dtype, shift + count), *plain = array_random(dtype, count, seed, size);
    if (count > 0)
        memcpy(array_at(dtype, array, shift), plain, (size_t)count * zero_dtype_bytes(dtype));
    array_free(plain);
    return array;
}

static operands operands_new(const zr_product *p, int64_t shift)
{
    int64_t operand = p->epilogue == ZR_EPILOGUE_GELU_BACKWARD ? p->m * p->n : p->n;
    return (operands){
        .shift = shift,
        .a = operand_random(p->dtype, p->m * p->k, 1, p->gelu_a ? 2 : 1, shift),
        .b = operand_random(p->dtype, p->k * p->n, 2, 1, shift),
        .operand = operand_random(p->dtype, operand, 3, 2, shift),
        .before = operand_random(p->out, p->m * p->n, 4, 1, shift),
    };
}

static void operands_free(operands *o)
{
    array_free(o->a);
    array_free(o->b);
    array_free(o->operand);
    array_free(o->before);
}

// D, `shift` elements behind its allocation. The scratch is poisoned, exactly as large as was
// requested for, and guarded.
static void *multiply(zr_queue *queue, const zr_product *p, const operands *o)
{
    zero_error error = {0};
    size_t whole = queue->scratch_bytes,
           needed = zr_op_scratch(queue, zr_op_product(p, NULL, NULL, NULL, NULL));
    unsigned char guard[64];
    assert_true(needed + sizeof(guard) <= whole);
    memset(queue->scratch, 0xff, needed + sizeof(guard));
    memset(guard, 0xff, sizeof(guard));
    void *d = array_new(p->out, o->shift + p->m * p->n);
    if (p->add && p->m * p->n > 0)
        memcpy(array_at(p->out, d, o->shift), array_at(p->out, o->before, o->shift),
               (size_t)(p->m * p->n) * zero_dtype_bytes(p->out));
    queue->scratch_bytes = needed;
    zero_status status = check_run(
        queue,
        zr_op_product(p, array_at(p->dtype, o->a, o->shift), array_at(p->dtype, o->b, o->shift),
                      p->epilogue ? array_at(p->dtype, o->operand, o->shift) : NULL,
                      array_at(p->out, d, o->shift)),
        &error);
    queue->scratch_bytes = whole;
    if (status != ZERO_OK)
        fail_msg("%s", error.message);
    assert_memory_equal((char *)queue->scratch + needed, guard, sizeof(guard));
    return d;
}

// The sums in long double, of what gelu makes of A if it does; the epilogue not yet applied.
static long double sum_plainly(const zr_product *p, const float *a, const float *b, int64_t i,
                               int64_t j)
{
    long double sum = 0;
    for (int64_t t = 0; t < p->k; t++)
        sum += (long double)a[p->trans_a ? t * p->m + i : i * p->k + t] *
               b[p->trans_b ? j * p->k + t : t * p->n + j];
    return sum;
}

static void ref_case(zr_queue *ref, const zr_product *p)
{
    operands o = operands_new(p, 0);
    float *want = floats_new(p->m * p->n), *b = array_floats(p->dtype, o.b, p->k * p->n);
    float *operand = array_floats(p->dtype, o.operand,
                                  p->epilogue == ZR_EPILOGUE_GELU_BACKWARD ? p->m * p->n : p->n);
    void *a = array_new(p->dtype, p->m * p->k);
    if (p->gelu_a)
        zr_run(ref, zr_op_gelu_forward(&(zr_elements){p->dtype, p->m * p->k}, o.a, a));
    float *seen = array_floats(p->dtype, p->gelu_a ? a : o.a, p->m * p->k);
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            int64_t at = i * p->n + j;
            float slope = 1;
            if (p->epilogue == ZR_EPILOGUE_GELU_BACKWARD)
                zr_run(ref, zr_op_gelu_backward(&(zr_elements){ZERO_F32, 1}, operand + at, &slope));
            long double sum = sum_plainly(p, seen, b, i, j) * slope +
                              (p->epilogue == ZR_EPILOGUE_BIAS ? operand[j] : 0);
            want[at] = (float)(sum + (p->add ? ((float *)o.before)[at] : 0));
        }
    void *got = multiply(ref, p, &o), *stored = array_of(p->out, want, p->m * p->n);
    check_close_as("product of ref", p->out, got, stored, p->m * p->n, 1.2e-7, 1e-12);
    array_free(got);
    array_free(stored);
    array_free(a);
    floats_free(seen);
    floats_free(want);
    floats_free(b);
    floats_free(operand);
    operands_free(&o);
}

static void ref_agrees_with_long_double(void **state)
{
    zr_queue *ref = check_queue("ref", NULL, 1);
    for (int s = 0; s < ZR_COUNT(shapes); s++)
        for (int c = 0; c < COMBINATIONS && shapes[s].m * shapes[s].n * shapes[s].k < LARGE; c++)
            for (int t = 0; t < 2 * STORAGE_TYPES; t++) {
                zr_product p = product_of(shapes[s], c, storage_types[t / 2],
                                          t % 2 ? ZERO_F32 : storage_types[t / 2]);
                if (!p.add || p.out == ZERO_F32)
                    ref_case(ref, &p);
            }
    check_queue_close(ref);
}

// Every path and 1, 2 and 3 threads: queue[path][threads-1]; NULL where this processor lacks the
// path.
#define PATHS 6
static const char *const paths[PATHS] = {"portable",    "avx2", "avx512",
                                         "avx512_bf16", "amx",  "emulated"};
typedef struct queues {
    zr_queue *ref, *cpu[PATHS][3];
} queues;

static int queues_open(void **state)
{
    static queues all;
    all.ref = check_queue("ref", NULL, 1);
    for (int path = 0; path < PATHS; path++)
        for (int threads = 1; threads <= 3; threads++) {
            all.cpu[path][threads - 1] = check_queue("cpu", paths[path], threads);
            if (!all.cpu[path][threads - 1] && threads == 1)
                print_message("SKIPPED: this processor does not offer path %s\n", paths[path]);
        }
    *state = &all;
    return 0;
}

static int queues_close(void **state)
{
    queues *all = *state;
    check_queue_close(all->ref);
    for (int path = 0; path < PATHS; path++)
        for (int i = 0; i < 3; i++)
            if (all->cpu[path][i])
                check_queue_close(all->cpu[path][i]);
    return 0;
}

// Whether a queue's products of this kind are our own, whose bits depend on the operands alone.
static bool own(const zr_queue *queue, zero_dtype dtype)
{
    const char *path = queue->backend->path();
    bool tiles = strcmp(path, "amx") == 0;
    return dtype == ZERO_F32 ? strncmp(path, "avx512", 6) != 0 && !tiles
                             : dtype == ZERO_F16 || !tiles;
}

// Errors of about sqrt(k) roundings of sums that are about sqrt(k) large, four times over; and two
// elements of A whose gelu, below 2, ref rounds to the other neighbour.
static double allowed_error(const zr_product *p)
{
    double root = sqrt((double)p->k), flip = p->dtype == ZERO_BF16  ? 0x1p-7
                                             : p->dtype == ZERO_F16 ? 0x1p-10
                                                                    : 0;
    return 4 * 0x1p-24 * (1 + root) * (2 + root) + (p->gelu_a ? 2 * flip : 0);
}

// All of a path's queues, at two addresses each, against want; own products agree in every bit.
static void path_case(zr_queue *const queue[3], const zr_product *p, const operands *at[2],
                      const void *want)
{
    int64_t count = p->m * p->n;
    void *first = NULL;
    for (int i = 0; i < 6; i++) {
        const operands *o = at[i % 2];
        void *got = multiply(queue[i / 2], p, o);
        check_close_as("product", p->out, array_at(p->out, got, o->shift), want, count, 4e-7,
                       allowed_error(p));
        if (!first) {
            first = got;
            continue;
        }
        if (own(queue[0], p->dtype))
            check_same_array("product by another team, or elsewhere", p->out,
                             array_at(p->out, got, o->shift), first, count);
        array_free(got);
    }
    array_free(first);
}

static void cpu_agrees_as(const queues *all, zero_dtype dtype, zero_dtype out)
{
    for (int s = 0; s < ZR_COUNT(shapes); s++)
        for (int c = 0; c < COMBINATIONS; c++) {
            zr_product p = product_of(shapes[s], c, dtype, out);
            bool large = p.m * p.n * p.k >= LARGE;
            if ((p.add && out != ZERO_F32) || (large && (c + s + (int)dtype) % 5))
                continue;
            operands plain = operands_new(&p, 0), shifted = operands_new(&p, 1);
            void *want = multiply(all->ref, &p, &plain);
            for (int path = 0; path < PATHS; path++)
                if (all->cpu[path][0])
                    path_case(all->cpu[path], &p, (const operands *[]){&plain, &shifted}, want);
            array_free(want);
            operands_free(&plain);
            operands_free(&shifted);
        }
}

static void cpu_agrees(void **state)
{
    for (int t = 0; t < STORAGE_TYPES; t++) {
        cpu_agrees_as(*state, storage_types[t], storage_types[t]);
        if (storage_types[t] != ZERO_F32)
            cpu_agrees_as(*state, storage_types[t], ZERO_F32);
    }
}

// Sums of small integers are exact: any element left out, taken twice or rounded on its way shows.
static void integers(int64_t count, uint64_t seed, float *out)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = (float)((int64_t)((uint64_t)i * 2654435761u * seed >> 7) % 9 - 4);
}

static void integers_case(zr_queue *queue, const zr_product *p)
{
    float *a = floats_new(p->m * p->k), *b = floats_new(p->k * p->n), *operand = floats_new(p->n),
          *want = floats_new(p->m * p->n);
    integers(p->m * p->k, 1, a);
    integers(p->k * p->n, 3, b);
    integers(p->n, 5, operand);
    integers(p->m * p->n, 7, want);
    operands o = {.a = array_of(p->dtype, a, p->m * p->k),
                  .b = array_of(p->dtype, b, p->k * p->n),
                  .operand = array_of(p->dtype, operand, p->n),
                  .before = array_of(p->out, want, p->m * p->n)};
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            float *at = want + i * p->n + j;
            *at = (float)sum_plainly(p, a, b, i, j) + (p->epilogue ? operand[j] : 0) +
                  (p->add ? *at : 0);
        }
    void *got = multiply(queue, p, &o);
    check_stored("product of integers", p->out, got, want, p->m * p->n);
    array_free(got);
    operands_free(&o);
    floats_free(a);
    floats_free(b);
    floats_free(operand);
    floats_free(want);
}

static void integers_are_exact(void **state)
{
    static const shape some[] = {{7, 95, 33}, {50, 45, 61}, {26, 150, 401}};
    queues *all = *state;
    for (int path = 0; path < PATHS; path++)
        for (int i = 0; i < ZR_COUNT(some) * COMBINATIONS * 2 * STORAGE_TYPES && all->cpu[path][0];
             i++) {
            int combination = i / ZR_COUNT(some) % COMBINATIONS,
                t = i / ZR_COUNT(some) / COMBINATIONS;
            zr_product p = product_of(some[i % ZR_COUNT(some)], combination, storage_types[t / 2],
                                      t % 2 ? ZERO_F32 : storage_types[t / 2]);
            if (!p.gelu_a && combination >> 3 != SLOPED && (!p.add || p.out == ZERO_F32))
                integers_case(all->cpu[path][i % 3], &p);
        }
}

// How sums are made: of products that are rounded first, of fused ones, or of pairs of bf16, of
// which the processor adds the second element's product first (VDPBF16PS).
enum { ROUNDED, FUSED, PAIRS };

// One element as cpu_product_tile.h promises it.
static float chain(const zr_product *p, const float *a, const float *b, float sum, int64_t i,
                   int64_t j, int how)
{
    for (int64_t step = 0; step < ZR_ROUND_UP(p->k, 2); step++) {
        int64_t t = how == PAIRS ? step ^ 1 : step;
        if (t >= p->k)
            continue;
        float x = a[p->trans_a ? t * p->m + i : i * p->k + t],
              y = b[p->trans_b ? j * p->k + t : t * p->n + j];
        volatile float product = x * y;
        sum = how == ROUNDED ? sum + product : fmaf(x, y, sum);
    }
    return sum;
}

static void chain_case(zr_queue *queue, const zr_product *p)
{
    operands o = operands_new(p, 0);
    float *a = array_floats(p->dtype, o.a, p->m * p->k),
          *b = array_floats(p->dtype, o.b, p->k * p->n), *want = floats_new(p->m * p->n);
    void *got = multiply(queue, p, &o);
    bool found = false;
    const char *path = queue->backend->path();
    bool pairs = p->dtype == ZERO_BF16 &&
                 (strcmp(path, "avx512_bf16") == 0 || strcmp(path, "emulated") == 0);
    // Of the first two the compiler's choice.
    for (int how = pairs ? PAIRS : ROUNDED; how <= (pairs ? PAIRS : FUSED) && !found; how++) {
        for (int64_t i = 0; i < p->m * p->n; i++)
            want[i] = chain(p, a, b, p->add ? ((float *)o.before)[i] : 0, i / p->n, i % p->n, how);
        void *stored = array_of(p->out, want, p->m * p->n);
        found = memcmp(got, stored, (size_t)(p->m * p->n) * zero_dtype_bytes(p->out)) == 0;
        array_free(stored);
    }
    if (!found) // the last that was tried
        check_stored("product as one chain", p->out, got, want, p->m * p->n);
    array_free(got);
    floats_free(want);
    floats_free(a);
    floats_free(b);
    operands_free(&o);
}

static void sums_are_chains(void **state)
{
    static const shape some[] = {{2, 70, 900}, {5, 40, 390}, {33, 37, 900}};
    queues *all = *state;
    for (int path = 0; path < PATHS; path++)
        for (int i = 0; i < ZR_COUNT(some) * STORAGE_TYPES * 8 && all->cpu[path][0]; i++) {
            zero_dtype dtype = storage_types[i / 8 % STORAGE_TYPES];
            zr_product p =
                product_of(some[i / 8 / STORAGE_TYPES], (i & 3) | (i & 4 ? ADDED << 3 : 0), dtype,
                           i & 4 ? ZERO_F32 : dtype);
            if (own(all->cpu[path][0], dtype))
                chain_case(all->cpu[path][i % 3], &p);
        }
}

// gelu_a multiplies exactly what gelu_forward would have stored.
static void gelu_stands_for_stored(void **state)
{
    queues *all = *state;
    for (int path = 0; path < PATHS; path++)
        for (int i = 0; i < 8 * STORAGE_TYPES && all->cpu[path][0]; i++) {
            zr_queue *queue = all->cpu[path][i % 3];
            zr_product p = product_of((shape){i & 4 ? 2 : 53, 37, 71}, 4 | (i & 3),
                                      storage_types[i / 8], ZERO_F32);
            operands o = operands_new(&p, 0), stored = o;
            void *got = multiply(queue, &p, &o);
            stored.a = array_new(p.dtype, p.m * p.k);
            zr_run(queue, zr_op_gelu_forward(&(zr_elements){p.dtype, p.m * p.k}, o.a, stored.a));
            p.gelu_a = false;
            void *want = multiply(queue, &p, &stored);
            check_same_array("product of gelu(A)", p.out, got, want, p.m * p.n);
            array_free(got);
            array_free(want);
            array_free(stored.a);
            operands_free(&o);
        }
}

#ifdef ZR_COMPUTE_ONEDNN
// Only the paths of AVX-512 multiply through oneDNN, but its functions run anywhere: here on a
// queue of any path, and in bf16 too, where the portable path multiplies what oneDNN refuses.
extern const zr_cpu_products zr_cpu_own_products_portable;
static const zr_backend *around; // the queue's own, for all but products

static void run_through_onednn(zr_queue *queue, const zr_op *op)
{
    zero_error error = {0};
    if (op->kind != ZR_OP_product)
        return around->run(queue, op);
    zero_status status =
        zr_cpu_dnnl_products.run(queue, &op->shape.product, op->at.product.a, op->at.product.b,
                                 op->at.product.operand, op->at.product.d, &error);
    if (status != ZERO_OK)
        zr_queue_fail(queue, status, &error);
}

static size_t scratch_through_onednn(zr_queue *queue, const zr_op *op)
{
    assert_int_equal(op->kind, ZR_OP_product);
    return zr_cpu_dnnl_products.scratch(queue, &op->shape.product);
}

static void onednn_agrees(void **state)
{
    queues *all = *state;
    zr_queue *queue = check_queue("cpu", NULL, 2);
    zero_error error = {0};
    assert_non_null(queue);
    zr_backend through = *queue->backend;
    void *impl = queue->impl;
    around = queue->backend;
    through.run = run_through_onednn;
    through.scratch = scratch_through_onednn;
    assert_int_equal(
        zr_cpu_dnnl_open(queue, &zr_cpu_own_products_portable, ZR_CPU_DNNL_BF16, &error), ZERO_OK);
    queue->backend = &through;
    for (int s = 0; s < ZR_COUNT(shapes); s++)
        for (int i = 0; i < COMBINATIONS * 2 * STORAGE_TYPES &&
                        shapes[s].m * shapes[s].n * shapes[s].k < LARGE;
             i++) {
            int c = i % COMBINATIONS, t = i / COMBINATIONS;
            zr_product p = product_of(shapes[s], c, storage_types[t / 2],
                                      t % 2 ? ZERO_F32 : storage_types[t / 2]);
            if ((p.add && p.out != ZERO_F32) || (i + s) % 3)
                continue;
            operands o = operands_new(&p, 0);
            void *want = multiply(all->ref, &p, &o), *got = multiply(queue, &p, &o);
            // rounded twice
            double twice =
                p.epilogue == ZR_EPILOGUE_GELU_BACKWARD && p.out == ZERO_BF16 ? 0x1p-7 : 4e-7;
            check_close_as("product through oneDNN", p.out, got, want, p.m * p.n, twice,
                           allowed_error(&p));
            array_free(got);
            array_free(want);
            operands_free(&o);
        }
    zr_cpu_dnnl_close(queue);
    queue->backend = around;
    queue->impl = impl;
    check_queue_close(queue);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ref_agrees_with_long_double),
        cmocka_unit_test(integers_are_exact),
        cmocka_unit_test(sums_are_chains),
        cmocka_unit_test(cpu_agrees),
        cmocka_unit_test(gelu_stands_for_stored),
#ifdef ZR_COMPUTE_ONEDNN
        cmocka_unit_test(onednn_agrees),
#endif
    };
    return cmocka_run_group_tests(tests, queues_open, queues_close);
}
