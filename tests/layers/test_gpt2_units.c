// What the engine relies on: sizes, contributions that add up, evaluation without dropout, the loss
// in chunks, and refusals.
#include "layers_harness.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const zr_backend *ref(void)
{
    const zr_backend *const *backend = zr_backends();
    while (*backend && strcmp((*backend)->name, "ref") != 0)
        backend++;
    assert_non_null(*backend);
    return *backend;
}

static void create(harness *net, float dropout)
{
    zero_gpt2_config config = harness_tiny();
    config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = dropout;
    harness_create(net, &config, ref(), (zero_shape){.batch = 2, .seq = 7});
}

static void contributions_add_up(void **state)
{
    harness net;
    create(&net, 0);
    harness_forward(&net, true);
    harness_backward(&net, true);
    size_t bytes = sizeof(float) * (size_t)net.parameter_count;
    float *once = malloc(bytes);
    assert_non_null(once);
    memcpy(once, net.gradients, bytes);
    harness_contribute(&net);
    harness_backward(&net, true);
    for (int u = 0; u < net.model->unit_count; u++)
        for (int p = 0; p < net.model->units[u].flat_param_count; p++)
            for (int t = 0; t < net.model->units[u].flat_params[p].tensor_count; t++) {
                int64_t first = net.offset[u][p][t],
                        elements =
                            zr_tensor_desc_elements(&net.model->units[u].flat_params[p].tensors[t]);
                for (int64_t i = 0; i < elements; i++)
                    once[first + i] *= 2;
                assert_true(harness_error(net.gradients + first, once + first, elements) < 1e-6);
            }
    free(once);
    harness_destroy(&net);
}

static void the_factor_scales_gradients_not_the_loss(void **state)
{
    harness net;
    float *gradient, one[16 * 48];
    int64_t elements;
    create(&net, 0);
    double loss = harness_forward(&net, true);
    harness_backward(&net, true);
    harness_tensor(&net, "h.0.attn.c_attn.weight", &gradient, &elements);
    memcpy(one, gradient, sizeof(one));
    harness_forget(&net);
    net.loss_factor = 0.25f;
    harness_forward(&net, true);
    harness_backward(&net, true);
    assert_true(net.loss == loss);
    for (int i = 0; i < ZR_COUNT(one); i++)
        one[i] *= 0.25f;
    assert_true(harness_error(gradient, one, elements) < 1e-6);
    harness_destroy(&net);
}

static void dropout_is_for_training_only(void **state)
{
    harness net, plain;
    create(&net, 0.3f);
    create(&plain, 0);
    double without = harness_forward(&plain, true), with = harness_forward(&net, true);
    assert_true(harness_forward(&net, false) == harness_forward(&plain, false));
    assert_true(harness_forward(&plain, false) == without);
    assert_true(with != without);
    assert_true(harness_forward(&net, true) == with); // the same context, the same masks
    net.step++;
    assert_true(harness_forward(&net, true) != with);
    harness_destroy(&net);
    harness_destroy(&plain);
}

static void each_dropout_has_a_mask_of_its_own(void **state)
{
    for (int which = 0; which < 3; which++) {
        harness net, plain;
        zero_gpt2_config config = harness_tiny();
        harness_create(&plain, &config, ref(), (zero_shape){.batch = 2, .seq = 7});
        *(float *[]){&config.resid_pdrop, &config.embd_pdrop, &config.attn_pdrop}[which] = 0.5f;
        harness_create(&net, &config, ref(), (zero_shape){.batch = 2, .seq = 7});
        assert_true(harness_forward(&net, true) != harness_forward(&plain, true));
        harness_destroy(&net);
        harness_destroy(&plain);
    }
}

static void holes_everywhere_give_nothing(void **state)
{
    harness net;
    float *gradient;
    int64_t elements;
    create(&net, 0);
    for (int i = 0; i < 14; i++)
        net.targets[i] = -100;
    assert_true(harness_forward(&net, true) == 0);
    harness_backward(&net, true);
    harness_tensor(&net, "wte.weight", &gradient, &elements);
    for (int64_t i = 0; i < elements; i++)
        assert_true(gradient[i] == 0);
    harness_destroy(&net);
}

// ---- the loss in chunks, against sums over the full logits in double

