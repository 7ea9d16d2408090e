// Updates of states in bf16 and in eight bits. bf16: the update is that of the same states in fp32,
// which are rounded after it. Eight bits: cpu has the bits of ref, at any cut at multiples of a
// block and with any number of threads; codes are compared with the borders of the maps, and
// weights with the formulas in double.
#include "base/dtype.h"
#include "base/dynamic_map.h"
#include "compute/compute.h"
#include "compute_check.h"
#include "states_golden.h"

#include <string.h>

enum { BLOCK = ZR_STATE_BLOCK };
static const int64_t counts[] = {0, 1, 17, 255, 256, 257, 1000, 16 * BLOCK, 33001};

typedef struct precision {
    zero_dtype gradient, copy; // ZERO_F32: no copy
} precision;
static const precision precisions[] = {
    {ZERO_F32, ZERO_F32}, {ZERO_BF16, ZERO_BF16}, {ZERO_F16, ZERO_F16}, {ZERO_F32, ZERO_BF16}};

static const zr_update_values values = {.lr = 0.01,
                                        .beta1 = 0.9,
                                        .beta2 = 0.99,
                                        .correction1 = 0.5,
                                        .correction2 = 0.25,
                                        .gradient_scale = 0.125f};

static zr_update update_of(zr_update_kind kind)
{
    return (zr_update){
        .kind = kind, .epsilon = 1e-8, .weight_decay = 0.1, .momentum = 0.9, .dampening = 0.25};
}

// ---- bf16

typedef struct wide_case { // n elements, and states as floats that bf16 holds
    precision in;
    int64_t n;
    float *p, *direction, *state0, *state1;
    void *half0, *half1, *g, *copy;
} wide_case;

static wide_case wide_new(precision in, int64_t n)
{
    wide_case c = {.in = in,
                   .n = n,
                   .p = floats_random(n, 1, 1),
                   .direction = floats_new(n),
                   .half0 = array_random(ZERO_BF16, n, 2, 0.1f),
                   .half1 = array_random(ZERO_BF16, n, 3, 0.1f),
                   .g = array_random(in.gradient, n, 4, 10),
                   .copy = in.copy == ZERO_F32 ? NULL : array_new(in.copy, n)};
    for (int64_t i = 0; i < n; i++) // no root of a negative number
        ((uint16_t *)c.half1)[i] &= 0x7fff;
    c.state0 = array_floats(ZERO_BF16, c.half0, n);
    c.state1 = array_floats(ZERO_BF16, c.half1, n);
    return c;
}

static void wide_free(wide_case *c)
{
    floats_free(c->p);
    floats_free(c->direction);
    floats_free(c->state0);
    floats_free(c->state1);
    array_free(c->half0);
    array_free(c->half1);
    array_free(c->g);
    array_free(c->copy);
}

static zr_range_states wide_states(const wide_case *c, zero_dtype states, int64_t from)
{
    bool half = states == ZERO_BF16;
    return (zr_range_states){.master = c->p + from,
                             .state0 = half ? array_at(states, c->half0, from) : c->state0 + from,
                             .state1 = half ? array_at(states, c->half1, from) : c->state1 + from,
                             .states_dtype = states,
                             .gradient = array_at(c->in.gradient, c->g, from),
                             .gradient_dtype = c->in.gradient,
                             .parameters = c->copy ? array_at(c->in.copy, c->copy, from) : NULL,
                             .parameters_dtype = c->in.copy};
}

enum { LAMB = ZR_UPDATE_KINDS, VARIANTS }; // after the kinds

static void wide_run(zr_queue *queue, int variant, const wide_case *c, zero_dtype states,
                     int64_t from, int64_t n)
{
    zr_update u = update_of(variant == LAMB ? ZR_UPDATE_ADAMW : (zr_update_kind)variant);
    zr_range_states at = wide_states(c, states, from);
    if (variant == LAMB) {
        u.n = n;
        u.states = states;
        u.gradient = c->in.gradient;
        zr_run(queue, zr_op_lamb_direction(&u, &values, at.master, at.state0, at.state1,
                                           at.gradient, c->direction + from));
        return;
    }
    if (variant != ZR_UPDATE_ADAMW && variant != ZR_UPDATE_ADAM_L2)
        at.state1 = NULL;
    if (variant == ZR_UPDATE_ADAGRAD)
        at.state0 = states == ZERO_BF16 ? array_at(states, c->half1, from) : c->state1 + from;
    zr_run(queue, zr_op_update_of(&u, &values, n, &at));
}

