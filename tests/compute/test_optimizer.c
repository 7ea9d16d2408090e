// Optimizer updates: ref against the vectors of the formulas (p = 1, lr 0.1, decay 0.1, gradients 0.5, -0.25, 0.125), cpu
// against ref, and the promise that an element's bits do not depend on how a vector is cut.
#include "compute_check.h"

#include <string.h>

static const int64_t counts[] = {0, 1, 3, 17, 64, 128, 768, 1000, 40001};

static zr_update update_of(zr_update_kind kind, int64_t t)
{
    return (zr_update){
        .kind = kind,
        .lr = 0.1,
        .beta1 = 0.9,
        .beta2 = 0.999,
        .epsilon = kind == ZR_UPDATE_ADAGRAD ? 1e-10 : 1e-8,
        .weight_decay = 0.1,
        .momentum = 0.9,
        .first = t == 1,
        .correction1 = 1 - pow(0.9, (double)t),
        .correction2 = 1 - pow(0.999, (double)t),
        .gradient_scale = 1,
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
};

static void queue_meets_vectors(zr_queue *queue)
{
    static const float gradient[3] = {0.5f, -0.25f, 0.125f};
    for (int k = 0; k < ZR_COUNT(vectors); k++)
        for (int scaled = 0; scaled < 2; scaled++) {
            float p = 1, state0 = 0, state1 = 0;
            for (int64_t t = 1; t <= 3; t++) {
                zr_update u = update_of(vectors[k].kind, t);
                u.nesterov = vectors[k].nesterov;
                u.gradient_scale = scaled ? 1.0f / 1024 : 1;
                float g = gradient[t - 1] * (scaled ? 1024 : 1);
                queue->backend->optimizer->update(queue, &u, 1, &p, &state0, &state1, &g);
                assert_float_equal(p, vectors[k].want[t - 1], 3e-7);
            }
        }
}

static void vectors_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    queue_meets_vectors(queue);
    queue_meets_vectors(ref);
}

static void all_meet_vectors(void **state)
{
    check_each_cpu(vectors_body);
}

// By hand: c = 0.9 m + 0.1 g; p = p (1 - lr wd) - lr sign(c); m = 0.999 m + 0.001 g.
static void lion_by_hand(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    zr_queue *queues[] = {queue, ref};
    for (int q = 0; q < 2; q++) {
        float p[4] = {1, 1, 1, 1}, m[4] = {0, 1, -0.01f, 0}, g[4] = {2, -8, -1, 0};
        zr_update u = update_of(ZR_UPDATE_LION, 1);
        queues[q]->backend->optimizer->update(queues[q], &u, 4, p, m, NULL, g);
        const float want[4] = {0.89f, 0.89f, 1.09f, 0.99f}, moments[4] = {0.002f, 0.991f, -0.01099f, 0};
        check_close("lion", p, want, 4, 2e-7, 0);
        check_close("lion's moment", m, moments, 4, 3e-6, 0);
    }
}

static void lion_is_right(void **state)
{
    check_each_cpu(lion_by_hand);
}

typedef struct vectors_of {
    float *p, *state0, *state1, *g;
} vectors_of;

static vectors_of case_new(int64_t n)
{
    vectors_of v = {.p = floats_random(n, 1, 1),
                    .state0 = floats_random(n, 2, 0.1f),
                    .state1 = floats_random(n, 3, 0.1f),
                    .g = floats_random(n, 4, 10)};
    for (int64_t i = 0; i < n; i++)
        v.state1[i] = fabsf(v.state1[i]);
    return v;
}

static void case_free(vectors_of *v)
{
    floats_free(v->p);
    floats_free(v->state0);
    floats_free(v->state1);
    floats_free(v->g);
}

static zr_update variant(int k) // every kind, and SGD's ways
{
    zr_update u = update_of(k < 5 ? (zr_update_kind)k : ZR_UPDATE_SGD, k == 5 ? 1 : 7);
    u.gradient_scale = 0.125f;
    u.dampening = k == 6 ? 0.5 : 0;
    u.nesterov = k == 7;
    u.momentum = k == 8 ? 0 : 0.9;
    u.lr = 0.01;
    return u;
}

static void update_run(zr_queue *queue, const zr_update *u, int64_t from, int64_t n, vectors_of *v)
{
    if (u->kind == ZR_UPDATE_ADAGRAD)
        for (int64_t i = from; i < from + n; i++)
            v->state0[i] = fabsf(v->state0[i]);
    bool buffer = u->kind != ZR_UPDATE_SGD || u->momentum != 0,
         second = u->kind == ZR_UPDATE_ADAMW || u->kind == ZR_UPDATE_ADAM_L2;
    queue->backend->optimizer->update(queue, u, n, v->p + from, buffer ? v->state0 + from : NULL,
                                      second ? v->state1 + from : NULL, v->g + from);
}

