// Optimizer updates on a card: compared with ref, as near as "cpu" is; states in eight bits have
// its bits. Ranges begin at any element, so arrays are read sixteen bytes at a time or one by one,
// and no element's bits depend on that.
#include "cuda_check.h"

#include <stdio.h>
#include <string.h>

enum { BLOCK = ZR_STATE_BLOCK };
static const int64_t counts[] = {0, 1, 7, 33, 2049, 100000};
static const cuda_tolerance near_weights = {3e-7, 3e-7}, exact = {0, 0};
static const zero_dtype state_types[] = {ZERO_F32, ZERO_BF16};

enum { SGD_FIRST = ZR_UPDATE_KINDS, SGD_NESTEROV, SGD_WITHOUT_MOMENTUM, LAMB, VARIANTS };

typedef struct step { // an update, and what it has in one step
    zr_update of;
    zr_update_values at;
} step;

static step variant(int k, zero_dtype gradient, zero_dtype copy, zero_dtype states)
{
    const zr_update_kind kind = k == LAMB             ? ZR_UPDATE_ADAMW
                                : k < ZR_UPDATE_KINDS ? (zr_update_kind)k
                                                      : ZR_UPDATE_SGD;
    return (step){.of = {.kind = kind,
                         .gradient = gradient,
                         .parameters = copy,
                         .states = states,
                         .epsilon = kind == ZR_UPDATE_ADAGRAD ? 1e-10 : 1e-8,
                         .weight_decay = 0.1,
                         .momentum = k == SGD_WITHOUT_MOMENTUM ? 0 : 0.9,
                         .dampening = 0.25,
                         .nesterov = k == SGD_NESTEROV,
                         .average_decay = 0.9},
                  .at = {.lr = 0.01,
                         .beta1 = 0.9,
                         .beta2 = 0.99,
                         .correction1 = 0.5,
                         .correction2 = 0.25,
                         .gradient_scale = 0.125f,
                         .first = k == SGD_FIRST}};
}

typedef struct vectors { // the scales are those of eight-bit states
    int64_t n;
    float *p, *direction, *scales0, *scales1;
    void *state0, *state1, *g, *copy;
} vectors;

static void clear_signs(zero_dtype dtype, void *array, int64_t n) // no root of a negative number
{
    for (int64_t i = 0; i < n; i++)
        if (dtype == ZERO_F32)
            ((float *)array)[i] = fabsf(((float *)array)[i]);
        else
            ((uint16_t *)array)[i] &= 0x7fff;
}

// Of magnitudes from 1 to 11, which are more than a state is: the sign of their mean, which Lion
// takes, does not depend on how it is rounded.
static void *gradients_new(zero_dtype dtype, int64_t n)
{
    float *values = floats_random(n, 4, 10);
    for (int64_t i = 0; i < n; i++)
        values[i] += copysignf(1, values[i]);
    void *g = array_of(dtype, values, n);
    floats_free(values);
    return g;
}

// States of any codes, and a scale for each block; the third is 0.
static void add_codes(vectors *v)
{
    const int64_t blocks = (v->n + BLOCK - 1) / BLOCK;
    v->state0 = array_random(ZERO_F32, (v->n + 3) / 4, 6, 1);
    v->state1 = array_random(ZERO_F32, (v->n + 3) / 4, 7, 1);
    for (int64_t i = 0; i < v->n; i++) {
        ((uint8_t *)v->state0)[i] = (uint8_t)(i * 89 >> 2);
        ((uint8_t *)v->state1)[i] = (uint8_t)(i * 151 >> 3);
    }
    v->scales0 = floats_random(blocks, 8, 1);
    v->scales1 = floats_random(blocks, 9, 1);
    clear_signs(ZERO_F32, v->scales0, blocks);
    clear_signs(ZERO_F32, v->scales1, blocks);
    if (blocks > 2)
        v->scales0[2] = v->scales1[2] = 0;
}

static vectors vectors_new(const step *u, int64_t n)
{
    vectors v = {.n = n,
                 .p = floats_random(n, 1, 1),
                 .direction = floats_random(n, 5, 1),
                 .g = gradients_new(u->of.gradient, n),
                 .copy = u->of.parameters ? array_new(u->of.parameters, n) : NULL};
    if (u->of.states == ZERO_U8) {
        add_codes(&v);
        return v;
    }
    v.state0 = array_random(u->of.states, n, 2, 0.01f);
    v.state1 = array_random(u->of.states, n, 3, 0.1f);
    clear_signs(u->of.states, v.state1, n);
    if (u->of.kind == ZR_UPDATE_ADAGRAD)
        clear_signs(u->of.states, v.state0, n);
    return v;
}

