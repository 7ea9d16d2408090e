// Parts of language models: over all tensor ranks the tiles cover each tensor once, or as often as
// it is held; handles lead to tiles of the right tensor; what cannot be cut is refused.
#include "no_arithmetic.h"
#include "model/gpt2_model.h"
#include "model/llama_model.h"
#include "model/unit.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { GPT2, LLAMA, TIED, CONFIGS };

static zr_lm_config config_of(int which)
{
    zr_lm_config config = {.kind = which == GPT2 ? ZR_LM_GPT2 : ZR_LM_LLAMA};
    if (config.kind == ZR_LM_GPT2) {
        zero_gpt2_defaults(&config.gpt2);
        config.gpt2.vocab_size = 50;
        config.gpt2.n_embd = 64;
        config.gpt2.n_head = 8;
        config.gpt2.n_layer = 2;
    } else {
        zero_llama_defaults(&config.llama);
        config.llama.vocab_size = 257;
        config.llama.hidden_size = 64;
        config.llama.intermediate_size = 96;
        config.llama.n_layer = 2;
        config.llama.n_head = 8;
        config.llama.n_kv_head = 2;
        config.llama.tied = which == TIED;
        config.llama.qkv_bias = config.llama.qk_norm = which == LLAMA;
    }
    return config;
}

static bool is_of_mlp(const void *unused, const char *name) { return strstr(name, "mlp"); }

static zero_model *whole_of(const zr_lm_config *config, bool frozen)
{
    static const zr_lm_frozen mlp = {.is_frozen = is_of_mlp};
    zero_model *model;
    zero_error error;
    assert_int_equal(zr_lm_build(config, frozen ? &mlp : NULL, &ops, &model, &error), ZERO_OK);
    return model;
}

// A tensor of the whole model, and how often each element is held, and is held where it counts.
typedef struct held {
    const zero_tensor_desc *tensor;
    const char *unit;
    bool trains;
    int64_t elements;
    unsigned char *all, *counted;
} held;

enum { MOST = 64 };

static int list_whole(const zero_model *whole, held *out)
{
    int count = 0;
    for (int u = 0; u < whole->unit_count; u++)
        for (int p = 0; p < whole->units[u].flat_param_count; p++)
            for (int t = 0; t < whole->units[u].flat_params[p].tensor_count; t++) {
                held *h = &out[count++];
                assert_true(count < MOST);
                h->tensor = &whole->units[u].flat_params[p].tensors[t];
                h->unit = whole->units[u].name;
                h->trains = whole->units[u].flat_params[p].kind == ZERO_TRAINABLE;
                h->elements = zr_tensor_desc_elements(h->tensor);
                h->all = calloc((size_t)h->elements, 1);
                h->counted = calloc((size_t)h->elements, 1);
            }
    return count;
}

static held *find(held *list, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(list[i].tensor->name, name))
            return &list[i];
    fail_msg("there is no tensor %s", name);
    return NULL;
}

static void mark(held *h, const zero_tensor_desc *tensor, bool counted)
{
    zr_rectangle at;
    int64_t count = zr_tensor_desc_elements(tensor);
    for (int64_t done = 0, n; done < count; done += n) {
        n = zr_tile_rectangle(tensor, done, count - done, &at);
        for (int64_t i = 0; i < n; i++) {
            int64_t element = at.first + i / at.width * at.stride + i % at.width;
            assert_true(element < h->elements);
            h->all[element]++;
            h->counted[element] += counted;
        }
    }
}

static void mark_part(const zero_model *part, const zr_lm_slices *slices, held *list, int count)
{
    for (int u = 0; u < part->unit_count; u++)
        for (int p = 0; p < part->units[u].flat_param_count; p++) {
            const zero_flat_param_desc *flat_param = &part->units[u].flat_params[p];
            for (int t = 0; t < flat_param->tensor_count; t++) {
                const zero_tensor_desc *tensor = &flat_param->tensors[t];
                bool tile = tensor->tile.whole;
                held *h = find(list, count, tile ? tensor->tile.whole : tensor->name);
                int replicas = flat_param->replicas ? flat_param->replicas
                               : tile               ? 1
                                                    : slices->ranks;
                assert_string_equal(h->unit, part->units[u].name);
                assert_int_equal(h->trains, flat_param->kind == ZERO_TRAINABLE);
                mark(h, tensor, slices->rank % replicas == 0);
            }
        }
}

