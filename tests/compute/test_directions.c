// Muon's two walks over elements, and the average of the weights: ref compared with vectors
// computed by hand, cpu with ref, in every type. An element's bits must depend neither on its place
// in a range nor on the number of threads, and the 16-bit copy is the rounded master.
#include "base/dtype.h"
#include "compute/compute.h"
#include "compute_check.h"

#include <string.h>

static const int64_t counts[] = {0, 1, 3, 17, 64, 129, 1000, 40001};

// ---- momentum_direction ----

static zr_update momentum_of(zero_dtype gradient, zero_dtype states, bool nesterov)
{
    return (zr_update){.kind = ZR_UPDATE_ADAMW,
                       .gradient = gradient,
                       .states = states,
                       .momentum = 0.9,
                       .nesterov = nesterov};
}

// By hand, of gradients 512, -256 and 0 in units of 1/8 (scale 1/8): m = 0.9 m + 0.1 g, and with
// nesterov u = 0.9 m + 0.1 g of the new m. Directions are rounded to 8 bits.
static void momentum_by_hand(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    static const float gradients[] = {512, -256, 0}, m[] = {6.4f, 2.56f, 2.304f},
                       plain[] = {6.40625f, 2.5625f, 2.296875f},
                       nesterov[] = {12.1875f, -0.89453125f, 2.078125f};
    zr_queue *queues[] = {queue, ref};
    for (int q = 0; q < 2; q++)
        for (int n = 0; n < 2; n++) {
            float state = 0;
            for (int t = 0; t < 3; t++) {
                float direction = NAN;
                zr_update s = momentum_of(ZERO_F32, ZERO_F32, n);
                s.n = 1;
                const zr_update_values values = {.gradient_scale = 0.125f};
                zr_run(queues[q],
                       zr_op_momentum_direction(&s, &values, &state, &gradients[t], &direction));
                check_close("momentum", &state, &m[t], 1, 3e-7, 0);
                check_close("direction", &direction, n ? &nesterov[t] : &plain[t], 1, 0, 0);
            }
        }
}

static void momentum_is_right(void **state) { check_each_kernels(momentum_by_hand); }

typedef struct momentum_case {
    zr_update of;
    void *state, *gradient, *direction;
} momentum_case;

static momentum_case momentum_new(zr_update of, int64_t n)
{
    of.n = n;
    return (momentum_case){.of = of,
                           .state = array_random(of.states, n, 1, 0.1f),
                           .gradient = array_random(of.gradient, n, 2, 10),
                           .direction = array_new(of.states, n)};
}

static void momentum_free(momentum_case *c)
{
    array_free(c->state);
    array_free(c->gradient);
    array_free(c->direction);
}

static void momentum_run(zr_queue *queue, const momentum_case *c, int64_t from, int64_t n)
{
    const zr_update_values values = {.gradient_scale = 0.125f};
    zr_update of = c->of;
    of.n = n;
    zr_run(queue, zr_op_momentum_direction(&of, &values, array_at(of.states, c->state, from),
                                           array_at(of.gradient, c->gradient, from),
                                           array_at(of.states, c->direction, from)));
}

// fp32 differs in its last digits, so the bf16 in a direction by one of its steps at most.
static void directions_close(const momentum_case *got, const momentum_case *want)
{
    int64_t n = got->of.n;
    float *a = array_floats(got->of.states, got->direction, n),
          *b = array_floats(want->of.states, want->direction, n);
    check_close("direction", a, b, n, 1.0 / 128, 1e-6);
    for (int64_t i = 0; i < n; i++)
        assert_true(zr_bf16_to_f32(zr_f32_to_bf16(a[i])) == a[i]);
    floats_free(a);
    floats_free(b);
    check_close_as("momentum", got->of.states, got->state, want->state, n, 1e-6, 1e-7);
}

static void momentum_body_of(zr_update of, zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int c = 0; c < ZR_COUNT(counts); c++) {
        int64_t n = counts[c], cut = n / 3;
        momentum_case got = momentum_new(of, n), want = momentum_new(of, n),
                      parts = momentum_new(of, n);
        momentum_run(queue, &got, 0, n);
        momentum_run(ref, &want, 0, n);
        momentum_run(single, &parts, 0, cut);
        momentum_run(single, &parts, cut, n - cut);
        directions_close(&got, &want);
        check_same_array("momentum", of.states, parts.state, got.state, n);
        check_same_array("direction", of.states, parts.direction, got.direction, n);
        momentum_free(&got);
        momentum_free(&want);
        momentum_free(&parts);
    }
}

static void momentum_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    static const zero_dtype states[] = {ZERO_F32, ZERO_BF16};
    for (int g = 0; g < STORAGE_TYPES; g++)
        for (int s = 0; s < ZR_COUNT(states); s++)
            for (int nesterov = 0; nesterov < 2; nesterov++)
                momentum_body_of(momentum_of(storage_types[g], states[s], nesterov), queue, single,
                                 ref);
}

static void cpu_momentum_agrees(void **state) { check_each_kernels(momentum_body); }

// ---- orthogonal_update ----

typedef struct step_case {
    zr_update of;
    float *master;
    void *direction, *copy; // copy: NULL in fp32
} step_case;

static step_case step_new(zero_dtype states, zero_dtype copy, int64_t n)
{
    return (step_case){.of = {.states = states, .parameters = copy, .n = n},
                       .master = floats_random(n, 3, 1),
                       .direction = array_random(states, n, 4, 0.3f),
                       .copy = copy == ZERO_F32 ? NULL : array_new(copy, n)};
}