// Checks a case whose states were in bf16 against one whose states were in fp32.
static void check_rounded(const wide_case *got, const wide_case *want, int variant)
{
    if (variant == LAMB)
        check_same_bits("direction", got->direction, want->direction, got->n * 4);
    check_same_bits("p", got->p, want->p, got->n * 4);
    if (got->copy && variant != LAMB)
        check_same_array("copy", got->in.copy, got->copy, want->copy, got->n);
    check_stored("state 0", ZERO_BF16, got->half0, want->state0, got->n);
    check_stored("state 1", ZERO_BF16, got->half1, want->state1, got->n);
}

static void bf16_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    zr_queue *queues[] = {queue, ref};
    for (int k = 0; k < VARIANTS * ZR_COUNT(precisions); k++)
        for (int c = 0; c < ZR_COUNT(counts); c++)
            for (int q = 0; q < 2; q++) {
                precision in = precisions[k / VARIANTS];
                int64_t n = counts[c], cut = n / 3;
                wide_case got = wide_new(in, n), want = wide_new(in, n), parts = wide_new(in, n);
                wide_run(queues[q], k % VARIANTS, &got, ZERO_BF16, 0, n);
                wide_run(queues[q], k % VARIANTS, &want, ZERO_F32, 0, n);
                check_rounded(&got, &want, k % VARIANTS);
                wide_run(q ? ref : single, k % VARIANTS, &parts, ZERO_BF16, 0, cut);
                wide_run(q ? ref : single, k % VARIANTS, &parts, ZERO_BF16, cut, n - cut);
                check_same_bits("p in parts", parts.p, got.p, n * 4);
                check_same_array("state 0 in parts", ZERO_BF16, parts.half0, got.half0, n);
                wide_free(&got);
                wide_free(&want);
                wide_free(&parts);
            }
}

static void bf16_is_fp32_rounded(void **state) { check_each_kernels(bf16_body); }

// ---- eight bits

typedef struct block_case {
    precision in;
    int64_t n;
    float *p, *scales[2];
    uint8_t *codes[2];
    void *g, *copy;
} block_case;

static int64_t blocks_of(int64_t n) { return (n + BLOCK - 1) / BLOCK; }

static block_case block_new(precision in, int64_t n)
{
    block_case c = {.in = in,
                    .n = n,
                    .p = floats_random(n, 1, 1),
                    .g = array_random(in.gradient, n, 4, 1),
                    .copy = in.copy == ZERO_F32 ? NULL : array_new(in.copy, n)};
    for (int s = 0; s < 2; s++) {
        c.scales[s] = floats_random(blocks_of(n), 5 + (uint64_t)s, 1);
        c.codes[s] = (uint8_t *)floats_random(n / 4 + 1, 7 + (uint64_t)s, 1);
        for (int64_t i = 0; i < blocks_of(n); i++)
            c.scales[s][i] = fabsf(c.scales[s][i]);
        for (int64_t i = 0; i < n; i++)
            c.codes[s][i] = (uint8_t)zr_philox4x32(9, (uint64_t)s, (uint64_t)i).v[0];
    }
    return c;
}

static void block_free(block_case *c)
{
    floats_free(c->p);
    array_free(c->g);
    array_free(c->copy);
    for (int s = 0; s < 2; s++) {
        floats_free(c->scales[s]);
        floats_free((float *)c->codes[s]);
    }
}

