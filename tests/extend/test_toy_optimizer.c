// A toy optimizer: sign-SGD, p -= lr * (sign(g) + weight_decay * p), without states. A backend runs
// it in place of the update; docs/design.md lists the rows of its own that it would need in src/.
// It must equal Lion with beta1 = 0, which averages nothing: the gradient's sign is left.
#include "base/dtype.h"
#include "compute/compute.h"
#include "toy.h"

enum { N = 8 };

static float gradient_at(zero_dtype dtype, const void *gradient, int64_t i)
{
    float g;
    zr_widen(dtype, (const char *)gradient + (size_t)i * zero_dtype_bytes(dtype), 1, &g);
    return g;
}

static void sign_update(const zr_op *op)
{
    const zr_update *u = &op->shape.update;
    const zr_update_values *v = op->at.update.values;
    float *master = op->at.update.master;
    for (int64_t i = 0; i < u->n; i++) {
        float g = gradient_at(u->gradient, op->at.update.gradient, i) * v->gradient_scale;
        double sign = g > 0 ? 1 : g < 0 ? -1 : g; // zero stays zero, NaN stays NaN
        master[i] = (float)(master[i] * (1 - v->lr * u->weight_decay) - v->lr * sign);
    }
    if (op->at.update.parameters)
        zr_narrow(u->parameters, master, u->n, op->at.update.parameters);
}

static const zr_backend *ref;
static zr_backend backend; // ref, with this optimizer

static void run(zr_queue *queue, const zr_op *op)
{
    if (op->kind == ZR_OP_update)
        return sign_update(op);
    ref->run(queue, op);
}

static int make_backend(void **state)
{
    assert_int_equal(zr_backend_find("ref", NULL, &ref, NULL), ZERO_OK);
    backend = *ref;
    backend.run = run;
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
    const zr_update u = {.kind = ZR_UPDATE_LION, .weight_decay = 0.3};
    const zr_update_values values = {.lr = 0.1, .beta2 = 0.5, .gradient_scale = 0.5f};
    zr_range_states at = {.master = a,
                          .gradient = halves,
                          .gradient_dtype = ZERO_BF16,
                          .parameters = copy_a,
                          .parameters_dtype = ZERO_BF16};
    zr_queue *queue;
    assert_int_equal(zr_queue_open("ref", NULL, 1, &queue, NULL), ZERO_OK);
    memcpy(b, a, sizeof a);
    zr_run(queue, zr_op_update_of(&u, &values, N, &at));
    at.master = b;
    at.state0 = unused;
    at.parameters = copy_b;
    const zr_op lion = zr_op_update_of(&u, &values, N, &at);
    ref->run(queue, &lion);
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
