// Optimizer updates: ref compared with vectors computed from the formulas (p = 1, lr 0.1, decay
// 0.1, gradients 0.5, -0.25, 0.125), 16-bit ref with fp32 ref on the stored values, and cpu with
// ref. An element's bits must not depend on how a vector is divided, and the 16-bit copy of the
// weights must always be exactly the rounded master.
#include "compute/compute.h"
#include "compute_check.h"

#include <string.h>

static const int64_t counts[] = {0, 1, 3, 17, 64, 128, 768, 1000, 33001};

typedef struct step { // an update, and what it has in one step
    zr_update of;
    zr_update_values at;
} step;

static step step_of(zr_update_kind kind, int64_t t)
{
    return (step){
        .of = {.kind = kind,
               .epsilon = kind == ZR_UPDATE_ADAGRAD ? 1e-10 : 1e-8,
               .weight_decay = 0.1,
               .momentum = 0.9},
        .at = {.lr = 0.1,
               .beta1 = 0.9,
               .beta2 = 0.999,
               .first = t == 1,
               .correction1 = 1 - pow(0.9, (double)t),
               .correction2 = 1 - pow(0.999, (double)t),
               .gradient_scale = 1},
    };
}

typedef struct vector_row {
    zr_update_kind kind;
    bool nesterov;
    double want[3];
} vector_row;

static const vector_row vectors[] = {
    {ZR_UPDATE_ADAMW, false, {.890000002, .8544662986878463, .8118787219097756}},
    {ZR_UPDATE_ADAM_L2, false, {.9000000016666666, .8544413674617625, .8005694720858495}},
    {ZR_UPDATE_SGD, false, {.94, .9016, .8455239999999999}},
    {ZR_UPDATE_SGD, true, {.886, .868066, .797156146}},
    {ZR_UPDATE_ADAGRAD, false, {.9000000000166667, .9257662650683, .8926989762397805}},
    {ZR_UPDATE_LION, false, {.89, .9811, .871289}},
};

static void each_kind_has_vectors(void **state)
{
    bool has[ZR_UPDATE_KINDS] = {false};
    for (int k = 0; k < ZR_COUNT(vectors); k++)
        has[vectors[k].kind] = true;
    for (int kind = 0; kind < ZR_UPDATE_KINDS; kind++)
        if (!has[kind])
            fail_msg("update %d has no vector", kind);
}

static void queue_meets_vectors(zr_queue *queue)
{
    static const float gradient[3] = {0.5f, -0.25f, 0.125f};
    for (int k = 0; k < ZR_COUNT(vectors); k++)
        for (int scaled = 0; scaled < 2; scaled++) {
            float p = 1, state0 = 0, state1 = 0;
            for (int64_t t = 1; t <= 3; t++) {
                step u = step_of(vectors[k].kind, t);
                u.of.nesterov = vectors[k].nesterov;
                u.at.gradient_scale = scaled ? 1.0f / 1024 : 1;
                float g = gradient[t - 1] * (scaled ? 1024 : 1);
                zr_range_states at = {
                    .master = &p, .state0 = &state0, .state1 = &state1, .gradient = &g};
                zr_run(queue, zr_op_update_of(&u.of, &u.at, 1, &at));
                assert_float_equal(p, vectors[k].want[t - 1], 3e-7);
            }
        }
}

static void vectors_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    queue_meets_vectors(queue);
    queue_meets_vectors(ref);
}

static void all_meet_vectors(void **state) { check_each_kernels(vectors_body); }

// By hand: c = 0.9 m + 0.1 g; p = p (1 - lr wd) - lr sign(c); m = 0.999 m + 0.001 g.
static void lion_by_hand(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    zr_queue *queues[] = {queue, ref};
    for (int q = 0; q < 2; q++) {
        float p[4] = {1, 1, 1, 1}, m[4] = {0, 1, -0.01f, 0}, g[4] = {2, -8, -1, 0};
        step u = step_of(ZR_UPDATE_LION, 1);
        zr_range_states at = {.master = p, .state0 = m, .gradient = g};
        zr_run(queues[q], zr_op_update_of(&u.of, &u.at, 4, &at));
        const float want[4] = {0.89f, 0.89f, 1.09f, 0.99f},
                    moments[4] = {0.002f, 0.991f, -0.01099f, 0};
        check_close("lion", p, want, 4, 2e-7, 0);
        check_close("lion's moment", m, moments, 4, 3e-6, 0);
    }
}

