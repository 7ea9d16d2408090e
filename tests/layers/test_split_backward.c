// A block's backward in two parts has the bits of its backward in one call: on every backend, in
// every type, of GPT-2, Llama and GPT-NeoX, cut into slices, with frozen tensors. What it holds in
// between is no more than the gradients of the outputs of its products, and sums of gains.
#include "layers/linear.h"
#include "layers_harness.h"
#include "split_backward.h"
#include "../sanitizers.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { GPT2, GPT2_ERF, LLAMA, LLAMA_PLAIN, NEOX, CONFIGS };

static zr_lm_config config_of(int which, float dropout)
{
    static const zr_lm_kind gpt2[] = {ZR_LM_GPT2, ZR_LM_GPT2_ERF};
    zr_lm_config config = {.kind = which <= GPT2_ERF ? gpt2[which] : ZR_LM_LLAMA};
    if (which == NEOX)
        return harness_neox(dropout);
    if (which <= GPT2_ERF) {
        config.gpt2 = harness_tiny();
        config.gpt2.n_embd = 32;
        config.gpt2.n_head = 8;
        config.gpt2.resid_pdrop = config.gpt2.embd_pdrop = config.gpt2.attn_pdrop = dropout;
        return config;
    }
    zero_llama_config *c = &config.llama;
    zero_llama_defaults(c);
    c->vocab_size = 29;
    c->max_positions = 8;
    c->hidden_size = 32;
    c->intermediate_size = 48;
    c->n_layer = 2;
    c->n_head = 8;
    c->n_kv_head = 4;
    c->tied = which == LLAMA_PLAIN;
    c->attention_dropout = dropout;
    c->qkv_bias = c->output_bias = c->mlp_bias = c->qk_norm = which == LLAMA;
    return config;
}

static bool blocks_split(const harness *net)
{
    for (int u = 1; u < net->model->unit_count - 1; u++)
        if (!split_is_offered(net, u))
            return false;
    return !split_is_offered(net, 0) && !split_is_offered(net, net->model->unit_count - 1);
}

static void check(harness *net)
{
    harness_forward(net, true);
    split_check(net, NULL);
    harness_destroy(net);
}

// Calls `each` with every backend, type and number of threads.
static void for_all(void (*each)(const zr_backend *backend, zero_shape shape))
{
    static const zero_dtype dtypes[] = {ZERO_F32, ZERO_BF16, ZERO_F16};
    for (const zr_backend *const *backend = zr_backends(); *backend; backend++)
        for (int d = 0; d < ZR_COUNT(dtypes) && harness_offered(*backend); d++)
            for (int threads = 1; threads <= 2; threads++)
                each(*backend,
                     (zero_shape){.batch = 2, .seq = 7, .threads = threads, .dtype = dtypes[d]});
}

static void check_whole(const zr_backend *backend, zero_shape shape)
{
    for (int which = 0; which < CONFIGS; which++)
        for (int dropped = 0; dropped < 2; dropped++) {
            const zr_lm_config config = config_of(which, dropped ? 0.2f : 0);
            harness net;
            harness_create_of(&net, &config, backend, shape);
            assert_true(blocks_split(&net));
            check(&net);
        }
}

static void two_parts_have_the_bits_of_one(void **state) { for_all(check_whole); }

// Several tensor ranks are in test_slices.c.
static void check_slices(const zr_backend *backend, zero_shape shape)
{
    for (int which = 0; which < CONFIGS; which++)
        for (int count = 2; count <= 8; count *= 2) {
            const zr_lm_config config = config_of(which, count == 4 ? 0.2f : 0);
            const zr_lm_slices slices = {.count = count, .ranks = 1, .exact = true};
            harness net;
            harness_create_part(&net, &config, &slices, backend, shape);
            assert_true(blocks_split(&net));
            check(&net);
        }
}

static void slices_too(void **state) { for_all(check_slices); }

static bool has_part(const void *part, const char *name) { return strstr(name, part) != NULL; }
static bool lacks_part(const void *part, const char *name) { return strstr(name, part) == NULL; }

static void check_frozen(const zr_backend *backend, zero_shape shape)
{
    static const char *const parts[] = {
        "weight", "bias",   "attn",   "mlp",  "norm", "ln_",  "c_proj",          "c_attn",
        "q_proj", "k_proj", "o_proj", "gate", "up",   "down", "query_key_value", "dense"};
    for (int which = 0; which < CONFIGS; which++)
        for (int p = 0; p < ZR_COUNT(parts); p++)
            for (int others = 0; others < 2; others++) {
                const zr_lm_config config = config_of(which, 0.2f);
                const zr_lm_frozen frozen = {.is_frozen = others ? lacks_part : has_part,
                                             .user = parts[p]};
                harness net;
                harness_create_frozen(&net, &config, &frozen, backend, shape);
                check(&net);
            }
}

