// zero_save_weights and zero_load_weights: a model's weights alone, in Hugging Face's files.
#include "base/errors.h"
#include "checkpoint/adapter_directory.h"
#include "checkpoint/model_view.h"
#include "checkpoint/run_directory.h"
#include "comm/agreement.h"
#include "formats/magnitudes.h"
#include "layers/layers.h"
#include "model/lm_table.h"
#include <zero/weights.h>

#include <stdio.h>

static const zr_lm_config *config_of(const zero_engine *engine)
{
    return zr_lm_config_of(zr_engine_plan(engine)->model);
}

static bool has_adapters(const zero_engine *engine)
{
    return zr_view_of_checkpoint(engine) == ZR_VIEW_TRAINED;
}

enum { PREFIX = 64 };

// Writes the prefix of names in Hugging Face's files ("transformer." for GPT-2; a user's own models
// have none), after peft's for the names of an adapter.
static void write_prefix(const zero_engine *engine, bool adapter, char out[PREFIX])
{
    const zr_lm_config *ours = config_of(engine);
    const char *prefix = ours ? zr_architecture_of(ours)->file_prefix : NULL;
    snprintf(out, PREFIX, "%s%s", adapter ? ZR_ADAPTER_PREFIX : "", prefix ? prefix : "");
}

typedef zero_status (*view_use)(zero_engine *engine, const char *path, const zr_weight_view *view,
                                const zero_load_options *options, zero_error *error);

// Agrees on the status of a view's creation, uses it, and frees it.
static zero_status use_view(zero_engine *engine, const char *path, zr_model_view *view,
                            zero_status status, view_use use, const zero_load_options *options,
                            zero_error *error)
{
    status = zr_comm_agree(zr_engine_comm(engine), status, error);
    if (status == ZERO_OK)
        status = use(engine, path, &view->view, options, error);
    zr_model_view_free(view);
    return status;
}

static zero_status with_weights_view(zero_engine *engine, const char *path, zr_view_tensors which,
                                     zr_view_purpose purpose, view_use use,
                                     const zero_load_options *options, zero_error *error)
{
    zr_model_view weights;
    zero_status status =
        zr_model_view_create(engine, ZR_VECTOR_MASTER, which, purpose, &weights, error);
    return use_view(engine, path, &weights, status, use, options, error);
}

static zero_status save_model_weights(zero_engine *engine, const char *path,
                                      const zr_weight_view *view, const zero_load_options *unused,
                                      zero_error *error)
{
    char prefix[PREFIX];
    write_prefix(engine, has_adapters(engine), prefix);
    return zr_weights_save(zr_engine_comm(engine), path, prefix, view, error);
}

void zr_weights_name_head(const zr_lm_config *config, zr_weights_options *how)
{
    const zr_architecture *of = zr_architecture_of(config);
    how->tied_head = of->tensors.head;
    // A head of tokens is no concern of a model that has one of labels.
    how->table = config->labels.count ? NULL : of->tensors.table;
    how->drawn = config->labels.drawn ? ZR_SCORE_WEIGHT : NULL;
    how->may_untie = of->fields[ZR_ROLE_TIED].kind != ZR_FIELD_NONE;
}

// Loads from a directory or file that zr_weights_load takes.
static zero_status load_from(zero_engine *engine, const char *from, bool adapter,
                             const zr_weight_view *view, const zero_load_options *options,
                             zero_error *error)
{
    const zr_lm_config *ours = config_of(engine);
    char prefix[PREFIX];
    zr_weights_options how = {
        .seed = zr_engine_seed(engine),
        .ignored = options && options->ignore_unused,
        .logger = options && zr_engine_comm(engine)->rank == 0 ? &options->logger : NULL};
    if (ours && !adapter)
        how.format = ours->base;
    write_prefix(engine, true, prefix);
    if (adapter)
        how.prefix = prefix;
    else if (ours)
        zr_weights_name_head(ours, &how);
    ZERO_TRY(zr_engine_await_readers(engine, error));
    ZERO_TRY(zr_weights_load(zr_engine_comm(engine), from, view, &how, error));
    return zr_engine_parameters_changed(engine, error);
}

