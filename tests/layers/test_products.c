// The products that a unit's sizes list are those that its forward and backward compute: whole, in
// tiles, frozen in part, and cut into slices, some of which share heads of keys. Plans, predictions
// and the queue's scratch rely on the list.
#include "compute/compute.h"
#include "layers_harness.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

typedef struct products {
    zero_product_shape at[ZERO_MAX_PRODUCTS];
    int count;
} products;

static bool is_same_shape(const zero_product_shape *a, const zero_product_shape *b)
{
    return a->m == b->m && a->n == b->n && a->k == b->k && a->trans_a == b->trans_a &&
           a->trans_b == b->trans_b;
}

static void add_calls(products *to, const zero_product_shape *shape)
{
    int i = 0;
    while (i < to->count && !is_same_shape(&to->at[i], shape))
        i++;
    if (i == to->count) {
        assert_true(i < ZERO_MAX_PRODUCTS);
        to->at[to->count++] = *shape;
    } else {
        to->at[i].calls += shape->calls;
    }
}

static void note_product(void *user, zr_queue *queue, const zr_op *op)
{
    if (op->kind == ZR_OP_product) {
        const zr_product *p = &op->shape.product;
        const zero_product_shape shape = {.m = p->m,
                                          .n = p->n,
                                          .k = p->k,
                                          .trans_a = p->trans_a,
                                          .trans_b = p->trans_b,
                                          .calls = 1};
        add_calls(user, &shape);
    }
    queue->backend->run(queue, op);
}

static void compare(const char *what, int unit, const zero_unit_sizes *sizes, const products *ran)
{
    products listed = {.count = 0};
    for (int i = 0; i < sizes->product_count; i++)
        add_calls(&listed, &sizes->products[i]);
    for (int i = 0; i < listed.count; i++) {
        const zero_product_shape *of = &listed.at[i];
        int calls = 0;
        for (int k = 0; k < ran->count; k++)
            calls += is_same_shape(of, &ran->at[k]) ? ran->at[k].calls : 0;
        if (calls != of->calls)
            fail_msg("%s, unit %d: %lld x %lld x %lld is listed %d times and computed %d times",
                     what, unit, (long long)of->m, (long long)of->n, (long long)of->k, of->calls,
                     calls);
    }
    assert_int_equal(ran->count, listed.count);
}

// Runs a training step unit by unit: forward where there is one beside backward, then backward.
static void check(const char *what, harness *net)
{
    products ran[HARNESS_MAX_UNITS] = {0};
    zero_tensors d_out = {0}, d_in = {0};
    zero_context context;
    int last = net->model->unit_count - 1;
    for (int i = 0; i <= 2 * last; i++) {
        int u = i < last ? i : 2 * last - i;
        const zero_unit_ops *ops = net->model->units[u].ops;
        zr_wrapper *wrapper;
        assert_int_equal(zr_queue_wrap(net->queue, note_product, &ran[u], &wrapper, NULL), ZERO_OK);
        harness_context(net, u, true, &context);
        d_in = net->boundary[u];
        if (u > 0)
            d_in.at[0].data = net->d_in.data;
        if (i < last)
            assert_int_equal(ops->forward(&context, &net->boundary[u], &net->boundary[u + 1]),
                             ZERO_OK);
        else if (u == last)
            assert_int_equal(ops->forward_backward(&context, &net->boundary[u], &d_in), ZERO_OK);
        else
            assert_int_equal(ops->backward(&context, &net->boundary[u], &d_out, &d_in), ZERO_OK);
        zr_queue_unwrap(net->queue, wrapper);
        if (i < last)
            continue;
        d_out = d_in;
        harness_buffer swap = net->d_out;
        net->d_out = net->d_in;
        net->d_in = swap;
        compare(what, u, &net->sizes[u], &ran[u]);
    }
    harness_destroy(net);
}

// Adds adapters to all linears, or to some.
static void adapt_as(zr_lm_config *config, const char *text)
{
    assert_int_equal(zr_lora_parse(text, "adapters", config, &config->lora, NULL), ZERO_OK);
}

static void adapt(zr_lm_config *config, bool some)
{
    const char *names = config->kind == ZR_LM_GPT2 ? "r=4,targets=c_attn" : "r=4,targets=k_proj";
    adapt_as(config, some ? names : "r=4");
}

