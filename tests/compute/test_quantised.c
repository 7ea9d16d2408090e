// Products with a weight in codes: the bits of a product with the weight as it is decoded and
// rounded, whatever the shape, the type and the number of threads; and the scales of tiles, which
// are those of the whole weight.
#include "base/quantised.h"
#include "compute/compute.h"
#include "compute_check.h"

#include <stdlib.h>
#include <string.h>

typedef struct weight { // (out, in)
    zr_weight_format format;
    int64_t out, in;
    uint8_t *codes;
    float *scales, *values;
} weight;

static weight weight_new(zr_weight_format format, int64_t out, int64_t in)
{
    int64_t of_row = zr_weight_row_scales(format, in), bytes = zr_weight_code_bytes(format, in);
    weight w = {format, out, in};
    float *plain = floats_random(out * in, 5, 1);
    w.codes = array_new(ZERO_U8, out * bytes);
    w.scales = floats_new(out * of_row);
    w.values = floats_new(out * in);
    for (int64_t r = 0; r < out; r++) {
        for (int64_t b = 0; b < of_row && format == ZR_WEIGHT_NF4; b++) {
            const float *block = plain + r * in + b * ZR_NF4_BLOCK;
            w.scales[r * of_row + b] = zr_nf4_scale(block);
            zr_nf4_encode(block, w.codes + r * bytes + b * ZR_NF4_BLOCK / 2);
        }
        if (format == ZR_WEIGHT_INT8)
            w.scales[r] = zr_int8_encode(plain + r * in, in, (int8_t *)w.codes + r * bytes);
        zr_weight_decode(format, w.codes + r * bytes, w.scales + r * of_row, 0, in,
                         w.values + r * in);
    }
    floats_free(plain);
    return w;
}

static void weight_free(weight *w)
{
    array_free(w->codes);
    floats_free(w->scales);
    floats_free(w->values);
}

static void check_product(zr_queue *queue, const zr_product *quantised, const weight *w)
{
    zr_product plain = *quantised;
    plain.format = ZR_WEIGHT_PLAIN;
    int64_t n = plain.m * plain.n;
    void *a = array_random(plain.dtype, plain.m * plain.k, 1, 1),
         *b = array_of(plain.dtype, w->values, w->out * w->in),
         *operand = array_random(plain.dtype, ZR_MAX(n, plain.n), 3, 1),
         *got = array_random(plain.out, n, 4, 1), *want = array_random(plain.out, n, 4, 1);
    zr_op op = zr_op_quantised_product(quantised, a, w->codes, w->scales,
                                       plain.epilogue ? operand : NULL, got);
    size_t whole = queue->scratch_bytes;
    queue->scratch_bytes = zr_op_scratch(queue, op);
    assert_true(queue->scratch_bytes <= whole);
    assert_int_equal(check_run(queue, op, NULL), ZERO_OK);
    queue->scratch_bytes = whole;
    op = zr_op_product(&plain, a, b, plain.epilogue ? operand : NULL, want);
    assert_int_equal(check_run(queue, op, NULL), ZERO_OK);
    check_same_array("product", plain.out, got, want, n);
    void *const arrays[] = {a, b, operand, got, want};
    for (int i = 0; i < ZR_COUNT(arrays); i++)
        array_free(arrays[i]);
}

// Rows of A, outputs and inputs of the weight: some that fill no panel, some that need more blocks
// than one in each direction.
static const int64_t shapes[][3] = {{1, 1, 64},     {3, 30, 64},   {9, 64, 128},
                                    {33, 200, 192}, {70, 70, 640}, {200, 130, 1088}};

static void check_shapes(zr_queue *queue, zr_weight_format format, zero_dtype dtype)
{
    for (int s = 0; s < ZR_COUNT(shapes); s++) {
        weight w = weight_new(format, shapes[s][1], shapes[s][2]);
        const zr_product forward = {.dtype = dtype,
                                    .out = dtype,
                                    .m = shapes[s][0],
                                    .n = w.out,
                                    .k = w.in,
                                    .trans_b = true,
                                    .format = format,
                                    .epilogue = ZR_EPILOGUE_BIAS},
                         input = {.dtype = dtype,
                                  .out = ZERO_F32,
                                  .m = shapes[s][0],
                                  .n = w.in,
                                  .k = w.out,
                                  .format = format,
                                  .add = true};
        check_product(queue, &forward, &w);
        check_product(queue, &input, &w);
        weight_free(&w);
    }
}

