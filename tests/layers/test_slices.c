// Models that are cut into slices: losses and gradients have the same bits on 1, 2, ... T ranks,
// with rows divided or not, and with backward in two parts; they are close to those of the model
// that is not cut; and exchanges are those that the sizes list. Ranks are threads here, and
// exchange through plain memory.
#include "../sanitizers.h"
#include "model/llama_model.h"
#include "split_backward.h"
#include "tensor_ranks.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MOST_TENSORS = 64 };

typedef struct result { // whole tensors, put together from the parts of all ranks
    double loss, evaluated;
    int count;
    struct {
        char name[80];
        int64_t elements;
        float *gradient;
    } at[MOST_TENSORS];
} result;

static float *whole_gradient(result *out, const zero_tensor_desc *tensor)
{
    const char *name = tensor->tile.whole ? tensor->tile.whole : tensor->name;
    int64_t elements = zr_tensor_desc_elements(tensor);
    for (int i = 0; i < out->count; i++)
        if (!strcmp(out->at[i].name, name))
            return out->at[i].gradient;
    if (tensor->tile.whole)
        elements = elements / tensor->shape[tensor->tile.axis] * tensor->tile.size;
    assert_true(out->count < MOST_TENSORS);
    snprintf(out->at[out->count].name, sizeof out->at[0].name, "%s", name);
    out->at[out->count].elements = elements;
    out->at[out->count].gradient = calloc((size_t)elements, sizeof(float));
    return out->at[out->count++].gradient;
}

// Ranks that hold the same elements must have the same gradient of them.
static void take_tensor(result *out, const zero_tensor_desc *tensor, const float *gradient,
                        bool first)
{
    int64_t count = zr_tensor_desc_elements(tensor);
    if (!count)
        return;
    float *whole = whole_gradient(out, tensor);
    zr_rectangle at;
    for (int64_t done = 0, n; done < count; done += n) {
        n = zr_tile_rectangle(tensor, done, count - done, &at);
        for (int64_t i = 0; i < n; i++) {
            float *to = &whole[at.first + i / at.width * at.stride + i % at.width];
            if (!first && !tensor->tile.whole && memcmp(to, &gradient[done + i], sizeof *to))
                fail_msg("%s[%lld]: the ranks have %.9g and %.9g", tensor->name,
                         (long long)(done + i), (double)*to, (double)gradient[done + i]);
            *to = gradient[done + i];
        }
    }
}

static void take(result *out, const harness *net, bool first)
{
    for (int u = 0; u < net->model->unit_count; u++)
        for (int p = 0; p < net->model->units[u].flat_param_count; p++) {
            const zero_flat_param_desc *of = &net->model->units[u].flat_params[p];
            for (int t = 0; t < of->tensor_count && of->kind == ZERO_TRAINABLE; t++)
                take_tensor(out, &of->tensors[t], net->gradients + net->offset[u][p][t], first);
        }
}

typedef struct job {
    rank rank;
    harness net;
    double evaluated;
} job;

static void begin_unit(void *rank_, int unit, unsigned parts)
{
    rank *r = rank_;
    r->next = 0;
    r->parts = parts;
}

static void end_unit(void *rank_, int unit, unsigned parts)
{
    const rank *r = rank_;
    const zero_unit_sizes *sizes = &r->net->sizes[unit];
    int listed = 0;
    for (int i = 0; i < sizes->exchange_count; i++)
        listed += rank_makes(r, &sizes->exchanges[i]) ? sizes->exchanges[i].calls : 0;
    assert_int_equal(r->next, listed);
}

// As harness_forward and harness_backward, with the exchanges of each unit counted.
static void *compute(void *argument)
{
    job *j = argument;
    harness *net = &j->net;
    zero_tensors d_out = {0}, d_in = {0};
    zero_context context;
    if (net->shape.dtype != ZERO_F32)
        harness_narrow(net);
    for (int training = 0; training < 2; training++) {
        for (int u = 0; u < net->model->unit_count; u++) {
            begin_unit(&j->rank, u, 0);
            harness_context(net, u, training, &context);
            assert_int_equal(
                context.unit->ops->forward(&context, &net->boundary[u], &net->boundary[u + 1]),
                ZERO_OK);
            end_unit(&j->rank, u, 0);
        }
        if (!training)
            j->evaluated = net->loss;
    }
    split_check(net, &(split_watch){begin_unit, end_unit, &j->rank});
    for (int u = net->model->unit_count - 1; u >= 0; u--) {
        const zero_unit_ops *ops = net->model->units[u].ops;
        begin_unit(&j->rank, u, ZR_BACKWARD_WHOLE);
        harness_context(net, u, true, &context);
        d_in = net->boundary[u];
        if (u > 0)
            d_in.at[0].data = net->d_in.data;
        if (ops->forward_backward)
            assert_int_equal(ops->forward_backward(&context, &net->boundary[u], &d_in), ZERO_OK);
        else
            assert_int_equal(ops->backward(&context, &net->boundary[u], &d_out, &d_in), ZERO_OK);
        d_out = d_in;
        harness_buffer swap = net->d_out;
        net->d_out = net->d_in;
        net->d_in = swap;
    }
    return NULL;
}

