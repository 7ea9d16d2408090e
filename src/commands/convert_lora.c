#include "commands/convert_lora.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "checkpoint/adapter_directory.h"
#include "checkpoint/run_directory.h"
#include "commands/convert_config.h"
#include "formats/source_merge.h"
#include "model/lm_table.h"
#include "setup/model_task.h"

#include <stdio.h>

enum { MOST_CONFIG_BYTES = 1 << 24 };

static zero_status merge_directory(zr_source *source, const char *directory, const char *model_dir,
                                   bool widens, zero_error *error)
{
    zr_lm_config config;
    ZERO_TRY(zr_convert_config(source, model_dir, "an adapter", &config, error));
    ZERO_TRY(zr_adapter_read_config(directory, &config, error));
    char *weights = zr_sprintf(error, "%s/" ZR_ADAPTER_WEIGHTS, directory);
    zero_status status =
        weights ? zr_source_merge(source, weights, &config, widens, error) : ZERO_ERR_MEMORY;
    zr_free(weights);
    return status;
}

zero_status zr_convert_merge(zr_source *source, const char *adapter, const char *model_dir,
                             bool widens, const zero_logger *logger, char **directory,
                             zero_error *error)
{
    if (zr_is_adapter_checkpoint(source))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "\"%s\" holds adapters alone: --from names the model that they are added "
                       "to",
                       source->path);
    ZERO_TRY(zr_adapter_directory(adapter, logger, directory, error));
    ZERO_TRY(merge_directory(source, *directory, model_dir, widens, error));
    return zr_adapter_warn_base(*directory, model_dir ? model_dir : source->path, logger, error);
}

// Copies what config.json says of labels from one that has been written for a model with them. Of
// num_labels, which may be another number, transformers would make other names.
static zero_status copy_keys(const json_t *from, json_t *to, zero_error *error)
{
    static const char *const keys[] = {"architectures", "id2label", "label2id", "problem_type",
                                       "pad_token_id"};
    for (int i = 0; i < ZR_COUNT(keys); i++) {
        json_t *value = json_object_get(from, keys[i]);
        if (value && json_object_set(to, keys[i], value))
            return zr_fail(error, ZERO_ERR_MEMORY, "no memory for a model's config.json");
    }
    json_object_del(to, "num_labels");
    return ZERO_OK;
}

static zero_status rewrite_config(const char *path, const zr_lm_config *config,
                                  const char *directory, zero_error *error)
{
    zr_buffer text = {0};
    json_t *made = NULL, *there = NULL;
    zr_lm_config_write(config, &text);
    zero_status status = text.failed ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for \"%s\"", path)
                                     : zr_json_parse(text.data, text.length, path, &made, error);
    if (status == ZERO_OK)
        status = zr_json_load(path, MOST_CONFIG_BYTES, &there, error);
    if (status == ZERO_OK)
        status = copy_keys(made, there, error);
    if (status == ZERO_OK)
        status = zr_model_config_write(there, directory, error);
    json_decref(there);
    json_decref(made);
    zr_buffer_free(&text);
    return status;
}

zero_status zr_convert_label(const char *adapter, const char *directory, zero_error *error)
{
    zr_lm_config config;
    if (!zr_path_has(directory, ZR_MODEL_CONFIG))
        return ZERO_OK;
    ZERO_TRY(zr_lm_config_read_in(directory, &config, error));
    ZERO_TRY(zr_adapter_read_config(adapter, &config, error));
    if (!config.labels.count)
        return ZERO_OK;
    zr_model_task_finish(&config);
    char *path = zr_sprintf(error, "%s/" ZR_MODEL_CONFIG, directory);
    zero_status status = path ? rewrite_config(path, &config, directory, error) : ZERO_ERR_MEMORY;
    zr_free(path);
    return status;
}

bool zr_is_adapter_checkpoint(const zr_source *source)
{
    return json_is_string(json_object_get(source->state, "lora"));
}

static zero_status read_adapter_config(const zr_source *source, zr_lm_config *out,
                                       zero_error *error)
{
    ZERO_TRY(zr_convert_config(source, NULL, "an adapter", out, error));
    return zr_lora_parse(json_string_value(json_object_get(source->state, "lora")), source->path,
                         out, &out->lora, error);
}

static zero_status write_files(zr_source *source, const char *run_adapter, const char *base,
                               const char *directory, zr_export *export, zero_error *error)
{
    zr_lm_config config;
    char *named = NULL, prefix[64];
    ZERO_TRY(read_adapter_config(source, &config, error));
    if (zr_path_has(run_adapter, ZR_ADAPTER_CONFIG))
        ZERO_TRY(zr_lora_read_base_in(run_adapter, &named, error));
    zero_status status = zr_adapter_write_config(directory, &config, base ? base : named, error);
    zr_free(named);
    ZERO_TRY(status);
    if (zr_path_exists(run_adapter))
        ZERO_TRY(zr_tokenizer_files_copy(run_adapter, directory, error));
    const char *of = zr_architecture_of(&config)->file_prefix;
    snprintf(prefix, sizeof prefix, ZR_ADAPTER_PREFIX "%s", of ? of : "");
    export->directory = directory;
    export->file = ZR_ADAPTER_WEIGHTS;
    export->prefix = prefix;
    export->shard_bytes = 0;
    status = zr_export_weights(source, export, error);
    export->prefix = NULL;
    return status;
}

zero_status zr_convert_adapter_files(zr_source *source, const char *base, const char *directory,
                                     zr_export *export, zero_error *error)
{
    char *run_adapter = zr_sprintf(error, "%s/../../" ZR_RUN_ADAPTER_DIRECTORY, source->path);
    if (!run_adapter)
        return ZERO_ERR_MEMORY;
    zero_status status = write_files(source, run_adapter, base, directory, export, error);
    zr_free(run_adapter);
    return status;
}
