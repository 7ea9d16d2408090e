// zero_save_checkpoint and zero_load_checkpoint: the vectors of an engine, and the other values
// that it needs to continue the training bit for bit.
#include "checkpoint/training_checkpoint.h"

#include "base/random.h"
#include "comm/agreement.h"
#include "cuda/cards.h"
#include "layers/layers.h"
#include "model/architecture.h"
#include "model/unit.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static zero_status add_state_vector(zr_state_vectors *v, zero_engine *engine, zr_vector vector,
                                    zr_view_purpose purpose, const char *name, zero_dtype dtype,
                                    zero_error *error)
{
    // Weights, two states of an optimizer, average, parameters.
    assert(v->count < ZR_MOST_STATE_VECTORS);
    ZERO_TRY(zr_model_view_create(engine, vector, zr_view_of_checkpoint(engine), purpose,
                                  &v->views[v->count], error));
    v->of[v->count] =
        (zr_state_vector){.name = name, .dtype = dtype, .view = v->views[v->count].view};
    v->count++;
    return ZERO_OK;
}

// Adafactor's averages, by torch's names; col_var also has those of vectors.
static zero_status add_factors(zr_state_vectors *v, zero_engine *engine, zr_view_purpose purpose,
                               zero_error *error)
{
    static const char *const names[] = {"row_var", "col_var"};
    for (int i = 0; i < ZR_COUNT(names); i++) {
        zr_factors_view *view = &v->factors[i];
        ZERO_TRY(zr_factors_view_create(engine, i == 0, purpose, view, error));
        assert(v->count < ZR_MOST_STATE_VECTORS);
        if (view->view.tensor_count)
            v->of[v->count++] =
                (zr_state_vector){.name = names[i], .dtype = ZERO_F32, .view = view->view};
    }
    return ZERO_OK;
}

// Lists the vectors. stale: units read parameters that are one update older than the weights.
static zero_status list_state_vectors(zero_engine *engine, zr_view_purpose purpose, bool stale,
                                      zr_state_vectors *v, zero_error *error)
{
    const zr_settings *settings = &zr_engine_plan(engine)->settings;
    const zr_optimizer_traits *traits =
        zr_optimizer_traits_of(zr_engine_config(engine)->optimizer.kind);
    // States in 8 bits are fp32 numbers there (base/state_codes.h).
    zero_dtype states = settings->precision.moments == ZERO_BF16 ? ZERO_BF16 : ZERO_F32;
    ZERO_TRY(add_state_vector(v, engine, ZR_VECTOR_MASTER, purpose, "weights", ZERO_F32, error));
    for (int i = 0; i < settings->state_vectors; i++)
        ZERO_TRY(add_state_vector(v, engine, ZR_VECTOR_STATE0 + i, purpose, traits->states[i],
                                  states, error));
    if (settings->average)
        ZERO_TRY(
            add_state_vector(v, engine, ZR_VECTOR_AVERAGE, purpose, "average", ZERO_F32, error));
    if (settings->factored)
        ZERO_TRY(add_factors(v, engine, purpose, error));
    return stale ? add_state_vector(v, engine, ZR_VECTOR_PARAMETERS, purpose, "parameters",
                                    settings->precision.parameters, error)
                 : ZERO_OK;
}

void zr_state_vectors_free(zr_state_vectors *v)
{
    for (int i = 0; i < v->count; i++)
        zr_model_view_free(&v->views[i]);
    for (int i = 0; i < ZR_COUNT(v->factors); i++)
        zr_factors_view_free(&v->factors[i]);
}

// Returns NULL for a single one, which is not written.
static json_t *json_if_several(int ranks) { return ranks > 1 ? json_integer(ranks) : NULL; }

// Describes the program that wrote the checkpoint, and the time. Nothing depends on it: the rest of
// a checkpoint is a function of the training alone.
static json_t *describe_origin(zero_engine *engine)
{
    char now[32] = "";
    time_t seconds = time(NULL);
    struct tm parts;
    if (gmtime_r(&seconds, &parts))
        strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", &parts);
    const zr_config *config = zr_engine_config(engine);
    char instructions[256] = "unknown";
    zr_queue_instructions(zr_engine_queue(engine), instructions, sizeof instructions, NULL);
    return json_pack("{s:s, s:s, s:i, s:o*, s:o*, s:s}", "program", zero_version(), "instructions",
                     instructions, "ranks", zr_engine_comm(engine)->size, "tensor",
                     json_if_several(config->tensor), "pipeline",
                     json_if_several(config->pipeline.stages), "written", now);
}

// Describes the resolved configuration of the next steps.
static json_t *describe_config(const zr_config *config)
{
    zr_buffer text = {0};
    zr_config_write(config, &text);
    json_t *object = text.failed ? NULL : json_loadb(text.data, text.length, 0, NULL);
    zr_buffer_free(&text);
    return object;
}

