// Blocks of codes as they are widened, summed and refused. exercise_blocks.c sends them over every
// communicator.
#include "blocks_support.h"
#include "exercise.h"
#include "blocks_portable.h"

#include <math.h>
#include <stdlib.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

static const zero_dtype dtypes[] = {ZERO_F32, ZERO_BF16, ZERO_F16};
static const int code_bits[] = {4, 8};

typedef void (*widen_function)(int bits, const void *encoded, int64_t elems, zero_dtype dtype,
                               void *out, int threads);

typedef struct widening {
    int bits;
    int64_t elems;
    zero_dtype dtype;
} widening;

// Compares elements with what their places say, by the single conversions of the format. Of many
// elements it looks at some of each block.
static void check_widened(const widening *w, const void *out, const char *how)
{
    for (int64_t i = 0; i < w->elems; i += i < 2048 || i > w->elems - 2048 ? 1 : 37) {
        float want = rounded_to(w->dtype, block_value_of(w->bits, 5, i));
        if (load_as(w->dtype, out, i) != want)
            fail_msg("%s: element %lld of %lld, %d bits to %s: %.9g, not %.9g", how, (long long)i,
                     (long long)w->elems, w->bits, zr_dtype_name(w->dtype),
                     load_as(w->dtype, out, i), want);
    }
}

// Widens codes that lie apart, and codes that end where what they become ends, as they arrive.
static void check_widening(const widening *w, widen_function widen, int threads)
{
    size_t codes = (size_t)zr_block_bytes(w->bits, w->elems),
           bytes = (size_t)w->elems * zero_dtype_bytes(w->dtype);
    char *encoded = malloc(codes), *apart = malloc(bytes + 8), *place = malloc(bytes + 8);
    write_blocks(w->bits, 5, 0, w->elems, encoded);
    memset(apart, 0x5a, bytes + 8);
    memset(place, 0x5a, bytes + 8);
    memcpy(place + bytes - codes, encoded, codes);
    widen(w->bits, encoded, w->elems, w->dtype, apart, threads);
    check_widened(w, apart, "apart");
    widen(w->bits, place + bytes - codes, w->elems, w->dtype, place, threads);
    if (memcmp(place, apart, bytes + 8))
        fail_msg("in place: %lld elements, %d bits to %s on %d threads are others than apart",
                 (long long)w->elems, w->bits, zr_dtype_name(w->dtype), threads);
    free(place);
    free(apart);
    free(encoded);
}

static void check_widenings(widen_function widen)
{
    // Blocks, parts of 1024 elements and some more, and what threads share (from 65536 on).
    static const int64_t sizes[] = {256,  512,   768,   1024,  1280,  2048,  2304,  4096,
                                    7936, 16384, 65536, 65792, 69888, 70144, 300032};
    for (int s = 0; s < ZR_COUNT(sizes); s++)
        for (int b = 0; b < ZR_COUNT(code_bits); b++)
            for (int d = 0; d < ZR_COUNT(dtypes); d++)
                for (int threads = 1; threads <= 2; threads++)
                    check_widening(&(widening){code_bits[b], sizes[s], dtypes[d]}, widen, threads);
}

static void codes_are_widened_in_place_from_the_end(void **state)
{
    check_widenings(zr_widen_blocks);
}

static void so_they_are_without_vectors(void **state) { check_widenings(widen_blocks_portable); }

static void nothing_is_widened_to_nothing(void **state)
{
    char none[1] = {7};
    zr_widen_blocks(8, none, 0, ZERO_F32, none, 2);
    assert_int_equal(none[0], 7);
}