static void lion_is_right(void **state) { check_each_kernels(lion_by_hand); }

typedef struct precision {
    zero_dtype gradient, copy; // ZERO_F32: no copy
} precision;

static const precision precisions[] = {
    {ZERO_F32, ZERO_F32},  {ZERO_BF16, ZERO_BF16}, {ZERO_F16, ZERO_F16},
    {ZERO_F32, ZERO_BF16}, {ZERO_F32, ZERO_F16},   {ZERO_BF16, ZERO_F32},
    {ZERO_F16, ZERO_F32},  {ZERO_BF16, ZERO_F16},  {ZERO_F16, ZERO_BF16},
};

typedef struct vectors_of {
    precision in;
    int64_t n;
    float *p, *state0, *state1, *direction;
    void *g, *copy;
} vectors_of;

static vectors_of case_new(precision in, int64_t n)
{
    vectors_of v = {.in = in,
                    .n = n,
                    .p = floats_random(n, 1, 1),
                    .state0 = floats_random(n, 2, 0.1f),
                    .state1 = floats_random(n, 3, 0.1f),
                    .direction = floats_new(n),
                    .g = array_random(in.gradient, n, 4, 10),
                    .copy = in.copy == ZERO_F32 ? NULL : array_new(in.copy, n)};
    for (int64_t i = 0; i < n; i++)
        v.state1[i] = fabsf(v.state1[i]);
    return v;
}

static zr_range_states states_at(const vectors_of *v, int64_t from)
{
    return (zr_range_states){.master = v->p + from,
                             .state0 = v->state0 + from,
                             .state1 = v->state1 + from,
                             .direction = v->direction + from,
                             .gradient = array_at(v->in.gradient, v->g, from),
                             .gradient_dtype = v->in.gradient,
                             .parameters = v->copy ? array_at(v->in.copy, v->copy, from) : NULL,
                             .parameters_dtype = v->in.copy};
}

static void copy_is_stored(const vectors_of *v)
{
    if (v->copy)
        check_stored("copy", v->in.copy, v->copy, v->p, v->n);
}

static void vectors_close(const vectors_of *got, const vectors_of *want)
{
    check_close("p", got->p, want->p, want->n, 3e-7, 3e-7);
    check_close("state 0", got->state0, want->state0, want->n, 1e-6, 1e-7);
    check_close("state 1", got->state1, want->state1, want->n, 1e-6, 1e-7);
    copy_is_stored(got);
    copy_is_stored(want);
}

static void vectors_same(const vectors_of *got, const vectors_of *want)
{
    check_same_bits("p", got->p, want->p, want->n * 4);
    check_same_bits("state 0", got->state0, want->state0, want->n * 4);
    check_same_bits("state 1", got->state1, want->state1, want->n * 4);
    copy_is_stored(got);
}

static void case_free(vectors_of *v)
{
    floats_free(v->p);
    floats_free(v->state0);
    floats_free(v->state1);
    floats_free(v->direction);
    array_free(v->g);
    array_free(v->copy);
}

// master -= by * direction, and the copy.
static void subtract(zr_queue *queue, float by, const vectors_of *v, const float *direction)
{
    const zr_update range = {.n = v->n, .parameters = v->in.copy};
    zr_run(queue, zr_op_subtract_scaled(&range, &by, v->p, direction, v->copy));
}

static void find_direction(zr_queue *queue, const step *u, const vectors_of *v)
{
    zr_update range = u->of;
    range.n = v->n;
    range.gradient = v->in.gradient;
    zr_run(queue,
           zr_op_lamb_direction(&range, &u->at, v->p, v->state0, v->state1, v->g, v->direction));
}

enum {
    SGD_FIRST = ZR_UPDATE_KINDS, // SGD's ways, after a variant of each kind
    SGD_DAMPENED,
    SGD_NESTEROV,
    SGD_WITHOUT_MOMENTUM,
    VARIANTS
};

static step variant(int k)
{
    step u =
        step_of(k < ZR_UPDATE_KINDS ? (zr_update_kind)k : ZR_UPDATE_SGD, k == SGD_FIRST ? 1 : 7);
    u.at.gradient_scale = 0.125f;
    u.of.dampening = k == SGD_DAMPENED ? 0.5 : 0;
    u.of.nesterov = k == SGD_NESTEROV;
    u.of.momentum = k == SGD_WITHOUT_MOMENTUM ? 0 : 0.9;
    u.at.lr = 0.01;
    return u;
}

