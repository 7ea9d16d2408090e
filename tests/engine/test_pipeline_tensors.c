// Tensors of a model of which each rank has some units: all ranks read and write any of them by
// name, and find the same one that is not finite; a model of tiles is that of its tensors.
#include "../base/scratch_directory.h"
#include "../sanitizers.h"
#include "harness.h"

#include "base/alloc.h"
#include "base/random.h"
#include "formats/manifest.h"
#include "engine/engine_api.h"
#include "engine/rank_grid.h"
#include "layers/layers.h"
#include "model/unit.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <zero/weights.h>

enum { MOST_TENSORS = 96, MOST_ELEMENTS = 4096 };

typedef struct shape { // of a job
    int data, tensor, stages;
    const char *schedule;
} shape;

static const shape shapes[] = {
    {2, 1, 1, NULL}, {2, 1, 2, "1f1b"}, {2, 1, 4, "zb-h1"}, {2, 2, 2, "interleaved:2"}};
#define EXACT "\"libzero\": {\"exact_pipeline\": true}"
enum { SHAPES = sizeof shapes / sizeof *shapes };

static harness_result plain, piped;

static zero_llama_config narrow(void)
{
    zero_llama_config config = harness_llama();
    config.n_layer = 4;
    config.hidden_size = 32;
    config.intermediate_size = 48;
    config.tied = 0;
    return config;
}

// Wide enough for tiles, which are 64 rows or columns at least.
static zero_llama_config wide(void)
{
    zero_llama_config config = narrow();
    config.vocab_size = 100;
    config.n_layer = 2;
    config.hidden_size = 128;
    config.intermediate_size = 160;
    return config;
}

// The models: a Llama that shares nothing, and a GPT-2 whose table first and last stage share.
enum { MODELS = 2 };

// The model of the case is `model`'s, wide enough for tiles if it is wide.
static harness_case case_of(int model, bool is_wide, const shape *s)
{
    static zero_llama_config llama[2];
    llama[0] = narrow();
    llama[1] = wide();
    harness_case c = {.stage = (s->stages + s->tensor) % 4,
                      .ranks = s->data,
                      .accumulation = 4,
                      .batch = 1,
                      .layers = is_wide ? 2 : 4,
                      .heads = 4,
                      .width = is_wide ? 128 : 32,
                      .vocabulary = is_wide ? 100 : 0,
                      .precision = EXACT};
    if (model == 0)
        c.llama = &llama[is_wide];
    if (s->stages > 1) {
        c.stages = s->stages;
        c.schedule = s->schedule;
    }
    if (s->tensor > 1) {
        c.tensor = s->tensor;
        c.slices = s->tensor;
    }
    return c;
}

// All shapes compute the same two slices.
static harness_case in_slices(harness_case c)
{
    c.slices = c.slices ? c.slices : 2;
    c.tensor = c.tensor ? c.tensor : 1;
    return c;
}

// What the ranks of the first shape have read; those of the others must read the same.
static uint64_t seen[HARNESS_STEPS][2];
static bool is_first;

static const zero_model *whole_of(const zero_engine *engine)
{
    const zero_model *model = zr_engine_plan(engine)->model;
    return model->whole ? model->whole : model;
}

static void note(const zero_engine *engine, uint64_t *where, uint64_t value)
{
    if (is_first && zr_engine_comm(engine)->rank == 0)
        *where = value;
    else if (!is_first && *where != value)
        abort();
}

static zero_status fold_all(zero_engine *engine, bool gradients, uint64_t *hash, zero_error *error)
{
    static _Thread_local float values[MOST_ELEMENTS];
    for (zr_tensor_walk w = zr_tensors_of(whole_of(engine)); w.desc; zr_tensors_next(&w)) {
        const zero_tensor_desc tensor = zr_tensor_whole(w.desc);
        int64_t elements = zr_tensor_desc_elements(&tensor);
        memset(values, 0x55, sizeof values);
        ZERO_TRY((gradients ? zero_read_gradient : zero_read_parameter)(engine, tensor.name, values,
                                                                        elements, error));
        *hash = zr_hash_bytes(values, (size_t)elements * sizeof *values, *hash);
    }
    return ZERO_OK;
}

