// Numbers in blocks: the bytes as block_ops.h states them; cpu compared with ref bit by bit; what
// rounding may lose, at every edge of fp32; and the carry.
#include "compute/compute.h"
#include "blocks_golden.h"
#include "compute_check.h"

#include <float.h>
#include <string.h>

#define EXCESS (0.5 + 1.0 / 60000) // of a step, by which an element may change
#define LEAST 0x1p-126f            // the least scale but 0

static const int widths[] = {8, 4}; // of codes, in bits

static int limit_of(int bits) { return bits == 8 ? 127 : 7; }

static uint8_t *encode(zr_queue *queue, const zr_blocks *s, const void *source, float *carry)
{
    uint8_t *encoded = array_new(ZERO_U8, zr_block_bytes(s->bits, s->n));
    zr_run(queue, zr_op_blocks_encode(s, source, carry, encoded));
    return encoded;
}

static void *decode(zr_queue *queue, const zr_blocks *s, const void *encoded)
{
    void *out = array_new(s->dtype, s->n);
    zr_run(queue, zr_op_blocks_decode(s, encoded, out));
    return out;
}

static float scale_of(const zr_blocks *s, const uint8_t *encoded, int64_t i)
{
    float scale;
    memcpy(&scale, encoded + i / ZR_BLOCK * zr_block_stride(s->bits), sizeof scale);
    return scale;
}

static zr_blocks in_fp32(const zr_blocks *s)
{
    zr_blocks wide = *s;
    wide.dtype = ZERO_F32;
    return wide;
}

// ---- what the codes of a vector mean ----

// Returns the largest magnitude of the block in which element i lies; NaN if it is not finite.
static float largest_of(const float *x, int64_t n, int64_t i)
{
    float largest = 0;
    for (int64_t k = i / ZR_BLOCK * ZR_BLOCK; k < n && k < (i / ZR_BLOCK + 1) * ZR_BLOCK; k++) {
        if (!isfinite(x[k]))
            return NAN;
        largest = fmaxf(largest, fabsf(x[k]));
    }
    return largest;
}

static void check_scale(int bits, float scale, float largest)
{
    float step = largest / (float)limit_of(bits);
    if (isnan(largest))
        assert_true(isnan(scale));
    else if (largest <= LEAST / 2)
        assert_true(scale == 0 && !signbit(scale));
    else if (step <= LEAST)
        assert_true(scale == LEAST);
    else
        assert_true(scale <= step && scale >= step * (1 - 0x1p-16f));
}

static void check_losses(const zr_blocks *s, const float *x, const uint8_t *encoded,
                         const float *decoded)
{
    float largest = 0;
    for (int64_t i = 0; i < s->n; i++) {
        float scale = scale_of(s, encoded, i);
        if (i % ZR_BLOCK == 0) {
            largest = largest_of(x, s->n, i);
            check_scale(s->bits, scale, largest);
        }
        double lost = fabs((double)x[i] - decoded[i]);
        if (isnan(largest))
            assert_true(isnan(decoded[i]));
        else if (lost > (scale > 0 ? EXCESS * scale : 0x1p-127) ||
                 fabsf(decoded[i]) > (float)limit_of(s->bits) * scale ||
                 (fabsf(x[i]) == largest && largest >= (float)limit_of(s->bits) * LEAST &&
                  fabsf(decoded[i]) != (float)limit_of(s->bits) * scale))
            fail_msg("%d bits, element %lld of %lld: %a became %a at scale %a", s->bits,
                     (long long)i, (long long)s->n, x[i], decoded[i], scale);
    }
}

// What was decoded is encoded to the same bytes.
static void check_stable(zr_queue *queue, const zr_blocks *s, const uint8_t *encoded,
                         const float *decoded)
{
    const zr_blocks wide = in_fp32(s);
    uint8_t *again = encode(queue, &wide, decoded, NULL);
    check_same_bits("what is encoded again", again, encoded, zr_block_bytes(s->bits, s->n));
    array_free(again);
}