static void update_run(zr_queue *queue, const step *u, int64_t from, int64_t n, vectors_of *v)
{
    zr_update_kind kind = u->of.kind;
    if (kind == ZR_UPDATE_ADAGRAD)
        for (int64_t i = from; i < from + n; i++)
            v->state0[i] = fabsf(v->state0[i]);
    zr_range_states at = states_at(v, from);
    if (kind == ZR_UPDATE_SGD && u->of.momentum == 0)
        at.state0 = NULL;
    if (kind != ZR_UPDATE_ADAMW && kind != ZR_UPDATE_ADAM_L2)
        at.state1 = NULL;
    zr_run(queue, zr_op_update_of(&u->of, &u->at, n, &at));
}

// Where a gradient is stored changes nothing but what can be stored.
static void ref_reads_every_type(void **state)
{
    zr_queue *ref = check_queue("ref", NULL, 1);
    for (int k = 0; k < VARIANTS; k++)
        for (int t = 1; t < ZR_COUNT(precisions); t++) {
            step u = variant(k);
            vectors_of got = case_new(precisions[t], 300), want = case_new(precisions[0], 300);
            floats_free(want.g);
            want.g = array_floats(precisions[t].gradient, got.g, 300);
            update_run(ref, &u, 0, 300, &got);
            update_run(ref, &u, 0, 300, &want);
            vectors_same(&got, &want);
            case_free(&got);
            case_free(&want);
        }
    check_queue_close(ref);
}

static void update_body_of(precision in, zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int k = 0; k < VARIANTS; k++)
        for (int c = 0; c < ZR_COUNT(counts); c++) {
            int64_t n = counts[c], cut = n / 3;
            step u = variant(k);
            vectors_of got = case_new(in, n), want = case_new(in, n), flat_params = case_new(in, n);
            update_run(queue, &u, 0, n, &got);
            update_run(ref, &u, 0, n, &want);
            update_run(single, &u, 0, cut, &flat_params);
            update_run(single, &u, cut, n - cut, &flat_params);
            vectors_close(&got, &want);
            vectors_same(&flat_params, &got);
            case_free(&got);
            case_free(&want);
            case_free(&flat_params);
        }
}

static void update_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int t = 0; t < ZR_COUNT(precisions); t++)
        update_body_of(precisions[t], queue, single, ref);
}

static void cpu_update_agrees(void **state) { check_each_kernels(update_body); }

// A step from zero states, gradients of zero, of 1e30 (its square is not finite, and fp16 holds
// infinity), of the least number that fp16 holds, and one that is not a number.
static void update_extremes_of(precision in, zr_queue *queue, zr_queue *ref)
{
    for (int k = 0; k < VARIANTS; k++) {
        step u = variant(k);
        const float g[20] = {
            [3] = 1e30f, [5] = NAN, [7] = 1e-30f, [9] = 6e-8f, [11] = -65520, [13] = -0.0f};
        zr_queue *queues[] = {queue, ref};
        vectors_of v[2];
        for (int q = 0; q < 2; q++) {
            v[q] = case_new(in, 20);
            array_free(v[q].g);
            v[q].g = array_of(in.gradient, g, 20);
            for (int i = 0; i < 20; i++) {
                v[q].p[i] = 1;
                v[q].state0[i] = v[q].state1[i] = 0;
            }
            update_run(queues[q], &u, 0, 20, &v[q]);
        }
        check_close("p", v[0].p, v[1].p, 20, 1e-6, 1e-7);
        check_close("state 0", v[0].state0, v[1].state0, 20, 1e-6, 1e-38);
        copy_is_stored(&v[0]);
        assert_true(isnan(v[0].p[5]));
        case_free(&v[0]);
        case_free(&v[1]);
    }
}

static void update_extremes(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int t = 0; t < ZR_COUNT(precisions); t++)
        update_extremes_of(precisions[t], queue, ref);
}

static void cpu_update_extremes(void **state) { check_each_kernels(update_extremes); }

// Masters at the edges of both 16-bit types, subtracted nothing from.
static void copy_extremes(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    static const float edges[] = {
        65504,      65519,     65520,       -1e6f,       6e-8f, 2e-8f,    3.1e-5f,
        1.0009766f, -0.0f,     1e-45f,      1e-38f,      2049,  3.39e38f, 3.4028235e38f,
        INFINITY,   -INFINITY, 1.00390625f, 1.01171875f, 1.0f,  NAN,
    };
    for (int t = 0; t < ZR_COUNT(precisions); t++) {
        vectors_of v = case_new(precisions[t], ZR_COUNT(edges));
        for (int i = 0; i < ZR_COUNT(edges); i++) {
            v.p[i] = edges[i];
            v.direction[i] = 0;
        }
        subtract(queue, 0.5f, &v, v.direction);
        check_close("p", v.p, edges, v.n, 0, 0);
        copy_is_stored(&v);
        case_free(&v);
    }
}

