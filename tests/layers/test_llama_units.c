// Llama's units beyond the golden values: finite differences with every feature switched on, tiled
// weights, sizes, contributions that add up, attention dropout, and the limits of decoding.
// GPT-NeoX's differences, too.
#include "layers/lm_units.h"
#include "layers_harness.h"
#include "model/llama_model.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

// Every optional tensor is there; heads of an odd half, shared.
static zr_lm_config everything(void)
{
    zr_lm_config config = {.kind = ZR_LM_LLAMA};
    zero_llama_config *c = &config.llama;
    zero_llama_defaults(c);
    c->vocab_size = 29;
    c->max_positions = 8;
    c->hidden_size = 12;
    c->intermediate_size = 20;
    c->n_layer = 2;
    c->n_head = 4;
    c->n_kv_head = 2;
    c->head_dim = 6;
    c->tied = 0;
    c->qkv_bias = c->output_bias = c->mlp_bias = c->qk_norm = 1;
    return config;
}

static double loss_of(void *user) { return harness_forward(user, true); }

static void check_differences(const zr_lm_config *config, const zr_backend *backend)
{
    harness net;
    harness_create_of(&net, config, backend, (zero_shape){.batch = 2, .seq = 7, .threads = 1});
    harness_forward(&net, true);
    harness_backward(&net, true);
    for (int u = 0; u < net.model->unit_count; u++)
        for (int p = 0; p < net.model->units[u].flat_param_count; p++)
            for (int t = 0; t < net.model->units[u].flat_params[p].tensor_count; t++) {
                float *gradient;
                int64_t elements;
                const char *name = net.model->units[u].flat_params[p].tensors[t].name;
                float *parameter = harness_tensor(&net, name, &gradient, &elements);
                // else it moves all scores of a query alike
                if (!strstr(name, "k_proj.bias") || config->llama.qk_norm)
                    harness_check_gradient(name, loss_of, &net, parameter, gradient, elements);
            }
    harness_destroy(&net);
}

static void gradients_are_differences(void **state)
{
    for (const zr_backend *const *backend = zr_backends(); *backend; backend++)
        for (int dropped = 0; dropped < 2 && harness_offered(*backend); dropped++) {
            zr_lm_config config = everything();
            config.llama.attention_dropout = dropped ? 0.3f : 0;
            check_differences(&config, *backend);
            config = harness_neox(dropped ? 0.3f : 0);
            check_differences(&config, *backend);
        }
}

// A second backward without forgetting gives twice the gradient.
static void contributions_add_up(void **state)
{
    for (const zr_backend *const *backend = zr_backends(); *backend; backend++) {
        harness net;
        const zr_lm_config config = everything();
        if (!harness_offered(*backend))
            continue;
        harness_create_of(&net, &config, *backend,
                          (zero_shape){.batch = 2, .seq = 7, .threads = 2});
        harness_forward(&net, true);
        harness_backward(&net, true);
        float *once = malloc(sizeof(float) * (size_t)net.parameter_count);
        memcpy(once, net.gradients, sizeof(float) * (size_t)net.parameter_count);
        harness_contribute(&net);
        harness_backward(&net, true);
        for (int u = 0; u < net.model->unit_count; u++)
            for (int p = 0; p < net.model->units[u].flat_param_count; p++)
                for (int t = 0; t < net.model->units[u].flat_params[p].tensor_count; t++)
                    for (int64_t i = 0, at = net.offset[u][p][t];
                         i <
                         zr_tensor_desc_elements(&net.model->units[u].flat_params[p].tensors[t]);
                         i++)
                        assert_true(fabsf(net.gradients[at + i] - 2 * once[at + i]) <=
                                    1e-5f * fabsf(once[at + i]) + 1e-6f);
        free(once);
        harness_destroy(&net);
    }
}

static void join(harness *net, const char *name, float *out)
{
    for (int u = 0; u < net->model->unit_count; u++)
        for (int p = 0; p < net->model->units[u].flat_param_count; p++)
            for (int t = 0; t < net->model->units[u].flat_params[p].tensor_count; t++) {
                const zero_tensor_desc *tensor = &net->model->units[u].flat_params[p].tensors[t];
                const char *whole = tensor->tile.whole ? tensor->tile.whole : tensor->name;
                if (strcmp(whole, name) == 0)
                    memcpy(out + tensor->tile.first * tensor->shape[1],
                           net->gradients + net->offset[u][p][t],
                           sizeof(float) * (size_t)zr_tensor_desc_elements(tensor));
            }
}

// Tiles hold rows of what the whole weights hold, and the same model comes of them.
static void copy_parameters(harness *tiled, harness *whole)
{
    for (int u = 0; u < tiled->model->unit_count; u++)
        for (int p = 0; p < tiled->model->units[u].flat_param_count; p++)
            for (int t = 0; t < tiled->model->units[u].flat_params[p].tensor_count; t++) {
                const zero_tensor_desc *tensor = &tiled->model->units[u].flat_params[p].tensors[t];
                float *unused;
                int64_t elements;
                const float *from =
                    harness_tensor(whole, tensor->tile.whole ? tensor->tile.whole : tensor->name,
                                   &unused, &elements);
                memcpy(tiled->parameters + tiled->offset[u][p][t],
                       from + (tensor->tile.whole ? tensor->tile.first * tensor->shape[1] : 0),
                       sizeof(float) * (size_t)zr_tensor_desc_elements(tensor));
            }
}