static void check_sums(zr_queue *queue, const zr_blocks *s, const uint8_t *encoded,
                       const float *decoded)
{
    float *sums = floats_random(s->n, 77, 2), *before = floats_copy(sums, s->n);
    zr_run(queue, zr_op_blocks_add(s, encoded, sums));
    for (int64_t i = 0; i < s->n; i++)
        before[i] += decoded[i];
    check_same_bits("sums", sums, before, (int64_t)sizeof(float) * s->n);
    floats_free(before);
    floats_free(sums);
}

// Rounding is encoding and decoding, of fp32 numbers to any type.
static void check_rounding(zr_queue *queue, const zr_blocks *s, const float *x)
{
    const zr_blocks wide = in_fp32(s);
    int64_t elem = (int64_t)zero_dtype_bytes(s->dtype);
    uint8_t *encoded = encode(queue, &wide, x, NULL);
    void *want = decode(queue, s, encoded), *got = array_new(s->dtype, s->n);
    zr_run(queue, zr_op_blocks_round(s, x, got));
    check_same_bits("rounded", got, want, elem * s->n);
    array_free(got);
    array_free(want);
    array_free(encoded);
}

static void check_vector(zr_queue *queue, zr_queue *ref, const zr_blocks *s, const void *source)
{
    const zr_blocks wide = in_fp32(s);
    int64_t bytes = zr_block_bytes(s->bits, s->n), elem = (int64_t)zero_dtype_bytes(s->dtype);
    float *x = array_floats(s->dtype, source, s->n);
    uint8_t *got = encode(queue, s, source, NULL), *want = encode(ref, s, source, NULL);
    check_same_bits("encoded", got, want, bytes);
    float *decoded = decode(queue, &wide, got), *decoded_by_ref = decode(ref, &wide, want);
    check_same_bits("decoded", decoded, decoded_by_ref, (int64_t)sizeof(float) * s->n);
    check_losses(s, x, got, decoded);
    check_stable(queue, s, got, decoded);
    check_sums(queue, s, got, decoded);
    check_sums(ref, s, got, decoded);
    check_rounding(queue, s, x);
    check_rounding(ref, s, x);
    void *narrow = decode(queue, s, got), *narrow_by_ref = decode(ref, s, got);
    check_stored("decoded", s->dtype, narrow, decoded, s->n);
    check_same_bits("decoded", narrow, narrow_by_ref, elem * s->n);
    array_free(narrow_by_ref);
    array_free(narrow);
    floats_free(decoded_by_ref);
    floats_free(decoded);
    array_free(want);
    array_free(got);
    floats_free(x);
}

typedef void vector_check(zr_queue *queue, zr_queue *ref, const zr_blocks *s);

static void each_format(zr_queue *queue, zr_queue *ref, int64_t n, vector_check *check)
{
    for (int w = 0; w < ZR_COUNT(widths); w++)
        for (int t = 0; t < STORAGE_TYPES; t++) {
            const zr_blocks s = {
                .bits = widths[w], .dtype = storage_types[t], .n = n, .err_beta = 0.8f};
            check(queue, ref, &s);
        }
}

// ---- random numbers ----

static void check_random(zr_queue *queue, zr_queue *ref, const zr_blocks *s)
{
    void *source = array_random(s->dtype, s->n, (uint64_t)s->n, s->n % 2 ? 1e-3f : 3e4f);
    check_vector(queue, ref, s, source);
    array_free(source);
}

static void random_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int64_t n = 1; n <= 600; n += n < 40 || (n > 240 && n < 280) ? 1 : 7)
        each_format(queue, ref, n, check_random);
    for (int64_t n = 504; n <= 520; n++)
        each_format(queue, ref, n, check_random);
    each_format(queue, ref, 90007, check_random); // for every thread
}

static void random_numbers_agree(void **state) { check_each_kernels(random_body); }

