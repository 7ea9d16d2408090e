#include "model/lora_peft.h"

#include "base/file.h"
#include "base/json_writer.h"
#include "model/lm_table.h"

#include <string.h>

enum { MOST_BYTES = 1 << 20, MOST_TENSORS = 32 };

typedef struct reading {
    const char *path;
    const json_t *root;
    const zr_lm_config *config;
    zero_error *error;
} reading;

static bool is_off(const json_t *value)
{
    return !value || json_is_null(value) || json_is_false(value) ||
           (json_is_object(value) && !json_object_size(value)) ||
           (json_is_array(value) && !json_array_size(value)) ||
           (json_is_string(value) && !json_string_length(value));
}

// Keys that change what is computed when they are on.
static zero_status refuse_others(const reading *r)
{
    static const struct {
        const char *key, *what;
    } others[] = {
        {"rank_pattern", "ranks of single layers"},
        {"alpha_pattern", "factors of single layers"},
        {"layers_to_transform", "adapters in some of the layers"},
        {"layer_replication", "repeated layers"},
        {"exclude_modules", "layers left out by name"},
        {"target_parameters", "adapters of parameters without a layer"},
        {"trainable_token_indices", "single trained tokens"},
        {"lora_bias", "biases of B"},
        {"use_qalora", "QALoRA"},
        {"use_bdlora", "BD-LoRA"},
        {"alora_invocation_tokens", "activated adapters"},
        {"arrow_config", "Arrow"},
        {"kasa_config", "KaSA"},
        {"velora_config", "VeLoRA"},
        {"monteclora_config", "MonteCLoRA"},
    };
    for (int i = 0; i < ZR_COUNT(others); i++)
        if (!is_off(json_object_get(r->root, others[i].key)))
            return zr_fail(r->error, ZERO_ERR_UNSUPPORTED, "%s: \"%s\" is set: %s are not built",
                           r->path, others[i].key, others[i].what);
    const json_t *bias = json_object_get(r->root, "bias");
    if (!is_off(bias) && (!json_is_string(bias) || strcmp(json_string_value(bias), "none")))
        return zr_fail(r->error, ZERO_ERR_UNSUPPORTED,
                       "%s: the key bias must be \"none\", because trained biases are not built",
                       r->path);
    return ZERO_OK;
}

// peft trains, and saves as a whole, the modules of these names that a model of labels has.
enum { CLASSIFIER, SCORE };
static const char *const score_modules[] = {[CLASSIFIER] = "classifier", [SCORE] = "score"};

static zero_status read_whole_modules(const reading *r, bool *scores)
{
    const json_t *modules = json_object_get(r->root, "modules_to_save"), *item;
    size_t i;
    bool known = is_off(modules) || json_is_array(modules);
    *scores = false;
    json_array_foreach(modules, i, item)
    {
        const char *name = json_string_value(item) ? json_string_value(item) : "";
        bool score = !strcmp(name, score_modules[SCORE]);
        *scores = *scores || score;
        known = known && (score || !strcmp(name, score_modules[CLASSIFIER]));
    }
    return known ? ZERO_OK
                 : zr_fail(r->error, ZERO_ERR_UNSUPPORTED,
                           "%s: \"modules_to_save\" is set: layers that are trained as a whole are "
                           "not built, but for \"score\", the head of labels",
                           r->path);
}

static zero_status read_number(const reading *r, const char *key, double least, double most,
                               double otherwise, double *out)
{
    const json_t *value = json_object_get(r->root, key);
    *out = value && !json_is_null(value) ? json_number_value(value) : otherwise;
    if ((!value || json_is_null(value) || json_is_number(value)) && *out >= least && *out <= most)
        return ZERO_OK;
    return zr_fail(r->error, ZERO_ERR_DATA, "%s: \"%s\" must be a number from %g to %g", r->path,
                   key, least, most);
}