static void frozen_tensors_too(void **state)
{
    for (const zr_backend *const *backend = zr_backends(); *backend; backend++)
        for (int dtype = ZERO_F32; dtype <= (SANITIZED ? ZERO_F32 : ZERO_BF16); dtype++)
            if (harness_offered(*backend))
                check_frozen(
                    *backend,
                    (zero_shape){.batch = 2, .seq = 7, .threads = 1, .dtype = (zero_dtype)dtype});
}

static const zr_backend *ref(void)
{
    const zr_backend *backend = NULL;
    assert_int_equal(zr_backend_find("ref", NULL, &backend, NULL), ZERO_OK);
    return backend;
}

static size_t held_of(int which, zero_dtype dtype, const zr_lm_frozen *frozen)
{
    const zr_lm_config config = config_of(which, 0);
    harness net;
    harness_create_frozen(&net, &config, frozen, ref(),
                          (zero_shape){.batch = 2, .seq = 8, .threads = 1, .dtype = dtype});
    size_t bytes = net.sizes[1].held_bytes;
    assert_int_equal(net.sizes[0].held_bytes, 0);
    assert_int_equal(net.sizes[3].held_bytes, 0);
    assert_true((net.sizes[1].weight_reads != 0) == (bytes != 0));
    harness_destroy(&net);
    return bytes;
}

// Rows are 16, so that every matrix is a multiple of 64 bytes.
static void what_is_held_is_counted(void **state)
{
    enum { ROWS = 16, WIDTH = 32, INNER = 128, KEYS = 16, GATED = 48, DIM = 16 };
    const zr_lm_frozen all = {.is_frozen = has_part, .user = ""},
                       weights = {.is_frozen = has_part, .user = "weight"},
                       mlp = {.is_frozen = has_part, .user = "mlp"};
    size_t gpt2 = ROWS * (5 * WIDTH + INNER), norms = 4 * WIDTH * sizeof(float);
    assert_int_equal(held_of(GPT2, ZERO_F32, NULL), 4 * gpt2 + norms);
    assert_int_equal(held_of(GPT2, ZERO_BF16, NULL), 2 * gpt2 + norms);
    size_t llama = ROWS * (3 * WIDTH + 2 * KEYS + 2 * GATED);
    assert_int_equal(held_of(LLAMA_PLAIN, ZERO_BF16, NULL), 2 * llama + norms / 2);
    assert_int_equal(held_of(LLAMA, ZERO_BF16, NULL),
                     2 * llama + norms / 2 + 2 * DIM * sizeof(float));
    assert_int_equal(held_of(NEOX, ZERO_F32, NULL), 4 * ROWS * (5 * WIDTH + GATED) + norms);
    // Where nothing trains, nothing is held; a bias needs the same gradient as its weight.
    assert_int_equal(held_of(GPT2, ZERO_F32, &mlp), 4 * ROWS * 4 * WIDTH + norms);
    assert_int_equal(held_of(GPT2, ZERO_F32, &weights), 4 * gpt2 + norms / 2);
    for (int which = 0; which < CONFIGS; which++)
        assert_int_equal(held_of(which, ZERO_F32, &all), 0);
}

static void tiles_are_not_split(void **state)
{
    zr_lm_config config = config_of(GPT2, 0);
    zero_context context;
    harness net;
    config.gpt2.tiles_mlp = 2;
    config.gpt2.n_embd = 64;
    harness_create_of(&net, &config, ref(), (zero_shape){.batch = 2, .seq = 7, .threads = 1});
    assert_int_equal(net.sizes[1].held_bytes, 0);
    assert_int_equal(net.sizes[1].weight_reads, 0);
    harness_forward(&net, true);
    split_check(&net, NULL);
    harness_context(&net, 1, true, &context);
    const zero_unit_ops *ops = context.unit->ops;
    assert_int_equal(ops->backward_weight(&context, &net.boundary[1]), ZERO_ERR_INTERNAL);
    assert_non_null(strstr(net.error.message, "\"h.0\": its backward is in two parts"));
    harness_destroy(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_parts_have_the_bits_of_one), cmocka_unit_test(slices_too),
        cmocka_unit_test(frozen_tensors_too), cmocka_unit_test(what_is_held_is_counted),
        cmocka_unit_test(tiles_are_not_split)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
