#include "checkpoint/adapter_directory.h"

#include "base/file.h"
#include "checkpoint/run_directory.h"
#include "tokenizer/tokenizer.h"

#include <sys/stat.h>

bool zr_is_adapter(const char *directory) { return zr_path_has(directory, ZR_ADAPTER_WEIGHTS); }

static zero_status refuse_other(const char *given, zero_error *error)
{
    if (!zr_path_exists(given))
        return zr_fail(error, ZERO_ERR_IO,
                       "there is no directory \"%s\": --adapter names one with " ZR_ADAPTER_CONFIG
                       " and " ZR_ADAPTER_WEIGHTS,
                       given);
    if (zr_has_weights(given))
        return zr_fail(error, ZERO_ERR_IO, "\"%s\" is a model, not an adapter: --model takes it",
                       given);
    return zr_fail(error, ZERO_ERR_IO,
                   "\"%s\" is no adapter: it has no " ZR_ADAPTER_WEIGHTS
                   " (an adapter is a directory as peft saves it, or the --out of a run with "
                   "--lora that has ended)",
                   given);
}

zero_status zr_adapter_directory(const char *given, const zero_logger *logger, char **out,
                                 zero_error *error)
{
    *out = NULL;
    if (!given)
        return ZERO_OK;
    char *of_run = zr_sprintf(error, "%s/" ZR_RUN_ADAPTER_DIRECTORY, given);
    if (!of_run)
        return ZERO_ERR_MEMORY;
    if (!zr_is_adapter(given) && zr_is_adapter(of_run)) {
        zr_log(logger, ZERO_LOG_WARNING,
               "\"%s\" is the directory of a run: its adapter \"%s\" is taken", given, of_run);
        *out = of_run;
        return ZERO_OK;
    }
    zr_free(of_run);
    if (!zr_is_adapter(given))
        return refuse_other(given, error);
    *out = zr_strdup(given, error);
    return *out ? ZERO_OK : ZERO_ERR_MEMORY;
}

const char *zr_adapter_tokenizer(const char *adapter, const char *model)
{
    return adapter && zr_tokenizer_is_at(adapter) ? adapter : model;
}

zero_status zr_adapter_warn_base(const char *adapter, const char *model, const zero_logger *logger,
                                 zero_error *error)
{
    struct stat named, used;
    char *base;
    zero_status status = zr_lora_read_base_in(adapter, &base, error);
    if (base && zr_path_has(model, ZR_MODEL_CONFIG) && !stat(base, &named) && !stat(model, &used) &&
        (named.st_dev != used.st_dev || named.st_ino != used.st_ino))
        zr_log(logger, ZERO_LOG_WARNING,
               "\"%s\" is an adapter of the model \"%s\", not of \"%s\": with other weights it "
               "computes something that nobody has trained",
               adapter, base, model);
    zr_free(base);
    return status;
}

zero_status zr_adapter_read_config(const char *directory, zr_lm_config *config, zero_error *error)
{
    char *path = zr_sprintf(error, "%s/" ZR_ADAPTER_CONFIG, directory), *base = NULL;
    zero_status status =
        path ? zr_lora_read_peft(path, config, &config->lora, &base, error) : ZERO_ERR_MEMORY;
    zr_free(base);
    zr_free(path);
    return status;
}

zero_status zr_adapter_write_config(const char *directory, const zr_lm_config *config,
                                    const char *base, zero_error *error)
{
    zr_buffer text = {0};
    zr_lora_write_peft(config, base, &text);
    return zr_file_write_text_in(directory, ZR_ADAPTER_CONFIG, &text, error);
}