static void block_run(zr_queue *queue, zr_update_kind kind, const block_case *c, int64_t from,
                      int64_t n)
{
    const zr_update u = update_of(kind);
    const zr_range_states at = {.master = c->p + from,
                                .state0 = c->codes[0] + from,
                                .state1 = c->codes[1] + from,
                                .states_dtype = ZERO_U8,
                                .scales0 = c->scales[0] + from / BLOCK,
                                .scales1 = c->scales[1] + from / BLOCK,
                                .gradient = array_at(c->in.gradient, c->g, from),
                                .gradient_dtype = c->in.gradient,
                                .parameters = c->copy ? array_at(c->in.copy, c->copy, from) : NULL,
                                .parameters_dtype = c->in.copy};
    zr_run(queue, zr_op_update_of(&u, &values, n, &at));
}

static void check_same_blocks(const block_case *got, const block_case *want)
{
    check_same_bits("p", got->p, want->p, got->n * 4);
    if (got->copy)
        check_stored("copy", got->in.copy, got->copy, got->p, got->n);
    for (int s = 0; s < 2; s++) {
        check_same_bits("codes", got->codes[s], want->codes[s], got->n);
        check_same_bits("scales", got->scales[s], want->scales[s], blocks_of(got->n) * 4);
    }
}

static void blocks_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int k = 0; k < 2 * ZR_COUNT(precisions); k++)
        for (int c = 0; c < ZR_COUNT(counts); c++) {
            precision in = precisions[k / 2];
            zr_update_kind kind = k % 2 ? ZR_UPDATE_ADAM_L2 : ZR_UPDATE_ADAMW;
            int64_t n = counts[c], cut = n / 3 / BLOCK * BLOCK;
            block_case got = block_new(in, n), want = block_new(in, n), parts = block_new(in, n);
            for (int t = 0; t < 3; t++) {
                block_run(queue, kind, &got, 0, n);
                block_run(ref, kind, &want, 0, n);
                block_run(single, kind, &parts, cut, n - cut);
                block_run(single, kind, &parts, 0, cut);
                check_same_blocks(&got, &want);
                check_same_blocks(&parts, &want);
            }
            block_free(&got);
            block_free(&want);
            block_free(&parts);
        }
}

static void blocks_have_the_bits_of_ref(void **state) { check_each_kernels(blocks_body); }

// Weights by the formulas in double, from the states that the codes stand for; new codes are within
// half a step of the new states.
static void ref_blocks_are_adam(void **state)
{
    zr_queue *ref = check_queue("ref", NULL, 1);
    for (int l2 = 0; l2 < 2; l2++) {
        block_case c = block_new(precisions[0], 1000), old = block_new(precisions[0], 1000);
        block_run(ref, l2 ? ZR_UPDATE_ADAM_L2 : ZR_UPDATE_ADAMW, &c, 0, c.n);
        for (int64_t i = 0; i < c.n; i++) {
            double p = old.p[i], g = ((float *)c.g)[i] * 0.125 + (l2 ? 0.1 * p : 0);
            double m = zr_signed_map[old.codes[0][i]] * (double)old.scales[0][i / BLOCK],
                   v = zr_unsigned_map[old.codes[1][i]] * (double)old.scales[1][i / BLOCK];
            m = 0.9 * m + 0.1 * g;
            v = 0.99 * v + 0.01 * g * g;
            double want =
                (l2 ? p : p * (1 - 0.01 * 0.1)) - 0.01 / 0.5 * m / (sqrt(v) / sqrt(0.25) + 1e-8);
            assert_true(fabs(c.p[i] - want) <= 2e-6 * (1 + fabs(want)));
            double most0 = c.scales[0][i / BLOCK], most1 = c.scales[1][i / BLOCK];
            assert_true(fabs(zr_signed_map[c.codes[0][i]] * most0 - m) <= 0.0071 * most0);
            assert_true(fabs(zr_unsigned_map[c.codes[1][i]] * most1 - v) <= 0.0036 * most1);
        }
        block_free(&c);
        block_free(&old);
    }
    check_queue_close(ref);
}