static zr_lm_config config_of(bool gpt2)
{
    zr_lm_config config = {.kind = gpt2 ? ZR_LM_GPT2 : ZR_LM_LLAMA};
    if (gpt2) {
        config.gpt2 = harness_tiny();
        config.gpt2.n_embd = 160;
        config.gpt2.n_head = 8;
        config.gpt2.vocab_size = 150;
        return config;
    }
    zero_llama_config *c = &config.llama;
    zero_llama_defaults(c);
    c->vocab_size = 150;
    c->max_positions = 8;
    c->hidden_size = 160;
    c->intermediate_size = 192;
    c->n_layer = 2;
    c->n_head = 8;
    c->n_kv_head = 2;
    c->tied = 0;
    c->qkv_bias = c->qk_norm = 1;
    return config;
}

static const zero_shape shape = {.batch = 2, .seq = 7, .threads = 1};

static bool is_frozen(const void *pattern, const char *name)
{
    return strstr(name, pattern) != NULL;
}

static void whole_tiled_and_frozen(void **state)
{
    static const char *const patterns[] = {"", "weight", "proj", "fc", "wte", "lm_head", "k_proj"};
    for (int which = 0; which < 4; which++)
        for (int i = 0; i < ZR_COUNT(patterns); i++) {
            zr_lm_config config = config_of(which % 2);
            const zr_lm_frozen frozen = {is_frozen, patterns[i]};
            harness net;
            if (which >= 2)
                zr_lm_set_tiles(&config, &(zr_tiles){2, 2, 3});
            harness_create_frozen(&net, &config, i ? &frozen : NULL, zr_backends()[0], shape);
            check(i ? patterns[i] : which >= 2 ? "tiled" : "whole", &net);
        }
}

static void adapted(void **state)
{
    for (int which = 0; which < 8; which++) {
        zr_lm_config config = config_of(which % 2);
        harness net;
        adapt(&config, which & 2);
        if (which & 4)
            zr_lm_set_tiles(&config, &(zr_tiles){2, 2, 3});
        harness_create_of(&net, &config, zr_backends()[0], shape);
        check("adapted", &net);
    }
}

static void with_magnitudes(void **state)
{
    for (int which = 0; which < 4; which++) {
        zr_lm_config config = config_of(which % 2);
        const char *text = which & 2 ? "r=4,dora,dropout=0.2" : "r=4,dora";
        harness net;
        adapt_as(&config, text);
        harness_create_of(&net, &config, zr_backends()[0], shape);
        check(text, &net);
    }
}

static zero_status exchange_nothing(const struct zr_exchanger *self, const zero_context *context,
                                    zero_exchange_kind kind, int replicas, int64_t offset,
                                    int64_t elements, zero_dtype dtype)
{
    return ZERO_OK;
}

// Of more slices than heads of keys, the first of those that share one, on whichever rank, computes
// the gradient of what they read. Here nothing is exchanged, so that values mean nothing.
static void cut(void **state)
{
    static const char *const texts[] = {NULL, "r=4", "r=4,dora", "r=4,dora,dropout=0.2"};
    for (int which = 0; which < 2 * ZR_COUNT(texts); which++)
        for (int count = 2; count <= 8; count *= 2)
            for (int ranks = 1; ranks <= count; ranks *= 2)
                for (int rank = 0; rank < ranks; rank++) {
                    zr_lm_config config = config_of(which % 2);
                    adapt_as(&config, texts[which / 2]);
                    const zr_lm_slices slices = {.count = count, .ranks = ranks, .rank = rank};
                    static float window[1 << 16];
                    const struct zr_exchanger exchanger = {.rank = rank,
                                                           .size = ranks,
                                                           .window = (char *)window,
                                                           .bytes = sizeof window,
                                                           .run = exchange_nothing};
                    char what[40];
                    harness net;
                    harness_create_part(&net, &config, &slices, zr_backends()[0], shape);
                    net.exchanger = ranks > 1 ? &exchanger : NULL;
                    snprintf(what, sizeof what, "%d slices, rank %d of %d", count, rank, ranks);
                    check(what, &net);
                }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_tiled_and_frozen),
        cmocka_unit_test(adapted),
        cmocka_unit_test(with_magnitudes),
        cmocka_unit_test(cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
