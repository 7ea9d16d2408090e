// Language models compared with those of transformers: for each, a file written by
// tests/oracle/models.py has the config.json that transformers writes, weights, a batch, loss,
// logits and every gradient. Relative errors, per tensor max|a-b|/max|b|, stay below 1e-5 on every
// backend.
#include "golden.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define TOLERANCE 1e-5

#define FILE_OF(name) ZERO_GOLDEN_DIRECTORY "/" name "_golden.bin"

// The variants of an architecture, which have a file together.
static const struct {
    const char *path, *variants[12];
} files[] = {
    {FILE_OF("llama"),
     {"llama/", "llama_tied/", "llama_biased/", "llama3/", "linear/", "dynamic/", "yarn/",
      "mistral/", "qwen2/", "qwen3/", "smollm2/"}},
    {FILE_OF("gpt2_erf"), {"gpt2_erf/"}},
    {FILE_OF("neox"), {"neox/", "neox_half/", "neox_whole/", "neox_llama3/"}},
    {FILE_OF("documents"),
     {"documents_gpt2/", "documents_llama/", "documents_qwen/", "documents_neox/"}},
    {FILE_OF("sliding"),
     {"sliding_mistral/", "sliding_pair/", "sliding_qwen2/", "sliding_qwen3/", "sliding_unused/",
      "sliding_documents/", "sliding_lora/"}},
    {FILE_OF("lora"), {"lora_llama/", "lora_some/", "lora_biased/", "lora_gpt2/", "lora_neox/"}},
    {FILE_OF("dora"), {"dora_llama/", "dora_some/", "dora_biased/", "dora_gpt2/", "dora_neox/"}},
};

static void network_of(harness *net, const golden *of, const zr_backend *backend, zero_dtype dtype)
{
    const zr_lm_config config = golden_config(of);
    harness_create_of(net, &config, backend,
                      (zero_shape){.batch = 2, .seq = 7, .threads = 2, .dtype = dtype});
    golden_load(of, net);
}

typedef void variant_test(const golden *of, const zr_backend *backend);

static void each_variant(variant_test *test)
{
    for (int f = 0; f < ZR_COUNT(files); f++) {
        golden of;
        golden_open(&of, files[f].path);
        for (const zr_backend *const *backend = zr_backends(); *backend; backend++)
            for (int v = 0; files[f].variants[v] && harness_offered(*backend); v++) {
                of.prefix = files[f].variants[v];
                test(&of, *backend);
            }
        golden_close(&of);
    }
}

static void check_loss_and_gradients(const golden *of, const zr_backend *backend)
{
    harness net;
    network_of(&net, of, backend, ZERO_F32);
    golden_assert_loss(of, harness_forward(&net, false), TOLERANCE);
    for (int fused = 0; fused < 2; fused++) {
        harness_forget(&net);
        golden_assert_loss(of, harness_forward(&net, true), TOLERANCE);
        net.loss = NAN;
        harness_backward(&net, fused);
        golden_assert_loss(of, net.loss, TOLERANCE);
        golden_assert_gradients(of, &net, TOLERANCE);
    }
    harness_destroy(&net);
}

static void loss_and_gradients(void **state) { each_variant(check_loss_and_gradients); }

static void check_decoded(const golden *of, const zr_backend *backend)
{
    harness net;
    network_of(&net, of, backend, ZERO_F32);
    if (!net.positions) // generation knows no documents
        golden_assert_decoded(of, &net, TOLERANCE);
    harness_destroy(&net);
}

static void decoded_logits(void **state) { each_variant(check_decoded); }

static void check_tiled(const golden *of, const zr_backend *backend)
{
    harness net;
    zr_lm_config config = golden_config(of);
    if (config.lora.magnitudes) // refused
        return;
    // of so small a model nothing is cut: the shape must not change
    zr_lm_set_tiles(&config, &(zr_tiles){4, 2, 2});
    harness_create_of(&net, &config, backend, (zero_shape){.batch = 2, .seq = 7, .threads = 1});
    golden_load(of, &net);
    golden_assert_loss(of, harness_forward(&net, true), TOLERANCE);
    harness_destroy(&net);
}

static void tiles_of_what_is_small_are_whole(void **state) { each_variant(check_tiled); }

// As PyTorch's autocast of a model whose weights have 16 bits, also those of the embedding and the
// norms.
static void mixed_precision_errs_like_autocast(void **state)
{
    // Gradients of adapters are few numbers: over 20 draws the ratio of the errors is 0.86 in the
    // median, and 1.3 at most.
    static const struct {
        const char *path, *variant;
        double most;
    } mixed[] = {{FILE_OF("llama"), "llama/", 1.2},     {FILE_OF("llama"), "qwen3/", 1.2},
                 {FILE_OF("lora"), "lora_llama/", 1.4}, {FILE_OF("lora"), "lora_gpt2/", 1.4},
                 {FILE_OF("dora"), "dora_llama/", 1.4}, {FILE_OF("dora"), "dora_gpt2/", 1.4}};
    static const struct {
        zero_dtype dtype;
        const char *kind;
    } kinds[] = {{ZERO_BF16, "bf16"}, {ZERO_F16, "fp16"}};
    for (const zr_backend *const *backend = zr_backends(); *backend; backend++)
        for (int k = 0; k < ZR_COUNT(kinds) * ZR_COUNT(mixed) && harness_offered(*backend); k++) {
            harness net;
            golden of;
            golden_open(&of, mixed[k / 2].path);
            of.prefix = mixed[k / 2].variant;
            network_of(&net, &of, *backend, kinds[k % 2].dtype);
            harness_forward(&net, true);
            harness_backward(&net, true);
            golden_assert_like_autocast(&of, &net, kinds[k % 2].kind, mixed[k / 2].most);
            harness_destroy(&net);
            golden_close(&of);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_and_gradients),
        cmocka_unit_test(decoded_logits),
        cmocka_unit_test(tiles_of_what_is_small_are_whole),
        cmocka_unit_test(mixed_precision_errs_like_autocast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