// ---- edges ----

static const float edges[] = {
    0,
    -0.0f,
    0x1p-149f, // the least subnormal
    -0x1.8p-140f,
    0x1p-127f, // the largest that the scale 0 stands for
    0x1.000002p-127f,
    0x1.8p-127f, // a tie
    0x1.fffffcp-127f,
    0x1p-126f,
    0x1.5p-124f,
    0x1.bfffp-124f,
    0x1.cp-124f,   // 7 of the least steps
    -0x1.fcp-120f, // 127 of them
    0x1.fc0002p-120f,
    0x1p-24f, // the least of fp16
    1,
    -0x1.fffffep-1f,
    65504,        // the largest of fp16
    -0x1.fep127f, // the largest of bf16
    FLT_MAX,
    -FLT_MAX,
    INFINITY,
    -INFINITY,
    NAN,
};

// A vector of whole and shorter blocks, all of them of numbers up to the edge, and zeros between.
static float *numbers_up_to(float edge, int64_t n)
{
    float *x = floats_random(n, 5, 1);
    for (int64_t i = 0; i < n; i++)
        x[i] = i % 5 == 3 ? -0.0f : isfinite(edge) ? x[i] * edge : x[i];
    for (int64_t i = 0; i < n; i += ZR_BLOCK) // at a place of its own in each block
        x[ZR_MIN(i + i / ZR_BLOCK * 101 % ZR_BLOCK, n - 1)] = edge;
    return x;
}

static void check_edges(zr_queue *queue, zr_queue *ref, const zr_blocks *s)
{
    for (int e = 0; e < ZR_COUNT(edges); e++) {
        float *x = numbers_up_to(edges[e], s->n);
        void *source = array_of(s->dtype, x, s->n);
        check_vector(queue, ref, s, source);
        array_free(source);
        floats_free(x);
    }
}

static void edges_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    each_format(queue, ref, 1, check_edges);
    each_format(queue, ref, ZR_BLOCK, check_edges);
    each_format(queue, ref, 3 * ZR_BLOCK + 19, check_edges);
}

static void edges_agree(void **state) { check_each_kernels(edges_body); }

// Only the block with it is not finite.
static void infinity_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    enum { N = 3 * ZR_BLOCK };
    for (int w = 0; w < ZR_COUNT(widths); w++) {
        const zr_blocks s = {.bits = widths[w], .dtype = ZERO_F32, .n = N};
        float *x = floats_random(N, 3, 1);
        x[ZR_BLOCK + 200] = -INFINITY;
        uint8_t *encoded = encode(queue, &s, x, NULL);
        float *decoded = decode(queue, &s, encoded);
        for (int64_t i = 0; i < N; i++)
            assert_int_equal(isnan(decoded[i]), i / ZR_BLOCK == 1);
        floats_free(decoded);
        array_free(encoded);
        floats_free(x);
    }
}

static void infinity_stays_in_its_block(void **state) { check_each_kernels(infinity_body); }

// Bytes that no encoder wrote, among them scales of every kind and the codes -128 and -8.
static void check_any_bytes(zr_queue *queue, zr_queue *ref, const zr_blocks *s)
{
    int64_t bytes = zr_block_bytes(s->bits, s->n), elem = (int64_t)zero_dtype_bytes(s->dtype);
    uint8_t *any = array_new(ZERO_U8, bytes);
    for (int64_t i = 0; i < bytes; i++)
        any[i] = (uint8_t)(i * 181 + i / 256 + 128);
    for (int64_t i = 0, e = 0; i < bytes; i += zr_block_stride(s->bits), e++)
        memcpy(any + i, &edges[e % ZR_COUNT(edges)], sizeof *edges);
    void *got = decode(queue, s, any), *want = decode(ref, s, any);
    check_same_bits("decoded bytes", got, want, elem * s->n);
    array_free(want);
    array_free(got);
    array_free(any);
}