static void copies_hold_extremes(void **state) { check_each_kernels(copy_extremes); }

// ---- LAMB ----

// Algorithm 2 by hand: p = (1, -2), lr 0.1, decay 0.1, epsilon 1e-8, gradients (0.5, 0.1), (-0.25,
// 0.3), (0.125, -0.2).
static void queue_meets_lamb(zr_queue *queue)
{
    static const float gradient[3][2] = {{0.5f, 0.1f}, {-0.25f, 0.3f}, {0.125f, -0.2f}};
    static const double want[3][2] = {{.8191611072815109, -2.1315191806557157},
                                      {.7179846729087854, -2.33623195138456},
                                      {.4740004636078365, -2.350602853367776}};
    float p[2] = {1, -2}, m[2] = {0}, v[2] = {0}, direction[2];
    for (int t = 0; t < 3; t++) {
        step u = step_of(ZR_UPDATE_ADAMW, t + 1);
        u.of.n = 2;
        zr_run(queue, zr_op_lamb_direction(&u.of, &u.at, p, m, v, gradient[t], direction));
        double ratio = hypot(p[0], p[1]) / hypot(direction[0], direction[1]);
        float by = (float)(u.at.lr * ratio);
        zr_run(queue, zr_op_subtract_scaled(&u.of, &by, p, direction, NULL));
        assert_float_equal(p[0], want[t][0], 5e-7);
        assert_float_equal(p[1], want[t][1], 5e-7);
    }
}

static void lamb_vectors_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    queue_meets_lamb(queue);
    queue_meets_lamb(ref);
}

static void lamb_meets_vectors(void **state) { check_each_kernels(lamb_vectors_body); }

static void lamb_body_of(precision in, zr_queue *queue, zr_queue *ref)
{
    for (int c = 0; c < ZR_COUNT(counts); c++) {
        int64_t n = counts[c];
        step u = variant(ZR_UPDATE_ADAMW);
        vectors_of got = case_new(in, n), want = case_new(in, n), untouched = case_new(in, n);
        find_direction(queue, &u, &got);
        find_direction(ref, &u, &want);
        for (int64_t i = 0; i < n; i++) {
            double m = want.state0[i] / u.at.correction1, v = want.state1[i] / u.at.correction2;
            float plain = (float)(m / (sqrt(v) + 1e-8) + 0.1 * want.p[i]);
            check_close("direction of ref", want.direction + i, &plain, 1, 1e-6, 1e-7);
        }
        check_close("direction", got.direction, want.direction, n, 1e-6, 1e-6);
        check_close("m", got.state0, want.state0, n, 1e-6, 1e-7);
        check_close("v", got.state1, want.state1, n, 1e-6, 1e-7);
        check_same_bits("p before", got.p, untouched.p, n * 4);
        if (got.copy)
            check_same_array("copy before", in.copy, got.copy, untouched.copy, n);
        subtract(queue, 0.5f, &got, want.direction);
        subtract(ref, 0.5f, &want, want.direction);
        for (int64_t i = 0; i < n; i++) {
            float plain = untouched.p[i] - 0.5f * want.direction[i];
            check_close("p of ref", want.p + i, &plain, 1, 2e-7, 1e-7);
        }
        check_close("p", got.p, want.p, n, 2e-7, 1e-7);
        copy_is_stored(&got);
        copy_is_stored(&want);
        case_free(&got);
        case_free(&want);
        case_free(&untouched);
    }
}

static void lamb_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int t = 0; t < ZR_COUNT(precisions); t++)
        lamb_body_of(precisions[t], queue, ref);
}

static void lamb_agrees(void **state) { check_each_kernels(lamb_body); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_has_vectors), cmocka_unit_test(all_meet_vectors),
        cmocka_unit_test(lion_is_right),         cmocka_unit_test(ref_reads_every_type),
        cmocka_unit_test(cpu_update_agrees),     cmocka_unit_test(cpu_update_extremes),
        cmocka_unit_test(copies_hold_extremes),  cmocka_unit_test(lamb_agrees),
        cmocka_unit_test(lamb_meets_vectors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