// Every code at every place of a block, and scales that are 0 or not finite: bits are compared.
static void every_code_is_the_same_with_vectors_and_without(void **state)
{
    static const float scales[] = {0.0f, NAN, INFINITY, 0x1p-126f, 0x1.fffep100f, -1.5f};
    enum { BLOCKS = 256 };
    static char encoded[BLOCKS * (ZR_BLOCK + sizeof(float))];
    static float vectors[BLOCKS * ZR_BLOCK], portable[BLOCKS * ZR_BLOCK];
    for (int b = 0; b < ZR_COUNT(code_bits); b++) {
        int bits = code_bits[b];
        for (int k = 0; k < BLOCKS; k++) {
            char *block = encoded + k * zr_block_stride(bits);
            memcpy(block, &scales[k % ZR_COUNT(scales)], sizeof(float));
            for (int i = 0; i < ZR_BLOCK * bits / 8; i++)
                block[ZR_BLOCK_SCALE_BYTES + i] = (char)(i + k);
        }
        zr_widen_block_range(bits, encoded, 0, ZR_COUNT(vectors), vectors);
        widen_block_range_portable(bits, encoded, 0, ZR_COUNT(portable), portable);
        for (int i = 0; i < ZR_COUNT(vectors); i++)
            if (memcmp(&vectors[i], &portable[i], sizeof(float)) &&
                !(isnan(vectors[i]) && isnan(portable[i])))
                fail_msg("element %d, %d bits: %g with vectors, %g without", i, bits, vectors[i],
                         portable[i]);
        assert_true(isnan(vectors[ZR_BLOCK]) && vectors[0] == 0); // not all are one value
    }
}

static void a_range_begins_at_its_block(void **state)
{
    enum { COUNT = 7 * ZR_BLOCK };
    static char encoded[COUNT * 2];
    static float out[3 * ZR_BLOCK + 1];
    for (int b = 0; b < ZR_COUNT(code_bits); b++) {
        write_blocks(code_bits[b], 5, 0, COUNT, encoded);
        out[3 * ZR_BLOCK] = 42;
        zr_widen_block_range(code_bits[b], encoded, 2 * ZR_BLOCK, 3 * ZR_BLOCK, out);
        for (int i = 0; i < 3 * ZR_BLOCK; i++)
            assert_true(out[i] == block_value_of(code_bits[b], 5, 2 * ZR_BLOCK + i));
        assert_true(out[3 * ZR_BLOCK] == 42); // nothing behind it
    }
}

// ---- narrowing ----

// Numbers of a wide range, whose largest one lies anywhere in its block.
static void fill_numbers(float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        uint32_t word = draw_block_word(9, i);
        float scale = ldexpf(1, (int)(draw_block_word(10, i / ZR_BLOCK) % 60) - 30);
        x[i] = ((float)(word & 0xffffff) / 0x1000000p0f - 0.5f) * scale;
    }
}

typedef void (*narrow_function)(int bits, const float *x, int64_t count, void *out);

// What codes stand for is the nearest that the block's scale has, and they become themselves again.
static void check_narrowing(narrow_function narrow)
{
    enum { COUNT = 40 * ZR_BLOCK };
    static float x[COUNT], wide[COUNT], again[COUNT];
    static char encoded[COUNT * 2], twice[COUNT * 2];
    for (int b = 0; b < ZR_COUNT(code_bits); b++) {
        int bits = code_bits[b];
        fill_numbers(x, COUNT);
        memset(encoded, 0x5a, sizeof encoded);
        narrow(bits, x, COUNT, encoded);
        assert_int_equal(encoded[zr_block_bytes(bits, COUNT)], 0x5a); // nothing behind it
        widen_block_range_portable(bits, encoded, 0, COUNT, wide);
        for (int k = 0; k < COUNT; k += ZR_BLOCK) {
            memcpy(again, x + k, sizeof(float) * ZR_BLOCK);
            round_block(bits, again);
            for (int i = 0; i < ZR_BLOCK; i++)
                if (wide[k + i] != again[i])
                    fail_msg("element %d in %d bits: %.9g becomes %.9g, not %.9g", k + i, bits,
                             x[k + i], wide[k + i], again[i]);
        }
        narrow(bits, wide, COUNT, twice);
        assert_memory_equal(encoded, twice, (size_t)zr_block_bytes(bits, COUNT));
    }
}

static void sums_become_codes(void **state)
{
    check_narrowing(zr_narrow_blocks);
    check_narrowing(narrow_blocks_portable);
}