// Products of oneDNN have other bits, so the plain products are those of our own kernels only where
// the path has no oneDNN.
static void check_queue_products(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    bool own = strcmp(queue->backend->path(), "avx512") != 0 &&
               strcmp(queue->backend->path(), "amx") != 0 &&
               strcmp(queue->backend->path(), "avx512_bf16") != 0;
    for (int t = 0; t < STORAGE_TYPES; t++)
        for (zr_weight_format format = ZR_WEIGHT_NF4; own && format <= ZR_WEIGHT_INT8; format++)
            check_shapes(queue, format, storage_types[t]);
}

static void test_bits_of_decoded(void **state) { check_each_cpu(check_queue_products); }

// Small numbers, of which ref and cpu round the sums alike.
static void check_against_ref(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (zr_weight_format format = ZR_WEIGHT_NF4; format <= ZR_WEIGHT_INT8; format++) {
        weight w = weight_new(format, 48, 256);
        const zr_product p = {.m = 20, .n = w.out, .k = w.in, .trans_b = true, .format = format};
        float *a = floats_random(p.m * p.k, 1, 1), *got = floats_new(p.m * p.n),
              *want = floats_new(p.m * p.n);
        zr_run(queue, zr_op_quantised_product(&p, a, w.codes, w.scales, NULL, got));
        zr_run(ref, zr_op_quantised_product(&p, a, w.codes, w.scales, NULL, want));
        check_close("product", got, want, p.m * p.n, 1e-5, 1e-4);
        floats_free(a);
        floats_free(got);
        floats_free(want);
        weight_free(&w);
    }
}

static void test_ref_agrees(void **state)
{
    zr_queue *ref = check_queue("ref", NULL, 1);
    for (zr_weight_format format = ZR_WEIGHT_NF4; format <= ZR_WEIGHT_INT8; format++)
        check_shapes(ref, format, ZERO_BF16);
    check_queue_close(ref);
    check_each_cpu(check_against_ref);
}

enum {
    OUT = 12,
    BLOCKS = 100,
    ALL = OUT * BLOCKS,
    GROUPS = (ALL + ZR_NF4_GROUP - 1) / ZR_NF4_GROUP
};

// Checks the scales of a tile, whose rows and first block say where it lies in the whole.
static void check_tile(zr_queue *queue, const uint8_t *codes, const float *shared,
                       const float *whole, const zr_scale_codes *of)
{
    uint8_t tile[ALL];
    float *scales = floats_new(of->rows * of->blocks);
    for (int64_t r = 0; r < of->rows; r++)
        memcpy(tile + r * of->blocks, codes + zr_scale_codes_first(of, r), (size_t)of->blocks);
    zr_run(queue, zr_op_decode_scales(of, tile, shared, scales));
    for (int64_t r = 0; r < of->rows; r++)
        check_same_bits("scales", scales + r * of->blocks, whole + zr_scale_codes_first(of, r),
                        of->blocks * (int64_t)sizeof *scales);
    floats_free(scales);
}

static void check_scales(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    float *exact = floats_random(ALL, 3, 1), shared[1 + GROUPS], whole[ALL];
    uint8_t codes[ALL];
    zr_nf4_encode_scales(exact, ALL, codes, shared);
    zr_nf4_decode_scales(codes, shared, 0, ALL, whole);
    check_close("scales", whole, exact, ALL, 0, 0.01);
    const zr_scale_codes tiles[] = {
        {.rows = OUT, .blocks = BLOCKS, .whole_blocks = BLOCKS, .parts = 1, .groups = GROUPS},
        {.rows = 5,
         .blocks = BLOCKS,
         .whole_blocks = BLOCKS,
         .parts = 1,
         .first_row = 7,
         .groups = GROUPS},
        {.rows = OUT,
         .blocks = 30,
         .whole_blocks = BLOCKS,
         .first_block = 60,
         .parts = 1,
         .groups = GROUPS},
        {.rows = 6,
         .blocks = BLOCKS,
         .whole_blocks = BLOCKS,
         .parts = 3,
         .part_rows = 4,
         .first_row = 2,
         .groups = GROUPS},
    };
    for (int t = 0; t < ZR_COUNT(tiles); t++) {
        check_tile(queue, codes, shared, whole, &tiles[t]);
        check_tile(ref, codes, shared, whole, &tiles[t]);
    }
    floats_free(exact);
}

static void test_scales_of_tiles(void **state) { check_each_kernels(check_scales); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits_of_decoded),
        cmocka_unit_test(test_ref_agrees),
        cmocka_unit_test(test_scales_of_tiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
