// Numbers in blocks on a card: the bytes, elements, sums and carries of ref, bit by bit.
#include "cuda_check.h"

#include <float.h>
#include <string.h>

static const int widths[] = {8, 4}; // of codes, in bits
static const cuda_tolerance exact = {0, 0};
static const cuda_tolerance any_nan = {1e-12, 0}; // 16-bit types have several
static const int64_t counts[] = {1, 7, 33, 255, 256, 257, 600, 2049, 33001};

// Largest magnitudes of a block.
static const float edges[] = {
    0,
    -0.0f,
    0x1p-149f,
    0x1p-127f,
    0x1.000002p-127f,
    0x1p-126f,
    0x1.cp-124f,
    -0x1.fcp-120f,
    0x1.fc0002p-120f,
    1,
    -0x1.fffffep-1f,
    65504,
    FLT_MAX,
    -FLT_MAX,
    INFINITY,
    -INFINITY,
    NAN,
};

typedef void block_check(const zr_blocks *s);

static void each_format(int64_t n, block_check *check)
{
    for (int w = 0; w < ZR_COUNT(widths); w++)
        for (int t = 0; t < STORAGE_TYPES; t++)
            check(&(zr_blocks){
                .bits = widths[w], .dtype = storage_types[t], .n = n, .err_beta = 0.8f});
}

// x(n) is what is encoded and rounded; what ref encodes is decoded and added.
static void check_all(const zr_blocks *s, const float *x, cuda_tolerance t)
{
    zr_queue *ref = check_queue("ref", NULL, 1);
    void *source = array_of(s->dtype, x, s->n), *out = array_new(s->dtype, s->n),
         *encoded = array_new(ZERO_U8, zr_block_bytes(s->bits, s->n));
    float *sums = floats_random(s->n, 77, 2), *carry = floats_random(s->n, 78, 1e-2f);
    cuda_check("blocks_encode", zr_op_blocks_encode(s, source, NULL, encoded), exact);
    cuda_check("blocks_encode", zr_op_blocks_encode(s, source, carry, encoded), exact);
    cuda_check("blocks_round", zr_op_blocks_round(s, x, out), t);
    zr_run(ref, zr_op_blocks_encode(s, source, NULL, encoded));
    cuda_check("blocks_decode", zr_op_blocks_decode(s, encoded, out), t);
    cuda_check("blocks_add", zr_op_blocks_add(s, encoded, sums), t);
    floats_free(carry);
    floats_free(sums);
    array_free(encoded);
    array_free(out);
    array_free(source);
    check_queue_close(ref);
}

static void check_random(const zr_blocks *s)
{
    float *x = floats_random(s->n, (uint64_t)s->n, s->n % 2 ? 1e-3f : 3e4f);
    check_all(s, x, exact);
    floats_free(x);
}

static void random_numbers_have_refs_bits(void **state)
{
    for (int c = 0; c < ZR_COUNT(counts); c++)
        each_format(counts[c], check_random);
}

// A vector of two whole blocks and a shorter one, of numbers up to the edge, and of zeros.
static void check_edges(const zr_blocks *s)
{
    for (int e = 0; e < ZR_COUNT(edges); e++) {
        float *x = floats_random(s->n, 5, 1);
        for (int64_t i = 0; i < s->n; i++)
            x[i] = i % 5 == 3 ? -0.0f : isfinite(edges[e]) ? x[i] * edges[e] : x[i];
        for (int64_t i = 0; i < s->n; i += 2 * ZR_BLOCK) // the second has none
            x[ZR_MIN(i + 101, s->n - 1)] = edges[e];
        const bool finite = isfinite(edges[e]) && (s->dtype != ZERO_F16 || fabsf(edges[e]) < 65520);
        check_all(s, x, finite ? exact : any_nan);
        floats_free(x);
    }
}

static void edges_have_refs_bits(void **state) { each_format(2 * ZR_BLOCK + 19, check_edges); }

// Bytes that no encoder wrote, among them the codes -128 and -8, with any finite scales.
static void check_any_bytes(const zr_blocks *s)
{
    const int64_t bytes = zr_block_bytes(s->bits, s->n);
    uint8_t *any = array_new(ZERO_U8, bytes);
    void *out = array_new(s->dtype, s->n);
    for (int64_t i = 0; i < bytes; i++)
        any[i] = (uint8_t)(i * 181 + i / 256 + 128);
    for (int64_t i = 0, e = 0; i < bytes; i += zr_block_stride(s->bits), e++)
        memcpy(any + i, &edges[e % 14], sizeof *edges);
    cuda_check("blocks_decode", zr_op_blocks_decode(s, any, out), exact);
    array_free(out);
    array_free(any);
}

static void any_bytes_are_decoded(void **state) { each_format(14 * ZR_BLOCK + 3, check_any_bytes); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_numbers_have_refs_bits),
        cmocka_unit_test(edges_have_refs_bits),
        cmocka_unit_test(any_bytes_are_decoded),
    };
    return cmocka_run_group_tests(tests, cuda_check_setup, cuda_check_teardown);
}