enum { VOCAB = 50257, CHUNKED_ROWS = 200, CHUNKED_WIDTH = 4 };

typedef struct whole { // of one row at a time
    double loss;
    double d_wte[VOCAB * CHUNKED_WIDTH], d_x[CHUNKED_ROWS * CHUNKED_WIDTH];
} whole;

static void whole_row(whole *w, const float *x, const float *wte, int target, double factor,
                      double *d_x)
{
    static double probability[VOCAB];
    double sum = 0;
    for (int id = 0; id < VOCAB; id++) {
        double logit = 0;
        for (int c = 0; c < CHUNKED_WIDTH; c++)
            logit += (double)x[c] * wte[id * CHUNKED_WIDTH + c];
        sum += probability[id] = exp(logit);
    }
    w->loss -= log(probability[target] / sum) * factor;
    for (int id = 0; id < VOCAB; id++) {
        double d = (probability[id] / sum - (id == target)) * factor;
        for (int c = 0; c < CHUNKED_WIDTH; c++) {
            w->d_wte[id * CHUNKED_WIDTH + c] += d * x[c];
            d_x[c] += d * wte[id * CHUNKED_WIDTH + c];
        }
    }
}

static void row_norm(const float *x, float *y) // gain 1, bias 0
{
    double mean = 0, variance = 0;
    for (int c = 0; c < CHUNKED_WIDTH; c++)
        mean += x[c] / (double)CHUNKED_WIDTH;
    for (int c = 0; c < CHUNKED_WIDTH; c++)
        variance += (x[c] - mean) * (x[c] - mean) / CHUNKED_WIDTH;
    for (int c = 0; c < CHUNKED_WIDTH; c++)
        y[c] = (float)((x[c] - mean) / sqrt(variance + 1e-5));
}

static void the_loss_in_chunks_is_the_loss(void **state)
{
    static whole w;
    static float d_wte[VOCAB * CHUNKED_WIDTH];
    zero_gpt2_config config = harness_tiny();
    harness net;
    config.vocab_size = VOCAB;
    config.n_positions = CHUNKED_ROWS;
    config.n_embd = CHUNKED_WIDTH;
    config.n_layer = 1;
    harness_create(&net, &config, ref(), (zero_shape){.batch = 1, .seq = CHUNKED_ROWS});
    const zero_unit_sizes *sizes = &net.sizes[2];
    assert_int_equal(sizes->product_count, 6); // chunks, and a last one with fewer rows
    assert_int_equal(sizes->products[0].m * sizes->products[0].calls + sizes->products[3].m,
                     CHUNKED_ROWS);
    assert_true(sizes->products[0].calls >= 1 && sizes->products[0].m >= 64 &&
                sizes->products[3].m < sizes->products[0].m);

    float *gradient, *d_gain, *wte, *gain, *bias;
    int64_t elements, width;
    wte = harness_tensor(&net, "wte.weight", &gradient, &elements);
    bias = harness_tensor(&net, "ln_f.bias", &d_gain, &width);
    gain = harness_tensor(&net, "ln_f.weight", &d_gain, &width);
    for (int c = 0; c < CHUNKED_WIDTH; c++) {
        gain[c] = 1;
        bias[c] = 0;
    }
    double loss = harness_forward(&net, true);
    zero_context context;
    zero_tensors d_in = net.boundary[2];
    d_in.at[0].data = net.d_in.data;
    harness_context(&net, 2, true, &context);
    assert_int_equal(context.unit->ops->forward_backward(&context, &net.boundary[2], &d_in),
                     ZERO_OK);
    assert_true(net.loss == loss);
    const float *stream = net.boundary[2].at[0].data;
    double gain_gradient[CHUNKED_WIDTH] = {0};
    for (int row = 0; row < CHUNKED_ROWS; row++) {
        float x[CHUNKED_WIDTH];
        row_norm(stream + row * CHUNKED_WIDTH, x);
        whole_row(&w, x, wte, net.targets[row], 1.0 / CHUNKED_ROWS, w.d_x + row * CHUNKED_WIDTH);
        for (int c = 0; c < CHUNKED_WIDTH; c++)
            gain_gradient[c] += w.d_x[row * CHUNKED_WIDTH + c] * x[c];
    }
    assert_true(fabs(loss / w.loss - 1) < 1e-6);
    for (int64_t i = 0; i < elements; i++)
        d_wte[i] = (float)w.d_wte[i];
    assert_true(harness_error(gradient, d_wte, elements) < 1e-5);
    for (int c = 0; c < CHUNKED_WIDTH; c++)
        assert_true(fabs(d_gain[c] - gain_gradient[c]) < 1e-5 * fabs(gain_gradient[c]) + 1e-6);
    harness_destroy(&net);
}

