// Handles and flat parameters of GPT-2 and Llama, whole, tiled and frozen: each handle leads to the
// tensor that the design describes, the flat parameters hold each tensor once, and a flat parameter
// has the class of its tensors.
#include "no_arithmetic.h"
#include "model/gpt2_model.h"
#include "model/llama_model.h"
#include "model/unit.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { GPT2, GPT2_TILED, LLAMA, LLAMA_TIED, LLAMA_TILED, CONFIGS };

static zr_lm_config config_of(int which)
{
    zr_lm_config config = {.kind = which <= GPT2_TILED ? ZR_LM_GPT2 : ZR_LM_LLAMA};
    if (config.kind == ZR_LM_GPT2) {
        zero_gpt2_defaults(&config.gpt2);
        config.gpt2.vocab_size = 200;
        config.gpt2.n_embd = 128;
        config.gpt2.n_head = 2;
        config.gpt2.n_layer = 2;
    } else {
        zero_llama_defaults(&config.llama);
        config.llama.vocab_size = 200;
        config.llama.hidden_size = 128;
        config.llama.intermediate_size = 192;
        config.llama.n_layer = 2;
        config.llama.n_head = config.llama.n_kv_head = 4;
        config.llama.tied = which == LLAMA_TIED;
        config.llama.qkv_bias = config.llama.qk_norm = which == LLAMA;
    }
    if (which == GPT2_TILED || which == LLAMA_TILED)
        zr_lm_set_tiles(&config, &(zr_tiles){3, 2, 3});
    return config;
}

static bool is_frozen(const void *pattern, const char *name)
{
    return strstr(name, pattern) != NULL;
}

typedef struct built { // a model, and what it should be
    zero_model *model;
    zr_lm_design design;
    const char *pattern; // names that have this in them are frozen; NULL: none
} built;

static bool should_train(const built *b, const char *name)
{
    return !b->pattern || !is_frozen(b->pattern, name);
}

// The next tile of a tensor of that name lies there, and the flat parameter is of the right class.
static void check_tile(const built *b, int unit, const zr_tensor_handle *handle,
                       const zr_unit_tensor *of, const char *name, int tile)
{
    const zero_flat_param_desc *flat_param =
        zr_flat_param_desc(b->model, zr_unit_flat_param(b->model, unit, handle->flat_param + tile));
    assert_true(handle->tensor < flat_param->tensor_count);
    const zero_tensor_desc *tensor = &flat_param->tensors[handle->tensor];
    assert_string_equal(tensor->tile.whole ? tensor->tile.whole : tensor->name, name);
    assert_int_equal(flat_param->kind, should_train(b, name) ? ZERO_TRAINABLE : ZERO_FROZEN);
    assert_int_equal(flat_param->streamed, handle->tiles > 1);
    assert_int_equal(tensor->tile.first, tile * handle->step * (handle->tiles > 1));
    assert_true(tensor->shape[of->tile_axis] == handle->step || tile == handle->tiles - 1);
    for (int d = 0; d < tensor->dims; d++)
        assert_true(tensor->shape[d] == of->desc.shape[d] ||
                    (d == of->tile_axis && handle->tiles > 1));
}

// Returns how many tensors of the unit's flat parameters the handle stands for.
static int check_handle(const built *b, int unit, const zr_tensor_handle *handle,
                        const zr_unit_tensor *of, const char *prefix)
{
    char name[100];
    if (!of->desc.dims) {
        assert_false(zr_tensor_exists(handle));
        return 0;
    }
    snprintf(name, sizeof name, "%s%s", prefix, of->desc.name);
    assert_true(zr_tensor_exists(handle));
    assert_true(handle->trains == should_train(b, name));
    assert_int_equal(handle->tp.axis, of->desc.tp_axis);
    assert_int_equal(handle->tp.parts, of->desc.tp_parts);
    assert_true((handle->tiles - 1) * handle->step < of->desc.shape[of->tile_axis]);
    assert_true(handle->tiles * handle->step >= of->desc.shape[of->tile_axis]);
    for (int t = 0; t < handle->tiles; t++)
        check_tile(b, unit, handle, of, name, t);
    return handle->tiles;
}

static int owned_tensors(const zero_unit *unit)
{
    int count = 0;
    for (int p = 0; p < unit->flat_param_count; p++)
        count += unit->flat_params[p].tensor_count;
    return count;
}

// Design of a unit's tensors, and the prefix of their names.
static const zr_unit_tensor *tensors_of(const built *b, int unit, int *count, char prefix[50])
{
    prefix[0] = 0;
    *count = ZR_LM_END_TENSORS;
    if (unit == 0)
        return b->design.embedding;
    if (unit == b->model->unit_count - 1)
        return b->design.head;
    snprintf(prefix, 50, "%s%d.", b->design.layer_prefix, unit - 1);
    *count = b->design.tensor_count;
    return b->design.block;
}

// A head without a table reads the embedding's.
static void check_borrowed(const built *b)
{
    int last = b->model->unit_count - 1;
    const zr_tensor_handle *table =
        &((const zr_lm_unit *)b->model->units[last].hyper)->tensor[ZR_LM_TABLE];
    assert_int_equal(b->model->units[last].borrowed_count, table->tiles);
    assert_int_equal(table->flat_param, b->model->units[last].flat_param_count);
    check_handle(b, last, table, &b->design.embedding[ZR_LM_TABLE], "");
}

