// The list of architectures. Functions of any language model find the row of its architecture here
// and call it.
#include "model/lm_table.h"

#include "base/file.h"
#include "model/model_json.h"
#include <stdio.h>
#include <string.h>

static const zr_architecture *const architectures[ZR_LM_KINDS] = {
    [ZR_LM_GPT2] = &zr_gpt2_architecture,
    [ZR_LM_GPT2_ERF] = &zr_gpt2_erf_architecture,
    [ZR_LM_LLAMA] = &zr_llama_architecture,
    [ZR_LM_NEOX] = &zr_neox_architecture,
};

const zr_architecture *zr_architecture_at(int kind) { return architectures[kind]; }

const zr_architecture *zr_architecture_of(const zr_lm_config *config)
{
    return config->kind == ZR_LM_ROWS ? config->rows.architecture : architectures[config->kind];
}

static void list_presets(char *out, size_t size)
{
    size_t used = 0;
    for (int a = 0; a < ZR_LM_KINDS; a++)
        for (const zr_lm_preset *p = architectures[a]->presets; p->name && used < size; p++)
            used += (size_t)snprintf(out + used, size - used, used ? ", %s" : "%s", p->name);
}

// Refuses an unknown name. The message proposes the nearest preset, or else lists all presets.
static zero_status refuse_preset(const char *spec, size_t length, zero_error *error)
{
    char name[96], presets[512];
    snprintf(name, sizeof name, "%.*s", (int)ZR_MIN(length, sizeof name - 1), spec);
    const char *nearest = zr_preset_nearest(name);
    if (zr_path_is_directory(spec))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "model \"%s\": this is a directory, no preset: --model starts from it",
                       spec);
    if (nearest)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "model \"%s\": there is no preset \"%s\"; did you mean \"%s\"?", spec, name,
                       nearest);
    list_presets(presets, sizeof presets);
    return zr_fail(error, ZERO_ERR_USAGE,
                   "model \"%.96s\": there is no preset \"%s\"; there are %s", spec, name, presets);
}

zero_status zr_lm_parse_spec(const char *spec, zr_lm_config *out, bool *vocab_given,
                             zero_error *error)
{
    char name[ZR_SPEC_WORD];
    size_t length = strcspn(spec, ":");
    zr_spec_copy(name, spec, length);
    for (int a = 0; a < ZR_LM_KINDS; a++)
        for (const zr_lm_preset *preset = architectures[a]->presets; preset->name; preset++) {
            zr_lm_config config = {.kind = (zr_lm_kind)a};
            if (strcmp(preset->name, name) != 0)
                continue;
            ZERO_TRY(
                zr_lm_table_parse(architectures[a], spec, preset, &config, vocab_given, error));
            zero_status status = zr_lm_check(&config, error);
            if (status != ZERO_OK) {
                zr_error_prefix(error, "model \"%s\"", spec);
                return status;
            }
            *vocab_given |= spec[length] == 0;
            *out = config;
            return ZERO_OK;
        }
    return refuse_preset(spec, length, error);
}

// Writes "gpt2, llama, ...". An architecture without presets has the types of another.
static void list_types(char *out, size_t size)
{
    size_t used = 0;
    for (int a = 0; a < ZR_LM_KINDS; a++)
        for (const zr_model_type *type = architectures[a]->types;
             architectures[a]->presets->name && type->name && used < size; type++)
            used += (size_t)snprintf(out + used, size - used, used ? ", %s" : "%s", type->name);
}

// Returns whether the file has the first text that the architecture needs.
static bool has_needed_text(const zr_model_json *file, const zr_architecture *of)
{
    const zr_lm_need *need = of->needs;
    while (need->key && !need->text)
        need++;
    const json_t *value = need->key ? zr_model_json_get(file, need->key) : NULL;
    return json_is_string(value) && !strcmp(json_string_value(value), need->text);
}

// Where two architectures have one model_type, the first is the usual one.
static zero_status find_architecture(zr_model_json *file, zr_lm_kind *out)
{
    char known[128];
    const char *type = zr_model_json_text(file, "model_type", NULL);
    if (file->status != ZERO_OK)
        return file->status;
    bool found = false;
    for (int a = 0; a < ZR_LM_KINDS; a++)
        for (const zr_model_type *of = architectures[a]->types; of->name; of++)
            if (!strcmp(of->name, type) && (!found || has_needed_text(file, architectures[a]))) {
                *out = (zr_lm_kind)a;
                found = true;
            }
    if (found)
        return ZERO_OK;
    list_types(known, sizeof known);
    return zr_fail(file->error, ZERO_ERR_UNSUPPORTED,
                   "%s: \"model_type\" is \"%s\": only %s can be computed exactly", file->path,
                   type, known);
}