static void any_bytes_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    each_format(queue, ref, ZR_COUNT(edges) * ZR_BLOCK + 3, check_any_bytes);
}

static void any_bytes_are_decoded(void **state) { check_each_kernels(any_bytes_body); }

// ---- the format ----

static void check_bytes(zr_queue *queue, int bits, const float *x, int64_t n, const char *want,
                        int64_t bytes)
{
    const zr_blocks s = {.bits = bits, .dtype = ZERO_F32, .n = n};
    assert_int_equal(zr_block_bytes(bits, n), bytes);
    uint8_t *got = encode(queue, &s, x, NULL);
    assert_memory_equal(got, want, (size_t)bytes);
    array_free(got);
}

// Ties go to even codes, and padding is zero; the scale is 0.25 (0x3e800000).
static void format_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    const float eight[] = {31.75f, -31.75f, 0.125f, 0.375f, -0.375f, -0.0f, 1},
                four[] = {-1.75f, 1.75f, 0.375f, -0.375f, 0.25f};
    check_bytes(queue, 8, eight, 7, "\x00\x00\x80\x3e\x7f\x81\x00\x02\xfe\x00\x04\x00", 12);
    check_bytes(queue, 4, four, 5, "\x00\x00\x80\x3e\x79\xe2\x01\x00", 8);
    assert_int_equal(zr_block_bytes(8, 2048), 2048 + 8 * 4);
    assert_int_equal(zr_block_bytes(4, 2048), 1024 + 8 * 4);
    assert_int_equal(zr_block_bytes(4, 257), 132 + 2 * 4);
    assert_int_equal(zr_block_bytes(8, 0), 0);
}

static void bytes_are_as_stated(void **state)
{
    zr_queue *ref = check_queue("ref", NULL, 1);
    format_body(ref, ref, ref);
    check_queue_close(ref);
    check_each_kernels(format_body);
}

// ---- what the formulas give in double precision ----

// As tests/oracle/blocks.py makes them.
static void make_numbers(const blocks_golden *g, int step, float *out)
{
    for (int i = 0; i < g->n; i++) {
        uint64_t k = (uint64_t)(1000 * step + 1 + i);
        uint32_t word = (uint32_t)(k * 2654435761u + k * k * (uint64_t)g->seed * 40503);
        double x = word / 4294967296.0 * 2 - 1;
        out[i] = ldexpf((float)(g->small ? x * x * x : x), g->power);
    }
}

static void check_golden(const blocks_golden *g, const uint8_t *encoded, const zr_blocks *s)
{
    for (int i = 0; i < g->n; i++) {
        const uint8_t *codes =
            encoded + i / ZR_BLOCK * zr_block_stride(s->bits) + ZR_BLOCK_SCALE_BYTES;
        int code = (int8_t)codes[i % ZR_BLOCK * s->bits / 8];
        if (s->bits == 4)
            code = (int8_t)(i % 2 ? code & 0xf0 : (code & 15) << 4) >> 4;
        if (code != g->codes[i])
            fail_msg("%d bits, power %d, element %d: code %d, not %d", s->bits, g->power, i, code,
                     g->codes[i]);
        assert_true(fabs(scale_of(s, encoded, i) / g->scales[i / ZR_BLOCK] - 1) < 0x1p-16);
    }
}

static void golden_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    float x[300], carry[300];
    for (int k = 0; k < blocks_golden_count; k++) {
        const blocks_golden *g = &blocks_goldens[k];
        const zr_blocks s = {.bits = g->bits, .dtype = ZERO_F32, .n = g->n, .err_beta = 0.8f};
        memset(carry, 0, sizeof carry);
        for (int step = 0; step < g->steps; step++) {
            make_numbers(g, step, x);
            uint8_t *encoded = encode(queue, &s, x, g->steps > 1 ? carry : NULL);
            if (step == g->steps - 1)
                check_golden(g, encoded, &s);
            array_free(encoded);
        }
        for (int i = 0; i < g->n && g->steps > 1; i++)
            assert_true(fabs(carry[i] - g->carry[i]) < 0.004 * g->scales[0]);
    }
}