static size_t window_bytes(const harness *net)
{
    size_t most = 64;
    for (int u = 0; u < net->model->unit_count; u++)
        most = ZR_MAX(most, net->sizes[u].exchange_bytes);
    return most;
}

static void run_cut(const zr_lm_config *config, const zr_backend *backend, zero_shape shape,
                    const zr_lm_slices *how, result *out)
{
    static job jobs[MOST_RANKS];
    static world world;
    pthread_t threads[MOST_RANKS];
    *out = (result){0};
    world.size = how->ranks;
    pthread_barrier_init(&world.all, NULL, (unsigned)how->ranks);
    int sharing = ZR_MAX(
        zr_slices_sharing_ranks(how, &(zr_lm_shape){.kv_heads = zr_lm_shape_of(config).kv_heads}),
        1);
    for (int r = 0; r < how->ranks; r++) {
        job *j = &jobs[r];
        zr_lm_slices slices = *how;
        slices.rank = r;
        if (r % sharing == 0)
            pthread_barrier_init(&world.groups[r], NULL, (unsigned)sharing);
        harness_create_part(&j->net, config, &slices, backend, shape);
        world.windows[r] = aligned_alloc(64, ZR_ROUND_UP(window_bytes(&j->net), (size_t)64));
        memset(world.windows[r], 0xff, window_bytes(&j->net));
        j->rank = (rank){.exchanger = {.rank = r,
                                       .size = how->ranks,
                                       .window = world.windows[r],
                                       .bytes = (int64_t)window_bytes(&j->net),
                                       .run = rank_run},
                         .world = &world,
                         .net = &j->net};
        j->net.exchanger = how->ranks > 1 ? &j->rank.exchanger : NULL;
    }
    for (int r = 0; r < how->ranks; r++)
        assert_int_equal(pthread_create(&threads[r], NULL, compute, &jobs[r]), 0);
    for (int r = 0; r < how->ranks; r++)
        pthread_join(threads[r], NULL);
    for (int r = 0; r < how->ranks; r++) {
        job *j = &jobs[r];
        assert_true(r == 0 ||
                    (j->net.loss == jobs[0].net.loss && j->evaluated == jobs[0].evaluated));
        take(out, &j->net, r == 0);
    }
    out->loss = jobs[0].net.loss;
    out->evaluated = jobs[0].evaluated;
    for (int r = 0; r < how->ranks; r++) {
        harness_destroy(&jobs[r].net);
        free(world.windows[r]);
    }
}

static void free_result(result *r)
{
    while (r->count)
        free(r->at[--r->count].gradient);
}

static void run_whole(const zr_lm_config *config, const zr_backend *backend, zero_shape shape,
                      result *out)
{
    static harness net;
    *out = (result){0};
    harness_create_of(&net, config, backend, shape);
    out->evaluated = harness_forward(&net, false);
    out->loss = harness_forward(&net, true);
    harness_backward(&net, true);
    take(out, &net, true);
    harness_destroy(&net);
}

static void same(const char *what, const result *a, const result *b)
{
    if (a->loss != b->loss || a->evaluated != b->evaluated)
        fail_msg("%s: losses %.17g %.17g, not %.17g %.17g", what, b->loss, b->evaluated, a->loss,
                 a->evaluated);
    assert_int_equal(a->count, b->count);
    for (int i = 0; i < a->count; i++)
        for (int k = 0; k < b->count; k++)
            if (!strcmp(a->at[i].name, b->at[k].name) &&
                memcmp(a->at[i].gradient, b->at[k].gradient,
                       sizeof(float) * (size_t)a->at[i].elements))
                fail_msg("%s: the gradient of %s has other bits", what, a->at[i].name);
}