static void vectors_free(vectors *v)
{
    floats_free(v->p);
    floats_free(v->direction);
    floats_free(v->scales0);
    floats_free(v->scales1);
    array_free(v->state0);
    array_free(v->state1);
    array_free(v->g);
    array_free(v->copy);
}

static bool has_two_states(int k)
{
    return k == ZR_UPDATE_ADAMW || k == ZR_UPDATE_ADAM_L2 || k == LAMB;
}

static void *element_of(zero_dtype dtype, const void *array, int64_t i)
{
    return (char *)array + i * (int64_t)zero_dtype_bytes(dtype);
}

// Elements [from, from + n) of the vectors.
static zr_op update_from(const step *u, int k, const vectors *v, int64_t from, int64_t n)
{
    zr_update of = u->of;
    of.n = n;
    float *p = v->p + from;
    void *state0 = element_of(of.states, v->state0, from),
         *state1 = element_of(of.states, v->state1, from);
    const void *g = element_of(of.gradient, v->g, from);
    // A buffer that SGD does not need stays as it is.
    const bool lacks_state = k == SGD_WITHOUT_MOMENTUM && of.gradient == ZERO_F32;
    if (k == LAMB)
        return zr_op_lamb_direction(&of, &u->at, p, state0, state1, g, v->direction + from);
    return zr_op_update(&of, &u->at, p, lacks_state ? NULL : state0,
                        has_two_states(k) ? state1 : NULL,
                        v->scales0 ? v->scales0 + from / BLOCK : NULL,
                        v->scales1 ? v->scales1 + from / BLOCK : NULL, g,
                        v->copy ? element_of(of.parameters, v->copy, from) : NULL);
}

static void updates_agree_of(zero_dtype gradient, zero_dtype copy, zero_dtype states)
{
    for (int k = 0; k < VARIANTS; k++)
        for (int c = 0; c < ZR_COUNT(counts); c++) {
            char what[100];
            if (counts[c] > 3000 && (copy != ZERO_BF16 || states != ZERO_F32))
                continue; // all threads of the grid go round more than once
            const step u = variant(k, gradient, copy, states);
            vectors v = vectors_new(&u, counts[c]);
            snprintf(what, sizeof what, "variant %d of %lld, gradient %d, copy %d, states %d", k,
                     (long long)counts[c], gradient, copy, states);
            cuda_check(what, update_from(&u, k, &v, 0, counts[c]),
                       k == LAMB ? (cuda_tolerance){1e-6, 1e-6} : near_weights);
            cuda_check_as_cpu(what, update_from(&u, k, &v, 0, counts[c]));
            vectors_free(&v);
        }
}

static void updates_agree(void **state)
{
    for (int g = 0; g < STORAGE_TYPES; g++)
        for (int t = 0; t < STORAGE_TYPES; t++)
            for (int s = 0; s < ZR_COUNT(state_types); s++)
                updates_agree_of(storage_types[g], storage_types[t], state_types[s]);
}

// A step from zero states, with gradients that are zero, not finite, have no finite square, or are
// the least that fp16 holds.
static const float edges[24] = {[3] = 1e30f,   [5] = NAN,    [7] = 1e-30f,   [9] = 6e-8f,
                                [11] = -65520, [13] = -0.0f, [15] = INFINITY};

static void updates_take_any_gradient(void **state)
{
    for (int t = 0; t < STORAGE_TYPES; t++)
        for (int k = 0; k < VARIANTS; k++) {
            const step u = variant(k, storage_types[t], ZERO_BF16, ZERO_F32);
            vectors v = vectors_new(&u, ZR_COUNT(edges));
            array_free(v.g);
            v.g = array_of(u.of.gradient, edges, v.n);
            memset(v.state0, 0, (size_t)v.n * sizeof(float));
            memset(v.state1, 0, (size_t)v.n * sizeof(float));
            cuda_check("an update by any gradient", update_from(&u, k, &v, 0, v.n),
                       (cuda_tolerance){1e-6, 1e-7});
            vectors_free(&v);
        }
}

// ---- eight bits ----

static const zr_update_kind adams[] = {ZR_UPDATE_ADAMW, ZR_UPDATE_ADAM_L2};