// Returns the config.json of a model that the library made, because tensors do not show all of it;
// NULL for other models.
static json_t *describe_model(const zero_engine *engine)
{
    const zr_lm_config *config = zr_lm_config_of(zr_engine_plan(engine)->model);
    return config ? zr_lm_config_pack(config) : NULL;
}

// Returns the adapters as zr_lora_parse reads them; NULL if the model has none.
static json_t *describe_adapters(const zero_engine *engine)
{
    const zr_lm_config *config = zr_lm_config_of(zr_engine_plan(engine)->model);
    char text[ZR_LORA_TEXT];
    if (!config || !config->lora.rank)
        return NULL;
    zr_lora_write(&config->lora, config, text, sizeof text);
    return json_string(text);
}

// Returns the format of the weights that the adapters adapt; NULL if they are plain.
static json_t *describe_base(const zero_engine *engine)
{
    const zr_lm_config *config = zr_lm_config_of(zr_engine_plan(engine)->model);
    const char *name = config ? zr_weight_format_name(config->base) : NULL;
    return name ? json_string(name) : NULL;
}

// Returns the loss of preferences as zr_preference_parse reads it; NULL if it is another loss.
static json_t *describe_preference(const zero_engine *engine)
{
    const zr_lm_config *config = zr_lm_config_of(zr_engine_plan(engine)->model);
    char text[ZR_PREFERENCE_TEXT];
    if (!config || !config->preference.kind)
        return NULL;
    zr_preference_write(&config->preference, text);
    return json_string(text);
}

static json_t *describe_state(zero_engine *engine)
{
    const zr_progress now = zr_engine_progress(engine);
    const zr_config *config = zr_engine_config(engine);
    return json_pack("{s:I, s:I, s:{s:f, s:I, s:I, s:i}, s:f, s:I, s:I, s:I, s:s, s:s, s:o, s:o, "
                     "s:o*, s:o*, s:o*, s:o*}",
                     "step", (json_int_t)now.step, "updates", (json_int_t)now.updates, "loss_scale",
                     "scale", now.scale.scale, "iteration", (json_int_t)now.scale.iteration,
                     "last_overflow", (json_int_t)now.scale.last_overflow, "hysteresis",
                     now.scale.hysteresis, "gradient_scale", now.gradient_scale, "seed",
                     (json_int_t)config->seed, "train_batch_size", (json_int_t)config->train_batch,
                     "exact_micro_batch", (json_int_t)zr_exact_micro_batch(config), "optimizer",
                     zr_optimizer_traits_of(config->optimizer.kind)->name, "model",
                     zr_engine_plan(engine)->model->name, "lineage", describe_origin(engine),
                     "config", describe_config(config), "model_config", describe_model(engine),
                     "lora", describe_adapters(engine), "base", describe_base(engine), "preference",
                     describe_preference(engine));
}

const char *zr_checkpoint_instructions(const json_t *state)
{
    return json_string_value(json_object_get(json_object_get(state, "lineage"), "instructions"));
}

bool zr_checkpoint_is_same_progress(const json_t *a, const json_t *b)
{
    static const char *const keys[] = {"step", "updates", "loss_scale", "gradient_scale"};
    bool same = true;
    for (int k = 0; k < ZR_COUNT(keys); k++)
        same = same && json_equal(json_object_get(a, keys[k]), json_object_get(b, keys[k]));
    return same;
}

zero_status zr_checkpoint_describe(zero_engine *engine, zr_view_purpose purpose,
                                   const char *directory, json_t *more, zr_state_vectors *vectors,
                                   json_t **state, zero_error *error)
{
    bool stale = false;
    *vectors = (zr_state_vectors){0};
    *state = describe_state(engine);
    zero_status status =
        *state && (!more || !json_object_update(*state, more))
            ? ZERO_OK
            : zr_fail(error, ZERO_ERR_MEMORY, "no memory for the state of \"%s\"", directory);
    json_decref(more);
    if (status == ZERO_OK)
        status = zr_engine_join_delayed_update(engine, &stale, error);
    if (status == ZERO_OK)
        status = list_state_vectors(engine, purpose, stale, vectors, error);
    if (purpose == ZR_VIEW_SAVES)
        zr_engine_forget_carries(engine);
    return zr_comm_agree(zr_engine_comm(engine), status, error);
}

zero_status zr_checkpoint_save(zero_engine *engine, const char *directory, json_t *more,
                               zero_error *error)
{
    zr_state_vectors v;
    json_t *state;
    zero_status status =
        zr_checkpoint_describe(engine, ZR_VIEW_SAVES, directory, more, &v, &state, error);
    if (status == ZERO_OK)
        status = zr_states_save(zr_engine_comm(engine), directory, v.of, v.count, state, error);
    json_decref(state);
    zr_state_vectors_free(&v);
    return status;
}

static void beat_after_bytes(void *comm, int64_t bytes)
{
    zr_comm_progress(comm, ((zero_comm *)comm)->step);
}

