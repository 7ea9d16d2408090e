// GPT-2 compared with PyTorch's GPT2LMHeadModel: gpt2_golden.bin, written by tests/oracle/gpt2.py,
// has weights, a batch, loss, logits and every gradient. Relative errors, per tensor
// max|a-b|/max|b|, stay below 1e-5 on every backend.
#include "golden.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define TOLERANCE 1e-5

static golden file;

static int setup(void **state)
{
    golden_open(&file, ZERO_GOLDEN_DIRECTORY "/gpt2_golden.bin");
    return 0;
}

static int teardown(void **state)
{
    golden_close(&file);
    return 0;
}

static void golden_network_in(harness *net, const zr_backend *backend, zero_dtype dtype)
{
    const zero_gpt2_config config = harness_tiny();
    harness_create(net, &config, backend,
                   (zero_shape){.batch = 2, .seq = 7, .threads = 2, .dtype = dtype});
    golden_load(&file, net);
}

static void golden_network(harness *net, const zr_backend *backend)
{
    golden_network_in(net, backend, ZERO_F32);
}

static void loss_and_gradients(void **state)
{
    int run = 0;
    for (const zr_backend *const *backend = zr_backends(); *backend; backend++) {
        harness net;
        if (!harness_offered(*backend))
            continue;
        golden_network(&net, *backend);
        golden_assert_loss(&file, harness_forward(&net, false), TOLERANCE);
        for (int fused = 0; fused < 2; fused++) {
            harness_forget(&net);
            golden_assert_loss(&file, harness_forward(&net, true), TOLERANCE);
            net.loss = NAN;
            harness_backward(&net, fused);
            golden_assert_loss(&file, net.loss, TOLERANCE);
            golden_assert_gradients(&file, &net, TOLERANCE);
        }
        harness_destroy(&net);
        run++;
    }
    assert_true(run > 0);
}

// Mixed precision errs as PyTorch's autocast does, which keeps weights and the residual stream in
// fp32: by no more than its error and a fifth, over all gradients together.
static void mixed_precision_errs_like_autocast(void **state)
{
    static const struct {
        zero_dtype dtype;
        const char *kind;
    } kinds[] = {{ZERO_BF16, "bf16"}, {ZERO_F16, "fp16"}};
    for (const zr_backend *const *backend = zr_backends(); *backend; backend++)
        for (int k = 0; k < ZR_COUNT(kinds) && harness_offered(*backend); k++) {
            harness net;
            golden_network_in(&net, *backend, kinds[k].dtype);
            harness_forward(&net, true);
            harness_backward(&net, true);
            golden_assert_like_autocast(&file, &net, kinds[k].kind, 1.2);
            harness_destroy(&net);
        }
}

static void decoded_logits(void **state)
{
    for (const zr_backend *const *backend = zr_backends(); *backend; backend++) {
        harness net;
        if (!harness_offered(*backend))
            continue;
        golden_network(&net, *backend);
        golden_assert_decoded(&file, &net, TOLERANCE);
        harness_destroy(&net);
    }
}

// Targets that count one row only make the loss that row's -log softmax: the forward pass's logits,
// up to a constant a row.
static void forward_and_decode_agree(void **state)
{
    for (const zr_backend *const *backend = zr_backends(); *backend; backend++) {
        harness net;
        float logits[7 * 29];
        if (!harness_offered(*backend))
            continue;
        golden_network(&net, *backend);
        golden_decode(&net, net.tokens + 7, 1, 7, 1, false, logits);
        for (int row = 0; row < 7; row++) {
            double sum = 0;
            for (int id = 0; id < 29; id++)
                sum += exp((double)logits[row * 29 + id]);
            for (int id = 0; id < 29; id++) {
                for (int i = 0; i < 14; i++)
                    net.targets[i] = i == 7 + row ? id : -1;
                double expected = log(sum) - (double)logits[row * 29 + id];
                assert_true(fabs(harness_forward(&net, false) - expected) <
                            1e-5 * fmax(1, fabs(expected)));
            }
        }
        harness_destroy(&net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_and_gradients),
        cmocka_unit_test(mixed_precision_errs_like_autocast),
        cmocka_unit_test(decoded_logits),
        cmocka_unit_test(forward_and_decode_agree),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