// Before the first step every tensor is made other than it was.
static zero_status write_all(zero_engine *engine, zero_error *error)
{
    static _Thread_local float values[MOST_ELEMENTS];
    for (zr_tensor_walk w = zr_tensors_of(whole_of(engine)); w.desc; zr_tensors_next(&w)) {
        const zero_tensor_desc tensor = zr_tensor_whole(w.desc);
        int64_t elements = zr_tensor_desc_elements(&tensor);
        for (int64_t i = 0; i < elements; i++)
            values[i] = (float)((i * 37 + w.number) % 101) / 400 - 0.125f;
        ZERO_TRY(zero_write_parameter(engine, tensor.name, values, elements, error));
    }
    return ZERO_OK;
}

static zero_status write_then_read(zero_engine *engine, int step, zero_error *error)
{
    uint64_t hashes[2] = {0, 0};
    if (step < 0)
        return write_all(engine, error);
    ZERO_TRY(fold_all(engine, false, &hashes[0], error));
    ZERO_TRY(fold_all(engine, true, &hashes[1], error));
    note(engine, &seen[step][0], hashes[0]);
    note(engine, &seen[step][1], hashes[1]);
    return ZERO_OK;
}

static void tensors_are_written_and_read_by_name(void **state)
{
    for (int i = 0; i < MODELS * SHAPES; i++) {
        harness_case c = in_slices(case_of(i / SHAPES, false, &shapes[i % SHAPES]));
        c.after = write_then_read;
        c.steps = 2;
        is_first = i % SHAPES == 0;
        harness_run(&c, is_first ? &plain : &piped);
        assert_true(is_first || harness_equal(&plain, &piped));
        assert_true(seen[0][0] != seen[1][0] && seen[0][1] != seen[1][1]);
    }
}

static bool is_norm(const void *user, const char *name)
{
    return strstr(name, "norm") || strstr(name, "ln_");
}
static const zr_lm_frozen frozen_norms = {.is_frozen = is_norm};

static zero_status expect_no_gradient(zero_engine *engine, const zero_tensor_desc *tensor,
                                      zero_error *error)
{
    static _Thread_local float values[MOST_ELEMENTS];
    int64_t elements = zr_tensor_desc_elements(tensor);
    zero_error why = {0};
    zero_status status = zero_read_gradient(engine, tensor->name, values, elements, &why);
    if (status != ZERO_ERR_USAGE || !strstr(why.message, "has no gradient"))
        return zr_fail(error, ZERO_ERR_INTERNAL, "%s: \"%s\"", tensor->name, why.message);
    return zero_read_parameter(engine, tensor->name, values, elements, error);
}

static zero_status read_frozen(zero_engine *engine, int step, zero_error *error)
{
    for (zr_tensor_walk w = zr_tensors_of(whole_of(engine)); w.desc; zr_tensors_next(&w))
        if (w.kind == ZERO_FROZEN)
            ZERO_TRY(expect_no_gradient(engine, w.desc, error));
    return ZERO_OK;
}

static void what_does_not_train_has_no_gradient_on_any_rank(void **state)
{
    for (int i = 0; i < MODELS * SHAPES; i++) {
        harness_case c = case_of(i / SHAPES, false, &shapes[i % SHAPES]);
        if (c.slices)
            continue; // models that are cut by the program train whole
        c.frozen = &frozen_norms;
        c.after = read_frozen;
        harness_run(&c, i % SHAPES == 0 ? &plain : &piped);
        assert_true(i % SHAPES == 0 || harness_equal(&plain, &piped));
    }
}

