#include "setup/resolve.h"

#include "base/file.h"
#include "config/config_ranks.h"
#include "compute/compute.h"
#include "setup/defaults.h"
#include "setup/machine_facts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

zero_status zr_resolve_text(const char *path, char **text, size_t *length, zero_error *error)
{
    *text = NULL;
    *length = 0;
    if (!path)
        return ZERO_OK;
    zero_status status = zr_file_read_stream(path, ZR_CONFIG_MAX_BYTES, text, length, error);
    if (status == ZERO_OK || status == ZERO_ERR_MEMORY || !zr_path_exists(path))
        return status;
    if (error) // a directory, or too large; base/ gives such files another status
        error->status = ZERO_ERR_CONFIG;
    return ZERO_ERR_CONFIG;
}

zero_status zr_flag_list_make(const zero_override *given, int count, const zero_parallel *parallel,
                              int64_t seed, double lr, zr_flag_list *out, zero_error *error)
{
    *out = (zr_flag_list){0};
    zr_parallel_flags_fill(parallel, &out->parallel);
    count = ZR_MAX(count, 0);
    out->at = zr_alloc((size_t)(count + out->parallel.count + 2) * sizeof *out->at, error);
    if (!out->at)
        return ZERO_ERR_MEMORY;
    for (int i = 0; i < count; i++)
        out->at[out->count++] = given[i];
    for (int i = 0; i < out->parallel.count; i++)
        out->at[out->count++] = out->parallel.at[i];
    snprintf(out->seed, sizeof out->seed, "%" PRId64, seed);
    snprintf(out->lr, sizeof out->lr, "%.17g", lr);
    if (seed >= 0)
        out->at[out->count++] = (zero_override){"libzero.seed", out->seed, "--seed"};
    if (lr > 0)
        out->at[out->count++] = (zero_override){"optimizer.params.lr", out->lr, "--lr"};
    return ZERO_OK;
}

void zr_flag_list_free(zr_flag_list *list)
{
    zr_free(list->at);
    *list = (zr_flag_list){0};
}

zr_config_facts zr_resolve_facts(const zr_run_outline *outline)
{
    const zr_run_outline *o = outline;
    double lr = o->continues ? zr_default_lr_further(o->parameters) : zr_default_lr(o->parameters);
    return (zr_config_facts){
        .world = o->ranks,
        .batch = o->seq ? zr_default_batch(o->parameters, o->seq) : 0,
        .total_steps = o->steps,
        .warmup_steps = o->steps ? zr_default_warmup(o->steps) : 0,
        .hidden = o->width,
        .lr = o->parameters ? lr : 0,
        .auto_dtype = o->on_card ? ZERO_BF16 : zr_default_dtype(),
    };
}

static zero_status put_flags(zr_resolution *how, zr_config *config, zero_error *error)
{
    for (int i = 0; i < how->flag_count; i++) {
        const zero_override *flag = &how->flags[i];
        ZERO_TRY(zr_config_override(config, flag->key, flag->value, flag->flag, how->strict,
                                    how->logger, error));
    }
    ZERO_TRY(zr_config_refuse_unknown(config, how->logger, error));
    ZERO_TRY(zr_config_find_ranks(config, &how->facts, error));
    return how->amend ? how->amend(how, config, error) : ZERO_OK;
}

zero_status zr_resolve_read(zr_resolution *how, zr_config **out, zero_error *error)
{
    zr_config *config = NULL;
    const char *name = how->name ? how->name : "defaults";
    *out = NULL;
    ZERO_TRY(zr_config_parse(how->text, how->length, name, &config, error));
    zero_status status = ZERO_OK;
    if (how->for_inference)
        status = zr_config_keep_inference(config, error);
    if (status == ZERO_OK)
        status = put_flags(how, config, error);
    if (status == ZERO_OK) {
        *out = config;
        return ZERO_OK;
    }
    zr_config_destroy(config);
    return status;
}

zero_status zr_resolve_finish(const zr_resolution *how, zr_config *config, zero_error *error)
{
    const zero_logger *choices = how->quiet ? NULL : how->logger;
    if (!how->for_inference)
        ZERO_TRY(zr_config_defaults_apply(config, &how->facts, choices, error));
    return zr_config_resolve(config, &how->facts, how->logger, error);
}

zero_status zr_resolve(zr_resolution *how, zr_config **out, zero_error *error)
{
    ZERO_TRY(zr_resolve_read(how, out, error));
    zero_status status = zr_resolve_finish(how, *out, error);
    if (status == ZERO_OK)
        return ZERO_OK;
    zr_config_destroy(*out);
    *out = NULL;
    return status;
}

zero_status zr_resolve_file(zr_resolution *how, zr_config **out, zero_error *error)
{
    char *text;
    *out = NULL;
    ZERO_TRY(zr_resolve_text(how->name, &text, &how->length, error));
    how->text = text;
    zero_status status = zr_resolve(how, out, error);
    how->text = NULL;
    zr_free(text);
    return status;
}

zero_status zr_window_check(int64_t seq, int64_t positions, zero_error *error)
{
    if (seq >= 1 && seq <= positions)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_USAGE,
                   "windows of %lld tokens (--seq): the model has a context of %lld",
                   (long long)seq, (long long)positions);
}