static void check_model(const built *b)
{
    for (int u = 0; u < b->model->unit_count; u++) {
        char prefix[50];
        int count, found = 0;
        const zr_unit_tensor *of = tensors_of(b, u, &count, prefix);
        const zr_lm_unit *hyper = b->model->units[u].hyper;
        bool borrows = b->model->units[u].borrowed_count > 0;
        for (int t = 0; t < count; t++)
            if (!borrows || t != ZR_LM_TABLE)
                found += check_handle(b, u, &hyper->tensor[t], &of[t], prefix);
        assert_int_equal(found, owned_tensors(&b->model->units[u]));
        if (borrows)
            check_borrowed(b);
    }
}

static void handles_lead_to_what_was_designed(void **state)
{
    static const char *const patterns[] = {NULL,  "",   "bias", "weight", "attn",  "norm",   "ln_",
                                           "mlp", "1.", "wte",  "wpe",    "embed", "lm_head"};
    for (int which = 0; which < CONFIGS; which++)
        for (int i = 0; i < ZR_COUNT(patterns); i++) {
            const zr_lm_config config = config_of(which);
            const zr_lm_frozen frozen = {.is_frozen = is_frozen, .user = patterns[i]};
            built b = {.pattern = patterns[i]};
            zero_error error;
            b.design = zr_lm_design_of_config(&config);
            assert_int_equal(
                zr_lm_build(&config, patterns[i] ? &frozen : NULL, &ops, &b.model, &error),
                ZERO_OK);
            check_model(&b);
            assert_int_equal(zr_model_check(b.model, &error), ZERO_OK);
            zr_lm_free(b.model);
        }
}

static int flat_params_of(int which, int unit, const char *pattern)
{
    const zr_lm_config config = config_of(which);
    const zr_lm_frozen frozen = {.is_frozen = is_frozen, .user = pattern};
    zero_model *model;
    assert_int_equal(zr_lm_build(&config, pattern ? &frozen : NULL, &ops, &model, NULL), ZERO_OK);
    int flat_params = model->units[unit].flat_param_count;
    zr_lm_free(model);
    return flat_params;
}

// Those of a unit share one flat parameter; a frozen tensor costs one flat parameter more, unless
// all are frozen.
static void frozen_tensors_share_a_flat_param(void **state)
{
    for (int which = 0; which < CONFIGS; which++)
        for (int unit = 0; unit < 4; unit++)
            assert_int_equal(flat_params_of(which, unit, ""), flat_params_of(which, unit, NULL));
    assert_int_equal(flat_params_of(GPT2, 1, NULL), 1);
    assert_int_equal(flat_params_of(GPT2, 1, "bias"), 2);
    assert_int_equal(flat_params_of(GPT2, 0, "wpe"), 2);
    assert_int_equal(flat_params_of(GPT2, 3, "ln_f.bias"), 2);
    assert_int_equal(flat_params_of(LLAMA, 3, "model.norm"), 2);
    assert_int_equal(flat_params_of(GPT2_TILED, 1, "bias"),
                     flat_params_of(GPT2_TILED, 1, NULL) + 1);
}

// Sizes have a bit for each resident flat parameter that backward reads, and one flag for all
// streamed ones.
static void reads_are_noted(void **state)
{
    const zr_tensor_handle whole = {.flat_param = 3, .tiles = 1},
                           tiled = {.flat_param = 40, .tiles = 2};
    zero_unit_sizes sizes = {.backward_reads = 1};
    zr_tensor_read_in_backward(&whole, &sizes);
    assert_int_equal(sizes.backward_reads, 1 | 1 << 3);
    assert_false(sizes.backward_reads_streamed);
    zr_tensor_read_in_backward(&tiled, &sizes);
    assert_int_equal(sizes.backward_reads, 1 | 1 << 3);
    assert_true(sizes.backward_reads_streamed);
}

// The attention's weights have its number of tiles, the MLP's theirs.
static void each_kind_of_weight_has_its_tiles(void **state)
{
    static const struct {
        const char *name;
        int tiles;
    } wanted[] = {{"h.0.attn.c_attn.weight", 2},
                  {"h.0.attn.c_proj.weight", 2},
                  {"h.0.mlp.c_fc.weight", 4},
                  {"h.0.mlp.c_proj.weight", 2},
                  {"wte.weight", 2}};
    zr_lm_config config = config_of(GPT2);
    zero_model *model;
    // steps are multiples of 64: 128 columns have at most 2 tiles, and 200 tokens 2 of 128
    zr_lm_set_tiles(&config, &(zr_tiles){3, 2, 4});
    assert_int_equal(zr_lm_build(&config, NULL, &ops, &model, NULL), ZERO_OK);
    for (int i = 0; i < ZR_COUNT(wanted); i++) {
        int found = 0;
        for (zr_tensor_walk w = zr_tensors_of(model); w.desc; zr_tensors_next(&w))
            if (!strcmp(zr_tensor_name(w.desc), wanted[i].name))
                for (int p = 0; p < model->units[w.unit].flat_param_count; p++)
                    found += model->units[w.unit].flat_params[p].tensors[0].tile.whole &&
                             !strcmp(model->units[w.unit].flat_params[p].tensors[0].tile.whole,
                                     wanted[i].name);
        if (found != wanted[i].tiles)
            fail_msg("%s: %d tiles, not %d", wanted[i].name, found, wanted[i].tiles);
    }
    zr_lm_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(handles_lead_to_what_was_designed),
        cmocka_unit_test(each_kind_of_weight_has_its_tiles),
        cmocka_unit_test(frozen_tensors_share_a_flat_param),
        cmocka_unit_test(reads_are_noted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
