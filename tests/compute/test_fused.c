// Which products the optimizers' updates fuse with an addition, on the paths that have such
// instructions: each element has the bits of the formulas here, whatever the compiler was told, so
// that builds agree with each other, and with a card (tests/cuda/test_states.c).
#include "compute/compute.h"
#include "compute_check.h"

enum { N = 1003 };

typedef struct element { // of the arrays of a case
    float p, state0, state1, g, direction;
} element;

typedef struct arrays {
    float *p, *state0, *state1, *g, *direction;
} arrays;

static arrays arrays_new(void)
{
    arrays a = {.p = floats_random(N, 1, 1),
                .state0 = floats_random(N, 2, 0.1f),
                .state1 = floats_random(N, 3, 0.1f),
                .g = floats_random(N, 4, 10),
                .direction = floats_random(N, 5, 1)};
    for (int i = 0; i < N; i++) {
        a.state1[i] = fabsf(a.state1[i]);
        a.state0[i] = i % 2 ? a.state0[i] : fabsf(a.state0[i]);
    }
    return a;
}

static void arrays_free(arrays *a)
{
    floats_free(a->p);
    floats_free(a->state0);
    floats_free(a->state1);
    floats_free(a->g);
    floats_free(a->direction);
}

// A product that is rounded, whatever its result goes into.
static float times(float a, float b)
{
    volatile float product = a * b;
    return product;
}

static const zr_update_values values = {.lr = 0.01,
                                        .beta1 = 0.9,
                                        .beta2 = 0.999,
                                        .correction1 = 0.5217031,
                                        .correction2 = 0.00697903,
                                        .gradient_scale = 0.3f};

static zr_update update_of(zr_update_kind kind)
{
    return (zr_update){.kind = kind,
                       .n = N,
                       .epsilon = 1e-8,
                       .weight_decay = 0.1,
                       .momentum = 0.9,
                       .dampening = 0.3,
                       .average_decay = 0.99};
}

// ---- the formulas ----

static float keep(double beta) { return (float)beta; }
static float take(double beta) { return (float)(1 - beta); }

static float decayed_gradient(const element *e, double decay)
{
    return fmaf(e->g, values.gradient_scale, times(e->p, (float)decay));
}

static float blended(float state, double beta, float g)
{
    return fmaf(state, keep(beta), times(g, take(beta)));
}

// Adam's and LAMB's states, and the divisor of the step.
static float moments(element *e, float g)
{
    e->state0 = blended(e->state0, values.beta1, g);
    e->state1 = fmaf(e->state1, keep(values.beta2), times(times(g, g), take(values.beta2)));
    return fmaf(sqrtf(e->state1), (float)(1 / sqrt(values.correction2)), 1e-8f);
}

static void adam_element(const zr_update *u, element *e)
{
    bool apart = u->kind == ZR_UPDATE_ADAMW; // the decay is not a part of the gradient
    float by = moments(e, decayed_gradient(e, apart ? 0 : u->weight_decay));
    float step = (float)(values.lr / values.correction1);
    e->p = fmaf(e->p, apart ? (float)(1 - values.lr * u->weight_decay) : 1,
                -(times(step, e->state0) / by));
}

static void sgd_element(const zr_update *u, element *e)
{
    float g = decayed_gradient(e, u->weight_decay);
    if (u->momentum != 0) {
        e->state0 = fmaf(e->state0, (float)u->momentum, times(g, (float)(1 - u->dampening)));
        g = u->nesterov ? fmaf(e->state0, (float)u->momentum, g) : e->state0;
    }
    e->p = fmaf(-g, (float)values.lr, e->p);
}

static void adagrad_element(const zr_update *u, element *e)
{
    float g = decayed_gradient(e, u->weight_decay);
    e->state0 = fmaf(g, g, e->state0);
    e->p -= times(g, (float)values.lr) / (sqrtf(e->state0) + 1e-8f);
}

static void lion_element(const zr_update *u, element *e)
{
    float g = times(e->g, values.gradient_scale), c = blended(e->state0, values.beta1, g);
    float sign = c > 0 ? 1 : c < 0 ? -1 : 0;
    e->state0 = blended(e->state0, values.beta2, g);
    e->p = fmaf(e->p, (float)(1 - values.lr * u->weight_decay), -times(sign, (float)values.lr));
}

static void lamb_element(const zr_update *u, element *e)
{
    float by = moments(e, times(e->g, values.gradient_scale));
    e->direction =
        fmaf(e->p, (float)u->weight_decay, times(e->state0, (float)(1 / values.correction1)) / by);
}

static void subtract_element(const zr_update *u, element *e)
{
    e->p = fmaf(-e->direction, 0.3f, e->p);
}

static void orthogonal_element(const zr_update *u, element *e)
{
    e->p = fmaf(e->p, 0.9f, -times(e->direction, 0.3f));
}