static void near(const char *what, const result *a, const result *b, double tolerance)
{
    if (!(fabs(a->loss - b->loss) <= tolerance * fabs(a->loss)))
        fail_msg("%s: loss %.9g, not %.9g", what, b->loss, a->loss);
    assert_int_equal(a->count, b->count);
    for (int i = 0; i < a->count; i++)
        for (int k = 0; k < b->count; k++) {
            if (strcmp(a->at[i].name, b->at[k].name))
                continue;
            double error = harness_error(b->at[k].gradient, a->at[i].gradient, a->at[i].elements);
            if (!(error <= tolerance))
                fail_msg("%s: the gradient of %s is %.3g off", what, a->at[i].name, error);
        }
}

enum { GPT2, GPT2_ERF, LLAMA, TIED, NEOX, CONFIGS };
static zr_lm_config config_of(int which, float dropout)
{
    static const zr_lm_kind kinds[CONFIGS] = {ZR_LM_GPT2, ZR_LM_GPT2_ERF, ZR_LM_LLAMA, ZR_LM_LLAMA};
    zr_lm_config config = {.kind = kinds[which]};
    if (which == NEOX) {
        config = harness_neox(dropout);
        config.numbers.vocab = 101;
    } else if (which <= GPT2_ERF) {
        config.gpt2 = harness_tiny();
        config.gpt2.n_embd = 32;
        config.gpt2.n_head = 8;
        config.gpt2.vocab_size = 131;
        config.gpt2.resid_pdrop = config.gpt2.embd_pdrop = config.gpt2.attn_pdrop = dropout;
    } else {
        zero_llama_defaults(&config.llama);
        config.llama.vocab_size = 101;
        config.llama.hidden_size = 32;
        config.llama.intermediate_size = 48;
        config.llama.n_layer = 2;
        config.llama.n_head = 8;
        config.llama.n_kv_head = 2;
        config.llama.max_positions = 16;
        config.llama.attention_dropout = dropout;
        config.llama.tied = which == TIED;
        config.llama.qkv_bias = config.llama.qk_norm = which == LLAMA;
    }
    return config;
}

// All numbers of ranks, with rows divided and not, against one rank that computes all slices.
static void check_cut(const zr_lm_config *config, const zr_backend *backend, zero_shape shape,
                      int count, double tolerance)
{
    static result whole, one, other;
    char what[200];
    run_whole(config, backend, shape, &whole);
    run_cut(config, backend, shape, &(zr_lm_slices){.count = count, .ranks = 1, .exact = true},
            &one);
    snprintf(what, sizeof what, "%s, %d slices, %lld x %lld, type %d", backend->path(), count,
             (long long)shape.batch, (long long)shape.seq, (int)shape.dtype);
    near(what, &whole, &one, tolerance);
    for (int ranks = 2; ranks <= count; ranks *= 2)
        for (int divided = 0; divided < 2; divided++) {
            run_cut(
                config, backend, shape,
                &(zr_lm_slices){.count = count, .ranks = ranks, .exact = true, .by_rows = divided},
                &other);
            snprintf(what, sizeof what, "%s, %d slices on %d ranks, rows %d, %lld x %lld, type %d",
                     backend->path(), count, ranks, divided, (long long)shape.batch,
                     (long long)shape.seq, (int)shape.dtype);
            same(what, &one, &other);
            free_result(&other);
        }
    free_result(&one);
    free_result(&whole);
}

typedef struct question {
    int which;
    const char *lora, *preference;
    bool documents;
} question;

static void check_all(const question *of)
{
    static const zero_shape shapes[] = {
        {.batch = 2, .seq = 8}, {.batch = 1, .seq = 7}, {.batch = 1, .seq = 5}};
    for (const zr_backend *const *backend = zr_backends(); *backend; backend++) {
        if (!harness_offered(*backend))
            continue;
        for (int s = 0; s < ZR_COUNT(shapes); s++)
            for (int count = 2; count <= (of->preference ? 4 : 8); count *= SANITIZED ? 4 : 2) {
                zr_lm_config config = config_of(of->which, s == 1 ? 0.2f : 0);
                zero_shape shape = shapes[s];
                config.documents = of->documents;
                assert_false(zr_lora_parse(of->lora, "", &config, &config.lora, NULL));
                assert_false(zr_preference_parse(of->preference, "", &config.preference, NULL));
                check_cut(&config, *backend, shape, count, 2e-4);
                // Rounding to 8 bits moves small gradients by 0.16 of the largest on some paths.
                shape.dtype = ZERO_BF16;
                if (count == 4)
                    check_cut(&config, *backend, shape, count, 0.25);
            }
    }
}