// A block that is not finite becomes NaN, one of what is next to nothing 0; the others stay.
static void odd_blocks_become_codes(void **state)
{
    enum { BLOCKS = 6 };
    static float x[BLOCKS * ZR_BLOCK], wide[BLOCKS * ZR_BLOCK];
    static char vectors[BLOCKS * 300], portable[BLOCKS * 300];
    const float odd[BLOCKS] = {INFINITY, NAN, 0x1p-127f, -0.0f, -INFINITY, 3.0e38f};
    for (int b = 0; b < ZR_COUNT(code_bits); b++) {
        int bits = code_bits[b];
        for (int i = 0; i < ZR_COUNT(x); i++)
            x[i] = i % ZR_BLOCK == 77 ? odd[i / ZR_BLOCK] : 0;
        zr_narrow_blocks(bits, x, ZR_COUNT(x), vectors);
        narrow_blocks_portable(bits, x, ZR_COUNT(x), portable);
        assert_memory_equal(vectors, portable, (size_t)zr_block_bytes(bits, ZR_COUNT(x)));
        widen_block_range_portable(bits, vectors, 0, ZR_COUNT(x), wide);
        for (int k = 0; k < BLOCKS; k++) {
            const float *block = wide + k * ZR_BLOCK;
            assert_true(isfinite(odd[k]) ? block[0] == 0 && !signbit(block[0]) : isnan(block[0]));
        }
        assert_true(wide[2 * ZR_BLOCK + 77] == 0 && wide[3 * ZR_BLOCK + 77] == 0);
        assert_true(fabsf(wide[5 * ZR_BLOCK + 77] - 3.0e38f) < 1e34f);
    }
}

// ---- the tree ----

static void check_sum(int bits, int ranks, int64_t count, zero_dtype to, int adds, int threads)
{
    const void *sources[ZERO_MAX_RANKS];
    float column[ZERO_MAX_RANKS];
    int64_t bytes = zr_block_bytes(bits, count);
    char *encoded = malloc((size_t)(ranks * bytes));
    float *sum = malloc(sizeof *sum * (size_t)count);
    for (int r = 0; r < ranks; r++) {
        sources[r] = encoded + r * bytes;
        write_blocks(bits, (uint64_t)r, 0, count, encoded + r * bytes);
    }
    for (int64_t i = 0; i < count; i++)
        store_as(to, sum, i, (float)(i % 1021));
    zr_tree_sum_blocks(&(zr_sum_target){.data = sum, .dtype = to, .adds = adds, .stride = count},
                       bits, sources, ranks, count, threads);
    for (int64_t i = 0; i < count; i += i < 2048 ? 1 : 31) {
        for (int r = 0; r < ranks; r++)
            column[r] = block_value_of(bits, (uint64_t)r, i);
        float old = rounded_to(to, (float)(i % 1021)), of_ranks = oracle_sum(column, ranks),
              want = rounded_to(to, adds ? old + of_ranks : of_ranks);
        if (load_as(to, sum, i) != want)
            fail_msg("%d ranks, %d bits into %s%s, element %lld: %.9g, not %.9g", ranks, bits,
                     zr_dtype_name(to), adds ? " adding" : "", (long long)i, load_as(to, sum, i),
                     want);
    }
    free(sum);
    free(encoded);
}

// The sum as codes: those of what the sum in fp32 is.
static void a_sum_may_become_codes(void **state)
{
    enum { COUNT = 9 * ZR_BLOCK, RANKS = 3 };
    static char encoded[RANKS][COUNT * 2], codes[COUNT * 2], want[COUNT * 2];
    static float sum[COUNT];
    for (int b = 0; b < ZR_COUNT(code_bits); b++) {
        int bits = code_bits[b];
        const void *sources[RANKS];
        for (int r = 0; r < RANKS; r++) {
            sources[r] = encoded[r];
            write_blocks(bits, (uint64_t)r, 0, COUNT, encoded[r]);
        }
        zr_tree_sum_blocks(&(zr_sum_target){.data = sum, .dtype = ZERO_F32}, bits, sources, RANKS,
                           COUNT, 1);
        zr_tree_sum_blocks(&(zr_sum_target){.data = codes, .bits = bits}, bits, sources, RANKS,
                           COUNT, 1);
        narrow_blocks_portable(bits, sum, COUNT, want);
        assert_memory_equal(codes, want, (size_t)zr_block_bytes(bits, COUNT));
    }
}

