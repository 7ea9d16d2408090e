// Models that are trained on preferences: their losses are those of their rows' losses, which a
// model without a preference computes alike; their gradients are the slopes; and tiles and chunks
// change neither. test_slices.c has the head that is cut.
#include "layers/preference.h"
#include "layers_harness.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char *const texts[] = {"dpo,beta=0.5", "orpo,beta=0.5", "simpo,gamma=0.5",
                                    "kto,beta=0.5,undesirable=1.5"};

static zr_lm_config config_of(const char *text, int tiles)
{
    zr_lm_config config = {.kind = ZR_LM_GPT2, .documents = true, .gpt2 = harness_tiny()};
    config.gpt2.n_embd = 64;
    config.gpt2.vocab_size = 131;
    config.gpt2.tiles_embedding = tiles;
    assert_int_equal(zr_preference_parse(text, "", &config.preference, NULL), ZERO_OK);
    return config;
}

static double loss_of_rows(const harness *net, const zr_preference *preference)
{
    const zr_preference_rows rows = {.rows = net->shape.batch * net->shape.seq,
                                     .positions = net->positions,
                                     .roles = net->roles,
                                     .reference = net->reference,
                                     .row_loss = net->losses};
    zr_preference_sums sums;
    assert_int_equal(zr_preference_compute(preference, &rows, NULL, &sums, NULL), ZERO_OK);
    return sums.loss / (double)sums.pairs;
}

// The loss of the only row that has a target, by a model without a preference.
static double loss_of_row(harness *plain, const harness *net, int64_t row)
{
    for (int64_t i = 0; i < net->shape.batch * net->shape.seq; i++)
        plain->targets[i] = i == row ? net->targets[i] : -100;
    memcpy(plain->positions, net->positions,
           sizeof *net->positions * (size_t)(net->shape.batch * net->shape.seq));
    return harness_forward(plain, false);
}

static void losses_are_those_of_the_rows(void **state)
{
    const zero_shape shape = {.batch = 2, .seq = 8};
    for (const zr_backend *const *backend = zr_backends(); *backend; backend++)
        for (int t = 0; t < ZR_COUNT(texts) && harness_offered(*backend); t++) {
            harness net, plain;
            zr_lm_config config = config_of(texts[t], 0), without = config;
            without.preference = (zr_preference){0};
            harness_create_of(&net, &config, *backend, shape);
            harness_create_of(&plain, &without, *backend, shape);
            double loss = harness_forward(&net, false);
            assert_true(loss == harness_forward(&net, true));
            assert_true(loss == loss_of_rows(&net, &config.preference));
            for (int64_t row = 0; row < shape.batch * shape.seq; row++)
                assert_true(net.losses[row] == (float)loss_of_row(&plain, &net, row));
            harness_destroy(&plain);
            harness_destroy(&net);
        }
}

static double forward_of(void *net) { return harness_forward(net, false); }

// The baseline of KTO, a constant, is 0 here: the mismatched completions are unlikely.
static void check_slopes(const zr_backend *backend, const zr_lm_config *config, zero_shape shape,
                         int count)
{
    static const char *const names[] = {"wte.weight", "ln_f.weight", "h.0.attn.c_attn.weight"};
    harness net;
    float *gradient, *x;
    int64_t elements;
    harness_create_of(&net, config, backend, shape);
    for (int64_t i = 0; i < shape.batch * shape.seq; i++)
        if (net.roles[i] == ZERO_ROLE_mismatched)
            net.reference[i] = 0;
    harness_forward(&net, true);
    harness_backward(&net, true);
    for (int i = 0; i < count; i++) {
        x = harness_tensor(&net, names[i], &gradient, &elements);
        harness_check_gradient(names[i], forward_of, &net, x, gradient, elements);
    }
    harness_destroy(&net);
}

static void gradients_are_the_slopes(void **state)
{
    for (const zr_backend *const *backend = zr_backends(); *backend; backend++)
        for (int t = 0; t < ZR_COUNT(texts) && harness_offered(*backend); t++) {
            zr_lm_config config = config_of(texts[t], 0);
            check_slopes(*backend, &config, (zero_shape){.batch = 2, .seq = 8}, 3);
        }
}

// A vocabulary so large that the head has two chunks, which it computes twice.
static void the_head_in_chunks(void **state)
{
    const zero_shape shape = {.batch = 8, .seq = 16};
    zr_lm_config config = config_of("orpo", 0);
    harness net;
    config.gpt2.vocab_size = 131072;
    config.gpt2.n_embd = 16;
    config.gpt2.n_positions = 16;
    config.gpt2.n_layer = 1;
    harness_create_of(&net, &config, zr_backends()[0], shape);
    assert_int_equal(net.sizes[2].products[0].m, 64);
    assert_int_equal(net.sizes[2].products[0].calls, 4); // two chunks, twice
    double loss = harness_forward(&net, true);
    assert_true(loss == loss_of_rows(&net, &config.preference));
    harness_destroy(&net);
    check_slopes(zr_backends()[0], &config, shape, 1);
}

// Copies the token table into the tiles of another model.
static void copy_table(harness *whole, harness *tiled)
{
    float *unused;
    int64_t elements, of_whole;
    const float *from = harness_tensor(whole, "wte.weight", &unused, &of_whole);
    const zero_unit *unit = &tiled->model->units[0];
    for (int p = 0; p < unit->flat_param_count; p++) {
        const zero_tensor_desc *tensor = &unit->flat_params[p].tensors[0];
        if (!tensor->tile.whole)
            continue;
        float *to = harness_tensor(tiled, tensor->name, &unused, &elements);
        memcpy(to, from + tensor->tile.first * tensor->shape[1], sizeof *to * (size_t)elements);
    }
}

static void a_tiled_head_is_the_same(void **state)
{
    static const zero_dtype dtypes[] = {ZERO_F32, ZERO_BF16};
    for (const zr_backend *const *backend = zr_backends(); *backend; backend++)
        for (int t = 0; t < 2 * ZR_COUNT(texts) && harness_offered(*backend); t++) {
            const zero_shape shape = {.batch = 2, .seq = 8, .dtype = dtypes[t % 2]};
            zr_lm_config whole = config_of(texts[t / 2], 0), cut = config_of(texts[t / 2], 2);
            harness a, b;
            float *want, *got;
            int64_t elements;
            harness_create_of(&a, &whole, *backend, shape);
            harness_create_of(&b, &cut, *backend, shape);
            copy_table(&a, &b);
            double tolerance = shape.dtype == ZERO_F32 ? 1e-5 : 2e-2;
            double loss = harness_forward(&a, true);
            assert_true(fabs(harness_forward(&b, true) - loss) <= tolerance * fabs(loss));
            harness_backward(&a, true);
            harness_backward(&b, true);
            harness_tensor(&a, "h.0.attn.c_attn.weight", &want, &elements);
            harness_tensor(&b, "h.0.attn.c_attn.weight", &got, &elements);
            assert_true(harness_error(got, want, elements) < tolerance);
            harness_destroy(&a);
            harness_destroy(&b);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_are_those_of_the_rows),
        cmocka_unit_test(gradients_are_the_slopes),
        cmocka_unit_test(the_head_in_chunks),
        cmocka_unit_test(a_tiled_head_is_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