// ---- sizes and refusals

static void sizes_are_what_the_formulas_say(void **state)
{
    zr_lm_config config = {.kind = ZR_LM_GPT2};
    zero_model *model;
    zero_unit_sizes sizes;
    zero_gpt2_defaults(&config.gpt2);
    assert_int_equal(zr_lm_create(&config, &model, NULL), ZERO_OK);
    const zero_shape shape = {.batch = 4, .seq = 256, .threads = 2};
    const int64_t rows = 1024, width = 768, heads = 12;
    const zero_unit *block = &model->units[1], *head = &model->units[13];
    assert_int_equal(block->ops->sizes(block, &shape, NULL, &sizes), ZERO_OK);
    assert_int_equal(sizes.saved_bytes, 4 * rows * (9 * width + heads + 4));
    assert_int_equal(sizes.backward_reads, 1);
    int64_t multiplications = 0;
    for (int i = 0; i < sizes.product_count; i++)
        multiplications += sizes.products[i].m * sizes.products[i].n * sizes.products[i].k *
                           sizes.products[i].calls;
    assert_int_equal(multiplications, 3 * rows * 12 * width * width);
    assert_int_equal(sizes.out.count, 1);
    assert_int_equal(sizes.out.at[0].shape[2], width);

    assert_int_equal(head->ops->sizes(head, &shape, NULL, &sizes), ZERO_OK);
    multiplications = 0;
    for (int i = 0; i < sizes.product_count; i++)
        multiplications += sizes.products[i].m * sizes.products[i].n * sizes.products[i].k *
                           sizes.products[i].calls;
    assert_int_equal(multiplications, 3 * rows * width * 50257);
    assert_int_equal(sizes.saved_bytes, 0);
    assert_int_equal(sizes.backward_reads, 3);
    assert_int_equal(sizes.out.count, 0);
    assert_true(sizes.workspace_bytes < 4 * rows * 50257 / 4); // far from the full logits

    assert_int_equal(model->units[0].ops->sizes(&model->units[0], &shape, NULL, &sizes), ZERO_OK);
    assert_int_equal(sizes.backward_reads, 0);
    const zero_shape wrong[] = {
        {.batch = 1, .seq = 1025}, {.batch = 0, .seq = 8}, {.batch = 1, .seq = 0}};
    for (int u = 0; u < model->unit_count; u += 13)
        for (int i = 0; i < ZR_COUNT(wrong); i++)
            assert_int_equal(model->units[u].ops->sizes(&model->units[u], &wrong[i], NULL, &sizes),
                             ZERO_ERR_USAGE);
    assert_int_equal(block->ops->sizes(block, &wrong[0], NULL, &sizes), ZERO_ERR_USAGE);
    zr_lm_free(model);
}

static void expect(harness *net, int unit, zero_status status, const char *message)
{
    zero_context context;
    harness_context(net, unit, true, &context);
    assert_int_equal(
        context.unit->ops->forward(&context, &net->boundary[unit], &net->boundary[unit + 1]),
        status);
    if (!strstr(net->error.message, message))
        fail_msg("\"%s\" does not say \"%s\"", net->error.message, message);
}

