// Decides whether a training can continue from a checkpoint's manifest, and from where: its numbers
// must be possible, optimizer, batch and model must be the same, and the loss scale continues or
// begins anew.
#include "checkpoint/training_checkpoint.h"

#include "formats/manifest.h"
#include "layers/layers.h"

#include <stdio.h>
#include <string.h>

int64_t zr_exact_micro_batch(const zr_config *config)
{
    return config->exact_world ? config->micro_batch : 0;
}

static double number_at(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}
static int64_t integer_at(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

// The state must have passed zr_state_check.
static zr_progress read_progress(const json_t *state)
{
    const json_t *scale = json_object_get(state, "loss_scale");
    return (zr_progress){
        .step = integer_at(state, "step"),
        .updates = integer_at(state, "updates"),
        .scale = {.scale = number_at(scale, "scale"),
                  .iteration = integer_at(scale, "iteration"),
                  .last_overflow = integer_at(scale, "last_overflow"),
                  .hysteresis = (int)integer_at(scale, "hysteresis")},
        .gradient_scale = number_at(state, "gradient_scale"),
    };
}

// A run with libzero.exact_world or exact_tensor promises its bits on any number of ranks. If the
// checkpoint promised them too, both must have the same micro-batch and slices.
static zero_status check_exact_settings(const zr_config *config, const char *directory,
                                        const json_t *state, zero_error *error)
{
    const json_t *libzero = json_object_get(json_object_get(state, "config"), "libzero");
    int64_t exact = integer_at(state, "exact_micro_batch"),
            slices = integer_at(libzero, "exact_tensor");
    if (config->exact_world && exact && exact != config->micro_batch)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "the checkpoint \"%s\" was made with libzero.exact_world and a "
                       "train_micro_batch_size_per_gpu of %lld, this training has %lld: from here "
                       "on its bits would be others",
                       directory, (long long)exact, (long long)config->micro_batch);
    if (config->exact_tensor_said && slices && slices != config->exact_tensor)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "the checkpoint \"%s\" was made with libzero.exact_tensor %lld, this "
                       "training has %lld: from here on its bits would be others",
                       directory, (long long)slices, (long long)config->exact_tensor);
    return ZERO_OK;
}

static zero_status compare_training(const zero_engine *engine, const char *directory,
                                    const json_t *state, zero_error *error)
{
    const zr_config *config = zr_engine_config(engine);
    const char *optimizer = json_string_value(json_object_get(state, "optimizer")),
               *wanted = zr_optimizer_traits_of(config->optimizer.kind)->name;
    int64_t batch = integer_at(state, "train_batch_size");
    if (!optimizer)
        return zr_fail(error, ZERO_ERR_DATA,
                       "\"%s/" ZR_MANIFEST "\": the state's \"optimizer\" is no text", directory);
    if (strcmp(optimizer, wanted))
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "the checkpoint \"%s\" is one of %s, this training uses %s", directory,
                       optimizer, wanted);
    if (batch && batch != config->train_batch) // 0 if its writer did not know it
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "the checkpoint \"%s\" was made with a train_batch_size of %lld, this "
                       "training has %lld: it would read other samples from here on",
                       directory, (long long)batch, (long long)config->train_batch);
    return check_exact_settings(config, directory, state, error);
}

// Compares the settings of a checkpoint's model that names and shapes of tensors do not show.
// Models of other programs, and old checkpoints, have no such settings.
zero_status zr_checkpoint_compare_model(const zero_engine *engine, const char *directory,
                                        const json_t *state, zr_lm_changes allowed,
                                        zr_lm_difference *out, zero_error *error)
{
    char where[ZERO_MESSAGE_BYTES];
    const json_t *saved = json_object_get(state, "model_config");
    const zr_lm_config *own = zr_lm_config_of(zr_engine_plan(engine)->model);
    zr_lm_config made;
    *out = (zr_lm_difference){0};
    if (!own || !saved || json_is_null(saved))
        return ZERO_OK;
    snprintf(where, sizeof where, "%s/" ZR_MANIFEST ": \"model_config\"", directory);
    if (own->kind == ZR_LM_ROWS) // no file names it
        return zr_lm_compare_saved(saved, own, allowed, out, error);
    ZERO_TRY(zr_lm_config_unpack(saved, where, &made, error));
    return zr_lm_compare(&made, own, allowed, out, error);
}

// Compares the adapters, because tensors do not show all of their settings.
static zero_status refuse_other_adapters(const zero_engine *engine, const char *directory,
                                         const json_t *state, zero_error *error)
{
    const zr_lm_config *own = zr_lm_config_of(zr_engine_plan(engine)->model);
    const char *saved = json_string_value(json_object_get(state, "lora"));
    char here[ZR_LORA_TEXT] = "none";
    zr_lora lora = {0};
    zr_lm_changes dropout;
    if (!own)
        return ZERO_OK;
    if (saved)
        ZERO_TRY(zr_lora_parse(saved, directory, own, &lora, error));
    if (own->lora.rank)
        zr_lora_write(&own->lora, own, here, sizeof here);
    ZERO_TRY(zr_lm_changes_parse("dropout", &dropout, error));
    bool same = zr_lora_computes_same(&lora, &own->lora);
    if (same && (lora.dropout == own->lora.dropout || zr_engine_allowed_changes(engine) & dropout))
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_CONFIG,
                   "the checkpoint \"%s\" is of a training with the adapters %s, this one has %s "
                   "(--lora)%s",
                   directory, saved ? saved : "none", here,
                   same ? ": to change it on purpose: --allow-change dropout" : "");
}