static void momentum_element(const zr_update *u, element *e)
{
    float g = times(e->g, values.gradient_scale), by = take(u->momentum);
    e->state0 = fmaf(g - e->state0, by, e->state0);
}

static void average_element(const zr_update *u, element *e)
{
    e->state0 = fmaf(e->p - e->state0, take(u->average_decay), e->state0);
}

// ---- the operations ----

static void update_run(zr_queue *queue, const zr_update *u, const arrays *a)
{
    const bool two = u->kind == ZR_UPDATE_ADAMW || u->kind == ZR_UPDATE_ADAM_L2;
    const zr_range_states at = {.master = a->p,
                                .state0 =
                                    u->kind == ZR_UPDATE_SGD && u->momentum == 0 ? NULL : a->state0,
                                .state1 = two ? a->state1 : NULL,
                                .gradient = a->g};
    zr_run(queue, zr_op_update_of(u, &values, N, &at));
}

static void lamb_run(zr_queue *queue, const zr_update *u, const arrays *a)
{
    zr_run(queue, zr_op_lamb_direction(u, &values, a->p, a->state0, a->state1, a->g, a->direction));
}

static void subtract_run(zr_queue *queue, const zr_update *u, const arrays *a)
{
    const float step = 0.3f;
    zr_run(queue, zr_op_subtract_scaled(u, &step, a->p, a->direction, NULL));
}

static void orthogonal_run(zr_queue *queue, const zr_update *u, const arrays *a)
{
    const float factors[2] = {0.9f, 0.3f};
    zr_run(queue, zr_op_orthogonal_update(u, factors, a->p, a->direction, NULL));
}

static void momentum_run(zr_queue *queue, const zr_update *u, const arrays *a)
{
    float *direction = floats_new(N); // rounded to bf16, which hides how it was computed
    zr_run(queue, zr_op_momentum_direction(u, &values, a->state0, a->g, direction));
    floats_free(direction);
}

static void average_run(zr_queue *queue, const zr_update *u, const arrays *a)
{
    zr_run(queue, zr_op_average(u, &values, a->p, a->state0));
}

typedef struct fused_case {
    const char *name;
    zr_update of;
    void (*run)(zr_queue *queue, const zr_update *u, const arrays *a);
    void (*element)(const zr_update *u, element *e);
} fused_case;

static void case_holds(zr_queue *queue, const fused_case *c)
{
    arrays got = arrays_new(), want = arrays_new();
    c->run(queue, &c->of, &got);
    for (int i = 0; i < N; i++) {
        element e = {want.p[i], want.state0[i], want.state1[i], want.g[i], want.direction[i]};
        c->element(&c->of, &e);
        want.p[i] = e.p;
        want.state0[i] = e.state0;
        want.state1[i] = e.state1;
        want.direction[i] = e.direction;
    }
    check_same_bits(c->name, got.state0, want.state0, sizeof(float) * N);
    check_same_bits(c->name, got.state1, want.state1, sizeof(float) * N);
    check_same_bits(c->name, got.direction, want.direction, sizeof(float) * N);
    check_same_bits(c->name, got.p, want.p, sizeof(float) * N);
    arrays_free(&got);
    arrays_free(&want);
}

static void path_holds(const char *path)
{
    fused_case cases[] = {
        {"adamw", update_of(ZR_UPDATE_ADAMW), update_run, adam_element},
        {"adam", update_of(ZR_UPDATE_ADAM_L2), update_run, adam_element},
        {"sgd", update_of(ZR_UPDATE_SGD), update_run, sgd_element},
        {"sgd, nesterov", update_of(ZR_UPDATE_SGD), update_run, sgd_element},
        {"sgd, no momentum", update_of(ZR_UPDATE_SGD), update_run, sgd_element},
        {"adagrad", update_of(ZR_UPDATE_ADAGRAD), update_run, adagrad_element},
        {"lion", update_of(ZR_UPDATE_LION), update_run, lion_element},
        {"lamb's direction", update_of(ZR_UPDATE_ADAMW), lamb_run, lamb_element},
        {"subtract", update_of(ZR_UPDATE_ADAMW), subtract_run, subtract_element},
        {"orthogonal", update_of(ZR_UPDATE_ADAMW), orthogonal_run, orthogonal_element},
        {"momentum", update_of(ZR_UPDATE_ADAMW), momentum_run, momentum_element},
        {"average", update_of(ZR_UPDATE_ADAMW), average_run, average_element},
    };
    cases[3].of.nesterov = true;
    cases[4].of.momentum = 0;
    zr_queue *queue = check_queue("cpu", path, 1);
    if (!queue) {
        print_message("SKIPPED: this processor does not offer path %s\n", path);
        return;
    }
    for (int k = 0; k < ZR_COUNT(cases); k++)
        case_holds(queue, &cases[k]);
    check_queue_close(queue);
}

static void sums_are_fused_as_written(void **state)
{
    path_holds("avx2");
    path_holds("avx512");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_are_fused_as_written)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