// Sets magnitudes to what they are before a training.
static zero_status load_magnitudes(zero_engine *engine, const char *from,
                                   const zr_weight_view *view, const zero_load_options *unused,
                                   zero_error *error)
{
    const zr_lm_config *ours = config_of(engine);
    const zr_magnitudes_options how = {.format = ours->base,
                                       .outputs_first = zr_lm_shape_of(ours).outputs_first};
    ZERO_TRY(zr_magnitudes_load(zr_engine_comm(engine), from, view, &how, error));
    return zr_engine_parameters_changed(engine, error);
}

static zero_status load_with_magnitudes(zero_engine *engine, const char *from,
                                        const zr_weight_view *view,
                                        const zero_load_options *options, zero_error *error)
{
    const zr_lm_config *ours = config_of(engine);
    ZERO_TRY(load_from(engine, from, false, view, options, error));
    return ours && ours->lora.magnitudes
               ? with_weights_view(engine, from, ZR_VIEW_TRAINED, ZR_VIEW_LOADS, load_magnitudes,
                                   NULL, error)
               : ZERO_OK;
}

static zero_status load_model_weights(zero_engine *engine, const char *directory,
                                      const zr_weight_view *view, const zero_load_options *options,
                                      zero_error *error)
{
    char *from;
    zero_status status =
        zr_comm_agree(zr_engine_comm(engine), zr_find_weights(directory, &from, error), error);
    if (status == ZERO_OK)
        status = load_with_magnitudes(engine, from, view, options, error);
    zr_free(from);
    return status;
}

static zero_status load_adapter_weights(zero_engine *engine, const char *directory,
                                        const zr_weight_view *view,
                                        const zero_load_options *options, zero_error *error)
{
    char *from = zr_sprintf(error, "%s/" ZR_ADAPTER_WEIGHTS, directory);
    zero_status status =
        zr_comm_agree(zr_engine_comm(engine), from ? ZERO_OK : ZERO_ERR_MEMORY, error);
    if (status == ZERO_OK)
        status = load_from(engine, from, true, view, options, error);
    zr_free(from);
    return status;
}

zero_status zero_save_weights(zero_engine *engine, const char *path, zero_error *error)
{
    ZR_NEED(error, engine);
    ZR_NEED(error, path);
    ZERO_TRY(zr_engine_between_steps(engine, "zero_save_weights", error));
    return with_weights_view(engine, path, zr_view_of_checkpoint(engine), ZR_VIEW_SAVES,
                             save_model_weights, NULL, error);
}

zero_status zero_save_average(zero_engine *engine, const char *path, zero_error *error)
{
    ZR_NEED(error, engine);
    ZR_NEED(error, path);
    ZERO_TRY(zr_engine_between_steps(engine, "zero_save_average", error));
    bool kept = zr_engine_plan(engine)->settings.average;
    if (!kept || !zr_engine_progress(engine).updates)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_save_average: %s",
                       kept ? "no update has been made, so the weights have no average yet"
                            : "the engine keeps no average of the weights (libzero.ema_decay)");
    zr_model_view average;
    zero_status status =
        zr_model_view_of_average(engine, zr_view_of_checkpoint(engine), &average, error);
    return use_view(engine, path, &average, status, save_model_weights, NULL, error);
}

zero_status zero_load_weights(zero_engine *engine, const char *directory, zero_error *error)
{
    ZR_NEED(error, engine);
    ZR_NEED(error, directory);
    return zero_load_weights_with(engine, directory, NULL, error);
}

zero_status zero_load_weights_with(zero_engine *engine, const char *directory,
                                   const zero_load_options *options, zero_error *error)
{
    ZR_NEED(error, engine);
    ZR_NEED(error, directory);
    zero_load_options taken = {0};
    if (options)
        ZERO_TRY(zr_struct_take("zero_load_weights_with: options", options,
                                ZR_STRUCT_UPTO(zero_load_options, logger), &taken, sizeof taken,
                                error));
    ZERO_TRY(zr_engine_may_change(engine, "zero_load_weights", error));
    bool adapter = has_adapters(engine) && zr_is_adapter(directory);
    zr_view_tensors which = adapter                ? ZR_VIEW_TRAINED
                            : has_adapters(engine) ? ZR_VIEW_BASE
                                                   : ZR_VIEW_ALL;
    return with_weights_view(engine, directory, which, ZR_VIEW_LOADS,
                             adapter ? load_adapter_weights : load_model_weights,
                             options ? &taken : NULL, error);
}