static zero_status expect_found(zero_engine *engine, const char *words, zero_error *error)
{
    char found[256];
    ZERO_TRY(zr_engine_find_nonfinite(engine, found, sizeof found, error));
    return strcmp(found, words) == 0
               ? ZERO_OK
               : zr_fail(error, ZERO_ERR_INTERNAL, "rank %d finds \"%s\", not \"%s\"",
                         zr_engine_comm(engine)->rank, found, words);
}

// Puts a value in the last place of a tensor, and tells what was there.
static zero_status put_last(zero_engine *engine, const zero_tensor_desc *desc, float value,
                            float *before, zero_error *error)
{
    static _Thread_local float values[MOST_ELEMENTS];
    const zero_tensor_desc tensor = zr_tensor_whole(desc);
    int64_t elements = zr_tensor_desc_elements(&tensor);
    ZERO_TRY(zero_read_parameter(engine, tensor.name, values, elements, error));
    *before = values[elements - 1];
    values[elements - 1] = value;
    return zero_write_parameter(engine, tensor.name, values, elements, error);
}

static zero_status expect_values_of(zero_engine *engine, const zero_tensor_desc *desc,
                                    zero_error *error)
{
    char words[256];
    snprintf(words, sizeof words, "the values of %s", zr_tensor_whole(desc).name);
    return expect_found(engine, words, error);
}

// Every tensor in turn is the one that is not finite, and then the first of those that are not.
static zero_status spoil(zero_engine *engine, int step, zero_error *error)
{
    float kept[MOST_TENSORS], spoiled;
    if (step >= 0)
        return ZERO_OK;
    ZERO_TRY(expect_found(engine, "no parameter and no gradient", error));
    for (zr_tensor_walk w = zr_tensors_of(whole_of(engine)); w.desc; zr_tensors_next(&w)) {
        ZERO_TRY(put_last(engine, w.desc, INFINITY, &kept[w.number], error));
        ZERO_TRY(expect_values_of(engine, w.desc, error));
        ZERO_TRY(put_last(engine, w.desc, kept[w.number], &spoiled, error));
    }
    for (zr_tensor_walk w = zr_tensors_of(whole_of(engine)); w.desc; zr_tensors_next(&w))
        ZERO_TRY(put_last(engine, w.desc, NAN, &kept[w.number], error));
    for (zr_tensor_walk w = zr_tensors_of(whole_of(engine)); w.desc; zr_tensors_next(&w)) {
        ZERO_TRY(expect_values_of(engine, w.desc, error));
        ZERO_TRY(put_last(engine, w.desc, kept[w.number], &spoiled, error));
    }
    return expect_found(engine, "no parameter and no gradient", error);
}

static void all_ranks_find_what_is_not_finite(void **state)
{
    for (int i = 0; i < MODELS * SHAPES; i++) {
        harness_case c = case_of(i / SHAPES, false, &shapes[i % SHAPES]);
        c.after = spoil;
        c.steps = 1;
        harness_run(&c, &piped);
    }
}

static char skipped_at[HARNESS_STEPS][256];

static zero_status tell_skipped(zero_engine *engine, int step, zero_error *error)
{
    char found[256];
    if (step < 0)
        return ZERO_OK;
    ZERO_TRY(zr_engine_find_nonfinite(engine, found, sizeof found, error));
    if (is_first && zr_engine_comm(engine)->rank == 0)
        snprintf(skipped_at[step], sizeof skipped_at[step], "%s", found);
    return is_first ? ZERO_OK : expect_found(engine, skipped_at[step], error);
}