static void update_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int k = 0; k < 9; k++)
        for (int c = 0; c < ZR_COUNT(counts); c++) {
            int64_t n = counts[c], cut = n / 3;
            zr_update u = variant(k);
            vectors_of got = case_new(n), want = case_new(n), pieces = case_new(n);
            update_run(queue, &u, 0, n, &got);
            update_run(ref, &u, 0, n, &want);
            update_run(single, &u, 0, cut, &pieces);
            update_run(single, &u, cut, n - cut, &pieces);
            check_close("p", got.p, want.p, n, 3e-7, 3e-7);
            check_close("state 0", got.state0, want.state0, n, 1e-6, 1e-7);
            check_close("state 1", got.state1, want.state1, n, 1e-6, 1e-7);
            check_same_bits("p in pieces", got.p, pieces.p, n * 4);
            check_same_bits("state 0 in pieces", got.state0, pieces.state0, n * 4);
            check_same_bits("state 1 in pieces", got.state1, pieces.state1, n * 4);
            case_free(&got);
            case_free(&want);
            case_free(&pieces);
        }
}

static void cpu_update_agrees(void **state)
{
    check_each_cpu(update_body);
}

// A step from zero states, a gradient of zero, of 1e30 (its square is not finite), and one that is not a number.
static void update_extremes(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int k = 0; k < 9; k++) {
        zr_update u = variant(k);
        float p[2][20], s0[2][20] = {{0}}, s1[2][20] = {{0}}, g[20] = {0};
        g[3] = 1e30f;
        g[5] = NAN;
        g[7] = 1e-30f;
        zr_queue *queues[] = {queue, ref};
        for (int q = 0; q < 2; q++) {
            for (int i = 0; i < 20; i++)
                p[q][i] = 1;
            queues[q]->backend->optimizer->update(queues[q], &u, 20, p[q], s0[q], s1[q], g);
        }
        check_close("p", p[0], p[1], 20, 1e-6, 1e-7);
        check_close("state 0", s0[0], s0[1], 20, 1e-6, 1e-38);
        assert_true(isnan(p[0][5]));
    }
}

static void cpu_update_extremes(void **state)
{
    check_each_cpu(update_extremes);
}

static void squares_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    enum { PARTS = 60 };
    int64_t first[PARTS], at = 0;
    int32_t count[PARTS];
    for (int k = 0; k < PARTS; k++) {
        count[k] = k < 30 ? k : k == 59 ? 2048 : 61 * (k - 28);
        first[k] = at;
        at += ZR_ROUND_UP(count[k], 64);
    }
    float *g = floats_random(at, 1, 1e15f);
    double got[PARTS], want[PARTS];
    queue->backend->optimizer->square_sums(queue, g, PARTS, first, count, got);
    ref->backend->optimizer->square_sums(ref, g, PARTS, first, count, want);
    check_same_bits("sums of squares", got, want, sizeof(got));
    for (int k = 0; k < PARTS; k++) {
        long double sum = 0;
        for (int32_t i = 0; i < count[k]; i++)
            sum += (long double)g[first[k] + i] * g[first[k] + i];
        assert_true(fabsl(sum - got[k]) <= 1e-14L * sum);
    }
    g[first[40] + 9] = NAN;
    queue->backend->optimizer->square_sums(queue, g, PARTS, first, count, got);
    for (int k = 0; k < PARTS; k++)
        assert_int_equal(isnan(got[k]), k == 40);
    floats_free(g);
}

static void square_sums_agree(void **state)
{
    check_each_cpu(squares_body);
}

static void lamb_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int c = 0; c < ZR_COUNT(counts); c++) {
        int64_t n = counts[c];
        zr_update u = variant(0);
        vectors_of got = case_new(n), want = case_new(n);
        float *direction = floats_new(n), *direction_want = floats_new(n);
        queue->backend->optimizer->lamb_direction(queue, &u, n, got.p, got.state0, got.state1, got.g, direction);
        ref->backend->optimizer->lamb_direction(ref, &u, n, want.p, want.state0, want.state1, want.g, direction_want);
        for (int64_t i = 0; i < n; i++) {
            float plain = want.state0[i] / (sqrtf(want.state1[i]) + 1e-8f) + 0.1f * want.p[i];
            check_close("u of ref", direction_want + i, &plain, 1, 1e-6, 1e-7);
        }
        check_close("u", direction, direction_want, n, 1e-6, 1e-6);
        check_close("m", got.state0, want.state0, n, 1e-6, 1e-7);
        check_close("v", got.state1, want.state1, n, 1e-6, 1e-7);
        queue->backend->optimizer->subtract_scaled(queue, n, 0.5f, direction_want, got.p);
        ref->backend->optimizer->subtract_scaled(ref, n, 0.5f, direction_want, want.p);
        check_close("p", got.p, want.p, n, 2e-7, 1e-7);
        queue->backend->optimizer->scale(queue, n, 3, got.p);
        for (int64_t i = 0; i < n; i++)
            assert_true(fabsf(got.p[i] - 3 * want.p[i]) <= 1e-6f * fabsf(got.p[i]) + 3e-7f);
        ref->backend->optimizer->scale(ref, n, 0.5f, direction);
        queue->backend->optimizer->scale(queue, n, 0.5f, direction_want);
        check_close("scaled u", direction, direction_want, n, 1e-6, 1e-6);
        floats_free(direction);
        floats_free(direction_want);
        case_free(&got);
        case_free(&want);
    }
}

static void lamb_agrees(void **state)
{
    check_each_cpu(lamb_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_meet_vectors),    cmocka_unit_test(lion_is_right),     cmocka_unit_test(cpu_update_agrees),
        cmocka_unit_test(cpu_update_extremes), cmocka_unit_test(square_sums_agree), cmocka_unit_test(lamb_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
