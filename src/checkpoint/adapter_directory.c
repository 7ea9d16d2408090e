#include "checkpoint/adapter_directory.h"

#include "base/file.h"
#include "checkpoint/run_directory.h"
#include "formats/safetensors.h"
#include "model/model_json.h"
#include "tokenizer/tokenizer.h"

#include <sys/stat.h>

enum { LABELS_FILE_BYTES = 1 << 20 };

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

static zero_status load_labels(const char *path, zr_labels *out, zero_error *error)
{
    json_t *root;
    ZERO_TRY(zr_json_load(path, LABELS_FILE_BYTES, &root, error));
    zero_status status =
        zr_model_json_read_names(json_object_get(root, "id2label"), path, out, error);
    json_decref(root);
    if (status == ZERO_OK && out->count < 2)
        status = zr_fail(error, ZERO_ERR_DATA,
                         "\"%s\" has one label: at least two labels can be told apart", path);
    return status;
}

// Names as many labels as the head in an adapter's weights has.
static zero_status count_labels(const char *directory, zr_labels *out, zero_error *error)
{
    zr_st_set weights;
    ZERO_TRY(zr_st_open(directory, &weights, error));
    const zr_st_tensor *score = zr_st_find(&weights, ZR_ADAPTER_SCORE);
    zero_status status =
        score && score->dims == 2 && score->shape[0] > 1 && score->shape[0] <= ZR_MOST_LABELS
            ? zr_labels_number(out, (int)score->shape[0], error)
            : zr_fail(error, ZERO_ERR_DATA,
                      "\"%s/" ZR_ADAPTER_WEIGHTS "\": " ZR_ADAPTER_SCORE
                      " is %s: it would be a matrix of a row for each of 2 to %d labels",
                      directory, score ? "of another shape" : "missing", ZR_MOST_LABELS);
    zr_st_close(&weights);
    return status;
}

// Reads the labels of an adapter, which may have a head of them (`scores`), into the model's.
static zero_status read_labels(const char *directory, bool scores, zr_labels *labels,
                               zero_error *error)
{
    if (!scores)
        return zr_fail(error, ZERO_ERR_DATA,
                       "\"%s\" is an adapter of a model that continues texts (its "
                       "\"modules_to_save\" has no \"score\"), and this model gives them labels",
                       directory);
    char *path = zr_sprintf(error, "%s/" ZR_LABELS_FILE, directory);
    zero_status status = path ? ZERO_OK : ZERO_ERR_MEMORY;
    if (status == ZERO_OK && zr_path_exists(path))
        status = load_labels(path, labels, error);
    else if (status == ZERO_OK && !labels->count)
        status = count_labels(directory, labels, error);
    labels->drawn = true;
    zr_free(path);
    return status;
}

zero_status zr_adapter_read_config(const char *directory, zr_lm_config *config, zero_error *error)
{
    char *path = zr_sprintf(error, "%s/" ZR_ADAPTER_CONFIG, directory);
    zr_lora_file file = {.base = NULL};
    zero_status status = path ? zr_lora_read_peft(path, config, &file, error) : ZERO_ERR_MEMORY;
    config->lora = file.lora;
    if (status == ZERO_OK && (file.scores || config->labels.count))
        status = read_labels(directory, file.scores, &config->labels, error);
    zr_lora_file_free(&file);
    zr_free(path);
    return status;
}

static zero_status write_labels(const char *directory, const zr_lm_config *config,
                                zero_error *error)
{
    zr_buffer text = {0};
    zr_json_writer w = zr_json_writer_on(&text, ZR_JSON_INDENTED);
    zr_json_begin_object(&w, NULL);
    zr_labels_write(&config->labels, &w);
    zr_model_json_put_tokens(&w, "pad_token_id", &config->pad);
    zr_json_finish(&w);
    return zr_file_write_text_in(directory, ZR_LABELS_FILE, &text, error);
}

zero_status zr_adapter_write_config(const char *directory, const zr_lm_config *config,
                                    const char *base, zero_error *error)
{
    zr_buffer text = {0};
    zr_lora_write_peft(config, base, &text);
    ZERO_TRY(zr_file_write_text_in(directory, ZR_ADAPTER_CONFIG, &text, error));
    return config->labels.count ? write_labels(directory, config, error) : ZERO_OK;
}