static void blocks_have_refs_bits(void **state)
{
    static const int64_t sizes[] = {1, 7, 33, 255, 256, 257, 2049, 33001};
    for (int k = 0; k < ZR_COUNT(adams) * STORAGE_TYPES * STORAGE_TYPES; k++)
        for (int c = 0; c < ZR_COUNT(sizes); c++) {
            const step u =
                variant(adams[k % 2], storage_types[k / 2 % 3], storage_types[k / 6], ZERO_U8);
            vectors v = vectors_new(&u, sizes[c]);
            cuda_check("an update of blocks", update_from(&u, (int)u.of.kind, &v, 0, v.n), exact);
            vectors_free(&v);
        }
}

// What is no number makes no scale; an infinity does.
static void blocks_take_any_gradient(void **state)
{
    enum { MASTER = 1, N = 5 * BLOCK };
    for (int k = 0; k < ZR_COUNT(adams) * STORAGE_TYPES; k++) {
        const step u = variant(adams[k % 2], storage_types[k / 2], ZERO_F32, ZERO_U8);
        float g[N] = {0};
        vectors v = vectors_new(&u, N);
        memcpy(g + BLOCK + 3, edges, sizeof edges);
        g[2 * BLOCK] = NAN;
        g[3 * BLOCK + 255] = -1e-30f;
        g[4 * BLOCK + 9] = 3e18f;
        memset(v.state0, 127, N);
        memset(v.state1, 0, N);
        array_free(v.g);
        v.g = array_of(u.of.gradient, g, N);
        cuda_check_one("blocks by any gradient", update_from(&u, (int)u.of.kind, &v, 0, N), exact,
                       MASTER, (cuda_tolerance){1e-12, 0});
        vectors_free(&v);
    }
}

// ---- ranges that begin anywhere ----

enum { SHELF_BYTES = 1 << 18 };

typedef struct shelf { // memory of the card, and what it holds at the same place for the host
    char *card, *pinned;
    size_t used;
} shelf;