// Returns a layer's name within its block: peft writes whole names where a model has few layers,
// such as "model.layers.0.mlp.up_proj".
static const char *skip_block(const reading *r, const char *name, bool *of_one_block)
{
    const zr_architecture *of = zr_architecture_of(r->config);
    const char *in = name, *prefix = of->tensors.layer_prefix;
    size_t of_file = of->file_prefix ? strlen(of->file_prefix) : 0;
    if (of_file && !strncmp(in, of->file_prefix, of_file))
        in += of_file;
    *of_one_block = !strncmp(in, prefix, strlen(prefix));
    if (!*of_one_block)
        return name;
    in += strlen(prefix);
    in += strspn(in, "0123456789");
    return in + (*in == '.');
}

// seen: counts, for each tensor that a block has, the blocks in which it was named.
static zero_status add_target(const reading *r, const json_t *value, int64_t *seen, zr_lora *out)
{
    const char *name = json_string_value(value);
    bool of_one_block = false;
    const char *layer = name ? skip_block(r, name, &of_one_block) : "";
    uint32_t found = zr_lora_targets_named(r->config, layer, strlen(layer));
    out->targets |= found;
    for (int t = 0; t < MOST_TENSORS; t++)
        if (found >> t & 1)
            seen[t] += of_one_block ? 1 : zr_lm_shape_of(r->config).layers;
    return found ? ZERO_OK
                 : zr_fail(r->error, ZERO_ERR_DATA,
                           "%s: \"target_modules\" has \"%.64s\", which is no linear layer of "
                           "a block of %s",
                           r->path, name ? name : "something that is no text",
                           zr_architecture_of(r->config)->title);
}

static zero_status read_targets(const reading *r, zr_lora *out)
{
    const json_t *targets = json_object_get(r->root, "target_modules"), *item;
    int64_t seen[MOST_TENSORS] = {0}, layers = zr_lm_shape_of(r->config).layers;
    size_t i;
    if (is_off(targets))
        return zr_fail(r->error, ZERO_ERR_DATA, "%s: \"target_modules\" names no layers", r->path);
    if (json_is_string(targets))
        return add_target(r, targets, seen, out);
    json_array_foreach(targets, i, item) ZERO_TRY(add_target(r, item, seen, out));
    for (int t = 0; t < MOST_TENSORS; t++)
        if (seen[t] && seen[t] < layers)
            return zr_fail(r->error, ZERO_ERR_UNSUPPORTED,
                           "%s: \"target_modules\" names layers of some blocks alone: adapters in "
                           "some of the blocks are not built",
                           r->path);
    return ZERO_OK;
}

static zero_status read_peft(const reading *r, zr_lora_file *file)
{
    zr_lora *out = &file->lora;
    const char *type = json_string_value(json_object_get(r->root, "peft_type"));
    double rank, dropout;
    if (!type || strcmp(type, "LORA"))
        return zr_fail(r->error, ZERO_ERR_UNSUPPORTED,
                       "%s: \"peft_type\" is \"%.40s\": only \"LORA\" is built", r->path,
                       type ? type : "missing");
    ZERO_TRY(refuse_others(r));
    ZERO_TRY(read_whole_modules(r, &file->scores));
    ZERO_TRY(read_number(r, "r", 1, ZR_LORA_MOST_RANK, 8, &rank));
    ZERO_TRY(read_number(r, "lora_alpha", 0, 1e6, 8, &out->alpha));
    ZERO_TRY(read_number(r, "lora_dropout", 0, 0.999, 0, &dropout));
    out->rank = (int64_t)rank;
    out->dropout = (float)dropout;
    out->rank_root = json_is_true(json_object_get(r->root, "use_rslora"));
    out->magnitudes = json_is_true(json_object_get(r->root, "use_dora"));
    return read_targets(r, out);
}

static zero_status load_object(const char *path, json_t **out, zero_error *error)
{
    ZERO_TRY(zr_json_load(path, MOST_BYTES, out, error));
    if (json_is_object(*out))
        return ZERO_OK;
    json_decref(*out);
    return zr_fail(error, ZERO_ERR_DATA, "\"%s\" holds no object", path);
}

