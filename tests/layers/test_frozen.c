// Each tensor of GPT-2 and Llama is frozen in turn, whole and tiled, on every backend: nothing is
// computed for it, its gradient is never requested, and everything else has the same bits as
// otherwise. The same with all tensors but one of each kind frozen, and with all.
#include "golden.h"
#include "layers_harness.h"
#include "base/dtype.h"
#include "compute/compute.h"
#include "layers/lm_units.h"
#include "model/llama_model.h"
#include "../sanitizers.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

// ---- what a queue computes ----

typedef struct counts {
    int products, column_sums, embeddings; // embeddings: backwards of one
} counts;

static struct {
    counts made;
    zr_wrapper *wrapper;
} twin;

static void count_operation(void *user, zr_queue *queue, const zr_op *op)
{
    counts *made = user;
    if (op->kind == ZR_OP_product) {
        made->products++;
        assert_non_null(op->at.product.d);
    } else if (op->kind == ZR_OP_column_sum) {
        made->column_sums++;
        assert_non_null(op->at.column_sum.out);
    } else if (op->kind == ZR_OP_embedding_backward) {
        made->embeddings++;
        assert_true(op->at.embedding_backward.d_tokens || op->at.embedding_backward.d_positions);
    }
    queue->backend->run(queue, op);
}

static void twin_begin(zr_queue *queue)
{
    twin.made = (counts){0};
    assert_int_equal(zr_queue_wrap(queue, count_operation, &twin.made, &twin.wrapper, NULL),
                     ZERO_OK);
}

static counts twin_end(zr_queue *queue)
{
    zr_queue_unwrap(queue, twin.wrapper);
    return twin.made;
}

// ---- models ----

enum { GPT2, GPT2_TILED, LLAMA, LLAMA_TIED, LLAMA_TILED, LLAMA_TILED_TIED, CONFIGS };

static bool is_tiled(int which)
{
    return which == GPT2_TILED || which == LLAMA_TILED || which == LLAMA_TILED_TIED;
}

static zr_lm_config gpt2_of(bool tiled)
{
    zr_lm_config config = {.kind = ZR_LM_GPT2, .gpt2 = harness_tiny()};
    config.gpt2.resid_pdrop = config.gpt2.embd_pdrop = config.gpt2.attn_pdrop = 0.1f;
    if (tiled) {
        config.gpt2.n_layer = 1;
        config.gpt2.n_embd = 80;
        config.gpt2.n_inner = 144;
        config.gpt2.vocab_size = 100;
    }
    return config;
}

static zr_lm_config llama_of(bool tiled, int tied)
{
    zr_lm_config config = {.kind = ZR_LM_LLAMA};
    zero_llama_config *c = &config.llama;
    zero_llama_defaults(c);
    c->vocab_size = tiled ? 100 : 29;
    c->max_positions = 8;
    c->hidden_size = tiled ? 80 : 12;
    c->intermediate_size = tiled ? 144 : 20;
    c->n_layer = tiled ? 1 : 2;
    c->n_head = 4;
    c->n_kv_head = tiled ? 4 : 2;
    c->head_dim = tiled ? 20 : 6;
    c->tied = tied;
    c->attention_dropout = 0.1f;
    c->qkv_bias = c->output_bias = c->mlp_bias = c->qk_norm = 1;
    return config;
}

static zr_lm_config config_of(int which)
{
    bool tied = which == LLAMA_TIED || which == LLAMA_TILED_TIED;
    zr_lm_config config =
        which <= GPT2_TILED ? gpt2_of(is_tiled(which)) : llama_of(is_tiled(which), tied);
    if (is_tiled(which))
        zr_lm_set_tiles(&config, &(zr_tiles){2, 2, 3});
    return config;
}

// ---- one case: a model without frozen tensors, and what it has computed ----

typedef struct reference {
    zr_lm_config config;
    const zr_backend *backend;
    zero_shape shape;
    bool fused;
    harness net;
    counts made;
    double loss;
} reference;