// transformers lets a layer have settings of its own, which replace those of all layers.
static void refuse_layers_apart(zr_model_json *file)
{
    static const char key[] = "per_layer_config";
    const json_t *layers = zr_model_json_get(file, key);
    if (!json_is_object(layers) || json_object_size(layers))
        zr_model_json_refuse(file, key, "all layers have the same settings");
}

static zero_status read_architecture_config(zr_model_json *file, zr_lm_config *out)
{
    zr_lm_config config = {0};
    zero_error found = {.status = ZERO_OK};
    ZERO_TRY(find_architecture(file, &config.kind));
    refuse_layers_apart(file);
    zr_model_json_read_base(file, &config.base);
    zr_lm_table_read(architectures[config.kind], file, &config);
    zr_model_json_tokens(file, "bos_token_id", &config.bos);
    zr_model_json_tokens(file, "eos_token_id", &config.eos);
    zr_model_json_tokens(file, "pad_token_id", &config.pad);
    zr_model_json_read_labels(file, &config.labels);
    if (file->status != ZERO_OK)
        return file->status;
    if (zr_lm_check(&config, &found) != ZERO_OK)
        return zr_fail(file->error, ZERO_ERR_DATA, "%s: %s", file->path, found.message);
    *out = config;
    return ZERO_OK;
}

zero_status zr_lm_config_read(const char *path, zr_lm_config *out, zero_error *error)
{
    zr_model_json file;
    ZERO_TRY(zr_model_json_open(path, &file, error));
    zero_status status = read_architecture_config(&file, out);
    zr_model_json_close(&file);
    return status;
}

zero_status zr_lm_config_unpack(const json_t *object, const char *name, zr_lm_config *out,
                                zero_error *error)
{
    zr_model_json file = {.root = (json_t *)object, .at = object, .path = name, .error = error};
    return json_is_object(object)
               ? read_architecture_config(&file, out)
               : zr_fail(error, ZERO_ERR_DATA, "%s: a JSON object is expected", name);
}

zero_status zr_lm_config_read_in(const char *directory, zr_lm_config *out, zero_error *error)
{
    char *path = zr_sprintf(error, "%s/" ZR_MODEL_CONFIG, directory);
    zero_status status = path ? zr_lm_config_read(path, out, error) : ZERO_ERR_MEMORY;
    zr_free(path);
    return status;
}

void zr_lm_config_write(const zr_lm_config *config, zr_buffer *out)
{
    zr_json_writer w = zr_json_writer_on(out, ZR_JSON_INDENTED);
    zr_json_begin_object(&w, NULL);
    zr_lm_table_write(zr_architecture_of(config), config, &w);
    zr_model_json_put_tokens(&w, "bos_token_id", &config->bos);
    zr_model_json_put_tokens(&w, "eos_token_id", &config->eos);
    zr_model_json_put_tokens(&w, "pad_token_id", &config->pad);
    if (config->labels.count)
        zr_labels_write(&config->labels, &w);
    zr_json_text(&w, "torch_dtype", "float32");
    zr_json_finish(&w);
}

// Checks that the weights can be kept in the format of the base.
static zero_status check_base(const zr_lm_config *config, zero_error *error)
{
    const zr_architecture *of = zr_architecture_of(config);
    const zr_lm_shape shape = zr_lm_shape_of(config);
    const zr_tiles tiles = zr_lm_tiles(config);
    const char *name = zr_weight_format_name(config->base);
    const int64_t inputs[] = {shape.width, shape.inner, shape.heads * shape.head_dim};
    if (!config->base)
        return ZERO_OK;
    if (!shape.outputs_first)
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "%s has weights that lie as (in, out): a base in %s is made of weights that "
                       "lie as (out, in)",
                       of->title, name);
    if (tiles.attention > 1 || tiles.mlp > 1)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s is made of tiles (libzero.tiling), which a base in %s cannot be: keep "
                       "one of them",
                       of->title, name);
    for (int i = 0; i < ZR_COUNT(inputs) && config->base == ZR_WEIGHT_NF4; i++)
        if (inputs[i] % ZR_NF4_BLOCK)
            return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                           "%s has a linear of %lld inputs: a base in nf4 has blocks of %d inputs, "
                           "which do not fit",
                           of->title, (long long)inputs[i], ZR_NF4_BLOCK);
    return ZERO_OK;
}