static void bad_batches_are_refused(void **state)
{
    harness net;
    create(&net, 0);
    harness_forward(&net, true);
    net.tokens[9] = 29;
    expect(&net, 0, ZERO_ERR_DATA, "token 29 at sample 1, position 2: ids must be 0 to 28");
    net.tokens[9] = -1;
    expect(&net, 0, ZERO_ERR_DATA, "token -1");
    net.tokens[9] = 0;
    net.targets[0] = 29;
    expect(&net, 3, ZERO_ERR_DATA, "target 29 at sample 0, position 0");
    net.targets[0] = -1; // not counted
    net.batch.at[1].dtype = ZERO_I64;
    expect(&net, 3, ZERO_ERR_USAGE, "tensor 1 of the micro-batch is not (2, 7) int32");
    net.batch.at[1].dtype = ZERO_I32;
    net.batch.at[0].shape[1] = 6;
    expect(&net, 0, ZERO_ERR_USAGE, "tensor 0 of the micro-batch is not (2, 7) int32");
    net.batch.at[0].shape[1] = 7;
    net.batch.count = 1;
    expect(&net, 3, ZERO_ERR_USAGE, "has no tensor 1");
    net.batch.count = 2;
    net.shape.seq = 9;
    expect(&net, 0, ZERO_ERR_USAGE, "9 tokens a sequence, but the model has 8 positions");
    net.shape.seq = 7;
    net.queue->threads = 2;
    expect(&net, 1, ZERO_ERR_INTERNAL, "sized for 1 threads (zero_shape.threads), the queue has 2");
    expect(&net, 3, ZERO_ERR_INTERNAL, "sized for 1 threads");
    net.queue->threads = 1;
    harness_destroy(&net);
}

// A step of one token at position `at` of the only sequence.
static zero_status decode_one(zero_context *context, const zr_decode_cache *cache, int64_t at,
                              int32_t token, float *out)
{
    const zr_attention_run run = {.first = at, .rows = 1};
    const zr_decode_step step = {.runs = &run, .run_count = 1, .rows = 1, .tokens = &token};
    return zr_lm_decode(context, cache, &step, NULL, out);
}

static void decoding_stops_at_the_end(void **state)
{
    harness net;
    zero_context context;
    float out[16] __attribute__((aligned(64)));
    zr_decode_cache cache = {.sequences = 1, .capacity = 20};
    create(&net, 0);
    harness_context(&net, 0, false, &context);
    assert_int_equal(decode_one(&context, &cache, 8, 1, out), ZERO_ERR_USAGE);
    assert_non_null(
        strstr(net.error.message, "generating token 8: the model has 8 positions, the cache 20"));
    cache.capacity = 3;
    assert_int_equal(decode_one(&context, &cache, 3, 1, out), ZERO_ERR_USAGE);
    assert_int_equal(decode_one(&context, &cache, 2, 29, out), ZERO_ERR_DATA);
    assert_int_equal(decode_one(&context, &cache, 2, -1, out), ZERO_ERR_DATA);
    assert_int_equal(decode_one(&context, &cache, 2, 28, out), ZERO_OK);
    harness_context(&net, 3, false, &context);
    assert_int_equal(decode_one(&context, &cache, 2, 28, NULL), ZERO_OK); // no logits wanted
    harness_destroy(&net);
}

// What is planned for a step is enough for every smaller one.
static void steps_are_sized(void **state)
{
    harness net;
    create(&net, 0);
    for (int u = 0; u < net.model->unit_count; u++) {
        size_t last = 0;
        for (int64_t rows = 1; rows <= 8; rows++) {
            const zr_decode_limits limits = {
                .dtype = ZERO_F32, .threads = 1, .rows = rows, .wanted = rows, .capacity = 8};
            zero_unit_sizes sizes;
            assert_int_equal(zr_lm_decode_sizes(&net.model->units[u], &limits, &sizes), ZERO_OK);
            assert_true(sizes.workspace_bytes >= last);
            assert_int_equal(sizes.product_count, u == 0 ? 0 : u == 3 ? 1 : 4);
            assert_true(u == 0 || sizes.products[0].m == rows);
            assert_int_equal(sizes.saved_bytes, 0);
            last = sizes.workspace_bytes;
        }
    }
    harness_destroy(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contributions_add_up),
        cmocka_unit_test(the_factor_scales_gradients_not_the_loss),
        cmocka_unit_test(dropout_is_for_training_only),
        cmocka_unit_test(each_dropout_has_a_mask_of_its_own),
        cmocka_unit_test(holes_everywhere_give_nothing),
        cmocka_unit_test(the_loss_in_chunks_is_the_loss),
        cmocka_unit_test(sizes_are_what_the_formulas_say),
        cmocka_unit_test(bad_batches_are_refused),
        cmocka_unit_test(decoding_stops_at_the_end),
        cmocka_unit_test(steps_are_sized),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