static zero_status copy_base(const json_t *root, char **base, zero_error *error)
{
    const char *name = json_string_value(json_object_get(root, "base_model_name_or_path"));
    *base = name && *name ? zr_strdup(name, error) : NULL;
    return name && *name && !*base ? ZERO_ERR_MEMORY : ZERO_OK;
}

zero_status zr_lora_read_base(const char *path, char **base, zero_error *error)
{
    json_t *root;
    *base = NULL;
    ZERO_TRY(load_object(path, &root, error));
    zero_status status = copy_base(root, base, error);
    json_decref(root);
    return status;
}

zero_status zr_lora_read_base_in(const char *directory, char **base, zero_error *error)
{
    char *path = zr_sprintf(error, "%s/" ZR_ADAPTER_CONFIG, directory);
    *base = NULL;
    zero_status status = path ? zr_lora_read_base(path, base, error) : ZERO_ERR_MEMORY;
    zr_free(path);
    return status;
}

zero_status zr_lora_read_peft(const char *path, const zr_lm_config *config, zr_lora_file *out,
                              zero_error *error)
{
    json_t *root;
    *out = (zr_lora_file){.base = NULL};
    ZERO_TRY(load_object(path, &root, error));
    const reading r = {path, root, config, error};
    zero_status status = read_peft(&r, out);
    if (status == ZERO_OK)
        status = copy_base(root, &out->base, error);
    json_decref(root);
    return status;
}

void zr_lora_file_free(zr_lora_file *file)
{
    zr_free(file->base);
    *file = (zr_lora_file){.base = NULL};
}

static void put_whole_modules(zr_json_writer *w, bool scores)
{
    if (!scores) {
        zr_json_null(w, "modules_to_save");
        return;
    }
    zr_json_begin_array(w, "modules_to_save");
    for (int i = 0; i < ZR_COUNT(score_modules); i++)
        zr_json_text(w, NULL, score_modules[i]);
    zr_json_end(w);
}

// Writes what peft writes for a LoraConfig with defaults for everything else.
void zr_lora_write_peft(const zr_lm_config *config, const char *base, zr_buffer *out)
{
    const zr_lora *lora = &config->lora;
    zr_json_writer w = zr_json_writer_on(out, ZR_JSON_INDENTED);
    zr_json_begin_object(&w, NULL);
    zr_json_begin_object(&w, "alpha_pattern");
    zr_json_end(&w);
    zr_json_text(&w, "base_model_name_or_path", base);
    zr_json_text(&w, "bias", "none");
    zr_json_flag(&w, "fan_in_fan_out", !zr_lm_shape_of(config).outputs_first);
    zr_json_flag(&w, "inference_mode", true);
    zr_json_flag(&w, "init_lora_weights", true);
    zr_json_real(&w, "lora_alpha", lora->alpha);
    zr_json_digits(&w, "lora_dropout", 6, (double)lora->dropout);
    put_whole_modules(&w, config->labels.count);
    zr_json_text(&w, "peft_type", "LORA");
    zr_json_integer(&w, "r", lora->rank);
    zr_json_begin_object(&w, "rank_pattern");
    zr_json_end(&w);
    zr_json_begin_array(&w, "target_modules");
    for (int t = 0; t < MOST_TENSORS; t++) {
        char name[ZR_LORA_TARGET];
        if (!(lora->targets >> t & 1))
            continue;
        zr_lora_target_name(config, t, name, sizeof name);
        zr_json_text(&w, NULL, name);
    }
    zr_json_end(&w);
    zr_json_text(&w, "task_type", config->labels.count ? "SEQ_CLS" : "CAUSAL_LM");
    zr_json_flag(&w, "use_dora", lora->magnitudes);
    zr_json_flag(&w, "use_rslora", lora->rank_root);
    zr_json_finish(&w);
}