// On rank 0: verifies the vectors that the checkpoint has and this training does not load, so that
// the whole checkpoint is verified.
static zero_status verify_unloaded_vectors(zero_comm *comm, const char *directory,
                                           const zr_manifest *manifest, const zr_state_vectors *v,
                                           zero_error *error)
{
    for (int f = 0; f < manifest->file_count; f++) {
        const zr_manifest one = {.file_count = 1, .files = &manifest->files[f]};
        bool read = false;
        for (int i = 0; i < v->count; i++) {
            char name[ZERO_MESSAGE_BYTES];
            snprintf(name, sizeof name, "%s.safetensors", v->of[i].name);
            read = read || !strcmp(name, one.files->name);
        }
        if (!read)
            ZERO_TRY(zr_manifest_verify(directory, &one, beat_after_bytes, comm, error));
    }
    return ZERO_OK;
}

// Units' parameters are made from the weights, unless they are one update older.
static zero_status load_listed_vectors(zero_engine *engine, const char *directory,
                                       const zr_manifest *manifest, zero_error *error)
{
    bool stale = zr_plan_parameters_lag(zr_engine_plan(engine)) &&
                 zr_manifest_find(manifest, "parameters.safetensors");
    zr_state_vectors v = {0};
    zero_comm *comm = zr_engine_comm(engine);
    zero_status status =
        zr_comm_agree(comm, list_state_vectors(engine, ZR_VIEW_LOADS, stale, &v, error), error);
    if (status == ZERO_OK)
        status = zr_engine_await_readers(engine, error);
    if (status == ZERO_OK)
        status = zr_comm_agree(comm,
                               comm->rank == 0
                                   ? verify_unloaded_vectors(comm, directory, manifest, &v, error)
                                   : ZERO_OK,
                               error);
    if (status == ZERO_OK)
        status = zr_states_load(comm, directory, manifest, v.of, v.count - stale, error);
    if (status == ZERO_OK)
        status = zr_engine_states_changed(engine, error);
    if (status == ZERO_OK && stale)
        status = zr_states_load(comm, directory, manifest, &v.of[v.count - 1], 1, error);
    if (status == ZERO_OK && stale)
        status = zr_engine_parameters_stale(engine, error);
    zr_state_vectors_free(&v);
    return status;
}

// Each rank reads its ranges from the directory that it sees, so the ranks compare the manifests,
// which describe the content down to the last checksum.
static zero_status compare_manifests(zero_comm *comm, const char *directory,
                                     const zr_manifest *manifest, zero_error *error)
{
    zr_fingerprints list = {0};
    if (comm->size == 1)
        return ZERO_OK;
    char *state = json_dumps(manifest->state, JSON_COMPACT);
    uint64_t hash = state ? zr_hash_text(state) : 0;
    list.failed = !state;
    free(state);
    for (int f = 0; f < manifest->file_count; f++)
        for (int t = 0; t < manifest->files[f].tensor_count; t++)
            for (int e = 0; e < manifest->files[f].tensors[t].extent_count; e++)
                hash = zr_hash_bytes(&manifest->files[f].tensors[t].extents[e].checksum,
                                     sizeof(uint32_t), hash);
    zr_fingerprints_add(&list, "checkpoint", directory, "", hash);
    return zr_comm_compare_fingerprints(comm, &list, error);
}

static zero_status load_state_and_vectors(zero_engine *engine, const char *directory,
                                          zr_manifest *manifest, zero_error *error)
{
    zr_progress progress = {0};
    zero_status status = zr_manifest_read(directory, manifest, error);
    if (status == ZERO_OK)
        status = zr_checkpoint_state_read(engine, directory, manifest->state, &progress, error);
    ZERO_TRY(zr_comm_agree(zr_engine_comm(engine), status, error));
    ZERO_TRY(compare_manifests(zr_engine_comm(engine), directory, manifest, error));
    ZERO_TRY(load_listed_vectors(engine, directory, manifest, error));
    zr_engine_go_on_from(engine, &progress);
    return ZERO_OK;
}

zero_status zr_checkpoint_load(zero_engine *engine, const char *directory, json_t **state,
                               zero_error *error)
{
    zr_manifest manifest = {0};
    ZERO_TRY(zr_engine_may_change(engine, "zero_load_checkpoint", error));
    zero_status status = load_state_and_vectors(engine, directory, &manifest, error);
    if (status == ZERO_OK && state)
        *state = json_incref(manifest.state);
    zr_manifest_free(&manifest);
    return status;
}

zero_status zero_save_checkpoint(zero_engine *engine, const char *directory, zero_error *error)
{
    ZR_NEED(error, engine);
    ZR_NEED(error, directory);
    // Refused during another save.
    ZERO_TRY(zr_engine_may_change(engine, "zero_save_checkpoint", error));
    return zr_checkpoint_save(engine, directory, NULL, error);
}

zero_status zero_load_checkpoint(zero_engine *engine, const char *directory, zero_error *error)
{
    ZR_NEED(error, engine);
    ZR_NEED(error, directory);
    return zr_checkpoint_load(engine, directory, NULL, error);
}