static void *reserve(zr_memory kind)
{
    zr_device *device = cuda_check_queue()->device;
    zero_error error = {0};
    void *at = NULL;
    if (device->ops->reserve(device, kind, SHELF_BYTES, &at, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return at;
}

static shelf shelf_new(void)
{
    return (shelf){.card = reserve(ZR_MEMORY_DEVICE), .pinned = reserve(ZR_MEMORY_PINNED)};
}

static void shelf_free(shelf *s)
{
    zr_device *device = cuda_check_queue()->device;
    device->ops->release(device, ZR_MEMORY_DEVICE, s->card, SHELF_BYTES);
    device->ops->release(device, ZR_MEMORY_PINNED, s->pinned, SHELF_BYTES);
}

// Puts an array on the shelf, `skew` bytes after an aligned place; returns its address on the card.
static void *put_on(shelf *s, const void *from, int64_t elements, zero_dtype dtype, size_t skew)
{
    const size_t at = ZR_ROUND_UP(s->used, (size_t)64) + skew,
                 bytes = (size_t)elements * zero_dtype_bytes(dtype);
    if (!from)
        return NULL;
    assert_true(at + bytes <= SHELF_BYTES);
    memcpy(s->pinned + at, from, bytes);
    s->used = at + bytes;
    return s->card + at;
}

static void copy_shelf(const void *from, void *to)
{
    zero_error error = {0};
    zr_run(cuda_check_queue(), zr_op_copy(&(zr_bytes){.bytes = SHELF_BYTES}, from, to));
    if (zr_mark_finish(zr_queue_mark(cuda_check_queue()), 60, &error) != ZERO_OK)
        fail_msg("%s", error.message);
}

// The vectors' copies on the shelf; the gradient is the last, and skewed.
static vectors put_vectors(shelf *s, const step *u, const vectors *v, size_t skew)
{
    const int64_t n = v->n, blocks = (n + BLOCK - 1) / BLOCK;
    vectors at = {.n = n};
    at.p = put_on(s, v->p, n, ZERO_F32, 0);
    at.direction = put_on(s, v->direction, n, ZERO_F32, 0);
    at.scales0 = put_on(s, v->scales0, blocks, ZERO_F32, 0);
    at.scales1 = put_on(s, v->scales1, blocks, ZERO_F32, 0);
    at.state0 = put_on(s, v->state0, n, u->of.states, 0);
    at.state1 = put_on(s, v->state1, n, u->of.states, 0);
    at.copy = put_on(s, v->copy, n, u->of.parameters, 0);
    at.g = put_on(s, v->g, n, u->of.gradient, skew);
    return at;
}

// Updates and averages in two ranges; returns the shelf as it is then.
static shelf in_ranges(const step *u, int k, const vectors *v, int64_t cut, size_t skew)
{
    shelf s = shelf_new();
    zr_queue *queue = cuda_check_queue();
    const float by = 0.3f;
    const vectors at = put_vectors(&s, u, v, skew);
    copy_shelf(s.pinned, s.card);
    for (int half = 0; half < 2; half++) {
        const int64_t from = half ? cut : 0, n = half ? v->n - cut : cut;
        zr_update of = u->of;
        of.n = n;
        zr_run(queue, update_from(u, k, &at, from, n));
        zr_run(queue,
               zr_op_subtract_scaled(&of, &by, at.p + from, at.direction + from,
                                     at.copy ? element_of(of.parameters, at.copy, from) : NULL));
        zr_run(queue, zr_op_average(&of, &u->at, at.p + from, at.direction + from));
    }
    copy_shelf(s.card, s.pinned);
    return s;
}

static void check_ranges(const step *u, int k, int64_t unit)
{
    static const int64_t cuts[] = {0, 1, 4, 7, 8, 17};
    vectors v = vectors_new(u, 2049 + 77);
    shelf whole = in_ranges(u, k, &v, v.n, 0);
    // What lies before the gradient.
    const int64_t bytes =
        (int64_t)(whole.used - (size_t)v.n * zero_dtype_bytes(u->of.gradient)) / 64 * 64;
    for (int c = 0; c < ZR_COUNT(cuts); c++)
        for (size_t skew = 0; skew <= 4; skew += 4) {
            shelf parts = in_ranges(u, k, &v, ZR_MIN(cuts[c] * unit, v.n), skew);
            check_same_bits("in two ranges", parts.pinned, whole.pinned, bytes);
            shelf_free(&parts);
        }
    shelf_free(&whole);
    vectors_free(&v);
}

static void no_bits_depend_on_ranges(void **state)
{
    for (int k = 0; k < VARIANTS; k++)
        for (int t = 0; t < STORAGE_TYPES; t++) {
            const zero_dtype type = storage_types[t];
            const step u = variant(k, type, type, t == 2 ? ZERO_BF16 : ZERO_F32);
            check_ranges(&u, k, 1);
        }
    for (int t = 0; t < STORAGE_TYPES; t++) {
        const step u = variant(ZR_UPDATE_ADAMW, storage_types[t], ZERO_BF16, ZERO_U8);
        check_ranges(&u, ZR_UPDATE_ADAMW, BLOCK);
    }
}

// ---- what follows an update ----

static void weights_are_subtracted_from(void **state)
{
    for (int t = 0; t < STORAGE_TYPES; t++)
        for (int c = 0; c < ZR_COUNT(counts); c++) {
            const float by = 0.37f;
            const step u = variant(0, ZERO_F32, storage_types[t], ZERO_F32);
            vectors v = vectors_new(&u, counts[c]);
            zr_update of = u.of;
            of.n = v.n;
            cuda_check("subtract_scaled", zr_op_subtract_scaled(&of, &by, v.p, v.direction, v.copy),
                       (cuda_tolerance){2e-7, 1e-7});
            cuda_check_as_cpu("subtract_scaled",
                              zr_op_subtract_scaled(&of, &by, v.p, v.direction, v.copy));
            vectors_free(&v);
        }
}

// The first update does not read the average.
static void averages_follow_weights(void **state)
{
    for (int first = 0; first < 2; first++)
        for (int c = 0; c < ZR_COUNT(counts); c++) {
            step u = variant(0, ZERO_F32, ZERO_F32, ZERO_F32);
            vectors v = vectors_new(&u, counts[c]);
            u.of.n = v.n;
            u.at.first = first;
            if (first && v.n)
                v.direction[0] = NAN;
            cuda_check("average", zr_op_average(&u.of, &u.at, v.p, v.direction),
                       first ? exact : (cuda_tolerance){2e-7, 1e-7});
            cuda_check_as_cpu("average", zr_op_average(&u.of, &u.at, v.p, v.direction));
            vectors_free(&v);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates_agree),
        cmocka_unit_test(updates_take_any_gradient),
        cmocka_unit_test(blocks_have_refs_bits),
        cmocka_unit_test(blocks_take_any_gradient),
        cmocka_unit_test(no_bits_depend_on_ranges),
        cmocka_unit_test(weights_are_subtracted_from),
        cmocka_unit_test(averages_follow_weights),
    };
    return cmocka_run_group_tests(tests, cuda_check_setup, cuda_check_teardown);
}