static void a_skipped_step_names_its_tensor_on_all_ranks(void **state)
{
    for (int i = 0; i < MODELS * SHAPES; i++) {
        harness_case c = in_slices(case_of(i / SHAPES, false, &shapes[i % SHAPES]));
        c.precision = "\"fp16\": {\"enabled\": true, \"initial_scale_power\": 26}, " EXACT;
        c.after = tell_skipped;
        is_first = i % SHAPES == 0;
        harness_run(&c, is_first ? &plain : &piped);
        assert_true(is_first || (harness_equal(&plain, &piped) && plain.skipped == piped.skipped));
        assert_true(plain.skipped > 0 && strstr(skipped_at[0], "the gradient of "));
    }
}

// Cuts the weights of a wide case.
static void tile(harness_case *c)
{
    static zero_llama_config llama;
    c->tiles_embedding = c->tiles_attention = 2;
    c->tiles_mlp = 3;
    if (!c->llama)
        return;
    llama = *c->llama;
    llama.tiles_embedding = llama.tiles_attention = 2;
    llama.tiles_mlp = 3;
    c->llama = &llama;
}

// Tiles and slices are not combined.
enum { WITHOUT_SLICES = SHAPES - 1 };

// Tells what is left out under a sanitizer: there one shape is compared with the first, `turn` says
// which.
static bool is_left_out(int i, int turn) { return SANITIZED && i > 0 && i != 1 + turn % 2; }

static void expect_tiles(int model, int stage)
{
    static const char *const optimizers[] = {"AdamW", "LAMB"};
    for (int i = 0; i < WITHOUT_SLICES; i++) {
        harness_case c = case_of(model, true, &shapes[i]);
        if (is_left_out(i, model + stage))
            continue;
        tile(&c);
        c.stage = stage;
        c.optimizer = optimizers[(model + stage) % 2];
        c.clipping = 1;
        c.steps = 2;
        harness_run(&c, i == 0 ? &plain : &piped);
        harness_expect_held(i == 0 ? &plain : &piped);
        if (i > 0 && !harness_equal(&plain, &piped))
            fail_msg("model %d, ZeRO stage %d, %d pipeline stages: other bits", model, stage,
                     shapes[i].stages);
    }
}

static void tiles_are_the_tensors_of_any_stage(void **state)
{
    for (int stage = 0; stage <= 3; stage++)
        for (int m = 0; m < MODELS; m++)
            if (!SANITIZED || m == stage / 2)
                expect_tiles(m, stage);
}

static const char *scratch_name(scratch *made, const char *name)
{
    snprintf(made->path, sizeof made->path, "%s/%s", made->directory, name);
    return made->path;
}

// Stages of a model that is whole save what the model itself does: stretches of tensors.
static void expect_first_format(const char *checkpoint)
{
    zr_manifest manifest;
    zero_error error = {0};
    assert_int_equal(zr_manifest_read(checkpoint, &manifest, &error), ZERO_OK);
    for (int t = 0; t < manifest.files[0].tensor_count; t++)
        for (int e = 0; e < manifest.files[0].tensors[t].extent_count; e++)
            assert_int_equal(manifest.files[0].tensors[t].extents[e].at.rows, 1);
    zr_manifest_free(&manifest);
}

// It is saved before its second step, so that states are not zero. The step after that tells
// whether they were found.
enum { SAVED_AT = 1, LAST = 2 };

static harness_case lamb_of(int model, bool tiled, const shape *s)
{
    harness_case c = case_of(model, true, s);
    c.optimizer = "LAMB";
    c.steps = LAST + 1;
    if (tiled)
        tile(&c);
    return c;
}

// Goes on from a checkpoint, tiled and not.
static void expect_rest(int model, const char *checkpoint, const shape *s)
{
    for (int tiled = 0; tiled < 2; tiled++) {
        harness_case c = lamb_of(model, tiled, s);
        c.load = checkpoint;
        harness_run(&c, &piped);
        assert_float_equal(piped.loss[LAST], plain.loss[LAST], 1e-4);
        if (tiled && (piped.loss[LAST] != plain.loss[LAST] ||
                      piped.norm[LAST] != plain.norm[LAST] || piped.evaluated != plain.evaluated))
            fail_msg("model %d, %d stages go on to other bits", model, s->stages);
    }
}