// The handles of each slice lead to the tensor of that name, and to the part that is the slice's.
static void check_handles(const zero_model *part, const zr_lm_slices *slices)
{
    int here = zr_slices_here(slices), first = zr_slices_first(slices);
    for (int u = 1; u + 1 < part->unit_count; u++) {
        const zr_lm_unit *hyper = part->units[u].hyper;
        const zr_lm_unit *of_whole = part->whole->units[u].hyper;
        int kv_replicas = zr_slices_kv_replicas(slices, &hyper->shape),
            tensors = hyper->config.kind == ZR_LM_GPT2 ? ZR_BLOCK_TENSORS : ZR_LLAMA_TENSORS;
        for (int i = 0; i < here; i++)
            for (int t = 0; t < tensors; t++) {
                const zr_tensor_handle *handle = zr_lm_tensor(hyper, i, t),
                                       *whole = &of_whole->tensor[t];
                assert_int_equal(zr_tensor_exists(handle), zr_tensor_exists(whole));
                if (!zr_tensor_exists(handle))
                    continue;
                const zero_tensor_desc *
                    is = &part->units[u].flat_params[handle->flat_param].tensors[handle->tensor],
                   *was =
                       &part->whole->units[u].flat_params[whole->flat_param].tensors[whole->tensor];
                assert_string_equal(is->tile.whole ? is->tile.whole : is->name, was->name);
                if (!is->tile.whole)
                    continue;
                int64_t size = is->shape[was->tp_axis] / was->tp_parts;
                bool keys = strstr(was->name, "k_proj") || strstr(was->name, "v_proj");
                int cut = (first + i) / (keys ? kv_replicas : 1);
                assert_int_equal(is->tile.first, cut * size);
            }
    }
}

static void check_grid(int which, bool frozen, int count, int ranks)
{
    zr_lm_config config = config_of(which);
    zero_model *whole = whole_of(&config, frozen), *part;
    zero_error error;
    held list[MOST];
    int tensors = list_whole(whole, list);
    for (int rank = 0; rank < ranks; rank++) {
        const zr_lm_slices slices = {.count = count, .ranks = ranks, .rank = rank};
        assert_int_equal(zr_lm_cut(whole, &slices, NULL, &part, &error), ZERO_OK);
        assert_ptr_equal(part->whole, whole);
        assert_int_equal(zr_model_check(part, &error), ZERO_OK);
        mark_part(part, &slices, list, tensors);
        check_handles(part, &slices);
        zr_lm_free(part);
    }
    for (int t = 0; t < tensors; t++) {
        bool cut = list[t].tensor->tp_axis >= 0;
        bool keys =
            strstr(list[t].tensor->name, "k_proj") || strstr(list[t].tensor->name, "v_proj");
        int times = !cut ? ranks : keys && ranks > 2 ? ranks / 2 : 1;
        for (int64_t e = 0; e < list[t].elements; e++) {
            assert_int_equal(list[t].counted[e], 1);
            assert_int_equal(list[t].all[e], times);
        }
        free(list[t].all);
        free(list[t].counted);
    }
    zr_lm_free(whole);
}

static void every_element_is_held_once(void **state)
{
    for (int which = 0; which < CONFIGS; which++)
        for (int count = 2; count <= 8; count *= 2)
            for (int ranks = 1; ranks <= count; ranks *= 2)
                for (int frozen = 0; frozen < 2; frozen++)
                    check_grid(which, frozen, count, ranks);
}