static void each_kind(void **state)
{
    static const question all[] = {{GPT2},
                                   {GPT2_ERF},
                                   {LLAMA},
                                   {TIED},
                                   {NEOX},
                                   {GPT2, .documents = true},
                                   {LLAMA, "r=2", .documents = true},
                                   {GPT2, "r=3,alpha=2"},
                                   {LLAMA, "r=3,alpha=2,rslora"},
                                   {TIED, "r=2,targets=k_proj+down_proj"},
                                   {NEOX, "r=3"},
                                   {GPT2, "r=3,alpha=2,dora"},
                                   {LLAMA, "r=3,alpha=2,dora", .documents = true},
                                   {TIED, "r=2,targets=k_proj+o_proj,dora"},
                                   {NEOX, "r=3,dora"},
                                   {LLAMA, NULL, "dpo,beta=0.5,smoothing=0.1", true},
                                   {NEOX, NULL, "kto,desirable=2", true}};
    for (int i = 0; i < ZR_COUNT(all); i++)
        check_all(&all[i]);
}

static void dropout_of_adapters(void **state)
{
    // Masks depend on the number of slices, not on that of ranks.
    static const char *const texts[] = {"r=3,dropout=0.3", "r=3,dropout=0.3,dora"};
    static result one, other;
    for (int i = 0; i < ZR_COUNT(texts); i++) {
        zr_lm_slices slices = {.count = 4, .ranks = 1, .exact = true};
        zr_lm_config config = config_of(LLAMA, 0);
        zr_lora_parse(texts[i], "", &config, &config.lora, NULL);
        const zero_shape shape = {.batch = 2, .seq = 7};
        run_cut(&config, zr_backends()[0], shape, &slices, &one);
        slices = (zr_lm_slices){.count = 4, .ranks = 4, .exact = true, .by_rows = true};
        run_cut(&config, zr_backends()[0], shape, &slices, &other);
        same(texts[i], &one, &other);
        free_result(&other);
        free_result(&one);
    }
}

// A head of two chunks: the second adds to the gradient that the first has written.
static void the_head_in_chunks(void **state)
{
    enum { ROWS = 176, HEAD = 2 }; // the head: which unit of embedding, block and head
    zr_lm_config config = config_of(GPT2, 0);
    const zr_backend *cpu = zr_backends()[0];
    static harness net;
    config.gpt2.vocab_size = 50257;
    config.gpt2.n_positions = ROWS;
    config.gpt2.n_embd = 8;
    config.gpt2.n_head = 2;
    config.gpt2.n_layer = 1;
    const zero_shape shape = {.batch = 1, .seq = ROWS};
    harness_create_part(&net, &config, &(zr_lm_slices){.count = 2, .ranks = 1, .exact = true}, cpu,
                        shape);
    assert_int_equal(net.sizes[HEAD].products[0].m + net.sizes[HEAD].products[6].m, ROWS);
    harness_destroy(&net);
    check_cut(&config, cpu, shape, 2, 2e-4);
    config.documents = true;
    zr_preference_parse("orpo", "", &config.preference, NULL);
    check_cut(&config, cpu, shape, 2, 2e-4);
}

// Three ranks have bits of their own, which are the same on each of them.
static void any_number_of_ranks(void **state)
{
    zr_lm_config config = config_of(GPT2, 0);
    static result whole, three;
    config.gpt2.n_head = 3;
    config.gpt2.n_embd = 24;
    const zero_shape shape = {.batch = 2, .seq = 7};
    const zr_backend *ref;
    assert_int_equal(zr_backend_find("ref", NULL, &ref, NULL), ZERO_OK);
    run_whole(&config, ref, shape, &whole);
    for (int divided = 0; divided < 2; divided++) {
        run_cut(&config, ref, shape, &(zr_lm_slices){.count = 3, .ranks = 3, .by_rows = divided},
                &three);
        near("three ranks", &whole, &three, 2e-4);
        free_result(&three);
    }
    free_result(&whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind), cmocka_unit_test(dropout_of_adapters),
        cmocka_unit_test(the_head_in_chunks), cmocka_unit_test(any_number_of_ranks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
