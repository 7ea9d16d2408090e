// Models cut into 2 and 4 slices compared with the models of transformers: slices_golden.bin,
// written by tests/oracle/slices.py, has their config.json, weights, a batch, loss, logits and
// every gradient; those with windows are in sliding_golden.bin, of tests/oracle/models.py. One rank
// computes all slices. Relative errors, per whole tensor max|a-b|/max|b|, stay below what they may
// be without slices.
#include "golden.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define TOLERANCE 1e-5

static const struct {
    const char *path, *variants[5];
} files[] = {
    {ZERO_GOLDEN_DIRECTORY "/slices_golden.bin", {"gpt2/", "grouped/", "normed/"}},
    {ZERO_GOLDEN_DIRECTORY "/sliding_golden.bin",
     {"sliding_mistral/", "sliding_qwen2/", "sliding_qwen3/", "sliding_documents/"}},
};

static void cut_network(harness *net, const golden *of, const zr_backend *backend, int count)
{
    const zr_lm_config config = golden_config(of);
    const zr_lm_slices slices = {.count = count, .ranks = 1, .exact = true};
    const zero_shape shape = {.batch = 2, .seq = 7, .threads = 2};
    harness_create_part(net, &config, &slices, backend, shape);
    golden_load(of, net);
}

typedef void network_test(const golden *of, harness *net);

// Of all variants in 2 and 4 slices.
static void each_network_of(golden *of, const char *const *variants, network_test *test)
{
    for (const zr_backend *const *backend = zr_backends(); *backend; backend++)
        for (int v = 0; variants[v] && harness_offered(*backend); v++)
            for (int count = 2; count <= 4; count *= 2) {
                harness net;
                of->prefix = variants[v];
                cut_network(&net, of, *backend, count);
                test(of, &net);
                harness_destroy(&net);
            }
}

static void each_network(network_test *test)
{
    for (int f = 0; f < ZR_COUNT(files); f++) {
        golden of;
        golden_open(&of, files[f].path);
        each_network_of(&of, files[f].variants, test);
        golden_close(&of);
    }
}

static void check_loss_and_gradients(const golden *of, harness *net)
{
    golden_assert_loss(of, harness_forward(net, false), TOLERANCE);
    for (int fused = 0; fused < 2; fused++) {
        harness_forget(net);
        golden_assert_loss(of, harness_forward(net, true), TOLERANCE);
        net->loss = NAN;
        harness_backward(net, fused);
        golden_assert_loss(of, net->loss, TOLERANCE);
        golden_assert_gradients(of, net, TOLERANCE);
    }
}

static void loss_and_gradients(void **state) { each_network(check_loss_and_gradients); }

static void check_decoded(const golden *of, harness *net)
{
    if (!net->positions) // generation knows no documents
        golden_assert_decoded(of, net, TOLERANCE);
}

static void decoded_logits(void **state) { each_network(check_decoded); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_and_gradients),
        cmocka_unit_test(decoded_logits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