// Updates that keep nothing of the past, so that m = g and v = g * g, of a block with scale 1.
static void run_forgetful(zr_queue *queue, const float g[BLOCK], uint8_t codes[2][BLOCK],
                          float scales[2])
{
    float p[BLOCK] = {0};
    memset(codes, 77, sizeof(uint8_t[2][BLOCK]));
    scales[0] = scales[1] = 0.5f;
    const zr_update u = {.kind = ZR_UPDATE_ADAMW, .epsilon = 1e-8};
    const zr_update_values forget = {
        .lr = 1e-3, .correction1 = 1, .correction2 = 1, .gradient_scale = 1};
    const zr_range_states at = {.master = p,
                                .state0 = codes[0],
                                .state1 = codes[1],
                                .states_dtype = ZERO_U8,
                                .scales0 = &scales[0],
                                .scales1 = &scales[1],
                                .gradient = g};
    zr_run(queue, zr_op_update_of(&u, &forget, BLOCK, &at));
}

static int borders_below(const float *map, float x)
{
    int code = 0;
    while (code < ZR_DYNAMIC_CODES - 1 && 0.5f * (map[code] + map[code + 1]) < x)
        code++;
    return code;
}

static float steps_from(float x, int steps)
{
    for (int i = 0; i < steps; i++)
        x = nextafterf(x, 2);
    for (int i = 0; i > steps; i--)
        x = nextafterf(x, -2);
    return x;
}

// At each border of both maps, and some numbers to both sides of it.
static void borders_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    zr_queue *queues[] = {queue, ref};
    uint8_t codes[2][BLOCK];
    float g[BLOCK], scales[2];
    for (int q = 0; q < 2; q++)
        for (int k = 0; k < 2 * 15; k++) { // the last element makes the scale
            const float *map = k % 2 ? zr_unsigned_map : zr_signed_map;
            for (int i = 0; i < BLOCK; i++) {
                int low = i < BLOCK - 1 ? i : i - 1;
                float x = steps_from(0.5f * (map[low] + map[low + 1]), k / 2 - 7);
                g[i] = k % 2 ? sqrtf(x) : x;
            }
            g[BLOCK - 1] = k % 4 < 2 ? -1 : 1;
            run_forgetful(queues[q], g, codes, scales);
            assert_true(scales[0] == 1 && scales[1] == 1);
            for (int i = 0; i < BLOCK; i++) {
                assert_int_equal(codes[0][i], borders_below(zr_signed_map, g[i]));
                assert_int_equal(codes[1][i], borders_below(zr_unsigned_map, g[i] * g[i]));
            }
        }
}

static void codes_change_at_borders(void **state) { check_each_kernels(borders_body); }

// Zeros stay zeros; numbers that are none, or too large, or next to nothing, crash nothing.
static void extremes_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    static const float rare[] = {0,      NAN,    INFINITY, -INFINITY, 1e30f,
                                 -1e30f, 1e-42f, -1e-30f,  -0.0f,     3.4e38f};
    uint8_t got[2][BLOCK], want[2][BLOCK];
    float scales[2], want_scales[2], g[BLOCK] = {0};
    run_forgetful(queue, g, got, scales);
    assert_true(scales[0] == 0 && scales[1] == 0);
    for (int i = 0; i < BLOCK; i++)
        assert_true(got[0][i] == 127 && got[1][i] == 0);
    for (int k = 0; k < ZR_COUNT(rare); k++)
        for (int others = 0; others < 2; others++) {
            for (int i = 0; i < BLOCK; i++)
                g[i] = i % 3 ? rare[others ? k : i % ZR_COUNT(rare)] : (float)i * 0.01f;
            g[k] = rare[k];
            run_forgetful(queue, g, got, scales);
            run_forgetful(ref, g, want, want_scales);
            check_same_bits("codes", got, want, sizeof got);
            check_same_bits("scales", scales, want_scales, sizeof scales);
        }
}

static void blocks_hold_extremes(void **state) { check_each_kernels(extremes_body); }

// ---- both