static void codes_are_those_of_the_paper(void **state) { check_each_kernels(golden_body); }

// ---- the carry ----

static void check_carried(zr_queue *queue, const zr_blocks *s, const float *x, const float *before,
                          const float *after, const uint8_t *encoded)
{
    const zr_blocks wide = in_fp32(s);
    float *decoded = decode(queue, &wide, encoded);
    for (int64_t i = 0; i < s->n; i++) {
        double lost = (double)(x[i] + before[i]) - decoded[i];
        double want = isnan(decoded[i]) ? before[i] : 0.8 * before[i] + 0.2 * lost;
        if (fabs(after[i] - want) > 1e-6 * (fabs(before[i]) + fabs(lost)))
            fail_msg("element %lld: the carry %a became %a, not %a", (long long)i, before[i],
                     after[i], want);
    }
    floats_free(decoded);
}

static void check_carry(zr_queue *queue, zr_queue *ref, const zr_blocks *s)
{
    void *source = array_random(s->dtype, s->n, 9, 3);
    float *x = array_floats(s->dtype, source, s->n);
    float *carry = floats_random(s->n, 10, 0.1f), *by_ref = floats_copy(carry, s->n);
    for (int step = 0; step < 3; step++) {
        float *before = floats_copy(carry, s->n);
        if (step == 2) {
            x[s->n - 1] = INFINITY;
            array_free(source);
            source = array_of(s->dtype, x, s->n);
        }
        uint8_t *got = encode(queue, s, source, carry), *want = encode(ref, s, source, by_ref);
        check_same_bits("encoded with a carry", got, want, zr_block_bytes(s->bits, s->n));
        check_same_bits("carry", carry, by_ref, (int64_t)sizeof(float) * s->n);
        check_carried(queue, s, x, before, carry, got);
        array_free(want);
        array_free(got);
        floats_free(before);
    }
    floats_free(by_ref);
    floats_free(carry);
    floats_free(x);
    array_free(source);
}

static void carry_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    static const int64_t counts[] = {1, 3, 17, 255, 256, 257, 531, 50001};
    for (int k = 0; k < ZR_COUNT(counts); k++)
        each_format(queue, ref, counts[k], check_carry);
}

static void carries_agree(void **state) { check_each_kernels(carry_body); }

// If the whole loss is carried, what many steps lose together is no more than one step's.
static void losses_do_not_add_up(void **state)
{
    enum { N = ZR_BLOCK, STEPS = 50 };
    const zr_blocks s = {.bits = 4, .dtype = ZERO_F32, .n = N};
    zr_queue *queue = check_queue("cpu", NULL, 1);
    float *x = floats_random(N, 21, 1), *carry = floats_new(N), *sums = floats_new(N);
    memset(carry, 0, N * sizeof *carry);
    memset(sums, 0, N * sizeof *sums);
    for (int step = 0; step < STEPS; step++) {
        uint8_t *encoded = encode(queue, &s, x, carry);
        zr_run(queue, zr_op_blocks_add(&s, encoded, sums));
        array_free(encoded);
    }
    for (int i = 0; i < N; i++)
        assert_true(fabs(STEPS * (double)x[i] - sums[i]) < 0.51 * 1.1 / 7 + 1e-4);
    floats_free(sums);
    floats_free(carry);
    floats_free(x);
    check_queue_close(queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_as_stated),   cmocka_unit_test(random_numbers_agree),
        cmocka_unit_test(edges_agree),           cmocka_unit_test(infinity_stays_in_its_block),
        cmocka_unit_test(any_bytes_are_decoded), cmocka_unit_test(codes_are_those_of_the_paper),
        cmocka_unit_test(carries_agree),         cmocka_unit_test(losses_do_not_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