static void tiles_are_saved_and_found_by_any_stage(void **state)
{
    for (int m = 0; m < MODELS; m++) {
        harness_case c = lamb_of(m, true, &shapes[0]);
        harness_run(&c, &plain);
        for (int from = 0; from < WITHOUT_SLICES; from++) {
            char name[16];
            snprintf(name, sizeof name, "%d-%d", m, from);
            c = lamb_of(m, true, &shapes[from]);
            c.save = scratch_name(*state, name);
            c.save_at = SAVED_AT;
            c.overlapped = from == 1;
            harness_run(&c, &piped);
            assert_int_equal(piped.saved, ZERO_OK);
            expect_first_format(c.save);
            for (int to = 0; to < WITHOUT_SLICES; to++)
                if (!SANITIZED || (from + to) % WITHOUT_SLICES == 1 + m)
                    expect_rest(m, c.save, &shapes[to]);
        }
    }
}

static scratch *weights;
static int saved_by; // stages

// Every rank knows what the model is called in files, and where its ranges lie there.
static zero_status save_weights(zero_engine *engine, int step, zero_error *error)
{
    char path[512];
    if (step != 1)
        return ZERO_OK;
    if (!zr_lm_config_of(zr_engine_plan(engine)->model))
        return zr_fail(error, ZERO_ERR_INTERNAL, "this rank does not know its model");
    snprintf(path, sizeof path, "%s/%d.safetensors", weights->directory, saved_by);
    return zero_save_weights(engine, path, error);
}

static zero_status load_weights(zero_engine *engine, int step, zero_error *error)
{
    char path[512];
    snprintf(path, sizeof path, "%s/1.safetensors", weights->directory);
    return step < 0 ? zero_load_weights(engine, path, error) : ZERO_OK;
}

// Compares what one run saved with what the run without a pipeline did.
static void expect_one_file(void)
{
    char *files[2];
    size_t lengths[2];
    const int stages[] = {1, saved_by};
    for (int f = 0; f < 2; f++) {
        char name[32];
        snprintf(name, sizeof name, "%d.safetensors", stages[f]);
        assert_int_equal(
            zr_file_read(scratch_name(weights, name), 1 << 24, &files[f], &lengths[f], NULL),
            ZERO_OK);
    }
    assert_int_equal(lengths[0], lengths[1]);
    assert_memory_equal(files[0], files[1], lengths[0]);
    zr_free(files[0]);
    zr_free(files[1]);
}

static void weights_alone_are_one_file(void **state)
{
    weights = *state;
    for (int i = 0; i < MODELS * WITHOUT_SLICES; i++) {
        const shape *s = &shapes[i % WITHOUT_SLICES];
        harness_case c = case_of(i / WITHOUT_SLICES, true, s);
        if (is_left_out(i % WITHOUT_SLICES, i / WITHOUT_SLICES))
            continue;
        tile(&c);
        c.steps = 2;
        c.after = save_weights;
        saved_by = s->stages;
        harness_run(&c, &piped);
        expect_one_file();
        c.after = load_weights;
        harness_run(&c, s->stages == 1 ? &plain : &piped);
        assert_true(s->stages == 1 || harness_equal(&plain, &piped));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_are_written_and_read_by_name),
        cmocka_unit_test(what_does_not_train_has_no_gradient_on_any_rank),
        cmocka_unit_test(all_ranks_find_what_is_not_finite),
        cmocka_unit_test(a_skipped_step_names_its_tensor_on_all_ranks),
        cmocka_unit_test(tiles_are_the_tensors_of_any_stage),
        cmocka_unit_test_setup_teardown(tiles_are_saved_and_found_by_any_stage, scratch_in_ram,
                                        scratch_close),
        cmocka_unit_test_setup_teardown(weights_alone_are_one_file, scratch_in_ram, scratch_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