// What is frozen: the tensors whose names have this in them, or all others.
typedef struct choice {
    const char *part;
    bool exactly; // the name is this
    bool others;
} choice;

static bool is_frozen(const void *user, const char *name)
{
    const choice *c = user;
    bool named = c->exactly ? strcmp(name, c->part) == 0 : strstr(name, c->part) != NULL;
    return named != c->others;
}

static const char *whole_name(const zero_tensor_desc *tensor)
{
    return tensor->tile.whole ? tensor->tile.whole : tensor->name;
}

static counts step(harness *net, bool fused, double *loss)
{
    twin_begin(net->queue);
    harness_forward(net, true);
    harness_backward(net, fused);
    *loss = net->loss;
    return twin_end(net->queue);
}

// Calls that the handles of frozen tensors spare, of the kinds that are counted.
static counts spared_by(const harness *net)
{
    counts spared = {0};
    for (int u = 0; u < net->model->unit_count; u++) {
        const zr_lm_unit *hyper = net->model->units[u].hyper;
        for (int t = 0; t < ZR_LM_TENSORS; t++) {
            const zr_tensor_handle *handle = &hyper->tensor[t];
            if (!handle->tiles || handle->trains || u == 0)
                continue;
            zero_flat_param_ref ref = zr_unit_flat_param(net->model, u, handle->flat_param);
            const zero_tensor_desc *tensor =
                &zr_flat_param_desc(net->model, ref)->tensors[handle->tensor];
            bool bias_of_linear = strstr(tensor->name, ".bias") && !strstr(tensor->name, "ln_");
            spared.products += tensor->dims == 2 ? handle->tiles : 0;
            spared.column_sums += bias_of_linear;
        }
    }
    const zr_tensor_handle *of = ((const zr_lm_unit *)net->model->units[0].hyper)->tensor;
    bool positions_train = of[ZR_LM_POSITIONS].trains;
    if (!of[ZR_LM_TABLE].trains) // positions are done with the first tile
        spared.embeddings = of[ZR_LM_TABLE].tiles - positions_train;
    return spared;
}

static int64_t planned_products(const harness *net)
{
    int64_t calls = 0;
    for (int u = 0; u < net->model->unit_count; u++)
        for (int p = 0; p < net->sizes[u].product_count; p++)
            calls += net->sizes[u].products[p].calls;
    return calls;
}

static bool is_untouched(const float *gradient, int64_t elements)
{
    const unsigned char *bytes = (const unsigned char *)gradient;
    for (size_t i = 0; i < sizeof *gradient * (size_t)elements; i++)
        if (bytes[i] != 0xff)
            return false;
    return true;
}

// Gradients of what trains are the reference's; of what does not nothing has been written.
static int same_gradients(reference *r, harness *net, const choice *c)
{
    int frozen = 0;
    for (int u = 0; u < net->model->unit_count; u++)
        for (int p = 0; p < net->model->units[u].flat_param_count; p++)
            for (int t = 0; t < net->model->units[u].flat_params[p].tensor_count; t++) {
                const zero_tensor_desc *tensor = &net->model->units[u].flat_params[p].tensors[t];
                float *got, *want;
                int64_t elements;
                harness_tensor(net, tensor->name, &got, &elements);
                harness_tensor(&r->net, tensor->name, &want, &elements);
                bool still = is_frozen(c, whole_name(tensor));
                frozen += still;
                if (still ? !is_untouched(got, elements)
                          : memcmp(got, want, sizeof *got * (size_t)elements) != 0)
                    fail_msg("freezing %s%s on %s: gradient of %s", c->others ? "all but " : "",
                             c->part, r->backend->path(), tensor->name);
            }
    return frozen;
}