static void sums_of_codes_follow_the_tree(void **state)
{
    static const int counts[] = {1, 2, 3, 4, 5, 7, 8, 9, 17, 64};
    for (int r = 0; r < ZR_COUNT(counts); r++)
        for (int b = 0; b < ZR_COUNT(code_bits); b++)
            for (int d = 0; d < ZR_COUNT(dtypes); d++)
                for (int adds = 0; adds < 2; adds++)
                    check_sum(code_bits[b], counts[r], 5 * ZR_BLOCK, dtypes[d], adds, 1);
    for (int threads = 1; threads <= 2; threads++) {
        check_sum(4, 3, 300 * ZR_BLOCK, ZERO_F32, 0, threads);
        check_sum(8, 4, 300 * ZR_BLOCK, ZERO_F32, 1, threads);
        check_sum(4, 2, 4200 * ZR_BLOCK, ZERO_F32, 0, threads); // streamed
    }
}

// ---- refusals ----

enum { WINDOW = 4096 }; // bytes

typedef struct asked_operand {
    zr_window_kind kind;
    int slot;
    int64_t offset, elems;
    int bits;
    zero_dtype dtype; // of what is gathered; ZERO_U8: codes are summed
    const char *words;
} asked_operand;

static zero_status ask(zero_comm *comm, void *user, zero_error *error)
{
    static _Thread_local float data[WINDOW];
    const asked_operand *asked = user;
    zr_window window;
    zr_handle handle;
    ZERO_TRY(zr_window_create(comm, asked->kind, WINDOW, 1, NULL, &window, error));
    zero_status status =
        asked->dtype == ZERO_U8
            ? zr_comm_start_blocks(&window, asked->slot, asked->offset, asked->elems, asked->bits,
                                   &(zr_sum_target){.data = data, .dtype = ZERO_F32}, &handle,
                                   error)
            : zr_comm_start_gather(&window, asked->slot, asked->offset, asked->elems, asked->dtype,
                                   asked->bits, data, &handle, error);
    if (status == ZERO_OK)
        status = zr_comm_wait(&handle, error);
    zr_window_destroy(&window);
    return status;
}

