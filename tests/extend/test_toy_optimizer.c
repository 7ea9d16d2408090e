// A toy optimizer: sign-SGD, p -= lr * (sign(g) + weight_decay * p), without states. It is a kernel
// in a backend's table, in place of that of SGD; docs/design.md lists the rows of its own that it
// would need in src/. It must equal Lion with beta1 = 0, which averages nothing and so leaves only
// the sign of the gradient.
#include "base/dtype.h"
#include "compute/compute.h"
#include "toy.h"

enum { N = 8 };

static float gradient_at(const zr_range_states *at, int64_t i)
{
    float g;
    size_t size = zero_dtype_bytes(at->gradient_dtype);
    zr_widen(at->gradient_dtype, (const char *)at->gradient + (size_t)i * size, 1, &g);
    return g;
}

static void sign_update(zr_queue *queue, const zr_update *u, int64_t n, const zr_range_states *at)
{
    for (int64_t i = 0; i < n; i++) {
        float g = gradient_at(at, i) * u->gradient_scale;
        double sign = g > 0 ? 1 : g < 0 ? -1 : g; // zero stays zero, NaN stays NaN
        at->master[i] = (float)(at->master[i] * (1 - u->lr * u->weight_decay) - u->lr * sign);
    }
    if (at->parameters)
        zr_narrow(at->parameters_dtype, at->master, n, at->parameters);
}

static const zr_backend *ref;
static zr_optimizer_ops optimizer;
static zr_backend backend; // ref, with this optimizer

static int make_backend(void **state)
{
    assert_int_equal(zr_backend_find("ref", NULL, &ref, NULL), ZERO_OK);
    optimizer = *ref->optimizer;
    optimizer.update = sign_update;
    backend = *ref;
    backend.optimizer = &optimizer;
    return 0;
}

// Here the optimizer is.
typedef zero_status open_queue(const char *, const char *, int, zr_queue **, zero_error *);
open_queue __real_zr_queue_open, __wrap_zr_queue_open;
zero_status __wrap_zr_queue_open(const char *name, const char *isa, int threads, zr_queue **out,
                                 zero_error *error)
{
    ZERO_TRY(__real_zr_queue_open(name, isa, threads, out, error));
    (*out)->backend = &backend;
    return ZERO_OK;
}

static void it_is_lion_without_averages(void **state)
{
    static const uint16_t halves[N] = {0x3f80, 0xbf80, 0, 0x8000, 0x0001, 0x7f80, 0xff80, 0xc2f7};
    float a[N] = {1, -2, 3, -0.5f, 0.25f, 7, -7, 0}, b[N], unused[N] = {0};
    uint16_t copy_a[N], copy_b[N];
    const zr_update u = {.kind = ZR_UPDATE_LION,
                         .lr = 0.1,
                         .weight_decay = 0.3,
                         .beta2 = 0.5,
                         .gradient_scale = 0.5f};
    zr_range_states at = {.master = a,
                          .gradient = halves,
                          .gradient_dtype = ZERO_BF16,
                          .parameters = copy_a,
                          .parameters_dtype = ZERO_BF16};
    zr_queue *queue;
    assert_int_equal(zr_queue_open("ref", NULL, 1, &queue, NULL), ZERO_OK);
    memcpy(b, a, sizeof a);
    backend.optimizer->update(queue, &u, N, &at);
    at.master = b;
    at.state0 = unused;
    at.parameters = copy_b;
    ref->optimizer->update(queue, &u, N, &at);
    assert_memory_equal(a, b, sizeof a);
    assert_memory_equal(copy_a, copy_b, sizeof copy_a);
    assert_float_equal(a[0], 1 - 0.1 * 0.3 - 0.1, 1e-6);
    zr_queue_close(queue);
}

static void stages_train_to_the_same_bits(void **state)
{
    harness_case c = {.ranks = 2, .accumulation = 2, .batch = 2, .optimizer = "SGD"};
    harness_stages_agree(c);
    c.precision = "\"bf16\": {\"enabled\": true}";
    harness_stages_agree(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(it_is_lion_without_averages),
                                       cmocka_unit_test(stages_train_to_the_same_bits)};
    return cmocka_run_group_tests(tests, make_backend, NULL);
}