static zero_status refuse_other_base(const zero_engine *engine, const char *directory,
                                     const json_t *state, zero_error *error)
{
    const zr_lm_config *own = zr_lm_config_of(zr_engine_plan(engine)->model);
    const char *saved = json_string_value(json_object_get(state, "base")),
               *here = own ? zr_weight_format_name(own->base) : NULL;
    if (!own || (saved && here ? !strcmp(saved, here) : saved == here))
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_CONFIG,
                   "the checkpoint \"%s\" is of adapters of a base in %s, this training has one in "
                   "%s (--base)",
                   directory, saved ? saved : "plain weights", here ? here : "plain weights");
}

static zero_status refuse_other_preference(const zero_engine *engine, const char *directory,
                                           const json_t *state, zero_error *error)
{
    const zr_lm_config *own = zr_lm_config_of(zr_engine_plan(engine)->model);
    const char *saved = json_string_value(json_object_get(state, "preference"));
    zr_preference made;
    char here[ZR_PREFERENCE_TEXT];
    if (!own)
        return ZERO_OK;
    ZERO_TRY(zr_preference_parse(saved, directory, &made, error));
    if (zr_preference_is_same(&made, &own->preference))
        return ZERO_OK;
    zr_preference_write(&own->preference, here);
    return zr_fail(error, ZERO_ERR_CONFIG,
                   "the checkpoint \"%s\" is of a training on the preference %s, this one has %s "
                   "(--preference): a new run begins from the model that this one has made",
                   directory, saved ? saved : "none", here);
}

static zero_status refuse_other_model(const zero_engine *engine, const char *directory,
                                      const json_t *state, zero_error *error)
{
    zr_lm_difference d;
    ZERO_TRY(zr_checkpoint_compare_model(engine, directory, state,
                                         zr_engine_allowed_changes(engine), &d, error));
    if (!d.found)
        return ZERO_OK;
    return zr_fail(
        error, ZERO_ERR_CONFIG,
        "the checkpoint \"%s\" is of a model whose \"%s\" is %s, this training's has %s: %s%s",
        directory, d.key, d.values[0], d.values[1],
        d.change ? "to change it on purpose: --allow-change "
                 : "from here on it would compute something else",
        d.change ? d.change : "");
}

// Returns whether the checkpoint's loss scale was dynamic, by the configuration in it. Older
// checkpoints have no configuration: in these, only a dynamic scale has counts of both steps and
// hysteresis.
static bool was_scale_dynamic(const json_t *state, const zr_loss_scale *saved)
{
    const json_t *fp16 = json_object_get(json_object_get(state, "config"), "fp16");
    if (!fp16)
        return saved->iteration > 0 && saved->hysteresis > 0;
    return json_is_true(json_object_get(fp16, "enabled")) && !(number_at(fp16, "loss_scale") > 0);
}

static void log_changed_scale(const zero_engine *engine, const zr_loss_scale *saved,
                              const zr_loss_scale *now, bool dynamic)
{
    const zr_loss_scale_spec *spec = &zr_engine_config(engine)->loss_scale;
    const zero_logger *logger = zr_engine_comm(engine)->rank == 0 ? zr_engine_logger(engine) : NULL;
    if (spec->kind == ZR_SCALE_DYNAMIC && !dynamic)
        zr_log(logger, ZERO_LOG_INFO,
               "resume   the loss scale begins anew at %.9g: the checkpoint was made without a "
               "dynamic one",
               now->scale);
    else if (spec->kind == ZR_SCALE_DYNAMIC && now->scale != saved->scale)
        zr_log(logger, ZERO_LOG_INFO,
               "resume   the loss scale goes on at %.9g, fp16.min_loss_scale: the checkpoint's is "
               "%.9g",
               now->scale, saved->scale);
    else if (spec->kind == ZR_SCALE_STATIC && now->scale != saved->scale)
        zr_log(logger, ZERO_LOG_INFO,
               "resume   the loss scale is %.9g (fp16.loss_scale): the checkpoint's is %.9g",
               now->scale, saved->scale);
}

zero_status zr_checkpoint_state_read(const zero_engine *engine, const char *directory,
                                     const json_t *state, zr_progress *out, zero_error *error)
{
    char where[ZERO_MESSAGE_BYTES];
    snprintf(where, sizeof where, "%s/" ZR_MANIFEST, directory);
    ZERO_TRY(zr_state_check(state, where, error));
    // Promises come first, because the batch that the program chooses depends on them.
    ZERO_TRY(refuse_other_model(engine, directory, state, error));
    ZERO_TRY(refuse_other_adapters(engine, directory, state, error));
    ZERO_TRY(refuse_other_base(engine, directory, state, error));
    ZERO_TRY(refuse_other_preference(engine, directory, state, error));
    ZERO_TRY(compare_training(engine, directory, state, error));
    const zr_progress saved = read_progress(state);
    bool dynamic = was_scale_dynamic(state, &saved.scale);
    *out = saved;
    out->scale = zr_loss_scale_resume(&zr_engine_config(engine)->loss_scale, &saved.scale, dynamic);
    log_changed_scale(engine, &saved.scale, &out->scale, dynamic);
    return ZERO_OK;
}