// Backward reads exactly what the unit's sizes announce.
static void same_reads(const harness *net)
{
    for (int u = 0; u < net->model->unit_count; u++) {
        assert_int_equal(net->read[u], net->sizes[u].backward_reads);
        assert_int_equal(net->read_streamed[u], net->sizes[u].backward_reads_streamed != 0);
    }
}

static void check(reference *r, const choice *c)
{
    const zr_lm_frozen frozen = {.is_frozen = is_frozen, .user = c};
    double loss;
    harness net;
    harness_create_frozen(&net, &r->config, &frozen, r->backend, r->shape);
    counts made = step(&net, r->fused, &loss), spared = spared_by(&net);
    assert_memory_equal(&loss, &r->loss, sizeof loss);
    assert_true(same_gradients(r, &net, c) > 0);
    same_reads(&net);
    assert_int_equal(made.products, r->made.products - spared.products);
    assert_int_equal(made.column_sums, r->made.column_sums - spared.column_sums);
    assert_int_equal(made.embeddings, r->made.embeddings - spared.embeddings);
    assert_int_equal(planned_products(&net), planned_products(&r->net) - spared.products);
    harness_destroy(&net);
}

// Every tensor alone, and every tensor but one, where that does not take minutes.
static void check_each(reference *r)
{
    const zero_model *model = r->net.model;
    for (int u = 0; u < model->unit_count; u++)
        for (int p = 0; p < model->units[u].flat_param_count; p++)
            for (int t = 0; t < model->units[u].flat_params[p].tensor_count; t++) {
                const zero_tensor_desc *tensor = &model->units[u].flat_params[p].tensors[t];
                if (tensor->tile.first) // the whole has been
                    continue;
                for (int others = 0; others < 2 - SANITIZED; others++)
                    check(r,
                          &(choice){.part = whole_name(tensor), .exactly = true, .others = others});
            }
}

static void check_config(int which, const zr_backend *backend, zero_dtype dtype, bool fused)
{
    static const char *const kinds[] = {"", "weight", "bias", "attn", "mlp"};
    reference r = {
        .config = config_of(which),
        .backend = backend,
        .shape = {.batch = 2, .seq = 7, .threads = 1, .dtype = dtype},
        .fused = fused,
    };
    harness_create_of(&r.net, &r.config, backend, r.shape);
    assert_int_equal(r.net.model->units[1].flat_param_count > 8, is_tiled(which));
    r.made = step(&r.net, fused, &r.loss);
    same_reads(&r.net);
    check_each(&r);
    for (int k = 0; k < ZR_COUNT(kinds); k++)
        check(&r, &(choice){.part = kinds[k]});
    harness_destroy(&r.net);
}

static void nothing_is_computed_for_frozen_tensors(void **state)
{
    for (const zr_backend *const *backend = zr_backends(); *backend; backend++)
        for (int which = 0; which < CONFIGS && harness_offered(*backend); which++) {
            check_config(which, *backend, ZERO_F32, true);
            if (!SANITIZED)
                check_config(which, *backend, ZERO_BF16, which % 2);
        }
}

// Frozen or not, a weight is the same weight.
static void generation_has_the_same_bits(void **state)
{
    for (const zr_backend *const *backend = zr_backends(); *backend; backend++)
        for (int which = 0; which < CONFIGS && harness_offered(*backend); which++) {
            static float logits[2][14 * 100];
            const zero_shape shape = {.batch = 2, .seq = 7, .threads = 1};
            const zr_lm_config config = config_of(which);
            const zr_lm_frozen frozen = {.is_frozen = is_frozen, .user = &(choice){.part = "w"}};
            harness nets[2];
            for (int n = 0; n < 2; n++) {
                harness_create_frozen(&nets[n], &config, n ? &frozen : NULL, *backend, shape);
                golden_decode(&nets[n], nets[n].tokens, 2, 7, 3, false, logits[n]);
            }
            assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
            for (int n = 0; n < 2; n++)
                harness_destroy(&nets[n]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_computed_for_frozen_tensors),
        cmocka_unit_test(generation_has_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