// Each thread has elements enough to be worth it.
static void threads_change_nothing(void **state)
{
    enum { THREADS = 4, COUNT = THREADS * (1 << 14) + 100 };
    const precision in = {ZERO_BF16, ZERO_BF16};
    zr_queue *ref = check_queue("ref", NULL, 1);
    block_case want = block_new(in, COUNT);
    wide_case wide_want = wide_new(in, COUNT);
    block_run(ref, ZR_UPDATE_ADAMW, &want, 0, COUNT);
    for (int threads = 1; threads <= THREADS; threads++) {
        zr_queue *queue = check_queue("cpu", NULL, threads);
        block_case got = block_new(in, COUNT);
        wide_case wide_got = wide_new(in, COUNT);
        block_run(queue, ZR_UPDATE_ADAMW, &got, 0, COUNT);
        check_same_blocks(&got, &want);
        wide_run(queue, ZR_UPDATE_ADAMW, threads == 1 ? &wide_want : &wide_got, ZERO_BF16, 0,
                 COUNT);
        if (threads > 1) {
            check_same_bits("p", wide_got.p, wide_want.p, COUNT * 4);
            check_same_array("state 1", ZERO_BF16, wide_got.half1, wide_want.half1, COUNT);
        }
        block_free(&got);
        wide_free(&wide_got);
        check_queue_close(queue);
    }
    block_free(&want);
    wide_free(&wide_want);
    check_queue_close(ref);
}

// ---- against bitsandbytes and PyTorch

static void update_as_golden(zr_queue *queue, int step, zr_range_states *at)
{
    float g[GOLDEN_COUNT];
    for (int i = 0; i < GOLDEN_COUNT; i++)
        g[i] = (float)(sin(0.1 * (100 * step + i)) * (1 + i % 7) * pow(10, -(i % 5)));
    const zr_update u = {.kind = ZR_UPDATE_ADAMW, .epsilon = 1e-8, .weight_decay = 0.1};
    const zr_update_values v = {.lr = 0.01,
                                .beta1 = 0.9,
                                .beta2 = 0.95,
                                .correction1 = 1 - pow(0.9, step + 1),
                                .correction2 = 1 - pow(0.95, step + 1),
                                .gradient_scale = 1};
    at->gradient = g;
    zr_run(queue, zr_op_update_of(&u, &v, GOLDEN_COUNT, at));
}

static void meet_golden(zr_queue *queue, zero_dtype states)
{
    float p[GOLDEN_COUNT], scales[2][GOLDEN_BLOCKS] = {0};
    uint16_t halves[2][GOLDEN_COUNT] = {0};
    uint8_t codes[2][GOLDEN_COUNT] = {0};
    bool half = states == ZERO_BF16;
    zr_range_states at = {.master = p,
                          .state0 = half ? (void *)halves[0] : codes[0],
                          .state1 = half ? (void *)halves[1] : codes[1],
                          .states_dtype = states,
                          .scales0 = half ? NULL : scales[0],
                          .scales1 = half ? NULL : scales[1]};
    for (int i = 0; i < GOLDEN_COUNT; i++)
        p[i] = (float)cos(0.37 * i);
    for (int step = 0; step < GOLDEN_STEPS; step++)
        update_as_golden(queue, step, &at);
    check_close("p", p, half ? golden_p_bf16 : golden_p, GOLDEN_COUNT, 1e-6, half ? 2e-5 : 1e-6);
    if (half)
        return;
    check_same_bits("codes of the first moment", codes[0], golden_codes0, GOLDEN_COUNT);
    check_same_bits("codes of the second moment", codes[1], golden_codes1, GOLDEN_COUNT);
    check_close("scales", scales[0], golden_scales0, GOLDEN_BLOCKS, 1e-6, 0);
    check_close("scales", scales[1], golden_scales1, GOLDEN_BLOCKS, 1e-6, 0);
}

static void golden_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    meet_golden(queue, ZERO_U8);
    meet_golden(ref, ZERO_U8);
    meet_golden(queue, ZERO_BF16);
    meet_golden(ref, ZERO_BF16);
}

static void weights_are_those_of_others(void **state) { check_each_kernels(golden_body); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bf16_is_fp32_rounded),   cmocka_unit_test(blocks_have_the_bits_of_ref),
        cmocka_unit_test(ref_blocks_are_adam),    cmocka_unit_test(codes_change_at_borders),
        cmocka_unit_test(blocks_hold_extremes),   cmocka_unit_test(weights_are_those_of_others),
        cmocka_unit_test(threads_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