static void the_vocabulary_has_no_padding(void **state)
{
    static const struct {
        int64_t vocabulary;
        int slices;
        int64_t counts[8];
    } cases[] = {{50257, 2, {25136, 25121}},
                 {50257, 4, {12576, 12576, 12576, 12529}},
                 {257, 8, {48, 48, 48, 48, 48, 17, 0, 0}},
                 {257, 1, {257}}};
    for (int c = 0; c < ZR_COUNT(cases); c++) {
        const zr_lm_slices slices = {.count = cases[c].slices, .ranks = 1};
        int64_t at = 0;
        for (int s = 0; s < cases[c].slices; s++) {
            zr_slice_tokens tokens = zr_tokens_of_slice(&slices, cases[c].vocabulary, s);
            assert_int_equal(tokens.first, at);
            assert_int_equal(tokens.count, cases[c].counts[s]);
            at += tokens.count;
        }
        assert_int_equal(at, cases[c].vocabulary);
    }
}

static void refused(const zr_lm_config *config, int count, int ranks, const char *words)
{
    zero_error error;
    const zr_lm_slices slices = {.count = count, .ranks = ranks};
    assert_int_equal(zr_slices_check(config, &slices, NULL, &error), ZERO_ERR_CONFIG);
    assert_string_equal(error.message, words);
}

// The user's words for the model and for the number of slices are those of the message.
static void refused_in_words(const char *spec, bool exact, int count, const char *asked,
                             const char *message)
{
    zr_lm_config config;
    zero_error error;
    bool given;
    const zr_lm_slices slices = {.count = count, .ranks = 2, .exact = exact};
    const zr_slices_message words = {.model = spec, .option = asked};
    assert_int_equal(zr_lm_parse_spec(spec, &config, &given, &error), ZERO_OK);
    assert_int_equal(zr_slices_check(&config, &slices, &words, &error), ZERO_ERR_CONFIG);
    assert_string_equal(error.message, message);
}

static void what_cannot_be_cut_is_refused(void **state)
{
    zr_lm_config config = config_of(LLAMA);
    refused_in_words("gpt2-xl", false, 2, "--tensor 2",
                     "gpt2-xl has 25 heads, which --tensor 2 does not divide: 5 or 25");
    refused_in_words(
        "gpt2-xl", true, 4, "libzero.exact_tensor 4",
        "gpt2-xl has 25 heads, which libzero.exact_tensor 4 does not divide; no number of "
        "slices that is a power of two fits this model: none above 1 divides both "
        "its 25 heads and the width 6400 of its MLP");
    refused_in_words("llama:layers=2,heads=6,kv_heads=3,width=48,inner=256,context=64", false, 2,
                     "--tensor 2",
                     "llama:layers=2,heads=6,kv_heads=3,width=48,inner=256,context=64 has 3 heads "
                     "of keys and values, which --tensor 2 neither divides nor is a multiple of; "
                     "no number of tensor ranks fits this model: none above 1 divides both its 6 "
                     "heads and the width 256 of its MLP, and divides its 3 heads of keys and "
                     "values or is a multiple of them");
    config.llama.intermediate_size = 98;
    refused(&config, 4, 2,
            "llama has an MLP of width 98, which a cut into 4 slices does not divide: 2");
    config = config_of(LLAMA);
    config.llama.n_head = 12;
    config.llama.n_kv_head = 3;
    config.llama.hidden_size = 96;
    refused(&config, 2, 2,
            "llama has 3 heads of keys and values, which a cut into 2 slices neither divides nor "
            "is a multiple of: 3, 6 or 12");
    config = config_of(GPT2);
    zr_lm_set_tiles(&config, &(zr_tiles){.mlp = 2});
    refused(&config, 2, 2,
            "gpt2 is made of tiles (libzero.tiling), a cut into 2 slices cuts models into slices: "
            "keep one of them");
    config = config_of(GPT2);
    config.gpt2.n_head = 16;
    refused(&config, 16, 1,
            "a cut into 16 slices: 16 slices of gpt2 on 1 tensor rank: a rank computes at most 8 "
            "of them, so 2 tensor ranks or more");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_element_is_held_once),
                                       cmocka_unit_test(the_vocabulary_has_no_padding),
                                       cmocka_unit_test(what_cannot_be_cut_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