static void check_tiled(const zr_backend *backend, zero_dtype dtype, int tied)
{
    static const char *const names[] = {"model.embed_tokens.weight",
                                        "model.layers.1.self_attn.q_proj.weight",
                                        "model.layers.0.self_attn.o_proj.weight",
                                        "model.layers.0.mlp.up_proj.weight",
                                        "model.layers.1.mlp.down_proj.weight",
                                        "lm_head.weight"};
    static float joined[400 * 160];
    harness whole, tiled;
    zr_lm_config config = {.kind = ZR_LM_LLAMA};
    const zero_shape shape = {.batch = 2, .seq = 8, .threads = 2, .dtype = dtype};
    zero_llama_defaults(&config.llama);
    config.llama.vocab_size = 400;
    config.llama.max_positions = 8;
    config.llama.hidden_size = 160;
    config.llama.intermediate_size = 200;
    config.llama.n_layer = 2;
    config.llama.n_head = 10;
    config.llama.n_kv_head = 5;
    config.llama.tied = tied;
    harness_create_of(&whole, &config, backend, shape);
    zr_lm_set_tiles(&config, &(zr_tiles){4, 2, 3});
    harness_create_of(&tiled, &config, backend, shape);
    assert_true(tiled.model->units[1].flat_param_count > 10);
    copy_parameters(&tiled, &whole);
    double loss[] = {harness_forward(&whole, true), harness_forward(&tiled, true)},
           close = dtype == ZERO_F32 ? 1e-5 : 0.05;
    harness_backward(&whole, true);
    harness_backward(&tiled, true);
    assert_true(fabs(loss[0] / loss[1] - 1) < close / 10);
    for (int i = 0; i < ZR_COUNT(names) - tied; i++) {
        float *want;
        int64_t elements;
        harness_tensor(&whole, names[i], &want, &elements);
        join(&tiled, names[i], joined);
        double error = harness_error(joined, want, elements);
        if (!(error < close))
            fail_msg("%s in tiles on %s: relative error %.3g", names[i], backend->name, error);
    }
    harness_destroy(&whole);
    harness_destroy(&tiled);
}

static void a_tiled_model_is_the_same_model(void **state)
{
    for (const zr_backend *const *backend = zr_backends(); *backend; backend++)
        for (int k = 0; k < 4 && harness_offered(*backend); k++)
            check_tiled(*backend, k / 2 ? ZERO_BF16 : ZERO_F32, k % 2);
}

static int64_t multiplications(const zero_unit_sizes *sizes)
{
    int64_t sum = 0;
    for (int i = 0; i < sizes->product_count; i++)
        sum += sizes->products[i].m * sizes->products[i].n * sizes->products[i].k *
               sizes->products[i].calls;
    return sum;
}

static void sizes_are_what_the_formulas_say(void **state)
{
    zr_lm_config config;
    zero_model *model;
    zero_unit_sizes sizes;
    bool given;
    assert_int_equal(zr_lm_parse_spec("smollm2-135m", &config, &given, NULL), ZERO_OK);
    assert_int_equal(zr_lm_create(&config, &model, NULL), ZERO_OK);
    assert_int_equal(zr_model_parameters(model), 134515008);
    const int64_t rows = 1024, width = 576, inner = 1536, queries = 576, keys = 192;
    for (int mixed = 0; mixed < 2; mixed++) {
        const zero_shape shape = {
            .batch = 4, .seq = 256, .threads = 2, .dtype = mixed ? ZERO_BF16 : ZERO_F32};
        const zero_unit *block = &model->units[1];
        assert_int_equal(block->ops->sizes(block, &shape, NULL, &sizes), ZERO_OK);
        assert_int_equal(
            sizes.saved_bytes,
            rows * ((mixed ? 2 : 4) * (2 * queries + 2 * keys + 2 * inner) + 4 * (width + 9 + 2)));
        assert_int_equal(sizes.backward_reads, 1);
        assert_int_equal(multiplications(&sizes),
                         3 * rows * (2 * width * queries + 2 * width * keys + 3 * width * inner));
    }
    const zero_shape wrong = {.batch = 1, .seq = 8193};
    assert_int_equal(model->units[1].ops->sizes(&model->units[1], &wrong, NULL, &sizes),
                     ZERO_ERR_USAGE);
    zr_lm_free(model);
}

static void decoding_stops_at_the_window(void **state)
{
    harness net;
    zero_context context;
    zr_lm_config config = everything();
    float out[12] __attribute__((aligned(64)));
    const zr_decode_cache cache = {.sequences = 1, .capacity = 20};
    const zr_attention_run run = {.first = 3, .rows = 3};
    const int32_t tokens[] = {1, 2, 3};
    const zr_decode_step step = {.runs = &run, .run_count = 1, .rows = 3, .tokens = tokens};
    config.llama.sliding_window = 5;
    harness_create_of(&net, &config, zr_backends()[0],
                      (zero_shape){.batch = 1, .seq = 5, .threads = 1});
    harness_context(&net, 0, false, &context);
    assert_int_equal(zr_lm_decode(&context, &cache, &step, NULL, out), ZERO_ERR_USAGE);
    assert_non_null(strstr(net.error.message, "the model has 5 positions, the cache 20"));
    // of heads of keys alone
    assert_int_equal(zr_lm_decode_cache_bytes(net.model, 3, 20), 3 * 4 * 2 * 2 * 6 * 20);
    harness_destroy(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_differences),
        cmocka_unit_test(contributions_add_up),
        cmocka_unit_test(a_tiled_model_is_the_same_model),
        cmocka_unit_test(sizes_are_what_the_formulas_say),
        cmocka_unit_test(decoding_stops_at_the_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