static zero_status check_magnitudes(const zr_lm_config *config, zero_error *error)
{
    const zr_tiles tiles = zr_lm_tiles(config);
    if (!config->lora.magnitudes || (tiles.attention <= 1 && tiles.mlp <= 1))
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_CONFIG,
                   "%s is made of tiles (libzero.tiling), which adapters with magnitudes (dora) "
                   "cannot adapt: keep one of them",
                   zr_architecture_of(config)->title);
}

static zero_status check_labels(const zr_lm_config *config, zero_error *error)
{
    if (!config->labels.count || !config->preference.kind)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                   "%s that gives texts labels is not built with a loss of preferences",
                   zr_architecture_of(config)->title);
}

zero_status zr_lm_check(const zr_lm_config *config, zero_error *error)
{
    ZERO_TRY(check_labels(config, error));
    ZERO_TRY(zr_lm_table_check(zr_architecture_of(config), config, error));
    ZERO_TRY(check_magnitudes(config, error));
    return check_base(config, error);
}

zr_lm_shape zr_lm_shape_of(const zr_lm_config *config)
{
    return zr_lm_table_shape(zr_architecture_of(config), config);
}

// All of them begin at the same address, because they form a union.
const void *zr_lm_struct(const zr_lm_config *config) { return &config->gpt2; }

static int64_t size_of_role(const zr_lm_config *config, int role)
{
    return zr_lm_field_size(&zr_architecture_of(config)->fields[role], zr_lm_struct(config));
}

static void set_size_of_role(zr_lm_config *config, int role, int64_t value)
{
    zr_lm_field_set_size(&zr_architecture_of(config)->fields[role], (void *)zr_lm_struct(config),
                         value);
}

int64_t zr_lm_window(const zr_lm_config *config, int layer)
{
    const zr_sliding *of = &config->sliding;
    int type = of->types ? layer % of->types : 0; // an enlarged model repeats its layers
    bool slides = of->types ? of->slides[type / 64] >> type % 64 & 1 : layer >= of->full;
    return slides ? size_of_role(config, ZR_ROLE_WINDOW) : 0;
}

void zr_lm_set_vocabulary(zr_lm_config *config, int64_t tokens)
{
    set_size_of_role(config, ZR_ROLE_VOCABULARY, tokens);
}

void zr_lm_enlarge(zr_lm_config *config, int64_t times, int64_t layers)
{
    static const zr_lm_role wider[] = {ZR_ROLE_WIDTH, ZR_ROLE_INNER, ZR_ROLE_HEADS,
                                       ZR_ROLE_KV_HEADS};
    for (int i = 0; i < ZR_COUNT(wider); i++)
        set_size_of_role(config, (int)wider[i], times * size_of_role(config, (int)wider[i]));
    set_size_of_role(config, ZR_ROLE_LAYERS, layers);
}

static zr_token_ids one_or_none(int64_t id)
{
    return (zr_token_ids){.given = true, .count = id >= 0, .at = {id}};
}

void zr_lm_set_tokens(zr_lm_config *config, int64_t bos, int64_t eos)
{
    config->bos = one_or_none(bos);
    config->eos = one_or_none(eos);
    config->pad = (zr_token_ids){.given = false};
}

zr_tiles zr_lm_tiles(const zr_lm_config *config)
{
    return (zr_tiles){
        .embedding = size_of_role(config, ZR_ROLE_TILES),
        .attention = size_of_role(config, ZR_ROLE_TILES + 1),
        .mlp = size_of_role(config, ZR_ROLE_TILES + 2),
    };
}

void zr_lm_set_tiles(zr_lm_config *config, const zr_tiles *tiles)
{
    const int64_t values[ZR_TILED] = {tiles->embedding, tiles->attention, tiles->mlp};
    for (int i = 0; i < ZR_TILED; i++)
        set_size_of_role(config, ZR_ROLE_TILES + i, values[i]);
}