static void step_free(step_case *c)
{
    floats_free(c->master);
    array_free(c->direction);
    array_free(c->copy);
}

static const float factors[2] = {0.875f, 0.25f}; // of the master, and of the direction

static void step_run(zr_queue *queue, const step_case *c, int64_t from, int64_t n)
{
    zr_update of = c->of;
    of.n = n;
    zr_run(queue, zr_op_orthogonal_update(&of, factors, c->master + from,
                                          array_at(of.states, c->direction, from),
                                          c->copy ? array_at(of.parameters, c->copy, from) : NULL));
}

static void step_body_of(zero_dtype states, zero_dtype copy, zr_queue *queue, zr_queue *single,
                         zr_queue *ref)
{
    for (int c = 0; c < ZR_COUNT(counts); c++) {
        int64_t n = counts[c], cut = n / 3;
        step_case got = step_new(states, copy, n), want = step_new(states, copy, n),
                  parts = step_new(states, copy, n), before = step_new(states, copy, n);
        step_run(queue, &got, 0, n);
        step_run(ref, &want, 0, n);
        step_run(single, &parts, 0, cut);
        step_run(single, &parts, cut, n - cut);
        float *direction = array_floats(states, before.direction, n);
        for (int64_t i = 0; i < n; i++)
            before.master[i] = 0.875f * before.master[i] - 0.25f * direction[i];
        check_close("master of ref", want.master, before.master, n, 2e-7, 1e-7);
        check_close("master", got.master, want.master, n, 2e-7, 1e-7);
        check_same_bits("master in parts", parts.master, got.master, n * 4);
        check_same_array("direction", states, got.direction, before.direction, n);
        if (copy != ZERO_F32) {
            check_stored("copy", copy, got.copy, got.master, n);
            check_stored("copy of ref", copy, want.copy, want.master, n);
            check_stored("copy in parts", copy, parts.copy, parts.master, n);
        }
        floats_free(direction);
        step_free(&got);
        step_free(&want);
        step_free(&parts);
        step_free(&before);
    }
}

static void step_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    static const zero_dtype states[] = {ZERO_F32, ZERO_BF16};
    for (int s = 0; s < ZR_COUNT(states); s++)
        for (int copy = 0; copy < STORAGE_TYPES; copy++)
            step_body_of(states[s], storage_types[copy], queue, single, ref);
}

static void cpu_step_agrees(void **state) { check_each_kernels(step_body); }

// ---- average ----

static void average_run(zr_queue *queue, bool first, const float *master, float *average, int64_t n)
{
    const zr_update of = {.n = n, .average_decay = 0.75};
    const zr_update_values values = {.first = first};
    zr_run(queue, zr_op_average(&of, &values, master, average));
}

// The first update takes the weights' bits, whatever was there: here, no numbers.
static void first_average(zr_queue *queue, const float *master, int64_t n)
{
    float *average = floats_new(n);
    average_run(queue, true, master, average, n);
    check_same_bits("the first average", average, master, n * 4);
    floats_free(average);
}

static void average_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int c = 0; c < ZR_COUNT(counts); c++) {
        int64_t n = counts[c], cut = n / 3;
        float *master = floats_random(n, 5, 1), *got = floats_random(n, 6, 1),
              *want = floats_copy(got, n), *parts = floats_copy(got, n),
              *plain = floats_copy(got, n);
        first_average(queue, master, n);
        first_average(ref, master, n);
        average_run(queue, false, master, got, n);
        average_run(ref, false, master, want, n);
        average_run(single, false, master, parts, cut);
        average_run(single, false, master + cut, parts + cut, n - cut);
        for (int64_t i = 0; i < n; i++)
            plain[i] = 0.75f * plain[i] + 0.25f * master[i];
        check_close("average of ref", want, plain, n, 3e-7, 1e-7);
        check_close("average", got, want, n, 2e-7, 1e-7);
        check_same_bits("average in parts", parts, got, n * 4);
        floats_free(master);
        floats_free(got);
        floats_free(want);
        floats_free(parts);
        floats_free(plain);
    }
}

static void cpu_average_agrees(void **state) { check_each_kernels(average_body); }

// What is not a number stays one, in its own element alone.
static void no_numbers(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    zr_queue *queues[] = {queue, ref};
    for (int q = 0; q < 2; q++) {
        momentum_case m = momentum_new(momentum_of(ZERO_F32, ZERO_F32, true), 20);
        step_case s = step_new(ZERO_F32, ZERO_BF16, 20);
        ((float *)m.gradient)[7] = NAN;
        momentum_run(queues[q], &m, 0, 20);
        memcpy(s.direction, m.direction, 20 * sizeof(float));
        step_run(queues[q], &s, 0, 20);
        for (int i = 0; i < 20; i++)
            assert_int_equal(isnan(s.master[i]) != 0, i == 7);
        momentum_free(&m);
        step_free(&s);
    }
}

static void what_is_no_number_stays_alone(void **state) { check_each_kernels(no_numbers); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(momentum_is_right),
        cmocka_unit_test(cpu_momentum_agrees),
        cmocka_unit_test(cpu_step_agrees),
        cmocka_unit_test(cpu_average_agrees),
        cmocka_unit_test(what_is_no_number_stays_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