// WINDOW holds 15 blocks of 8 bits (and 31 of 4 bits), or 4 that are widened to fp32.
static void operands_that_lie_elsewhere_are_refused(void **state)
{
#define OUTSIDE "its operand does not lie inside"
    static asked_operand asked[] = {
        {ZR_WINDOW_SYMMETRIC, 0, 0, 15 * 256, 8, ZERO_U8, NULL},
        {ZR_WINDOW_SYMMETRIC, 0, 0, 16 * 256, 8, ZERO_U8, OUTSIDE},
        {ZR_WINDOW_SYMMETRIC, 0, 0, 31 * 256, 4, ZERO_U8, NULL},
        {ZR_WINDOW_SYMMETRIC, 0, 0, 32 * 256, 4, ZERO_U8, OUTSIDE},
        {ZR_WINDOW_SYMMETRIC, 0, 196, 15 * 256, 8, ZERO_U8, NULL},
        {ZR_WINDOW_SYMMETRIC, 0, 200, 15 * 256, 8, ZERO_U8, OUTSIDE},
        {ZR_WINDOW_SYMMETRIC, 0, 2, 256, 8, ZERO_U8, OUTSIDE},
        {ZR_WINDOW_SYMMETRIC, 0, -4, 256, 8, ZERO_U8, OUTSIDE},
        {ZR_WINDOW_SYMMETRIC, 0, 0, -256, 8, ZERO_U8, OUTSIDE},
        {ZR_WINDOW_SYMMETRIC, 0, 0, 255, 8, ZERO_U8, OUTSIDE},
        {ZR_WINDOW_SYMMETRIC, 0, 0, 300, 4, ZERO_U8, OUTSIDE},
        {ZR_WINDOW_SYMMETRIC, 0, 0, INT64_MAX / 256 * 256, 4, ZERO_U8, OUTSIDE},
        {ZR_WINDOW_SYMMETRIC, 1, 0, 256, 8, ZERO_U8, "there is no such slot"},
        {ZR_WINDOW_SHARED, 0, 0, 256, 8, ZERO_U8, "sums are of symmetric windows"},
        {ZR_WINDOW_MACHINE, 0, 0, 256, 8, ZERO_U8, "sums are of symmetric windows"},
        {ZR_WINDOW_MACHINE, 0, 0, 4 * 256, 8, ZERO_F32, NULL},
        {ZR_WINDOW_MACHINE, 0, 0, 5 * 256, 8, ZERO_F32, OUTSIDE},
        {ZR_WINDOW_MACHINE, 0, 0, 8 * 256, 4, ZERO_BF16, NULL},
        {ZR_WINDOW_MACHINE, 0, 0, 9 * 256, 4, ZERO_BF16, OUTSIDE},
        {ZR_WINDOW_MACHINE, 0, 1024, 4 * 256, 8, ZERO_F32, OUTSIDE},
        {ZR_WINDOW_MACHINE, 0, 2, 256, 8, ZERO_F32, OUTSIDE},
        {ZR_WINDOW_MACHINE, 0, 0, 128, 4, ZERO_BF16, OUTSIDE},
        {ZR_WINDOW_SYMMETRIC, 0, 0, 256, 8, ZERO_F32, "codes are gathered into machine windows"},
        {ZR_WINDOW_SHARED, 0, 0, 256, 4, ZERO_BF16, "codes are gathered into machine windows"},
        {ZR_WINDOW_MACHINE, 0, 0, 256, 8, ZERO_F64, "operands are of f32, bf16 or f16"},
    };
    for (int i = 0; i < ZR_COUNT(asked); i++) {
        rank_result result;
        run_threads(1, 60, ask, &asked[i], &result);
        if (!asked[i].words)
            expect_all_ok(&result, 1);
        else
            expect_message(&result, ZERO_ERR_INTERNAL, asked[i].words);
    }
}

// Rank 0 sends codes of 8 bits, rank 1 of 4, or elements.
static zero_status send_other_codes(zero_comm *comm, void *user, zero_error *error)
{
    static _Thread_local float sum[ZR_BLOCK];
    const int *bits = user;
    zr_window window;
    zr_handle handle;
    const zr_sum_target to = {.data = sum, .dtype = ZERO_F32};
    ZERO_TRY(zr_window_create(comm, ZR_WINDOW_SYMMETRIC, WINDOW, 1, NULL, &window, error));
    zero_status status =
        bits[comm->rank]
            ? zr_comm_start_blocks(&window, 0, 0, ZR_BLOCK, bits[comm->rank], &to, &handle, error)
            : zr_comm_start(&window, ZERO_COMM_reduce_scatter, 0, 0, ZR_BLOCK, ZERO_F32, &to,
                            &handle, error);
    status = status ? status : zr_comm_wait(&handle, error);
    zr_window_destroy(&window);
    return status;
}

static void ranks_that_send_other_codes_are_told(void **state)
{
    static int sent[][2] = {{8, 4}, {8, 0}, {0, 4}};
    for (int i = 0; i < ZR_COUNT(sent); i++) {
        rank_result results[2];
        run_threads(2, 60, send_other_codes, sent[i], results);
        for (int r = 0; r < 2; r++)
            expect_message(&results[r], ZERO_ERR_INTERNAL, "runs another operation");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_are_widened_in_place_from_the_end),
        cmocka_unit_test(so_they_are_without_vectors),
        cmocka_unit_test(nothing_is_widened_to_nothing),
        cmocka_unit_test(every_code_is_the_same_with_vectors_and_without),
        cmocka_unit_test(a_range_begins_at_its_block),
        cmocka_unit_test(sums_become_codes),
        cmocka_unit_test(odd_blocks_become_codes),
        cmocka_unit_test(a_sum_may_become_codes),
        cmocka_unit_test(sums_of_codes_follow_the_tree),
        cmocka_unit_test(operands_that_lie_elsewhere_are_refused),
        cmocka_unit_test(ranks_that_send_other_codes_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
